// SPDX-License-Identifier: BSD-3-Clause
#include "groups/tcp_address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace offbeat {
namespace {

// A socket address of the system, of either family.
struct SystemAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  SystemAddress() : length(sizeof storage) {}
  // `interface_index` is that of this machine's interface on the way there, for a link-local address; 0:
  // unknown.
  SystemAddress(const TcpAddress& address, std::uint32_t interface_index) {
    if (address.is_ipv6) {
      sockaddr_in6 made{};
      made.sin6_family = AF_INET6;
      made.sin6_port = htons(address.port);
      std::memcpy(&made.sin6_addr, address.ip.data(), sizeof made.sin6_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&made.sin6_addr)) made.sin6_scope_id = interface_index;
      std::memcpy(&storage, &made, length = sizeof made);
    } else {
      sockaddr_in made{};
      made.sin_family = AF_INET;
      made.sin_port = htons(address.port);
      std::memcpy(&made.sin_addr, address.ip.data(), sizeof made.sin_addr);
      std::memcpy(&storage, &made, length = sizeof made);
    }
  }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

std::optional<TcpAddress> own_address_towards(sockaddr* other, socklen_t length, int family) {
  const Descriptor probe(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SystemAddress own;
  if (!probe || connect(probe.get(), other, length) != 0 ||
      getsockname(probe.get(), own.get(), &own.length) != 0)
    return std::nullopt;
  std::optional<TcpAddress> found = tcp_address_of(own.get());
  if (found) found->port = 0;
  return found;
}

struct FreeInterfaces {
  void operator()(ifaddrs* all) const { freeifaddrs(all); }
};
std::unique_ptr<ifaddrs, FreeInterfaces> all_interfaces() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) all = nullptr;
  return std::unique_ptr<ifaddrs, FreeInterfaces>(all);
}

// Lower is better. Other machines reach a link-local address only with the name of their own interface.
int order_of(const sockaddr* address) {
  if (address->sa_family == AF_INET) return 0;
  sockaddr_in6 known{};
  std::memcpy(&known, address, sizeof known);
  return IN6_IS_ADDR_LINKLOCAL(&known.sin6_addr) ? 2 : 1;
}

// Returns the best address of the interfaces for which fits(interface) is true.
template <class Fits>
std::optional<TcpAddress> best_address(Fits&& fits) {
  const auto all = all_interfaces();
  const ifaddrs* best = nullptr;
  for (const ifaddrs* each = all.get(); each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0 || !fits(*each)) continue;
    if (each->ifa_addr->sa_family != AF_INET && each->ifa_addr->sa_family != AF_INET6) continue;
    if (best == nullptr || order_of(each->ifa_addr) < order_of(best->ifa_addr)) best = each;
  }
  return best != nullptr ? tcp_address_of(best->ifa_addr) : std::nullopt;
}

void set_option(int socket, int level, int option, int value) {
  static_cast<void>(setsockopt(socket, level, option, &value, sizeof value));
}

