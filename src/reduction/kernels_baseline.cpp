// SPDX-License-Identifier: BSD-3-Clause
// The kernels that every machine of this architecture runs.
#include "reduction/kernels_impl.hpp"

namespace offbeat::baseline {

Kernels find_kernels(ElementType type, ReduceOp op) { return find_kernels_of(type, op); }

}  // namespace offbeat::baseline
