// SPDX-License-Identifier: BSD-3-Clause
// SetUp lets ranks agree before they have a board. It has two sides: MpiSetUp makes calls of the host MPI,
// and CallbackSetUp calls a function of the program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace offbeat {

// All functions are collective, and throw CommunicationError.
class SetUp {
 public:
  SetUp(const SetUp&) = delete;
  SetUp& operator=(const SetUp&) = delete;
  virtual ~SetUp() = default;

  // Sends `value` from one rank to all.
  template <class Plain>
  void broadcast(Plain& value, int from = 0) {
    broadcast_bytes(&value, sizeof value, from);
  }
  // Returns the bits that are set on all ranks.
  [[nodiscard]] virtual std::uint64_t unanimous(std::uint64_t mine) = 0;
  [[nodiscard]] bool all(bool mine) { return unanimous(mine ? 1 : 0) != 0; }
  [[nodiscard]] virtual int least(int mine) = 0;
  // Returns the lowest rank that passes false, or the number of ranks if there is none.
  [[nodiscard]] int first_without(bool mine) { return least(mine ? size : rank); }
  // Sets all[r] to `mine` of rank r, for each rank.
  template <class Plain>
  void gather(const Plain& mine, Plain* all) {
    gather_bytes(&mine, sizeof mine, all);
  }
  // Sets all[k] to `mine` of rank giver(k), for each k < givers. Ranks that are no giver contribute nothing.
  // `lists` is scratch space, 2 x size ints; it is not used if there is only one giver.
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
    gather_lists(&mine, counts, begins, all);
  }

  const int rank;
  const int size;

 protected:
  SetUp(int rank, int size) : rank(rank), size(size) {}

 private:
  virtual void broadcast_bytes(void* value, std::size_t bytes, int from) = 0;
  virtual void gather_bytes(const void* mine, std::size_t bytes, void* all) = 0;
  // Gathers bytes from each rank. `counts` says how many bytes each rank gives, and `begins` where they
  // belong in `all`.
  virtual void gather_lists(const void* mine, std::span<const int> counts, std::span<const int> begins,
                            void* all) = 0;
};

}  // namespace offbeat
