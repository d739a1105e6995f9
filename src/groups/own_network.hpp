// SPDX-License-Identifier: BSD-3-Clause
// An OwnNetwork needs no MPI: TcpNetwork, or FabricNetwork, which uses libfabric.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/settings.hpp"
#include "groups/network.hpp"

namespace offbeat {

class OwnNetwork : public Network {
 public:
  [[nodiscard]] bool needs_host() const final { return false; }
  // Lets several communicators use the network, each with tags of its own. People know the ranks by
  // `numbers`, which must outlive this, and `space` follows such a number.
  virtual void share(std::span<const int> numbers, std::string_view space) {
    known_numbers_ = numbers;
    space_ = space;
  }

 protected:
  [[nodiscard]] bool is_shared() const { return !known_numbers_.empty(); }
  [[nodiscard]] int number_of(int rank) const {
    return is_shared() ? known_numbers_[static_cast<std::size_t>(rank)] : rank;
  }
  [[nodiscard]] std::string name_of(int rank) const {
    return "rank " + std::to_string(number_of(rank)) + std::string(space_);
  }

 private:
  std::span<const int> known_numbers_;
  std::string_view space_;
};

// The handlers of fork() for all networks of a kind (fork_list.hpp).
struct ForkHandlers {
  void (*prepare)();
  void (*be_the_parent)();
  void (*be_a_child)();
};
// Returns those of all kinds. A thread that has locks of one kind may take those of a later one.
[[nodiscard]] std::span<const ForkHandlers> fork_handlers_of_networks();

// Returns the network that OFFBEAT_NETWORK asks for, by default TCP. Returns null if this offbeat was built
// without it.
[[nodiscard]] std::unique_ptr<OwnNetwork> make_own_network(const Settings& settings);
constexpr std::string_view built_without_network =
    "has an offbeat that was built without libfabric's headers";

}  // namespace offbeat
