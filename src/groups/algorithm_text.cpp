// SPDX-License-Identifier: BSD-3-Clause
#include "groups/algorithm_text.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "collectives/algorithm.hpp"

namespace offbeat {
namespace {

// Expressions live as long as the process, and so do their texts.
const char* text_of(const Expression* expression) {
  static std::mutex mutex;
  static auto* texts =
      new std::map<const Expression*, std::string>;  // never freed, because it is used while the process ends
  const std::lock_guard lock(mutex);
  std::string& text = (*texts)[expression];
  if (text.empty()) text = expression->canonical_text();
  return text.c_str();
}

}  // namespace

// A cache avoids the lock for an expression that this thread has asked for recently.
const char* algorithm_text(const Expression* ran) {
  struct Known {
    const Expression* expression;
    const char* text;
  };
  static constinit thread_local std::array<Known, 8> known{};
  if (ran == nullptr) return nullptr;
  Known& entry = known[(reinterpret_cast<std::uintptr_t>(ran) / alignof(std::max_align_t)) % known.size()];
  if (entry.expression != ran) entry = {ran, text_of(ran)};
  return entry.text;
}

}  // namespace offbeat
