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

}  // namespace

Library::Library()
    : select_(find<decltype(select_)>("offbeat_select")),
      count_(find<decltype(count_)>("offbeat_count")),
      version_(find<decltype(version_)>("offbeat_version")),
      family_(find<decltype(family_)>("offbeat_family")) {}

std::string Library::select(Collective collective, const std::string& expression) const {
  const char* const chosen =
      is_native(expression) ? "native" : (expression == built_in_choice ? "" : expression.c_str());
  char error[512] = "";
  if (select_(name_of(collective).data(), chosen, error, sizeof error) == OFFBEAT_OK) return {};
  return error[0] != '\0' ? error : "offbeat_select failed";
}

offbeat_counters Library::counters(Collective collective) const {
  offbeat_counters counters{};
  count_(name_of(collective).data(), &counters, sizeof counters);
  return counters;
}

}  // namespace offbeat::bench
