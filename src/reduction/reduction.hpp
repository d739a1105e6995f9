// SPDX-License-Identifier: BSD-3-Clause
// Reduction is all that an algorithm knows about the element type and the operation.
#pragma once

#include <cstddef>

#include "reduction/kernels.hpp"

namespace offbeat {

// Combines two vectors if offbeat's kernels do not know the type or the operation. As in PMPI_Reduce_local,
// right[i] = left[i] op right[i]. If it throws, the contents of the vectors are undefined.
class HostCombine {
 public:
  virtual void combine(const void* left, void* right, std::size_t count) const = 0;

 protected:
  ~HostCombine() = default;
};

// A commutative operation on elements of `width` bytes.
class Reduction {
 public:
  Reduction() = default;
  Reduction(ElementType type, ReduceOp op) : width(width_of(type)), kernels(find_kernels(type, op)) {}
  Reduction(std::size_t width, const HostCombine& host) : width(width), host(&host) {}

  // destination = ((operand 0 op operand 1) op operand 2) op ... The destination may be one of the operands.
  void operator()(void* destination, const void* const* operands, std::size_t operand_count,
                  std::size_t count) const {
    if (kernels) {
      combine(kernels, width, destination, operands, operand_count, count);
    } else {
      reduce_by_host(destination, operands, operand_count, count);
    }
  }
  explicit operator bool() const { return kernels || host != nullptr; }

  std::size_t width = 1;
  Kernels kernels;
  const HostCombine* host = nullptr;

 private:
  void reduce_by_host(void* destination, const void* const* operands, std::size_t operand_count,
                      std::size_t count) const;
};

}  // namespace offbeat
