// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "collectives/algorithm.hpp"

namespace offbeat {

// Parses `text` and returns the process-wide expression of this collective with the same canonical spelling,
// so equal pointers mean equal expressions. The first call creates it. It is never freed, because
// communicators, collectives under way and the last algorithm of each thread point to it, and a program may
// call MPI while it exits. Throws ExpressionError if `text` is not valid.
[[nodiscard]] const Expression* interned_expression(Collective collective, std::string_view text);

}  // namespace offbeat
