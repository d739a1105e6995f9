// SPDX-License-Identifier: BSD-3-Clause
#include "groups/own_network.hpp"

#include "groups/tcp_network.hpp"
#ifdef OFFBEAT_HAS_FABRIC
#include "groups/fabric_network.hpp"
#endif

namespace offbeat {

std::unique_ptr<OwnNetwork> make_own_network(const Settings& settings) {
  if (settings.network != NetworkChoice::libfabric) return std::make_unique<TcpNetwork>(settings);
#ifdef OFFBEAT_HAS_FABRIC
  return std::make_unique<FabricNetwork>(settings);
#else
  return nullptr;
#endif
}

}  // namespace offbeat
