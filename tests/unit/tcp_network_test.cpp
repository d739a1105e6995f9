// SPDX-License-Identifier: BSD-3-Clause
// Several TcpNetworks in one process, over the loopback interface. No function of a network waits, so one
// thread moves them all in turn.
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
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/time.hpp"
#include "groups/callback_set_up.hpp"
#include "groups/tcp_lingering.hpp"

namespace offbeat {
namespace {

constexpr int patience_s = 20;

// The networks of a group whose ranks are threads while it is made.
class Ranks {
 public:
  explicit Ranks(int size) : size_(size), membership_(size), barrier_(size) {
    membership_.group_by([](int rank) { return rank; });
    settings_.interface = "lo";
    key_.bytes.fill(std::byte{7});
    networks_.resize(static_cast<std::size_t>(size));
    localities_.resize(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) threads.emplace_back([this, rank] { make(rank); });
    for (std::thread& each : threads) each.join();
  }

  [[nodiscard]] TcpNetwork& operator[](int rank) { return *networks_[static_cast<std::size_t>(rank)]; }
  // The process of a rank ends without a goodbye.
  void kill(int rank) { networks_[static_cast<std::size_t>(rank)].reset(); }

  // Moves all messages until `is_over()`. Returns false if that takes too long.
  [[nodiscard]] bool move_until(const std::function<bool()>& is_over, std::vector<Message*> awaited = {}) {
    const std::int64_t until_ns = monotonic_ns() + patience_s * ns_per_s;
    while (!is_over()) {
      if (monotonic_ns() > until_ns) return false;
      for (const std::unique_ptr<TcpNetwork>& each : networks_)
        if (each != nullptr) each->move_all(awaited);
    }
    return true;
  }

