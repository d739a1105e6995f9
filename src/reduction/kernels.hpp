// SPDX-License-Identifier: BSD-3-Clause
// The built-in reductions: which (type, operation) pairs there are, and the vector code that runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace offbeat {

// Same order as offbeat_type in include/offbeat/offbeat.h; capi/ asserts it.
enum class ElementType : std::uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,   // IEEE 754 binary16
  bfloat16,  // upper half of a binary32
  float32,
  float64,
  long_double,
  complex64,   // 2 x binary32
  complex128,  // 2 x binary64
  complex_long_double,
  boolean,  // C _Bool / C++ bool
};
inline constexpr std::size_t element_type_count = 17;

// Same order as offbeat_op.
enum class ReduceOp : std::uint8_t {
  sum,
  prod,
  min,
  max,
  logical_and,
  logical_or,
  logical_xor,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
};
inline constexpr std::size_t reduce_op_count = 10;

[[nodiscard]] std::size_t width_of(ElementType type);      // bytes per element
[[nodiscard]] std::string_view name_of(ElementType type);  // "float32"
[[nodiscard]] std::string_view name_of(ReduceOp op);       // "sum"

// One (type, operation) pair. A kernel computes, for i in [0, count),
//     destination[i] = ((operands[0][i] op operands[1][i]) op operands[2][i]) op ...
// with the bits of combining two at a time, whatever the number of operands and whatever the
// instruction set; the 16-bit floating-point types, too, are rounded after every operation. Only where
// several operands are NaN, which of their payloads survives in a sum or product is left open.
// `destination` may be identical to one of the operands; no other overlap. Pointers need no more than the
// alignment of the element type.
struct Kernels {
  using Function = void (*)(void* destination, const void* const* operands, std::size_t count);
  Function two = nullptr;
  Function four = nullptr;
  Function eight = nullptr;
  explicit operator bool() const { return two != nullptr; }
};

// The kernels for this machine's best instruction set; empty where the pair has no meaning
// (bitwise_and of a float, min of a complex).
[[nodiscard]] Kernels find_kernels(ElementType type, ReduceOp op);

// Any number of operands >= 1, in as few passes as the kernels allow; 1 is a copy (nothing if in place).
// When the destination is an operand other than the first, it is still read before it is
// overwritten: the result is as if all operands were read first.
void combine(const Kernels& kernels, std::size_t width, void* destination, const void* const* operands,
             std::size_t operand_count, std::size_t count);

// Instruction sets of the dispatch, worst first. `instruction_set()` is what find_kernels uses.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };
[[nodiscard]] InstructionSet instruction_set();
[[nodiscard]] std::string_view name_of(InstructionSet set);
// For tests and benchmarks: kernels of one set; empty where the machine or the build lacks it.
[[nodiscard]] Kernels find_kernels(InstructionSet set, ElementType type, ReduceOp op);

}  // namespace offbeat
