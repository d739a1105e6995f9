// SPDX-License-Identifier: BSD-3-Clause
// One call of a collective on one rank, as an algorithm sees it.
#pragma once

#include "base/collective.hpp"
#include "reduction/reduction.hpp"
#include "transport/vector.hpp"

namespace offbeat {

// `input` and `output` are either the same memory (in place) or do not overlap. `output` may be used for
// partial results before it is final.
struct Call {
  Collective collective;
  ConstVector input{};
  Vector output{};
  const Reduction* op = nullptr;  // null: the collective has none
  int root = 0;

  // The same for other vectors: a part of them, or results in between.
  [[nodiscard]] Call with(ConstVector other_input, Vector other_output) const {
    Call other = *this;
    other.input = other_input;
    other.output = other_output;
    return other;
  }
};

}  // namespace offbeat
