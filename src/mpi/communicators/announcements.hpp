// SPDX-License-Identifier: BSD-3-Clause
// OFFBEAT_VERBOSE: one line for each collective and range of lengths that a communicator uses.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "selection/plan.hpp"

namespace offbeat {

class Announcements {
 public:
  // Says which row of the plan a call of `bytes` takes, unless it was said before: here, or by a communicator
  // of equally many ranks. `why_native`: why the host serves every call; empty if it does not.
  void say_choice(Collective collective, const Plan& plan, std::size_t bytes, int ranks,
                  std::string_view why_native);
  // After the plans have changed.
  void forget() { said_ = {}; }

 private:
  std::array<std::uint64_t, collectives.size()> said_{};  // bit k: row k; the last bit: all later rows
};

}  // namespace offbeat
