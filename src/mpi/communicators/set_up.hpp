// SPDX-License-Identifier: BSD-3-Clause
// SetUp lets all ranks of a communicator agree before offbeat serves it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/settings.hpp"
#include "mpi/host/return_errors.hpp"
#include "mpi/host/watch.hpp"

namespace offbeat {

// SetUp makes collective calls for offbeat itself on a communicator of the program. All throw
// CommunicationError.
//
// The calls block, as the program's own call does. If they did not, Open MPI could mix up their messages with
// those of an MPI_Comm_idup that is under way. A rank that runs without offbeat never takes part, so a thread
// watches the calls and prints what the others are waiting for.
class SetUp {
 public:
  // `communicator` has at least two ranks. While this object lives, its errors return if they can
  // (ReturnErrors). `collective` is the program's call for which the set-up is done. `is_first` says whether
  // it is the first one on the communicator.
  SetUp(const Host& host, MPI_Comm communicator, const Settings& settings, Collective collective,
        bool is_first);
  SetUp(const SetUp&) = delete;
  SetUp& operator=(const SetUp&) = delete;
  ~SetUp();

  // Sends `value` from one rank to all.
  template <class Plain>
  void broadcast(Plain& value, int from = 0) {
    broadcast(&value, sizeof value, from);
  }
  // Returns the bits that are set on all ranks.
  [[nodiscard]] std::uint64_t unanimous(std::uint64_t mine);
  [[nodiscard]] bool all(bool mine) { return unanimous(mine ? 1 : 0) != 0; }
  // Returns the lowest rank that passes false, or the number of ranks if there is none.
  [[nodiscard]] int first_without(bool mine);
  [[nodiscard]] int least(int mine);
  // Combines each of `values` over the ranks by `op`.
  void combine(std::span<std::uint64_t> values, MPI_Op op);
  // Sets all[r] to `mine` of rank r, for each rank of the communicator.
  template <class Plain>
  void gather(const Plain& mine, Plain* all) {
    gather(&mine, sizeof mine, all);
  }

  // Sets all[k] to `mine` of rank giver(k), for each k < givers. The other ranks give nothing. `lists` is
  // work space: two ints for each rank if there are several givers.
  template <class Plain, class Giver>
  void gather_from(int givers, Giver&& giver, const Plain& mine, Plain* all, std::span<int> lists) {
    if (givers == 1) {
      if (rank == giver(0)) *all = mine;
      broadcast(*all, giver(0));
      return;
    }
    const std::span<int> counts = lists.first(static_cast<std::size_t>(size));
    const std::span<int> begins = lists.last(static_cast<std::size_t>(size));
    std::ranges::fill(lists, 0);
    for (int k = 0; k < givers; ++k) {
      counts[static_cast<std::size_t>(giver(k))] = sizeof(Plain);
      begins[static_cast<std::size_t>(giver(k))] = k * static_cast<int>(sizeof(Plain));
    }
    gather(&mine, counts, begins, all);
  }

  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] const Host& host() const { return host_; }
  const int rank;
  const int size;

 private:
  void broadcast(void* value, std::size_t bytes, int from);
  void gather(const void* mine, std::size_t bytes, void* all);
  // Gathers bytes from each rank. `counts` says how many bytes each rank gives, and `begins` where they
  // belong in `all`.
  void gather(const void* mine, std::span<const int> counts, std::span<const int> begins, void* all);
  template <class Value>
  Value reduce(Value mine, MPI_Datatype type, MPI_Op op);
  void require(int code) const;
  [[nodiscard]] std::string what_waits(const std::string& waited) const;

  const Host& host_;
  MPI_Comm communicator_;
  ReturnErrors errors_return_;
  Collective collective_;
  bool is_first_;
  int world_rank_ = 0;
  Watch watch_;
};

}  // namespace offbeat
