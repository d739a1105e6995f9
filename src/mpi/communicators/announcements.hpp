// SPDX-License-Identifier: BSD-3-Clause
// Announcements prints the lines of OFFBEAT_VERBOSE: one for each collective and range of lengths that a
// communicator uses.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "selection/plan.hpp"

namespace offbeat {

class RowTrial;

class Announcements {
 public:
  // Prints which row of the plan a call of `bytes` bytes takes. It prints nothing if this communicator, or
  // another one with as many ranks, has printed that line before. `why_native` says why the host serves every
  // call; it is empty if the host does not. `form` is nonblocking only if the plan is not that of blocking
  // calls, too.
  void say_choice(Collective collective, CallForm form, const Plan& plan, std::size_t bytes, int ranks,
                  std::string_view why_native);
  // Prints which alternative a trial has pinned, and the time of each.
  static void say_pinned(const RowTrial& trial, int ranks);
  // Call after the plans have changed. The lines are then printed again.
  void forget() { said_ = {}; }

 private:
  // The rows that were printed, for each form and collective. Bit k stands for row k, and the last bit for
  // all later rows.
  std::array<std::array<std::uint64_t, collectives.size()>, 2> said_{};
};

}  // namespace offbeat
