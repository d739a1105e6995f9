// SPDX-License-Identifier: BSD-3-Clause
// The functions of libfabric, which is loaded at run time, and its provider for a group.
#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <optional>
#include <string>

#include "groups/tcp_address.hpp"

namespace offbeat {

// The functions that libfabric exports. All others are reached through the objects that it returns.
struct FabricLibrary {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;

  // Returns false if the machine has no libfabric.
  [[nodiscard]] bool load();
};

struct FreeFabricInfo {
  decltype(&::fi_freeinfo) free = nullptr;
  void operator()(fi_info* info) const { free(info); }
};
using FabricInfo = std::unique_ptr<fi_info, FreeFabricInfo>;

// Returns a provider of this name, or libfabric's best one if the name is empty; null if none fits. One that
// goes over IP takes the interface of `own`, and only that if `must_be_there`; any other its first domain.
// Throws std::bad_alloc.
[[nodiscard]] FabricInfo find_provider(const FabricLibrary& library, const std::string& name,
                                       const std::optional<TcpAddress>& own, bool must_be_there);

}  // namespace offbeat