// A machine that has lost its power or its network closes no connection. So the system asks it now and then.
// TCP_USER_TIMEOUT would also end connections to a rank that does not read for a while.
void prepare(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

std::optional<TcpAddress> tcp_address_of(const sockaddr* address) {
  TcpAddress made;
  if (address->sa_family == AF_INET) {
    sockaddr_in known{};
    std::memcpy(&known, address, sizeof known);
    std::memcpy(made.ip.data(), &known.sin_addr, sizeof known.sin_addr);
    made.port = ntohs(known.sin_port);
    made.is_loopback = ntohl(known.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return made;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 known{};
  std::memcpy(&known, address, sizeof known);
  std::memcpy(made.ip.data(), &known.sin6_addr, sizeof known.sin6_addr);
  made.port = ntohs(known.sin6_port);
  made.interface_index = known.sin6_scope_id;
  made.is_ipv6 = true;
  made.is_loopback = IN6_IS_ADDR_LOOPBACK(&known.sin6_addr);
  return made;
}

std::string TcpAddress::text() const {
  char shown[INET6_ADDRSTRLEN] = "?";
  inet_ntop(is_ipv6 ? AF_INET6 : AF_INET, ip.data(), shown, sizeof shown);
  return std::string(shown) + " port " + std::to_string(port);
}

std::optional<TcpAddress> own_address_towards(const TcpAddress& other) {
  TcpAddress target = other;
  if (target.port == 0) target.port = 9;
  SystemAddress system(target, 0);
  return own_address_towards(system.get(), system.length, target.is_ipv6 ? AF_INET6 : AF_INET);
}

std::optional<TcpAddress> own_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (host.empty() || getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  std::optional<TcpAddress> own;
  for (const addrinfo* each = found; each != nullptr && !own; each = each->ai_next)
    own = own_address_towards(each->ai_addr, each->ai_addrlen, each->ai_family);
  freeaddrinfo(found);
  return own;
}

std::optional<TcpAddress> own_usual_address() {
  // This network is for examples only, so the route to it is the default route.
  constexpr TcpAddress elsewhere{.ip = {std::byte{192}, std::byte{0}, std::byte{2}, std::byte{1}}, .port = 9};
  if (auto own = own_address_towards(elsewhere); own && !own->is_loopback) return own;
  const auto is_outward = [](const ifaddrs& each) { return (each.ifa_flags & IFF_LOOPBACK) == 0; };
  if (auto own = best_address(is_outward)) return own;
  return best_address([](const ifaddrs&) { return true; });
}

std::optional<TcpAddress> address_of_interface(const std::string& name, std::string& why_not) {
  if (auto own = best_address([&](const ifaddrs& each) { return each.ifa_name == name; })) return own;
  std::string known;
  const auto all = all_interfaces();
  for (const ifaddrs* each = all.get(); each != nullptr; each = each->ifa_next) {
    const bool has_address = each->ifa_addr != nullptr && tcp_address_of(each->ifa_addr);
    if (has_address && (" " + known + ",").find(" " + std::string(each->ifa_name) + ",") == std::string::npos)
      known += (known.empty() ? "" : ", ") + std::string(each->ifa_name);
  }
  why_not = "has no interface OFFBEAT_INTERFACE='" + name.substr(0, 20) + "' with an address, but " + known;
  return std::nullopt;
}

Descriptor listen_at(TcpAddress& own) {
  Descriptor made(socket(own.is_ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return made;
  SystemAddress system(own, own.interface_index);
  SystemAddress bound;
  if (bind(made.get(), system.get(), system.length) != 0 || listen(made.get(), 4096) != 0 ||
      getsockname(made.get(), bound.get(), &bound.length) != 0)
    return Descriptor();
  own.port = tcp_address_of(bound.get())->port;
  return made;
}

Descriptor begin_to_connect(const TcpAddress& own, const TcpAddress& other) {
  const int family = other.is_ipv6 ? AF_INET6 : AF_INET;
  Descriptor made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return made;
  prepare(made.get());
  SystemAddress system(other, own.interface_index);
  if (connect(made.get(), system.get(), system.length) == 0 || errno == EINPROGRESS) return made;
  const int code = errno;
  made = Descriptor();
  errno = code;
  return made;
}

Descriptor accept_at(const Descriptor& listener) {
  Descriptor made(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (made) prepare(made.get());
  return made;
}

TcpSilence silence_of(const Descriptor& socket) {
  tcp_info known{};
  socklen_t length = sizeof known;
  if (getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &known, &length) != 0) return {};
  return {.since_ms = std::min(known.tcpi_last_ack_recv, known.tcpi_last_data_recv),
          .repeats = std::max(known.tcpi_retransmits, known.tcpi_probes),
          .owes_answer = known.tcpi_unacked > 0 || known.tcpi_probes > 0};
}

int connect_error(const Descriptor& socket) {
  int code = 0;
  socklen_t length = sizeof code;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno;
}

}  // namespace offbeat
