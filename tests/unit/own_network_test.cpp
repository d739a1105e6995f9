// SPDX-License-Identifier: BSD-3-Clause
// What TcpNetwork and FabricNetwork have in common.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "network_ranks.hpp"

namespace offbeat {
namespace {

struct Kind {
  const char* name;
  NetworkChoice choice;
  const char* provider;
};

class OwnNetworks : public testing::TestWithParam<Kind> {
 protected:
  OwnNetworks() {
    settings_.network = GetParam().choice;
    settings_.provider = GetParam().provider;
    if (settings_.provider != "sockets") settings_.interface = "lo";  // which sockets leaves out
  }
  void SetUp() override {
    const auto network = make_own_network(settings_);
    if (network == nullptr) GTEST_SKIP() << "this machine " << built_without_network;
    const NetworkAddress address = network->address();
    if (!address.is_usable()) GTEST_SKIP() << "this machine " << address.why_not.data();
  }
  [[nodiscard]] bool is_tcp() const { return GetParam().choice == NetworkChoice::tcp; }

  Settings settings_;
};

INSTANTIATE_TEST_SUITE_P(By, OwnNetworks,
                         testing::Values(Kind{"tcp", NetworkChoice::tcp, ""},
                                         Kind{"fabric_tcp", NetworkChoice::libfabric, "tcp"},
                                         Kind{"fabric_sockets", NetworkChoice::libfabric, "sockets"}),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(OwnNetworks, EachReceiveGetsItsMessage) {
  constexpr int size = 4;
  constexpr int rounds = 40;
  Ranks ranks(size, settings_);
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

TEST_P(OwnNetworks, AReceiveFromAnyRankTakesFromAll) {
  constexpr int size = 4;
  Ranks ranks(size, settings_);
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

TEST_P(OwnNetworks, MessagesThatNobodyAwaitsDelayNoOther) {
  Ranks ranks(2, settings_);
  std::vector<std::unique_ptr<Owned>> early;
  for (const std::size_t bytes : {1'000'000, 10'000, 100})
    for (int k = 0; k < 100; ++k) early.push_back(sending(1, 1, bytes, 1, Message::Stream::program));
  for (const auto& each : early) ranks[0].begin(each->message);
  const auto send = sending(1, 0, 8, 5);
  const auto receive = receiving(0, 0, 8);
  ranks[0].begin(send->message);
  ranks[1].begin(receive->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
  for (const auto& each : early) {
    const auto late = receiving(0, 1, each->message.bytes, Message::Stream::program);
    ranks[1].begin(late->message);
    ASSERT_TRUE(ranks.move_until([&] { return late->message.is_over.load() && each->message.is_over; }));
  }
}

TEST_P(OwnNetworks, UnequalLengthsAreAnError) {
  for (const std::size_t sent : {100, 100'000}) {
    for (const std::size_t received : {sent - 50, sent - 1, sent + 1}) {
      Ranks ranks(2, settings_);
      const auto send = sending(1, 4, sent, 1);
      const auto receive = receiving(0, 4, received);
      ranks[0].begin(send->message);
      ranks[1].begin(receive->message);
      const std::string mine = std::to_string(received);
      const std::string theirs = std::to_string(sent);
      if (is_tcp() && sent > 100) {  // the sender hears how much the receiver has room for
        for (int k = 0; k < 1000; ++k) ranks[0].move_all({}), ranks[1].move_all({});
        EXPECT_EQ(error_of(ranks[0], send->message),
                  "rank 0 sends " + theirs + " bytes to rank 1, which receives " + mine + " bytes");
        continue;
      }
      std::string error;
      EXPECT_TRUE(ranks.move_until([&] {
        try {
          ranks[1].move(receive->message);
        } catch (const BoardError& found) {
          error = found.what();
        }
        return !error.empty();
      }));
      const std::string expected = "rank 1 receives " + mine + " bytes from rank 0 with tag 4, which sends ";
      EXPECT_TRUE(error == expected + theirs + " bytes" ||
                  (!is_tcp() && sent > received && error == expected + "more"))
          << error;
    }
  }
}

TEST_P(OwnNetworks, WithNothingToDoANapLasts) {
  Ranks ranks(2, settings_);
  const auto send = sending(1, 0, 1'000'000, 5);
  const auto receive = receiving(0, 0, 1'000'000);
  ranks[0].begin(send->message);
  ranks[1].begin(receive->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over && send->message.is_over; }));
  const auto most_naps_of = [&](auto&& prepare) {
    int naps = 0;
    for (const std::int64_t until_ns = monotonic_ns() + 200 * ns_per_ms; monotonic_ns() < until_ns; ++naps) {
      prepare();
      if (const SleepCall sleep = ranks[0].sleep(); sleep.call != nullptr) sleep(10 * ns_per_ms);
    }
    return naps;
  };
  if (ranks[0].sleep().call == nullptr) GTEST_SKIP() << "this provider has no descriptor to wait for";
  EXPECT_LT(most_naps_of([&] { ranks[0].move_all({}); }), 100);
  ranks[0].leave(true);
  if (!is_tcp()) {
    EXPECT_LT(most_naps_of([] {}), 22);
  }
}

class Unusable : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Providers, Unusable, testing::Values("none", "net"));

TEST_P(Unusable, TheProviderIsNamed) {
  Settings settings;
  settings.network = NetworkChoice::libfabric;
  settings.provider = GetParam();
  settings.interface = "lo";
  const auto network = make_own_network(settings);
  if (network == nullptr) GTEST_SKIP() << "this machine " << built_without_network;
  const NetworkAddress address = network->address();
  const std::string why_not = address.why_not.data();
  if (why_not.ends_with(".so.1")) GTEST_SKIP() << "this machine " << why_not;
  EXPECT_EQ(why_not, "has no fitting " + settings.provider + " provider of libfabric at lo");
}

// -- ends

TEST_P(OwnNetworks, AThreadMayLookWhileTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_while_looking = [this] {
    auto& ranks = *new Ranks(2, settings_);
    std::thread([&] {
      for (;;) ranks[0].move_all({});
    }).detach();
    usleep(10'000);
    std::exit(0);
  };
  EXPECT_EXIT(exit_while_looking(), testing::ExitedWithCode(0), "");
}

// Said of a rank to which TCP has not connected yet. libfabric may be quicker.
constexpr const char* gone = "the process of rank 1 has died, or has left the group";

TEST_P(OwnNetworks, ADeadRankIsNamed) {
  for (const bool is_connected : {true, false}) {
    Ranks ranks(3, settings_);
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
    const std::string error = error_of(ranks[0], receive->message);
    EXPECT_TRUE(((!is_connected || !is_tcp()) && error == gone) ||
                (is_connected && error == "the process of rank 1 has died"))
        << error;
    EXPECT_LT(monotonic_ns() - since_ns, 2 * ns_per_s);
  }
}

TEST_P(OwnNetworks, AReceiveFromAnyRankSurvivesTheEndOfASender) {
  constexpr std::size_t bytes = 100'000'000;
  Ranks ranks(3, settings_);
  const auto receive = receiving(Message::any_rank, 3, bytes, Message::Stream::program);
  ranks[0].begin(receive->message);
  const auto send = sending(0, 3, bytes, 1, Message::Stream::program);
  ranks[1].begin(send->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->data.front() == std::byte{1}; }));
  ranks.kill(1);
  ASSERT_FALSE(receive->message.is_over);
  if (ranks[0].name().find("ofi_rxm") != std::string::npos) {  // it does not say who has sent a message
    const auto another = sending(0, 3, bytes, 2, Message::Stream::program);
    ranks[2].begin(another->message);
    EXPECT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
    return;
  }
  const std::string error = error_of(ranks[0], receive->message);
  EXPECT_TRUE(error == gone || error == "the process of rank 1 has died") << error;
}

// The failure of one communicator says nothing about the others that share the network.
TEST_P(OwnNetworks, ALossIsNoticedAfterTheFailureOfAnotherCommunicator) {
  static constexpr int numbers[] = {10, 11};
  Ranks ranks(2, settings_);
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

TEST_P(OwnNetworks, WhatWasSentBeforeTheEndArrives) {
  Ranks ranks(2, settings_);
  const auto first = receiving(1, 0, 8);
  ranks[0].begin(first->message);
  const auto send = sending(0, 0, 8, 5);
  ranks[1].begin(send->message);
  ASSERT_TRUE(ranks.move_until([&] { return first->message.is_over.load(); }));
  const auto last = sending(0, 0, 8000, 6);
  ranks[1].begin(last->message);
  ASSERT_TRUE(ranks.move_until([&] { return last->message.is_over.load(); }));
  ranks[1].leave(false);
  ranks.kill(1);
  const auto receive = receiving(1, 0, 8000);
  ranks[0].begin(receive->message);
  ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }));
  EXPECT_TRUE(holds(*receive, 6));
  const auto another = receiving(1, 0, 8);
  ranks[0].begin(another->message);
  const std::string error = error_of(ranks[0], another->message);
  EXPECT_TRUE(error == "rank 1 has left the group" || (!is_tcp() && error == gone)) << error;
}

// Their data may still be on this side, because the receiver does not look.
TEST_P(OwnNetworks, AllThatWasSentBeforeTheEndArrives) {
  Ranks ranks(2, settings_);
  const auto first = receiving(1, 0, 8);
  ranks[0].begin(first->message);
  const auto send = sending(0, 0, 8, 5);
  ranks[1].begin(send->message);
  ASSERT_TRUE(ranks.move_until([&] { return first->message.is_over.load(); }));
  auto& all = *new std::vector<std::unique_ptr<Owned>>;  // the last send is not over, so its memory stays
  const std::int64_t until_ns = monotonic_ns() + 200 * ns_per_ms;
  do {
    all.push_back(sending(0, 0, 500, 6));
    ranks[1].begin(all.back()->message);
    for (int k = 0; k < 1000 && !all.back()->message.is_over; ++k) ranks[1].move_all({});
  } while (all.back()->message.is_over && all.size() < 100'000 && monotonic_ns() < until_ns);
  const auto unread = sending(1, 1, 100, 7, Message::Stream::program);
  ranks[0].begin(unread->message);
  ranks[1].leave(false);
  ranks.kill(1);
  for (std::size_t k = 0; k + 1 < all.size(); ++k) {
    const auto receive = receiving(1, 0, 500);
    ranks[0].begin(receive->message);
    ASSERT_TRUE(ranks.move_until([&] { return receive->message.is_over.load(); }))
        << k << " of " << all.size();
  }
}

// Its last messages may come later, because they go by libfabric.
TEST_P(OwnNetworks, TheGoodbyeOfTcpIsNotHeardAtOnce) {
  if (is_tcp()) GTEST_SKIP() << "both are in one stream";
  Ranks ranks(2, settings_);
  const auto send = sending(0, 0, 8, 5);
  const auto first = receiving(1, 0, 8);
  ranks[1].begin(send->message);
  ranks[0].begin(first->message);
  ASSERT_TRUE(ranks.move_until([&] { return first->message.is_over.load(); }));
  const auto receive = receiving(1, 0, 8);
  ranks[0].begin(receive->message);
  ranks[1].leave(false);
  ranks.kill(1);
  const std::int64_t until_ns = monotonic_ns() + 300 * ns_per_ms;
  while (monotonic_ns() < until_ns) ASSERT_NO_THROW(ranks[0].move(receive->message));
  const std::string error = error_of(ranks[0], receive->message);
  EXPECT_TRUE(error == "rank 1 has left the group" || error == gone) << error;
}

TEST_P(OwnNetworks, AForgottenMessageMayLoseItsMemory) {
  Ranks ranks(2, settings_);
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
  const auto second = sending(1, 0, 8, 2);
  ranks[0].begin(second->message);
  ranks[0].forget(second->message);
  const auto third = sending(1, 0, 8, 3);
  ranks[0].begin(third->message);
  EXPECT_EQ(second->message.next, nullptr);
  const std::int64_t until_ns = monotonic_ns() + 300 * ns_per_ms;  // the reason for forgetting counts
  while (monotonic_ns() < until_ns) ASSERT_NO_THROW(ranks[0].move(third->message));
  ranks[0].forget(third->message);
  const auto notice = sending(1, 0, 200, 9, Message::Stream::failure);
  const auto heard = receiving(Message::any_rank, 0, 200, Message::Stream::failure);
  ranks[1].begin(heard->message);
  ranks[0].begin(notice->message);
  ASSERT_TRUE(ranks.move_until([&] { return heard->message.is_over.load(); }));
  EXPECT_TRUE(holds(*heard, 9));
  ranks[1].forget(receive->message);
}

}  // namespace
}  // namespace offbeat
