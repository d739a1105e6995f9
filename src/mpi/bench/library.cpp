// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/library.hpp"

#include <dlfcn.h>

#include "mpi/bench/options.hpp"

namespace offbeat::bench {

namespace {

template <class Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Replaces each `native(NAME)` in an expression by `native`. The host's own variables have already chosen its
// algorithm.
std::string without_native_name(std::string expression) {
  constexpr std::string_view before = "native(";
  for (std::size_t at = expression.find(before); at != std::string::npos; at = expression.find(before)) {
    const std::size_t open = at + before.size() - 1;
    expression.erase(open, expression.find(')', open) + 1 - open);
  }
  return expression;
}

}  // namespace

Library::Library()
    : select_(find<decltype(select_)>("offbeat_select")),
      count_(find<decltype(count_)>("offbeat_count")),
      version_(find<decltype(version_)>("offbeat_version")),
      family_(find<decltype(family_)>("offbeat_family")) {}

std::string Library::select(Collective collective, const std::string& expression) const {
  const std::string chosen = expression == built_in_choice ? "" : without_native_name(expression);
  char error[512] = "";
  if (select_(name_of(collective).data(), chosen.c_str(), error, sizeof error) == OFFBEAT_OK) return {};
  return error[0] != '\0' ? error : "offbeat_select failed";
}

offbeat_counters Library::counters(Collective collective) const {
  offbeat_counters counters{};
  count_(name_of(collective).data(), &counters, sizeof counters);
  return counters;
}

}  // namespace offbeat::bench
