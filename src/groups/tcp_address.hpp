// SPDX-License-Identifier: BSD-3-Clause
// TcpAddress is where a rank listens. The functions here choose the interface, and make sockets.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "node/shared_memory.hpp"

namespace offbeat {

// Plain data that ranks send to each other.
struct TcpAddress {
  std::array<std::byte, 16> ip{};  // 4 or 16 bytes
  // The index of its interface, which means something only on its own machine. A link-local address may be
  // that of several interfaces. 0: unknown.
  std::uint32_t interface_index = 0;
  std::uint16_t port = 0;
  bool is_ipv6 = false;
  bool is_loopback = false;  // only this machine reaches it

  [[nodiscard]] std::string text() const;
  bool operator==(const TcpAddress&) const = default;
};

// Returns the address that the system writes so, if it is one of IP.
[[nodiscard]] std::optional<TcpAddress> tcp_address_of(const sockaddr* address);
// Returns the address of this machine on the route to a host. Nothing is sent, except maybe to a name server.
[[nodiscard]] std::optional<TcpAddress> own_address_towards(const std::string& host);
[[nodiscard]] std::optional<TcpAddress> own_address_towards(const TcpAddress& other);
// Returns the address on the route to the rest of the world, or of any interface that is up.
[[nodiscard]] std::optional<TcpAddress> own_usual_address();
// Returns the address of an interface. If there is none, `why_not` says so.
[[nodiscard]] std::optional<TcpAddress> address_of_interface(const std::string& name, std::string& why_not);

// Returns a socket that listens, and sets the port. It is invalid, and errno is set, if there is none.
[[nodiscard]] Descriptor listen_at(TcpAddress& own);
// Returns a socket that begins to connect. It is invalid, and errno is set, if that failed at once.
[[nodiscard]] Descriptor begin_to_connect(const TcpAddress& own, const TcpAddress& other);
// Accepts a connection. It is invalid if there is none.
[[nodiscard]] Descriptor accept_at(const Descriptor& listener);
// What the system knows of the other side of a connection.
struct TcpSilence {
  std::int64_t since_ms = 0;  // how long nothing has come, not even an acknowledgement
  int repeats = 0;            // how often the system has sent something again because no answer came
  bool owes_answer = false;   // the other side's system has something to acknowledge
};
[[nodiscard]] TcpSilence silence_of(const Descriptor& socket);
// Returns the error of a socket that has tried to connect, 0 for success.
[[nodiscard]] int connect_error(const Descriptor& socket);

}  // namespace offbeat
