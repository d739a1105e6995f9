// SPDX-License-Identifier: BSD-3-Clause
// The liboffbeat that is preloaded into this process. The benchmark is not linked to it, but looks its
// functions up by name.
#pragma once

#include <string>

#include "base/collective.hpp"
#include "offbeat/offbeat.h"

namespace offbeat::bench {

class Library {
 public:
  Library();

  [[nodiscard]] bool is_loaded() const { return select_ != nullptr && count_ != nullptr; }
  [[nodiscard]] const char* version() const { return version_ == nullptr ? "" : version_(); }
  [[nodiscard]] const char* family() const { return family_ == nullptr ? "" : family_(); }

  // Selects an expression, which may contain "native(NAME)", or "default". Returns an empty text if it was
  // accepted, otherwise the reason in one line.
  [[nodiscard]] std::string select(Collective collective, const std::string& expression) const;
  [[nodiscard]] offbeat_counters counters(Collective collective) const;

 private:
  decltype(&offbeat_select) select_;
  decltype(&offbeat_count) count_;
  decltype(&offbeat_version) version_;
  decltype(&offbeat_family) family_;
};

}  // namespace offbeat::bench
