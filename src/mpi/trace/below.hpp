// SPDX-License-Identifier: BSD-3-Clause
// What the tracer's functions stand before: those of liboffbeat-<family>.so where that is preloaded too,
// otherwise the host MPI's.
#pragma once

#include <atomic>
#include <cstddef>

#include "mpi/host.hpp"

namespace offbeat::trace {

class Below {
 public:
  Below();
  // Null if neither has it.
  [[nodiscard]] void* find(const char* name) const;

  Host host;
  // The text of this thread's last algorithm, null for native; null if offbeat is not there.
  const char* (*last_algorithm)() = nullptr;

 private:
  void* offbeat_ = nullptr;
};

extern std::atomic<const Below*> what_is_below;
const Below& find_what_is_below();
// Found at the first call, because a preload also reaches programs without MPI. Without an MPI of this family
// the process ends with one line and exit code 2.
[[nodiscard]] inline const Below& below() {
  const Below* known = what_is_below.load(std::memory_order_acquire);
  return known != nullptr ? *known : find_what_is_below();
}

template <std::size_t Length>
struct Name {
  char text[Length]{};
  constexpr Name(
      const char (&literal)[Length]) {  // NOLINT(google-explicit-constructor): for next<"PMPI_Wait", ...>
    for (std::size_t i = 0; i < Length; ++i) text[i] = literal[i];
  }
};

// The function behind one of ours; null if the host is too old to have it.
template <Name name, class Signature>
[[nodiscard]] Signature* next() {
  static constinit std::atomic<Signature*> known{nullptr};
  Signature* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) [[unlikely]] {
    function = reinterpret_cast<Signature*>(below().find(name.text));
    known.store(function, std::memory_order_relaxed);
  }
  return function;
}

}  // namespace offbeat::trace
