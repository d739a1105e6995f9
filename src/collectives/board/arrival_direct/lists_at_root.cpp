// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct/lists_at_root.hpp"

#include <string>

#include "base/error.hpp"
#include "base/log.hpp"

namespace offbeat::direct {

void report_mismatch(Collective collective, int giver, int taker, std::uint64_t given, std::uint64_t taken) {
  const std::string text = "mismatched " + std::string(name_of(collective)) + ": rank " +
                           std::to_string(giver) + " gives rank " + std::to_string(taker) + " " +
                           std::to_string(given) + " bytes, and rank " + std::to_string(taker) + " takes " +
                           std::to_string(taken);
  say(text);
  throw BoardError(Trouble::mismatch, giver, text);
}

}  // namespace offbeat::direct
