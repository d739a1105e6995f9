// SPDX-License-Identifier: BSD-3-Clause
// What is special about a TcpNetwork; own_network_test.cpp has the rest.
#include "groups/tcp_network.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "groups/tcp_lingering.hpp"
#include "network_ranks.hpp"

namespace offbeat {
namespace {

const TcpNetwork& tcp(const OwnNetwork& network) { return static_cast<const TcpNetwork&>(network); }

TEST(TcpNetwork, ConnectsOnlyWhereItSends) {
  Ranks ranks(4);
  const auto send = sending(1, 0, 8, 5);
  const auto receive = receiving(0, 0, 8);
  ranks[0].begin(send->message);
  ranks[1].begin(receive->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
  EXPECT_EQ(tcp(ranks[0]).connections(), 1U);
  EXPECT_EQ(tcp(ranks[1]).connections(), 1U);
  EXPECT_EQ(tcp(ranks[2]).connections(), 0U);
  EXPECT_EQ(tcp(ranks[3]).connections(), 0U);
}

TEST(TcpNetwork, TheReceiverKeepsALimitedNumberOfBytes) {
  Ranks ranks(2);
  constexpr std::size_t bytes = 50'000;
  constexpr int count = 100;
  std::vector<std::unique_ptr<Owned>> sends;
  for (int k = 0; k < count; ++k) {
    sends.push_back(sending(1, 0, bytes, static_cast<unsigned>(k + 1)));
    ranks[0].begin(sends.back()->message);
  }
  const auto over = [&] {
    return std::ranges::count_if(sends, [](const auto& each) { return each->message.is_over.load(); });
  };
  ASSERT_TRUE(ranks.move_until([&] { return over() >= 20; }));
  const std::int64_t until_ns = monotonic_ns() + 200 * ns_per_ms;
  ASSERT_TRUE(ranks.move_until([&] { return monotonic_ns() > until_ns; }));
  EXPECT_LT(over(), 22);  // 1 MiB
  for (int k = 0; k < count; ++k) {
    const auto receive = receiving(0, 0, bytes);
    ranks[1].begin(receive->message);
    ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
    EXPECT_TRUE(holds(*receive, static_cast<unsigned>(k + 1)));
  }
  EXPECT_EQ(over(), count);
}

// -- ends

// Two ends of a connection. One has sent more than the system of the other one takes at once, and has not
// read what came from there.
struct HalfSent {
  HalfSent() {
    TcpAddress own = *own_address_towards(std::string("127.0.0.1"));
    const Descriptor listener = listen_at(own);
    sender = begin_to_connect(own, own);
    for (int k = 0; k < 10'000 && !receiver; ++k) receiver = accept_at(listener);
    static_cast<void>(::send(receiver.get(), "unread", 6, MSG_NOSIGNAL));
    const std::vector<char> some(100'000, 'x');
    for (;;) {
      const ssize_t sent = ::send(sender.get(), some.data(), some.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) break;
      bytes += sent;
    }
    shutdown(sender.get(), SHUT_WR);
  }
  // Returns the bytes that come until the other side says that there are no more, or that data are lost.
  [[nodiscard]] ssize_t receive(const std::function<void()>& in_between = [] {}) const {
    std::vector<char> some(100'000);
    ssize_t sum = 0;
    for (;;) {
      in_between();
      const ssize_t got = recv(receiver.get(), some.data(), some.size(), MSG_DONTWAIT);
      if (got > 0) sum += got;
      if (got == 0 || (got < 0 && errno != EAGAIN)) return sum;
    }
  }
  Descriptor sender;
  Descriptor receiver;
  ssize_t bytes = 0;
};

TEST(LingeringSockets, StayUntilTheOtherSideHasEverything) {
  HalfSent half;
  LingeringSockets sockets;
  sockets.add(std::move(half.sender));
  EXPECT_FALSE(sockets.wait(10 * ns_per_ms));
  EXPECT_EQ(half.receive([&] { sockets.close_delivered(); }), half.bytes);
  EXPECT_TRUE(sockets.wait(patience_s * ns_per_s));
}

TEST(LingeringSockets, AProcessThatEndsWaitsForThem) {
  HalfSent half;
  const pid_t child = fork();
  if (child == 0) {
    half.receiver = Descriptor();
    LingeringSockets::of_process().add(std::move(half.sender));
    exit(0);
  }
  half.sender = Descriptor();
  EXPECT_EQ(half.receive(), half.bytes);
  waitpid(child, nullptr, 0);
}

// A signal handler may call exit() while its thread has the lock.
TEST(LingeringSockets, AProcessThatEndsDoesNotWaitForeverForThem) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    LingeringSockets::of_process().prepare_fork();  // locks
    exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Returns the sockets of this process that it has connected to a port.
std::vector<int> sockets_to(std::uint16_t port) {
  constexpr int most_descriptors = 256;
  std::vector<int> found;
  for (int each = 0; each < most_descriptors; ++each) {
    sockaddr_in other{};
    socklen_t bytes = sizeof other;
    if (getpeername(each, reinterpret_cast<sockaddr*>(&other), &bytes) == 0 && other.sin_port == htons(port))
      found.push_back(each);
  }
  return found;
}

// Frames may be lost with one of the two connections, so none may follow on the other one.
TEST(TcpNetwork, ALostConnectionOfTwoIsTheEnd) {
  Ranks ranks(2);
  std::vector<std::unique_ptr<Owned>> all;
  for (int rank : {0, 1}) {
    all.push_back(sending(1 - rank, 0, 8, 5));
    ranks[rank].begin(all.back()->message);
    all.push_back(receiving(1 - rank, 0, 8));
    ranks[rank].begin(all.back()->message);
  }
  ASSERT_TRUE(ranks.move_until([&] {
    return std::ranges::all_of(all, [](const auto& each) { return each->message.is_over.load(); });
  }));
  ASSERT_EQ(tcp(ranks[0]).connections(), 2U);
  const std::vector<int> lost = sockets_to(tcp(ranks[1]).own_address().port);
  ASSERT_EQ(lost.size(), 1U);
  shutdown(lost.front(), SHUT_RDWR);
  for (int rank : {0, 1}) {
    const auto receive = receiving(1 - rank, 0, 8);
    ranks[rank].begin(receive->message);
    EXPECT_EQ(error_of(ranks[rank], receive->message),
              "the process of rank " + std::to_string(1 - rank) + " has died");
    ranks[rank].forget(receive->message);
  }
}

class WithoutDescriptors : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ForLong, WithoutDescriptors, testing::Bool());
TEST_P(WithoutDescriptors, ARankSaysSoAfterAWhile) {
  const bool is_for_long = GetParam();
  Ranks ranks(2);
  const auto send = sending(1, 0, 8, 5);
  ranks[0].begin(send->message);
  const int next = dup(0);
  close(next);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const auto receive = receiving(0, 0, 8);
  ranks[1].begin(receive->message);
  // It neither accepts a connection nor makes one, which it tries after a while.
  const std::int64_t until_ns = monotonic_ns() + 300 * ns_per_ms;
  while (monotonic_ns() < until_ns) EXPECT_NO_THROW(ranks[1].move(receive->message));
  if (is_for_long) {
    EXPECT_EQ(error_of(ranks[1], receive->message), "cannot accept a connection: Too many open files");
  }
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }, {&receive->message}));
}

// TCP_USER_TIMEOUT would end a connection to a rank that does not read for a while.
TEST(TcpNetwork, OnlyAMachineThatDoesNotAnswerIsGivenUp) {
  TcpAddress own = *own_address_towards(std::string("127.0.0.1"));
  const Descriptor listener = listen_at(own);
  const Descriptor begun = begin_to_connect(own, own);
  Descriptor accepted;
  for (int k = 0; k < 10'000 && !accepted; ++k) accepted = accept_at(listener);
  for (const int socket : {begun.get(), accepted.get()}) {
    const auto option = [&](int level, int name) {
      int value = -1;
      socklen_t bytes = sizeof value;
      getsockopt(socket, level, name, &value, &bytes);
      return value;
    };
    EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_LE(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
              20);
  }
}

TEST(TcpNetwork, AForkedChildKeepsNoConnectionOpen) {
  Ranks ranks(2);
  const auto send = sending(0, 0, 8, 5);
  const auto receive = receiving(1, 0, 8);
  ranks[1].begin(send->message);
  ranks[0].begin(receive->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
  TcpNetwork::all().prepare_fork();
  const pid_t child = fork();
  if (child == 0) {
    TcpNetwork::all().after_fork_in_child();
    pause();
    _exit(0);
  }
  TcpNetwork::all().after_fork_in_parent();
  ranks.kill(1);
  const auto another = receiving(1, 0, 8);
  ranks[0].begin(another->message);
  EXPECT_EQ(error_of(ranks[0], another->message), "the process of rank 1 has died");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// -- strangers

class Stranger {
 public:
  explicit Stranger(const TcpAddress& at) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(at.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ =
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  [[nodiscard]] bool is_connected() const { return is_connected_; }
  void say(std::size_t bytes) {
    const std::vector<char> text(bytes, 'x');
    static_cast<void>(::send(socket_.get(), text.data(), bytes, MSG_NOSIGNAL));
  }
  [[nodiscard]] bool is_closed() {
    char byte = 0;
    const ssize_t got = recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

 private:
  Descriptor socket_;
  bool is_connected_ = false;
};

TEST(TcpNetwork, AStrangerIsTurnedAway) {
  Ranks ranks(2);
  Stranger stranger(tcp(ranks[0]).own_address());
  ASSERT_TRUE(stranger.is_connected());
  stranger.say(32);
  EXPECT_TRUE(ranks.move_until([&] { return stranger.is_closed(); }));
  EXPECT_EQ(tcp(ranks[0]).connections(), 0U);
}

TEST(TcpNetwork, HalfAGreetingIsTurnedAwayInTime) {
  Ranks ranks(2);
  Stranger stranger(tcp(ranks[0]).own_address());
  ASSERT_TRUE(stranger.is_connected());
  stranger.say(31);
  const std::int64_t since_ns = monotonic_ns();
  EXPECT_TRUE(ranks.move_until([&] { return stranger.is_closed(); }));
  EXPECT_LT(monotonic_ns() - since_ns, 8 * ns_per_s);
}

TEST(TcpNetwork, AFloodOfStrangersKeepsNobodyOut) {
  Ranks ranks(2);
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int k = 0; k < 700; ++k) {
    strangers.push_back(std::make_unique<Stranger>(tcp(ranks[1]).own_address()));
    ASSERT_TRUE(strangers.back()->is_connected()) << k;
    strangers.back()->say(static_cast<std::size_t>(k % 32));
    if (k % 50 == 0) ranks[1].move_all({});
  }
  const auto send = sending(1, 0, 100'000, 5);
  const auto receive = receiving(0, 0, 100'000);
  ranks[0].begin(send->message);
  ranks[1].begin(receive->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over && send->message.is_over; }));
  EXPECT_TRUE(holds(*receive, 5));
  EXPECT_LE(tcp(ranks[1]).connections(), 260U);
}

// -- interfaces

TEST(TcpAddress, AnUnknownInterfaceIsNamed) {
  std::string why_not;
  EXPECT_FALSE(address_of_interface("eth77", why_not));
  EXPECT_NE(why_not.find("OFFBEAT_INTERFACE='eth77'"), std::string::npos) << why_not;
  EXPECT_NE(why_not.find("lo"), std::string::npos) << why_not;
}

TEST(TcpAddress, TheRouteToAHostChoosesTheInterface) {
  const auto own = own_address_towards(std::string("127.0.0.1"));
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->is_loopback);
  EXPECT_EQ(own->text(), "127.0.0.1 port 0");
  EXPECT_FALSE(own_address_towards(std::string()));
}

// Connects a rank with another one of the same machine.
void expect_to_connect(TcpAddress own) {
  const Descriptor listener = listen_at(own);
  ASSERT_TRUE(listener);
  EXPECT_GT(own.port, 0);
  TcpAddress of_other = own;
  of_other.interface_index = 999'999;  // that of its own machine
  const Descriptor other = begin_to_connect(own, of_other);
  ASSERT_TRUE(other);
  Descriptor accepted;
  for (int k = 0; k < 10'000 && !accepted; ++k) accepted = accept_at(listener);
  EXPECT_TRUE(accepted);
  EXPECT_EQ(connect_error(other), 0);
}

TEST(TcpAddress, Version6) {
  const auto own = own_address_towards(std::string("::1"));
  if (!own) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_TRUE(own->is_ipv6 && own->is_loopback);
  expect_to_connect(*own);
}

// Two interfaces may have the same link-local address, as a bridge and its port do.
TEST(TcpAddress, ALinkLocalAddressKnowsItsInterface) {
  ifaddrs* all = nullptr;
  ASSERT_EQ(getifaddrs(&all), 0);
  bool is_found = false;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET6 || (each->ifa_flags & IFF_UP) == 0)
      continue;
    char text[INET6_ADDRSTRLEN] = "";
    const auto& known = *reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
    if (!IN6_IS_ADDR_LINKLOCAL(&known.sin6_addr)) continue;
    inet_ntop(AF_INET6, &known.sin6_addr, text, sizeof text);
    const auto own = own_address_towards(std::string(text) + "%" + each->ifa_name);
    if (!own) continue;  // no link
    is_found = true;
    EXPECT_EQ(own->interface_index, if_nametoindex(each->ifa_name)) << text << '%' << each->ifa_name;
    expect_to_connect(*own);
  }
  freeifaddrs(all);
  if (!is_found) GTEST_SKIP() << "this machine has no link-local IPv6 address";
}

}  // namespace
}  // namespace offbeat
