// SPDX-License-Identifier: BSD-3-Clause
// The kernels for x86-64-v3: AVX2 and the binary16 conversions of F16C.
#include "reduction/kernels_impl.hpp"

namespace offbeat::avx2 {

Kernels find_kernels(ElementType type, ReduceOp op) { return find_kernels_of(type, op); }

}  // namespace offbeat::avx2
