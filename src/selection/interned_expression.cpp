// SPDX-License-Identifier: BSD-3-Clause
#include "selection/interned_expression.hpp"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace offbeat {

const Expression* interned_expression(Collective collective, std::string_view text) {
  using ExpressionsByText = std::map<std::pair<Collective, std::string>, Expression>;
  static std::mutex mutex;
  static auto* known = new ExpressionsByText;
  Expression expression = parse_expression(collective, text);
  std::pair key{collective, expression.canonical_text()};
  const std::lock_guard lock(mutex);
  return &known->try_emplace(std::move(key), std::move(expression)).first->second;
}

}  // namespace offbeat
