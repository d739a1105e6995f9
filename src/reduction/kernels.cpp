// SPDX-License-Identifier: BSD-3-Clause
// Chooses the instruction set once, and splits a reduction of many operands into passes that the kernels
// offer.
#include "reduction/kernels.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <complex>
#include <cstring>

#include "base/block_on_stack.hpp"

namespace offbeat {

// Each of these is defined in a source file of its own, compiled for one instruction set
// (kernels_baseline.cpp and others).
namespace baseline {
Kernels find_kernels(ElementType type, ReduceOp op);
}
namespace avx2 {
Kernels find_kernels(ElementType type, ReduceOp op);
}
namespace avx512 {
Kernels find_kernels(ElementType type, ReduceOp op);
}

namespace {

struct TypeDescription {
  std::string_view name;
  std::size_t width;
};

constexpr std::array<TypeDescription, element_type_count> element_types = {{
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"long_double", sizeof(long double)},
    {"complex64", 8},
    {"complex128", 16},
    {"complex_long_double", sizeof(std::complex<long double>)},
    {"boolean", sizeof(bool)},
}};
static_assert(element_types.back().width == 1, "the kernels of boolean work on bytes");

constexpr std::array<std::string_view, reduce_op_count> operation_names = {
    "sum",        "prod",        "min",         "max",        "logical_and",
    "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
};

constexpr std::array<std::string_view, 3> instruction_set_names = {"baseline", "avx2", "avx512"};

constexpr std::size_t widest_element = sizeof(std::complex<long double>);

InstructionSet best_instruction_set() {
#ifdef OFFBEAT_X86_KERNELS
  __builtin_cpu_init();  // this may run before the constructor that would do it
  // F16C is not checked: every processor with AVX2 has it, and clang 14 cannot check for it.
  if (!__builtin_cpu_supports("avx2")) return InstructionSet::baseline;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
#else
  return InstructionSet::baseline;
#endif
}

// Returns how many operands the next pass takes if `operand_count` are left.
std::size_t operands_of_next_pass(std::size_t operand_count) {
  return operand_count >= 8 ? 8 : operand_count >= 4 ? 4 : 2;
}

void combine_one_pass(const Kernels& kernels, std::size_t size, void* destination,
                      const void* const* operands, std::size_t count) {
  const auto kernel = size == 8 ? kernels.eight : size == 4 ? kernels.four : kernels.two;
  kernel(destination, operands, count);
}

}  // namespace

std::size_t width_of(ElementType type) { return element_types[static_cast<std::size_t>(type)].width; }
std::string_view name_of(ElementType type) { return element_types[static_cast<std::size_t>(type)].name; }
std::string_view name_of(ReduceOp op) { return operation_names[static_cast<std::size_t>(op)]; }
std::string_view name_of(InstructionSet set) { return instruction_set_names[static_cast<std::size_t>(set)]; }

InstructionSet instruction_set() {
  static const InstructionSet best = best_instruction_set();
  return best;
}

Kernels find_kernels(ElementType type, ReduceOp op) { return find_kernels(instruction_set(), type, op); }

Kernels find_kernels(InstructionSet set, ElementType type, ReduceOp op) {
  if (set > instruction_set()) return {};
  switch (set) {
    case InstructionSet::baseline:
      return baseline::find_kernels(type, op);
#ifdef OFFBEAT_X86_KERNELS
    case InstructionSet::avx2:
      return avx2::find_kernels(type, op);
    case InstructionSet::avx512:
      return avx512::find_kernels(type, op);
#endif
    default:
      return {};
  }
}

void combine_any_number(const Kernels& kernels, std::size_t width, void* destination,
                        const void* const* operands, std::size_t operand_count, std::size_t count) {
  assert(operand_count >= 1);
  if (count == 0) return;
  if (operand_count == 1) {
    if (destination != operands[0]) std::memcpy(destination, operands[0], count * width);
    return;
  }
  if (operand_count == operands_of_next_pass(operand_count)) {
    combine_one_pass(kernels, operand_count, destination, operands, count);
    return;
  }
  // Several passes run block by block. Partial results then stay in the first-level cache, and because they
  // lie in a buffer of their own, the destination may be any of the operands.
  constexpr std::size_t block_bytes = 256 * widest_element;
  BlockOnStack block_of_partial(std::min(count * width, block_bytes));
  std::byte* const partial = block_of_partial.data();
  const std::size_t block = block_bytes / width;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    const auto at_block = [&](const void* data) {
      return static_cast<const std::byte*>(data) + begin * width;
    };
    const void* inputs[8];
    inputs[0] = at_block(operands[0]);
    for (std::size_t done = 1; done < operand_count;) {
      const std::size_t size = operands_of_next_pass(operand_count - done + 1);
      for (std::size_t k = 1; k < size; ++k) inputs[k] = at_block(operands[done + k - 1]);
      done += size - 1;
      const bool last = done == operand_count;
      void* output = last ? static_cast<std::byte*>(destination) + begin * width : partial;
      combine_one_pass(kernels, size, output, inputs, length);
      inputs[0] = partial;
    }
  }
}

}  // namespace offbeat
