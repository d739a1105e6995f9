// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

#include "collectives/algorithm.hpp"

namespace offbeat {

// Returns the only expression of this process that has this canonical spelling. The first call for a spelling
// makes the expression. It is never freed, because communicators, collectives under way and the last
// algorithm of each thread point to it, and a program may call MPI while it exits. Throws ExpressionError.
[[nodiscard]] const Expression* interned_expression(Collective collective, std::string_view text);

}  // namespace offbeat
