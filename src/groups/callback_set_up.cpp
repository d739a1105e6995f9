// SPDX-License-Identifier: BSD-3-Clause
#include "groups/callback_set_up.hpp"

#include <cstring>
#include <string>

#include "base/error.hpp"

namespace offbeat {
namespace {

// While a group is made, each message of a rank has at most some hundred bytes.
constexpr std::size_t usual_bytes = 512;

}  // namespace

CallbackSetUp::CallbackSetUp(int rank, int size, Exchange exchange)
    : SetUp(rank, size), exchange_(exchange), received_(usual_bytes * static_cast<std::size_t>(size)) {}

void CallbackSetUp::exchange(const void* mine, std::size_t bytes) {
  if (bytes > usual_bytes) throw CommunicationError("a message of the set-up of a group is too long");
  if (const int code = exchange_.call(exchange_.state, mine, bytes, received_.data()); code != 0)
    throw CommunicationError("the exchange function returned " + std::to_string(code), code);
}

std::uint64_t CallbackSetUp::unanimous(std::uint64_t mine) {
  exchange(&mine, sizeof mine);
  std::uint64_t all = mine;
  for (int k = 0; k < size; ++k) {
    std::uint64_t other = 0;
    std::memcpy(&other, of(k, sizeof other), sizeof other);
    all &= other;
  }
  return all;
}

int CallbackSetUp::least(int mine) {
  exchange(&mine, sizeof mine);
  int lowest = mine;
  for (int k = 0; k < size; ++k) {
    int other = 0;
    std::memcpy(&other, of(k, sizeof other), sizeof other);
    lowest = std::min(lowest, other);
  }
  return lowest;
}

void CallbackSetUp::broadcast_bytes(void* value, std::size_t bytes, int from) {
  exchange(value, bytes);
  std::memcpy(value, of(from, bytes), bytes);
}

void CallbackSetUp::gather_bytes(const void* mine, std::size_t bytes, void* all) {
  exchange(mine, bytes);
  std::memcpy(all, received_.data(), bytes * static_cast<std::size_t>(size));
}

// Each rank gives as many bytes as the rank that has most to give.
void CallbackSetUp::gather_lists(const void* mine, std::span<const int> counts, std::span<const int> begins,
                                 void* all) {
  const auto most = static_cast<std::size_t>(*std::ranges::max_element(counts));
  std::vector<std::byte> padded(most);
  std::memcpy(padded.data(), mine, static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]));
  exchange(padded.data(), most);
  for (int k = 0; k < size; ++k) {
    const auto index = static_cast<std::size_t>(k);
    std::memcpy(static_cast<std::byte*>(all) + begins[index], of(k, most),
                static_cast<std::size_t>(counts[index]));
  }
}

}  // namespace offbeat
