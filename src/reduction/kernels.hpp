// SPDX-License-Identifier: BSD-3-Clause
// The built-in reductions: which pairs of type and operation exist, and the vectorised code that computes
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace offbeat {

// The order is that of offbeat_type in include/offbeat/offbeat.h; capi/offbeat.cpp asserts that.
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

// The order is that of offbeat_op.
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

// The code for one pair of type and operation. A kernel computes, for i in [0, count),
//    destination[i] = ((operands[0][i] op operands[1][i]) op operands[2][i]) op ...
// The bits are those of combining two at a time, for any number of operands and any instruction set. The
// 16-bit floating-point types are also rounded after every operation. There is one exception: if several
// operands are NaN, any of their payloads may survive in a sum or product. `destination` may be one of the
// operands; no other overlap is allowed. Pointers need the alignment of the element type only.
struct Kernels {
  using Function = void (*)(void* destination, const void* const* operands, std::size_t count);
  Function two = nullptr;
  Function four = nullptr;
  Function eight = nullptr;
  explicit operator bool() const { return two != nullptr; }
};

// Returns the kernels for the best instruction set of this machine. The result is empty if the pair has no
// meaning, such as bitwise_and of a float or min of a complex number.
[[nodiscard]] Kernels find_kernels(ElementType type, ReduceOp op);

// Combines any number of operands >= 1 in as few passes as the kernels allow. A single operand is copied,
// unless it is the destination. If the destination is one of the operands, the result is as if all operands
// were read first.
void combine_any_number(const Kernels& kernels, std::size_t width, void* destination,
                        const void* const* operands, std::size_t operand_count, std::size_t count);
inline void combine(const Kernels& kernels, std::size_t width, void* destination, const void* const* operands,
                    std::size_t operand_count, std::size_t count) {
  if (operand_count == 2) {
    kernels.two(destination, operands, count);
  } else {
    combine_any_number(kernels, width, destination, operands, operand_count, count);
  }
}

// The instruction sets for which there are kernels, worst first. instruction_set() returns the best one of
// this machine, which find_kernels uses.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };
[[nodiscard]] InstructionSet instruction_set();
[[nodiscard]] std::string_view name_of(InstructionSet set);
// Returns the kernels of one instruction set, for tests and benchmarks. The result is empty if the machine or
// the build lacks it.
[[nodiscard]] Kernels find_kernels(InstructionSet set, ElementType type, ReduceOp op);

}  // namespace offbeat
