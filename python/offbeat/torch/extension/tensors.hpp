// SPDX-License-Identifier: BSD-3-Clause
// What torch calls a tensor or an operation, in offbeat's terms.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "library.hpp"

namespace offbeat_torch {

using at::Tensor;
using c10d::ReduceOp;
using Tensors = std::vector<Tensor>;

inline void require_host_memory(const Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu(), "offbeat: a tensor is on ", tensor.device(),
              ", and this backend takes CPU tensors; name one backend for each device, such as "
              "init_process_group(\"cpu:offbeat,cuda:nccl\")");
  TORCH_CHECK(tensor.layout() == at::kStrided, "offbeat: a tensor is ", tensor.layout(),
              "; make it dense with to_dense()");
}

// Returns true if the elements lie in memory in their order, as they are.
inline bool is_plain(const Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

inline Tensor plain_copy(const Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
}

inline char* begin_of(const Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }

inline bool overlap(const Tensor& a, const Tensor& b) {
  return a.nbytes() > 0 && b.nbytes() > 0 && begin_of(a) < begin_of(b) + b.nbytes() &&
         begin_of(b) < begin_of(a) + a.nbytes();
}

// Returns true if each tensor begins where the one before it ends.
inline bool follow_one_another(const Tensors& tensors) {
  for (size_t k = 1; k < tensors.size(); ++k)
    if (begin_of(tensors[k]) != begin_of(tensors[k - 1]) + tensors[k - 1].nbytes()) return false;
  return true;
}

inline offbeat_type type_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kChar:
      return OFFBEAT_INT8;
    case at::kShort:
      return OFFBEAT_INT16;
    case at::kInt:
      return OFFBEAT_INT32;
    case at::kLong:
      return OFFBEAT_INT64;
    case at::kByte:
      return OFFBEAT_UINT8;
    case at::kUInt16:
      return OFFBEAT_UINT16;
    case at::kUInt32:
      return OFFBEAT_UINT32;
    case at::kUInt64:
      return OFFBEAT_UINT64;
    case at::kHalf:
      return OFFBEAT_FLOAT16;
    case at::kBFloat16:
      return OFFBEAT_BFLOAT16;
    case at::kFloat:
      return OFFBEAT_FLOAT32;
    case at::kDouble:
      return OFFBEAT_FLOAT64;
    case at::kComplexFloat:
      return OFFBEAT_COMPLEX64;
    case at::kComplexDouble:
      return OFFBEAT_COMPLEX128;
    case at::kBool:
      return OFFBEAT_BOOL;
    default:
      TORCH_CHECK(false, "offbeat: no operation combines elements of type ", tensor.scalar_type());
  }
}

// Boolean tensors have logical operations: a sum or a maximum is an OR.
inline offbeat_op op_of(const ReduceOp& op, const Tensor& tensor) {
  const bool is_logical = tensor.scalar_type() == at::kBool;
  switch (op) {
    case ReduceOp::AVG:
      TORCH_CHECK(!is_logical, "offbeat: there is no average of boolean tensors");
      [[fallthrough]];
    case ReduceOp::SUM:
    case ReduceOp::PREMUL_SUM:
      return is_logical ? OFFBEAT_LOGICAL_OR : OFFBEAT_SUM;
    case ReduceOp::PRODUCT:
      return is_logical ? OFFBEAT_LOGICAL_AND : OFFBEAT_PROD;
    case ReduceOp::MIN:
      return is_logical ? OFFBEAT_LOGICAL_AND : OFFBEAT_MIN;
    case ReduceOp::MAX:
      return is_logical ? OFFBEAT_LOGICAL_OR : OFFBEAT_MAX;
    case ReduceOp::BAND:
      return is_logical ? OFFBEAT_LOGICAL_AND : OFFBEAT_BITWISE_AND;
    case ReduceOp::BOR:
      return is_logical ? OFFBEAT_LOGICAL_OR : OFFBEAT_BITWISE_OR;
    case ReduceOp::BXOR:
      return is_logical ? OFFBEAT_LOGICAL_XOR : OFFBEAT_BITWISE_XOR;
    default:
      TORCH_CHECK(false, "offbeat: not a reduction");
  }
}

// The operations that offbeat carries out as a sum, with their labels (offbeat_call::op_label).
struct LabelledSum {
  ReduceOp::RedOpType op;
  int label;
  const char* label_text;  // in an error of offbeat
  const char* name;
};
inline constexpr std::array labelled_sums{LabelledSum{ReduceOp::AVG, 1, ", sum 1", ", avg"},
                                          LabelledSum{ReduceOp::PREMUL_SUM, 2, ", sum 2", ", premul_sum"}};

inline int label_of(const ReduceOp& op) {
  for (const LabelledSum& each : labelled_sums)
    if (op == each.op) return each.label;
  return 0;
}
// Takes the text of an error of offbeat. Returns it with names such as avg, where offbeat writes labels.
inline std::string with_names_of_operations(std::string text) {
  for (const LabelledSum& each : labelled_sums) {
    const std::string label = each.label_text;
    for (size_t at = text.find(label); at != std::string::npos; at = text.find(label, at))
      text.replace(at, label.size(), each.name);
  }
  return text;
}

inline void multiply_before(const Tensor& tensor, const ReduceOp& op) {
  const auto* by = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(by != nullptr, "offbeat: PREMUL_SUM without a factor");
  by->tensor_factor.defined() ? tensor.mul_(by->tensor_factor) : tensor.mul_(by->double_factor);
}

inline void divide_after(const Tensor& tensor, int size) {
  at::isIntegralType(tensor.scalar_type(), false) ? tensor.div_(size, "trunc") : tensor.div_(size);
}

}  // namespace offbeat_torch
