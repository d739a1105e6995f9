// SPDX-License-Identifier: BSD-3-Clause
// Declarations that the files of offbeat._core share.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include "base/collective.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace nb = nanobind;

inline offbeat::Collective known_collective(std::string_view name) {
  const auto known = offbeat::collective_named(name);
  if (!known) throw offbeat::UsageError("unknown collective '" + offbeat::printable(name) + "'");
  return *known;
}

void register_models(nb::module_& module);
void register_rules(nb::module_& module);
void register_simulator(nb::module_& module);
