// SPDX-License-Identifier: BSD-3-Clause
#include "groups/own_network.hpp"

#include "groups/tcp_network.hpp"
#ifdef OFFBEAT_HAS_FABRIC
#include "groups/fabric_network.hpp"
#endif

namespace offbeat {
namespace {

template <class Network>
constexpr ForkHandlers handlers_of{[] { Network::all().prepare_fork(); },
                                   [] { Network::all().after_fork_in_parent(); },
                                   [] { Network::all().after_fork_in_child(); }};

constexpr ForkHandlers handlers[] = {
#ifdef OFFBEAT_HAS_FABRIC
    handlers_of<FabricNetwork>,
#endif
    handlers_of<TcpNetwork>};

}  // namespace

std::span<const ForkHandlers> fork_handlers_of_networks() { return handlers; }

std::unique_ptr<OwnNetwork> make_own_network(const Settings& settings) {
  if (settings.network != NetworkChoice::libfabric) return std::make_unique<TcpNetwork>(settings);
#ifdef OFFBEAT_HAS_FABRIC
  return std::make_unique<FabricNetwork>(settings);
#else
  return nullptr;
#endif
}

}  // namespace offbeat
