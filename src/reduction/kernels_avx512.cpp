// SPDX-License-Identifier: BSD-3-Clause
// The kernels for 512-bit vectors: AVX-512 F, BW, DQ and VL.
#include "reduction/kernels_impl.hpp"

namespace offbeat::avx512 {

Kernels find_kernels(ElementType type, ReduceOp op) { return find_kernels_of(type, op); }

}  // namespace offbeat::avx512