 private:
  void make(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    networks_[index] = std::make_unique<TcpNetwork>(settings_);
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
  std::vector<std::unique_ptr<TcpNetwork>> networks_;
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

std::unique_ptr<Owned> sending(int peer, int tag, std::size_t bytes, unsigned fill,
                               Message::Stream stream = Message::Stream::collective) {
  return std::make_unique<Owned>(true, peer, tag, bytes, stream, fill);
}
std::unique_ptr<Owned> receiving(int peer, int tag, std::size_t bytes,
                                 Message::Stream stream = Message::Stream::collective) {
  return std::make_unique<Owned>(false, peer, tag, bytes, stream);
}

bool holds(const Owned& received, unsigned fill) {
  const auto end = received.data.end() - 1;
  return *end == std::byte{0} &&
         std::all_of(received.data.begin(), end, [&](std::byte each) { return each == std::byte(fill); });
}

std::string error_of(TcpNetwork& network, const Message& message) {
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

TEST(TcpNetwork, EachReceiveGetsItsMessage) {
  constexpr int size = 4;
  constexpr int rounds = 40;
  Ranks ranks(size);
  std::mt19937 random(42);
  constexpr std::size_t lengths[] = {0, 1, 8, 1000, 65536, 65537, 300'000, 3'000'000};
  for (int round = 0; round < rounds; ++round) {
    struct Pair {
      int from, to;
      std::unique_ptr<Owned> send, receive;
    };
    std::vector<Pair> pairs;
    for (int k = 0; k < 12; ++k) {
      const int from = static_cast<int>(random() % size);
      const int to = (from + 1 + static_cast<int>(random() % (size - 1))) % size;
      const std::size_t bytes = lengths[random() % std::size(lengths)];
      const auto stream = random() % 2 == 0 ? Message::Stream::collective : Message::Stream::program;
      // A tag says which length it has, because a receive does not ask.
      const int tag = static_cast<int>(bytes % 1000) * 10 + static_cast<int>(random() % 2);
      pairs.push_back({from, to, sending(to, tag, bytes, static_cast<unsigned>(k + 1), stream),
                       receiving(from, tag, bytes, stream)});
    }
    // Sends begin before, between and after the receives, but both in the order of the list.
    std::size_t sent = 0;
    std::size_t received = 0;
    while (sent < pairs.size() || received < pairs.size()) {
      const bool sends = received == pairs.size() || (sent < pairs.size() && random() % 2 == 0);
      Pair& pair = pairs[sends ? sent++ : received++];
      ranks[sends ? pair.from : pair.to].begin(sends ? pair.send->message : pair.receive->message);
      if (random() % 3 == 0) ranks[static_cast<int>(random() % size)].move_all({});
    }
    ASSERT_TRUE(ranks.move_until([&] {
      return std::ranges::all_of(pairs, [](const Pair& each) {
        return each.send->message.is_over && each.receive->message.is_over;
      });
    })) << "round "
        << round;
    for (std::size_t k = 0; k < pairs.size(); ++k)
      EXPECT_TRUE(holds(*pairs[k].receive, static_cast<unsigned>(k + 1))) << "round " << round;
  }
}

TEST(TcpNetwork, ConnectsOnlyWhereItSends) {
  Ranks ranks(4);
  const auto send = sending(1, 0, 8, 5);
  const auto receive = receiving(0, 0, 8);
  ranks[0].begin(send->message);
  ranks[1].begin(receive->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
  EXPECT_EQ(ranks[0].connections(), 1U);
  EXPECT_EQ(ranks[1].connections(), 1U);
  EXPECT_EQ(ranks[2].connections(), 0U);
  EXPECT_EQ(ranks[3].connections(), 0U);
}

TEST(TcpNetwork, AReceiveFromAnyRankTakesFromAll) {
  constexpr int size = 4;
  Ranks ranks(size);
  std::vector<std::unique_ptr<Owned>> all;
  for (int round = 0; round < 2; ++round) {
    std::vector<int> counts(size);
    for (int rank = 1; rank < size; ++rank) {
      all.push_back(sending(0, 3, 100'000, static_cast<unsigned>(rank), Message::Stream::program));
      ranks[rank].begin(all.back()->message);
    }
    for (int k = 1; k < size; ++k) {
      const auto receive = receiving(Message::any_rank, 3, 100'000, Message::Stream::program);
      int rank = -1;
      int tag = -1;
      std::size_t bytes = 0;
      receive->message.arrival = {&rank, &tag, &bytes};
      ranks[0].begin(receive->message);
      ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
      EXPECT_TRUE(holds(*receive, static_cast<unsigned>(rank)));
      EXPECT_EQ(tag, 3);
      EXPECT_EQ(bytes, 100'000U);
      ++counts[static_cast<std::size_t>(rank)];
    }
    EXPECT_EQ(counts, std::vector<int>({0, 1, 1, 1}));
    ASSERT_TRUE(ranks.move_until([&] {
      return std::ranges::all_of(all, [](const auto& each) { return each->message.is_over.load(); });
    }));
  }
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

TEST(TcpNetwork, UnequalLengthsAreAnError) {
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{100'000}}) {
    Ranks ranks(2);
    const auto send = sending(1, 4, bytes, 1);
    const auto receive = receiving(0, 4, bytes + 1);
    ranks[0].begin(send->message);
    ranks[1].begin(receive->message);
    for (int k = 0; k < 1000; ++k) ranks[0].move_all({}), ranks[1].move_all({});
    if (bytes == 100)
      EXPECT_EQ(error_of(ranks[1], receive->message),
                "rank 1 receives 101 bytes from rank 0 with tag 4, which sends 100 bytes");
    else
      EXPECT_EQ(error_of(ranks[0], send->message),
                "rank 0 sends 100000 bytes to rank 1, which receives 100001 bytes");
  }
}

// -- ends

TEST(TcpNetwork, ADeadRankIsNamed) {
  for (const bool is_connected : {true, false}) {
    Ranks ranks(3);
    if (is_connected) {
      const auto send = sending(0, 0, 8, 5);
      const auto receive = receiving(1, 0, 8);
      ranks[1].begin(send->message);
      ranks[0].begin(receive->message);
      ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
    }
    ranks.kill(1);
    const auto receive = receiving(1, 0, 8);
    ranks[0].begin(receive->message);
    const std::int64_t since_ns = monotonic_ns();
    EXPECT_EQ(error_of(ranks[0], receive->message),
              is_connected ? "the process of rank 1 has died"
                           : "the process of rank 1 has died, or has left the group");
    EXPECT_LT(monotonic_ns() - since_ns, 2 * ns_per_s);
  }
}

// The failure of one communicator says nothing about the others that share the network.
TEST(TcpNetwork, ALossIsNoticedAfterTheFailureOfAnotherCommunicator) {
  static constexpr int numbers[] = {10, 11};
  Ranks ranks(2);
  for (int rank = 0; rank < 2; ++rank) ranks[rank].share(numbers, " of MPI_COMM_WORLD");
  const auto notice = sending(0, 7, 8, 5, Message::Stream::failure);
  const auto heard = receiving(1, 7, 8, Message::Stream::failure);
  ranks[0].begin(heard->message);
  ranks[1].begin(notice->message);
  ASSERT_TRUE(ranks.move_until([&] { return heard->message.is_over.load(); }));
  ranks.kill(1);
  const auto receive = receiving(1, 0, 8);
  ranks[0].begin(receive->message);
  EXPECT_EQ(error_of(ranks[0], receive->message), "the process of rank 11 of MPI_COMM_WORLD has died");
  const std::int64_t until_ns = monotonic_ns() + patience_s * ns_per_s;
  while (!ranks[0].find_loss() && monotonic_ns() < until_ns) usleep(1000);
  EXPECT_TRUE(ranks[0].find_loss());
}

TEST(TcpNetwork, WhatWasSentBeforeTheEndArrives) {
  Ranks ranks(2);
  const auto first = receiving(1, 0, 8);
  ranks[0].begin(first->message);
  const auto send = sending(0, 0, 8, 5);
  ranks[1].begin(send->message);
  ASSERT_TRUE(ranks.move_until([&] { return first->message.is_over.load(); }));
  const auto last = sending(0, 0, 30'000, 6);
  ranks[1].begin(last->message);
  ASSERT_TRUE(last->message.is_over);  // the system has it
  ranks[1].leave(false);
  ranks.kill(1);
  const auto receive = receiving(1, 0, 30'000);
  ranks[0].begin(receive->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
  EXPECT_TRUE(holds(*receive, 6));
  const auto another = receiving(1, 0, 8);
  ranks[0].begin(another->message);
  EXPECT_EQ(error_of(ranks[0], another->message), "rank 1 has left the group");
  EXPECT_FALSE(ranks[0].find_loss());
}

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

TEST(TcpNetwork, AForgottenMessageMayLoseItsMemory) {
  Ranks ranks(2);
  const auto receive = receiving(0, 0, 30'000'000);
  ranks[1].begin(receive->message);
  auto send = sending(1, 0, 30'000'000, 1);
  ranks[0].begin(send->message);
  for (int k = 0; k < 200; ++k) ranks[0].move_all({});
  ranks[1].move_all({});
  for (int k = 0; k < 20; ++k) ranks[0].move_all({});
  ASSERT_FALSE(send->message.is_over);
  ranks[0].forget(send->message);
  send.reset();
  const auto notice = sending(1, 0, 200, 9, Message::Stream::failure);
  const auto heard = receiving(Message::any_rank, 0, 200, Message::Stream::failure);
  ranks[1].begin(heard->message);
  ranks[0].begin(notice->message);
  ASSERT_TRUE(ranks.move_until([&] { return heard->message.is_over.load(); }));
  EXPECT_TRUE(holds(*heard, 9));
  ranks[1].forget(receive->message);
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
  ASSERT_EQ(ranks[0].connections(), 2U);
  const std::vector<int> lost = sockets_to(ranks[1].own_address().port);
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
  TcpNetwork::prepare_fork();
  const pid_t child = fork();
  if (child == 0) {
    TcpNetwork::after_fork_in_child();
    pause();
    _exit(0);
  }
  TcpNetwork::after_fork_in_parent();
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
  Stranger stranger(ranks[0].own_address());
  ASSERT_TRUE(stranger.is_connected());
  stranger.say(32);
  EXPECT_TRUE(ranks.move_until([&] { return stranger.is_closed(); }));
  EXPECT_EQ(ranks[0].connections(), 0U);
}

TEST(TcpNetwork, HalfAGreetingIsTurnedAwayInTime) {
  Ranks ranks(2);
  Stranger stranger(ranks[0].own_address());
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
    strangers.push_back(std::make_unique<Stranger>(ranks[1].own_address()));
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
  EXPECT_LE(ranks[1].connections(), 260U);
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
