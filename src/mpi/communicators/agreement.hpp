// SPDX-License-Identifier: BSD-3-Clause
// agree() lets the ranks of a communicator agree before offbeat serves it: on a team, on a place in it, and
// on what they share there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "mpi/communicators/team.hpp"

namespace offbeat {

class Runtime;

// What the ranks of a communicator have agreed on. All ranks get equal values.
struct Agreement {
  std::string_view why_native;  // why the host must serve every call; if it is empty, the rest is set
  std::shared_ptr<Team::CommunicatorPlace> place = nullptr;
  std::shared_ptr<const TeamPlans> plans = nullptr;
  std::shared_ptr<PrivateCommunicator> messages = nullptr;  // to be shared; null if the team has none yet
  std::uint64_t new_messages_number = 0;  // the number for a private communicator that may be made
};

// The reason for an intra-communicator of one rank.
inline constexpr std::string_view only_one_rank_reason = "one rank";
inline constexpr std::string_view inter_communicator_reason = "inter-communicator";
// Returns the reason why the host must serve every call on a communicator, or an empty text if it need not.
// It sends no message, allocates no memory, and gives equal answers on all ranks.
[[nodiscard]] std::string_view why_never_served(const Host& host, MPI_Comm communicator);

// Collective. `board_size` is the board that the communicator wants; it is null on a rank that has no memory.
// Returns nothing, on all ranks, if a rank has no memory. Throws CommunicationError.
[[nodiscard]] std::optional<Agreement> agree(MpiSetUp& set_up, Runtime& process, const BoardSize* board_size);

}  // namespace offbeat
