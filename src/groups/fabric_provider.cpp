// SPDX-License-Identifier: BSD-3-Clause
#include "groups/fabric_provider.hpp"

#include <dlfcn.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cctype>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

namespace offbeat {
namespace {

std::string_view name_of(const fi_info& info) { return info.fabric_attr->prov_name; }

// libfabric's own streams hold up all messages of a rank behind one that nobody receives yet, and the layer
// above them does not. The descriptor of `net`, an early form of `tcp`, always says that there is something.
bool is_fitting(const fi_info& found) {
  return name_of(found) != "tcp" && !name_of(found).starts_with("net");
}

bool goes_over_ip(const fi_info& info) {
  return info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6;
}

bool is_at(const fi_info& info, const std::optional<TcpAddress>& own) {
  if (!goes_over_ip(info) || info.src_addr == nullptr || !own) return false;
  const auto its = tcp_address_of(static_cast<const sockaddr*>(info.src_addr));
  return its && its->ip == own->ip;
}

// Modes of memory that other ranks read are all right, because there is none. A provider that wants to know
// all memory of messages (FI_MR_LOCAL) does not fit.
FabricInfo ask(const FabricLibrary& library, const std::string& name) {
  const FabricInfo hints(library.dupinfo(nullptr), {library.freeinfo});
  if (hints == nullptr) throw std::bad_alloc();
  hints->caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  if (!name.empty()) hints->fabric_attr->prov_name = strdup(name.c_str());
  fi_info* found = nullptr;
  const int code = library.getinfo(FI_VERSION(1, 9), nullptr, nullptr, 0, hints.get(), &found);
  return FabricInfo(code == 0 ? found : nullptr, {library.freeinfo});
}

// Returns true if each layer of `name` is one of the provider's, in any order and case, as libfabric takes
// it.
bool is_named(const fi_info& found, const std::string& name) {
  const auto in_lower_case = [](std::string text) {
    for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    return ";" + text + ";";
  };
  const std::string its = in_lower_case(std::string(name_of(found)));
  const std::string wanted = in_lower_case(name);
  for (std::size_t begin = 0, end; (end = wanted.find(';', begin + 1)) != std::string::npos; begin = end) {
    if (its.find(wanted.substr(begin, end - begin + 1)) == std::string::npos) return false;
  }
  return true;
}

template <class Fits>
const fi_info* first(const fi_info* found, Fits&& fits) {
  while (found != nullptr && !fits(*found)) found = found->next;
  return found;
}

}  // namespace

bool FabricLibrary::load() {
  void* const library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  return find("fi_getinfo", getinfo) && find("fi_dupinfo", dupinfo) && find("fi_freeinfo", freeinfo) &&
         find("fi_fabric", fabric) && find("fi_strerror", strerror);
}

// Asked for a name, libfabric 2 leaves out the layer above a provider that has tagged messages itself.
FabricInfo find_provider(const FabricLibrary& library, const std::string& name,
                         const std::optional<TcpAddress>& own, bool must_be_there) {
  FabricInfo all = ask(library, name);
  const fi_info* best = first(all.get(), is_fitting);
  if (best == nullptr && !name.empty()) {
    all = ask(library, "");
    best = first(all.get(), [&](const fi_info& each) { return is_named(each, name) && is_fitting(each); });
  }
  if (best == nullptr) return FabricInfo(nullptr, {library.freeinfo});
  const fi_info* chosen =
      first(best, [&](const fi_info& each) { return name_of(each) == name_of(*best) && is_at(each, own); });
  if (chosen == nullptr && !(goes_over_ip(*best) && must_be_there)) chosen = best;
  return FabricInfo(chosen != nullptr ? library.dupinfo(chosen) : nullptr, {library.freeinfo});
}

}  // namespace offbeat
