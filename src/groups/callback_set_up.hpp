// SPDX-License-Identifier: BSD-3-Clause
// CallbackSetUp lets the ranks of a group agree through a function of the program.
#pragma once

#include <vector>

#include "groups/set_up.hpp"

namespace offbeat {

// The function of the program: it gives `bytes` bytes at `mine` to all ranks, and writes those of rank r to
// all + r * bytes. It returns 0 for success.
struct Exchange {
  int (*call)(void* state, const void* mine, std::size_t bytes, void* all) = nullptr;
  void* state = nullptr;
};

class CallbackSetUp final : public SetUp {
 public:
  // Takes all memory that it will need.
  CallbackSetUp(int rank, int size, Exchange exchange);

  [[nodiscard]] std::uint64_t unanimous(std::uint64_t mine) override;
  [[nodiscard]] int least(int mine) override;

 private:
  void broadcast_bytes(void* value, std::size_t bytes, int from) override;
  void gather_bytes(const void* mine, std::size_t bytes, void* all) override;
  void gather_lists(const void* mine, std::span<const int> counts, std::span<const int> begins,
                    void* all) override;
  // Returns where the bytes of `rank` are after an exchange of `bytes` bytes.
  [[nodiscard]] const std::byte* of(int rank, std::size_t bytes) const {
    return received_.data() + static_cast<std::size_t>(rank) * bytes;
  }
  void exchange(const void* mine, std::size_t bytes);

  const Exchange exchange_;
  std::vector<std::byte> received_;
};

}  // namespace offbeat
