// SPDX-License-Identifier: BSD-3-Clause
//
// The preloaded liboffbeat, as this process finds it. Looked up by name at run
// time: the benchmark is not linked to liboffbeat.
#pragma once

#include <string>

#include "base/collective.hpp"
#include "offbeat/offbeat.h"

namespace offbeat::bench {

class Library {
 public:
  Library();

  bool loaded() const { return select_ != nullptr && count_ != nullptr; }
  const char* version() const { return version_ == nullptr ? "" : version_(); }
  const char* family() const { return family_ == nullptr ? "" : family_(); }

  // Both do nothing for a collective that the host serves. Empty when the expression was accepted, else the
  // reason in one line.
  std::string select(Collective collective, const std::string& expression) const;
  offbeat_counters counters(Collective collective) const;

 private:
  decltype(&offbeat_select) select_;
  decltype(&offbeat_count) count_;
  decltype(&offbeat_version) version_;
  decltype(&offbeat_family) family_;
};

}  // namespace offbeat::bench
