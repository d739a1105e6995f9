// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/set_up.hpp"

#include <bit>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "mpi/node_board.hpp"

namespace offbeat {
namespace {

int rank_in(const Host& host, MPI_Comm communicator) {
  int rank = 0;
  host.Comm_rank(communicator, &rank);
  return rank;
}

int size_of(const Host& host, MPI_Comm communicator) {
  int size = 1;
  host.Comm_size(communicator, &size);
  return size;
}

}  // namespace

SetUp::SetUp(const Host& host, MPI_Comm communicator, const Settings& settings)
    : rank(rank_in(host, communicator)),
      size(size_of(host, communicator)),
      host_(host),
      communicator_(communicator),
      errors_return_(host, communicator),
      patience_(patience_without_board(settings)) {
  patience_.stall = {
      .after_s = settings.stall_s,
      .call = [](void* state, double waited_s,
                 bool over) { try_to([&] { static_cast<SetUp*>(state)->report_stall(waited_s, over); }); },
      .state = this};
}

void SetUp::broadcast(void* value, std::size_t bytes, int from) {
  MPI_Request request = MPI_REQUEST_NULL;
  complete(host_.Ibcast(value, static_cast<int>(bytes), MPI_BYTE, from, communicator_, &request), request);
}

std::uint64_t SetUp::unanimous(std::uint64_t mine) {
  std::uint64_t result = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  complete(host_.Iallreduce(&mine, &result, 1, MPI_UINT64_T, MPI_BAND, communicator_, &request), request);
  return result;
}

int SetUp::first_without(bool mine) {
  const int vote = mine ? size : rank;
  int first = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  complete(host_.Iallreduce(&vote, &first, 1, MPI_INT, MPI_MIN, communicator_, &request), request);
  return first;
}

void SetUp::gather(const void* mine, std::size_t bytes, void* all) {
  const int count = static_cast<int>(bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  complete(host_.Iallgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, communicator_, &request), request);
}

void SetUp::complete(int code, MPI_Request& request) {
  Patience::Wait wait(patience_);
  int is_complete = 0;
  while (code == MPI_SUCCESS) {
    code = host_.Test(&request, &is_complete, MPI_STATUS_IGNORE);
    if (is_complete != 0) break;
    wait.pause();
  }
  if (code != MPI_SUCCESS) throw CommunicationError("a communicator could not be set up", code);
}

// Who is missing cannot be known. A thousand ranks wait for it, and eleven of them say so.
void SetUp::report_stall(double waited_s, bool over) {
  if (!std::has_single_bit(static_cast<unsigned>(rank)) && rank != 0) return;
  int world_rank = 0;
  host_.Comm_rank(MPI_COMM_WORLD, &world_rank);
  const std::string where = "the first allreduce on a communicator of " + std::to_string(size) + " ranks: ";
  const std::string waited = std::to_string(std::lround(waited_s)) + " s";
  if (over) {
    say(where + "set up after " + waited);
  } else {
    say(where + "rank " + std::to_string(world_rank) + " of MPI_COMM_WORLD has waited " + waited +
        " for the others to come; one that runs without offbeat never does");
  }
}

}  // namespace offbeat
