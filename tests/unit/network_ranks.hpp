// SPDX-License-Identifier: BSD-3-Clause
// Several networks of offbeat's own in one process, over the loopback interface. No function of a network
// waits, so one thread moves them all in turn.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/time.hpp"
#include "groups/callback_set_up.hpp"
#include "groups/own_network.hpp"

namespace offbeat {

constexpr int patience_s = 20;

// The networks of a group whose ranks are threads while it is made.
class Ranks {
 public:
  explicit Ranks(int size, const Settings& settings = over_loopback())
      : size_(size), membership_(size), barrier_(size), settings_(settings) {
    membership_.group_by([](int rank) { return rank; });
    key_.bytes.fill(std::byte{7});
    networks_.resize(static_cast<std::size_t>(size));
    localities_.resize(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) threads.emplace_back([this, rank] { make(rank); });
    for (std::thread& each : threads) each.join();
  }

  [[nodiscard]] OwnNetwork& operator[](int rank) { return *networks_[static_cast<std::size_t>(rank)]; }
  // The process of a rank ends without a goodbye.
  void kill(int rank) { networks_[static_cast<std::size_t>(rank)].reset(); }

  // Moves all messages until `is_over()`. Returns false if that takes too long.
  [[nodiscard]] bool move_until(const std::function<bool()>& is_over, std::vector<Message*> awaited = {}) {
    const std::int64_t until_ns = monotonic_ns() + patience_s * ns_per_s;
    while (!is_over()) {
      if (monotonic_ns() > until_ns) return false;
      for (const std::unique_ptr<OwnNetwork>& each : networks_)
        if (each != nullptr) each->move_all(awaited);
    }
    return true;
  }

 private:
  static Settings over_loopback() {
    Settings made;
    made.interface = "lo";
    return made;
  }
  void make(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    networks_[index] = make_own_network(settings_);
    localities_[index] = std::make_unique<Locality>(membership_, rank);
    struct State {
      Ranks* all;
      std::size_t index;
    } state{this, index};
    CallbackSetUp set_up(rank, size_,
                         {[](void* passed, const void* mine, std::size_t bytes, void* all) {
                            const State& me = *static_cast<State*>(passed);
                            Ranks& ranks = *me.all;
                            std::memcpy(ranks.exchanged_ + me.index * bytes, mine, bytes);
                            ranks.barrier_.arrive_and_wait();
                            std::memcpy(all, ranks.exchanged_, bytes * static_cast<std::size_t>(ranks.size_));
                            ranks.barrier_.arrive_and_wait();
                            return 0;
                          },
                          &state});
    std::vector<NetworkAddress> addresses(static_cast<std::size_t>(size_));
    set_up.gather(networks_[index]->address(), addresses.data());
    networks_[index]->connect(set_up, *localities_[index], addresses, key_);
  }

  const int size_;
  Membership membership_;
  std::barrier<> barrier_;
  Settings settings_;
  NetworkKey key_;
  char exchanged_[8 * 512] = {};
  std::vector<std::unique_ptr<Locality>> localities_;
  std::vector<std::unique_ptr<OwnNetwork>> networks_;
};

// A message with memory of its own.
struct Owned {
  Owned(bool is_send, int peer, int tag, std::size_t bytes, Message::Stream stream, unsigned fill = 0)
      : data(bytes + 1, static_cast<std::byte>(fill)) {
    message.stream = stream;
    message.is_send = is_send;
    message.peer = peer;
    message.tag = tag;
    message.data = data.data();
    message.bytes = bytes;
  }
  std::vector<std::byte> data;
  Message message;
};

inline std::unique_ptr<Owned> sending(int peer, int tag, std::size_t bytes, unsigned fill,
                                      Message::Stream stream = Message::Stream::collective) {
  return std::make_unique<Owned>(true, peer, tag, bytes, stream, fill);
}
inline std::unique_ptr<Owned> receiving(int peer, int tag, std::size_t bytes,
                                        Message::Stream stream = Message::Stream::collective) {
  return std::make_unique<Owned>(false, peer, tag, bytes, stream);
}

inline bool holds(const Owned& received, unsigned fill) {
  const auto end = received.data.end() - 1;
  return *end == std::byte{0} &&
         std::all_of(received.data.begin(), end, [&](std::byte each) { return each == std::byte(fill); });
}

inline std::string error_of(OwnNetwork& network, const Message& message) {
  const std::int64_t until_ns = monotonic_ns() + patience_s * ns_per_s;
  while (monotonic_ns() < until_ns) {
    try {
      network.move(message);
    } catch (const BoardError& error) {
      return error.what();
    }
  }
  return "no error";
}

}  // namespace offbeat
