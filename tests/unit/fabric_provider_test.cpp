// SPDX-License-Identifier: BSD-3-Clause
// Which provider a group takes. A stub of libfabric offers given providers.
#include "groups/fabric_provider.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace offbeat {
namespace {

struct Offer {
  const char* hint;  // for which libfabric names this provider
  const char* provider;
  const char* address;  // IPv4, or null if the provider does not go over IP
};

std::vector<Offer> offers;

fi_info* copy(const fi_info* from) {
  auto* const made = new fi_info{};
  made->fabric_attr = new fi_fabric_attr{};
  made->ep_attr = new fi_ep_attr{};
  made->tx_attr = new fi_tx_attr{};
  made->rx_attr = new fi_rx_attr{};
  made->domain_attr = new fi_domain_attr{};
  if (from == nullptr) return made;
  made->fabric_attr->prov_name = strdup(from->fabric_attr->prov_name);
  made->addr_format = from->addr_format;
  if (from->src_addr != nullptr)
    made->src_addr = new sockaddr_in(*static_cast<const sockaddr_in*>(from->src_addr));
  return made;
}

void free_all(fi_info* info) {
  while (info != nullptr) {
    free(info->fabric_attr->prov_name);
    delete info->fabric_attr;
    delete info->ep_attr;
    delete info->tx_attr;
    delete info->rx_attr;
    delete info->domain_attr;
    delete static_cast<sockaddr_in*>(info->src_addr);
    delete std::exchange(info, info->next);
  }
}

int get_info(std::uint32_t, const char*, const char*, std::uint64_t, const fi_info* hints, fi_info** found) {
  const char* const asked = hints->fabric_attr->prov_name;
  fi_info** last = found;
  for (const Offer& each : offers) {
    if (std::strcmp(each.hint, asked != nullptr ? asked : "") != 0) continue;
    fi_info* const made = copy(nullptr);
    made->fabric_attr->prov_name = strdup(each.provider);
    if (each.address != nullptr) {
      auto* const address = new sockaddr_in{};
      address->sin_family = AF_INET;
      inet_pton(AF_INET, each.address, &address->sin_addr);
      made->src_addr = address;
      made->addr_format = FI_SOCKADDR_IN;
    }
    *last = made;
    last = &made->next;
  }
  return *found != nullptr ? 0 : -FI_ENODATA;
}

// The provider and its address; empty if there is none.
std::string found(const std::string& name, bool must_be_there = false) {
  FabricLibrary library;
  library.getinfo = get_info;
  library.dupinfo = copy;
  library.freeinfo = free_all;
  sockaddr_in here{};
  here.sin_family = AF_INET;
  inet_pton(AF_INET, "192.0.2.7", &here.sin_addr);
  const auto own = tcp_address_of(reinterpret_cast<const sockaddr*>(&here));
  const FabricInfo info = find_provider(library, name, own, must_be_there);
  if (info == nullptr) return "";
  std::string text = info->fabric_attr->prov_name;
  if (info->src_addr == nullptr) return text;
  std::array<char, INET_ADDRSTRLEN> address{};
  inet_ntop(AF_INET, &static_cast<sockaddr_in*>(info->src_addr)->sin_addr, address.data(), address.size());
  return text + " " + address.data();
}

TEST(FabricProvider, IsTheNamedOneOnTheInterfaceOfTcp) {
  offers = {{"tcp", "tcp;ofi_rxm", "127.0.0.1"}, {"tcp", "tcp;ofi_rxm", "192.0.2.7"}};
  EXPECT_EQ(found("tcp"), "tcp;ofi_rxm 192.0.2.7");
  EXPECT_EQ(found("sockets"), "");
}

// libfabric 2 names `tcp` with its layer only if it is asked for no name.
TEST(FabricProvider, IsNotLibfabricsOwnTcpButTheLayerAboveIt) {
  offers = {{"tcp", "tcp", "192.0.2.7"},
            {"", "psm3;ofi_rxm", "192.0.2.7"},
            {"", "tcp", "192.0.2.7"},
            {"", "tcp;ofi_rxm", "192.0.2.7"}};
  EXPECT_EQ(found("tcp"), "tcp;ofi_rxm 192.0.2.7");
  EXPECT_EQ(found("tcp;ofi_rxm"), "tcp;ofi_rxm 192.0.2.7");
  EXPECT_EQ(found("TCP"), "tcp;ofi_rxm 192.0.2.7");
  EXPECT_EQ(found("ofi_rxm;tcp"), "tcp;ofi_rxm 192.0.2.7");
  EXPECT_EQ(found("ofi_rxm"), "psm3;ofi_rxm 192.0.2.7");
  offers.pop_back();
  EXPECT_EQ(found("tcp"), "");
}

TEST(FabricProvider, IsLibfabricsFirstThatFits) {
  offers = {{"", "tcp", "192.0.2.7"}, {"", "verbs;ofi_rxm", nullptr}, {"", "tcp;ofi_rxm", "192.0.2.7"}};
  EXPECT_EQ(found(""), "verbs;ofi_rxm");
}

TEST(FabricProvider, IsElsewhereUnlessTheInterfaceIsNamed) {
  offers = {{"tcp", "tcp;ofi_rxm", "192.0.2.8"}};
  EXPECT_EQ(found("tcp"), "tcp;ofi_rxm 192.0.2.8");
  EXPECT_EQ(found("tcp", true), "");
}

}  // namespace
}  // namespace offbeat
