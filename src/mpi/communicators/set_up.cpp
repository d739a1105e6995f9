// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/set_up.hpp"

#include <bit>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"

namespace offbeat {

MpiSetUp::MpiSetUp(const Host& host, MPI_Comm communicator, const Settings& settings, Collective collective,
                   bool is_first)
    : SetUp(host.rank_in(communicator), host.size_of(communicator)),
      host_(host),
      communicator_(communicator),
      errors_return_(host, communicator),
      collective_(collective),
      is_first_(is_first),
      world_rank_(host.rank_in(MPI_COMM_WORLD)),
      watch_(
          settings.stall_s,
          [](const void* self, const std::string& waited) {
            return static_cast<const MpiSetUp*>(self)->text_of_waiting_rank(waited);
          },
          this) {}

MpiSetUp::~MpiSetUp() {
  run_unless_out_of_memory([&] {
    const std::string waited = watch_.waited_if_reported();
    const std::string where = text_of_waiting_rank({});
    if (!waited.empty() && !where.empty()) say(where + "set up after " + waited);
  });
}

template <class Blocking, class Nonblocking, class... Arguments>
void MpiSetUp::call(const Blocking& blocking, const Nonblocking& nonblocking, Arguments... arguments) const {
  if (host_.mpi != HostMpi::intel && host_.mpi != HostMpi::mpich) return require(blocking(arguments...));
  MPI_Request request;
  require(nonblocking(arguments..., &request));
  require(host_.Wait(&request, MPI_STATUS_IGNORE));
}

void MpiSetUp::broadcast_bytes(void* value, std::size_t bytes, int from) {
  call(host_.Bcast, host_.Ibcast, value, static_cast<int>(bytes), MPI_BYTE, from, communicator_);
}

// A rank without offbeat is inside the program's MPI_Allreduce. An allreduce here would match its messages,
// which mean something else. Reductions to one rank use different messages.
template <class Value>
Value MpiSetUp::reduce(Value mine, MPI_Datatype type, MPI_Op op) {
  Value result{};
  call(host_.Reduce, host_.Ireduce, &mine, &result, 1, type, op, 0, communicator_);
  call(host_.Bcast, host_.Ibcast, &result, 1, type, 0, communicator_);
  return result;
}

void MpiSetUp::combine(std::span<std::uint64_t> values, MPI_Op op) {
  const int count = static_cast<int>(values.size());
  const void* const mine = rank == 0 ? MPI_IN_PLACE : values.data();
  call(host_.Reduce, host_.Ireduce, mine, values.data(), count, MPI_UINT64_T, op, 0, communicator_);
  call(host_.Bcast, host_.Ibcast, values.data(), count, MPI_UINT64_T, 0, communicator_);
}

std::uint64_t MpiSetUp::unanimous(std::uint64_t mine) { return reduce(mine, MPI_UINT64_T, MPI_BAND); }

int MpiSetUp::least(int mine) { return reduce(mine, MPI_INT, MPI_MIN); }

void MpiSetUp::gather_bytes(const void* mine, std::size_t bytes, void* all) {
  const int count = static_cast<int>(bytes);
  call(host_.Allgather, host_.Iallgather, mine, count, MPI_BYTE, all, count, MPI_BYTE, communicator_);
}

void MpiSetUp::gather_lists(const void* mine, std::span<const int> counts, std::span<const int> begins,
                            void* all) {
  const int count = counts[static_cast<std::size_t>(rank)];
  call(host_.Allgatherv, host_.Iallgatherv, mine, count, MPI_BYTE, all, counts.data(), begins.data(),
       MPI_BYTE, communicator_);
}

void MpiSetUp::require(int code) const {
  if (code != MPI_SUCCESS) throw CommunicationError("a communicator could not be set up", code);
}

// Only ranks 0, 1, 2, 4, 8 and so on print, because no rank can know which one is missing: of a thousand
// waiting ranks, eleven print.
std::string MpiSetUp::text_of_waiting_rank(const std::string& waited) const {
  if (!std::has_single_bit(static_cast<unsigned>(rank)) && rank != 0) return {};
  const std::string where = (is_first_ ? "the first " : "") + std::string(name_of(collective_)) +
                            " on a communicator of " + std::to_string(size) + " ranks: ";
  if (waited.empty()) return where;
  return where + "rank " + std::to_string(world_rank_) + " of MPI_COMM_WORLD has waited " + waited +
         " for the other ranks; a rank that runs without offbeat never comes";
}

}  // namespace offbeat
