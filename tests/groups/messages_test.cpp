// SPDX-License-Identifier: BSD-3-Clause
// Messages between two ranks of a group, as a program without MPI sends them.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ranks.hpp"

namespace {

using ranks::call_of;
using ranks::make_group;
using ranks::require;
using ranks::Shared;
using Bytes = std::vector<unsigned char>;

void expect_success(const std::vector<int>& ends) { EXPECT_EQ(ends, std::vector<int>(ends.size(), 0)); }

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool text_has(const std::string& what) {
  return std::string(offbeat_error_text()).find(what) != std::string::npos;
}

// The data of message `number` from one rank to another one with this tag.
Bytes data_of(std::size_t bytes, int from, int to, int tag, int number = 0) {
  Bytes data(bytes);
  std::uint32_t state = 1 + static_cast<std::uint32_t>(((from * 11 + to) * 101 + tag) * 1009 + number);
  for (unsigned char& each : data) {
    state = state * 1664525 + 1013904223;
    each = static_cast<unsigned char>(state >> 24);
  }
  return data;
}

offbeat_message message_of(offbeat_group* group, int peer, int tag, Bytes& data) {
  offbeat_message message = OFFBEAT_MESSAGE_INIT;
  message.group = group;
  message.peer = peer;
  message.tag = tag;
  message.data = data.empty() ? nullptr : data.data();
  message.bytes = data.size();
  return message;
}

void send(offbeat_group* group, int peer, int tag, Bytes data) {
  const offbeat_message message = message_of(group, peer, tag, data);
  require(offbeat_send(&message) == OFFBEAT_OK, "send");
}

Bytes receive(offbeat_group* group, int peer, int tag, std::size_t bytes,
              offbeat_arrival* arrival = nullptr) {
  Bytes data(bytes);
  offbeat_message message = message_of(group, peer, tag, data);
  message.arrival = arrival;
  require(offbeat_receive(&message) == OFFBEAT_OK, "receive");
  return data;
}

offbeat_request* begin_send(offbeat_group* group, int peer, int tag, Bytes& data) {
  const offbeat_message message = message_of(group, peer, tag, data);
  offbeat_request* request = nullptr;
  require(offbeat_begin_send(&message, &request) == OFFBEAT_OK, "begin to send");
  return request;
}

offbeat_request* begin_receive(offbeat_group* group, int peer, int tag, Bytes& data,
                               offbeat_arrival* arrival = nullptr) {
  offbeat_message message = message_of(group, peer, tag, data);
  message.arrival = arrival;
  offbeat_request* request = nullptr;
  require(offbeat_begin_receive(&message, &request) == OFFBEAT_OK, "begin to receive");
  return request;
}

void wait(offbeat_request*& request) { require(offbeat_wait(&request) == OFFBEAT_OK, "wait"); }

void barrier(offbeat_group* group) {
  offbeat_call call = call_of(group, "barrier");
  require(offbeat_run(&call) == OFFBEAT_OK, "barrier");
}

const std::size_t lengths[] = {0, 1, 7, 8, 1000, 8168, 8169, 16'000, 16'360, 16'361, 70'000, 3'000'001};

class Messages : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Messages, testing::Values(2, 3, 7));

// Each rank sends around the ring; the even ones send first.
TEST_P(Messages, OfEveryLengthArrive) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, size);
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (const std::size_t bytes : lengths) {
      Bytes found;
      if (rank % 2 == 0) send(group, to, 3, data_of(bytes, rank, to, 3));
      offbeat_arrival arrival{};
      found = receive(group, from, 3, bytes, &arrival);
      if (rank % 2 != 0) send(group, to, 3, data_of(bytes, rank, to, 3));
      require(found == data_of(bytes, from, rank, 3), "wrong data, length " + std::to_string(bytes));
      require(arrival.rank == from && arrival.tag == 3 && arrival.bytes == bytes, "wrong arrival");
    }
    offbeat_group_free(&group);
  }));
}

TEST_P(Messages, ShortOnesMayAllBeSentFirst) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, size);
    for (int round = 0; round < 50; ++round) {
      for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) send(group, peer, round, data_of(16'000, rank, peer, round));
      }
      for (int peer = size - 1; peer >= 0; --peer) {
        if (peer == rank) continue;
        require(receive(group, peer, round, 16'000) == data_of(16'000, peer, rank, round), "wrong data");
      }
    }
    offbeat_group_free(&group);
  }));
}

// All pairs send long messages in both directions at once, and receive afterwards.
TEST_P(Messages, LongOnesMayAllBeBegunFirst) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, size);
    const std::size_t bytes = 1'000'003;
    std::vector<Bytes> outgoing(static_cast<std::size_t>(size));
    std::vector<offbeat_request*> requests;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      Bytes& data = outgoing[static_cast<std::size_t>(peer)] = data_of(bytes, rank, peer, 0);
      requests.push_back(begin_send(group, peer, 0, data));
    }
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank)
        require(receive(group, peer, 0, bytes) == data_of(bytes, peer, rank, 0), "wrong data");
    }
    for (offbeat_request*& each : requests) wait(each);
    offbeat_group_free(&group);
  }));
}

TEST(Message, LetsOthersPassThatNobodyAsksFor) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    const std::size_t bytes = 500'000;
    if (rank == 0) {
      std::vector<Bytes> data;
      std::vector<offbeat_request*> requests;
      data.reserve(12);
      for (int tag = 0; tag < 12; ++tag) {  // long and short ones in turn
        data.push_back(data_of(tag % 2 == 0 ? bytes : 100, 0, 1, tag));
        requests.push_back(begin_send(group, 1, tag, data.back()));
      }
      for (offbeat_request*& each : requests) wait(each);
    } else {
      for (int tag = 11; tag >= 0; --tag) {
        const std::size_t length = tag % 2 == 0 ? bytes : 100;
        require(receive(group, 0, tag, length) == data_of(length, 0, 1, tag), "wrong data");
      }
    }
    offbeat_group_free(&group);
  }));
}

// More messages than a ring has room for, short and long ones mixed, with two tags.
TEST(Message, FollowsTheOneBeforeItWithItsTag) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    const int count = 6000;
    const auto length = [](int number) {
      return static_cast<std::size_t>(number % 100 == 7 ? 20'000 : number % 5 * 8);
    };
    if (rank == 0) {
      std::vector<Bytes> data;
      std::vector<offbeat_request*> requests;
      data.reserve(count);
      for (int k = 0; k < count; ++k) {
        data.push_back(data_of(length(k), 0, 1, k % 2, k));
        requests.push_back(begin_send(group, 1, k % 2, data.back()));
      }
      shared.words[0] = 1;
      for (offbeat_request*& each : requests) wait(each);
    } else {
      while (shared.words[0].load() == 0) usleep(1000);
      for (const int tag : {1, 0}) {
        for (int k = tag; k < count; k += 2)
          require(receive(group, 0, tag, length(k)) == data_of(length(k), 0, 1, tag, k),
                  "wrong data in message " + std::to_string(k));
      }
    }
    offbeat_group_free(&group);
  }));
}

TEST(Message, ThatNobodyAsksForTakesBoundedMemory) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    const int count = 200;
    std::vector<Bytes> data(count, Bytes(8000));
    if (rank == 0) {
      std::vector<offbeat_request*> requests;
      for (Bytes& each : data) requests.push_back(begin_send(group, 1, 0, each));
      shared.words[1] = 1;
      barrier(group);  // rank 1 has looked for messages since
      int complete = 0;
      for (offbeat_request*& each : requests) {
        int is_complete = 0;
        require(offbeat_test(&each, &is_complete) == OFFBEAT_OK, "test");
        complete += is_complete;
      }
      require(complete >= 4 && complete <= 8, std::to_string(complete) + " sends are over");
      send(group, 1, 1, {});
      for (offbeat_request*& each : requests) wait(each);
    } else {
      while (shared.words[1].load() == 0) usleep(1000);
      Bytes last(1);
      offbeat_request* other = begin_receive(group, 0, 2, last);  // looks for messages until it is over
      int is_complete = 0;
      for (int k = 0; k < 100; ++k) require(offbeat_test(&other, &is_complete) == OFFBEAT_OK, "test");
      barrier(group);
      receive(group, 0, 1, 0);
      for (Bytes& each : data) each = receive(group, 0, 0, 8000);
      shared.words[0] = 1;
      wait(other);
    }
    if (rank == 0) send(group, 1, 2, {1});
    offbeat_group_free(&group);
  }));
}

TEST_P(Messages, AreReceivedFromAnyRank) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, size);
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{100'000}}) {
      const int tag = bytes == 100 ? 5 : 6;
      const int count = 20;
      if (rank > 0) {
        for (int k = 0; k < count; ++k) send(group, 0, tag, data_of(bytes, rank, 0, tag, k));
      } else {
        std::vector<int> seen(static_cast<std::size_t>(size));
        for (int k = 0; k < count * (size - 1); ++k) {
          offbeat_arrival arrival{};
          const Bytes data = receive(group, OFFBEAT_ANY_RANK, tag, bytes, &arrival);
          require(arrival.rank > 0 && arrival.rank < size && arrival.tag == tag, "wrong arrival");
          int& number = seen[static_cast<std::size_t>(arrival.rank)];
          require(data == data_of(bytes, arrival.rank, 0, tag, number++), "wrong data");
        }
        for (int peer = 1; peer < size; ++peer)
          require(seen[static_cast<std::size_t>(peer)] == count, "a message is lost");
      }
    }
    barrier(group);
    // Receives that are begun first get the first messages.
    std::vector<Bytes> found(static_cast<std::size_t>(size - 1), Bytes(8));
    std::vector<offbeat_arrival> arrivals(found.size());
    std::vector<offbeat_request*> requests;
    if (rank == size - 1) {
      for (std::size_t k = 0; k < found.size(); ++k)
        requests.push_back(begin_receive(group, OFFBEAT_ANY_RANK, 0, found[k], &arrivals[k]));
      barrier(group);
      for (std::size_t k = 0; k < found.size(); ++k) {
        wait(requests[k]);
        require(found[k] == data_of(8, arrivals[k].rank, rank, 0), "wrong data");
      }
    } else {
      barrier(group);
      send(group, size - 1, 0, data_of(8, rank, size - 1, 0));
    }
    offbeat_group_free(&group);
  }));
}

// Rank 1 has sent many messages, and rank 2 one. It does not come last.
TEST(Message, FromEachRankHasItsTurn) {
  expect_success(ranks::run(3, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 3);
    const int count = 200;
    for (int k = 0; k < (rank == 1 ? count : rank == 2 ? 1 : 0); ++k)
      send(group, 0, 0, data_of(8, rank, 0, 0, k));
    barrier(group);
    int turn_of_rank_2 = -1;
    for (int k = 0; rank == 0 && k <= count; ++k) {
      offbeat_arrival arrival{};
      const Bytes data = receive(group, OFFBEAT_ANY_RANK, 0, 8, &arrival);
      if (arrival.rank == 2) turn_of_rank_2 = k;
      const int number = arrival.rank == 2 ? 0 : turn_of_rank_2 < 0 ? k : k - 1;
      require(data == data_of(8, arrival.rank, 0, 0, number), "wrong data");
    }
    require(rank != 0 || turn_of_rank_2 <= 1, "rank 2 was number " + std::to_string(turn_of_rank_2));
    offbeat_group_free(&group);
  }));
}

// Random messages between all pairs in two groups, begun and blocking, with collectives between them. All
// ranks know all messages.
void exchange_at_random(Shared& shared, int rank, int size) {
  offbeat_group* groups[] = {make_group(shared, rank, size, 0), make_group(shared, size - 1 - rank, size, 1)};
  std::mt19937 random(4321);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  for (int round = 0; round < 60; ++round) {
    struct Planned {
      std::size_t group;
      int from, to, tag;
      std::size_t bytes;
      bool from_any;
    };
    std::vector<Planned> plan;
    const std::size_t count = below(30);
    for (std::size_t k = 0; k < count; ++k) {
      const auto from = static_cast<int>(below(static_cast<std::size_t>(size)));
      const auto step = static_cast<int>(1 + below(static_cast<std::size_t>(size - 1)));
      // Each tag has one sender for each receiver, so that a receive from any rank has one answer.
      plan.push_back({below(2), from, (from + step) % size, static_cast<int>(below(3)) * 100 + from,
                      below(4) == 0 ? below(200'000) : below(2000), below(4) == 0});
    }
    std::vector<Bytes> data(count);
    std::vector<offbeat_arrival> arrivals(count);
    std::vector<offbeat_request*> requests;
    for (std::size_t k = 0; k < count; ++k) {
      const Planned& each = plan[k];
      const int mine = each.group == 0 ? rank : size - 1 - rank;
      if (each.from == mine) {
        data[k] = data_of(each.bytes, each.from, each.to, each.tag, static_cast<int>(k));
        requests.push_back(begin_send(groups[each.group], each.to, each.tag, data[k]));
      } else if (each.to == mine) {
        data[k].resize(each.bytes);
        const int peer = each.from_any ? OFFBEAT_ANY_RANK : each.from;
        requests.push_back(begin_receive(groups[each.group], peer, each.tag, data[k], &arrivals[k]));
      }
      if (k % 7 == 3) barrier(groups[k % 2]);
    }
    while (!requests.empty()) {
      const std::size_t next = static_cast<std::size_t>(rand()) % requests.size();
      wait(requests[next]);
      requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(next));
    }
    for (std::size_t k = 0; k < count; ++k) {
      const Planned& each = plan[k];
      if (each.to != (each.group == 0 ? rank : size - 1 - rank)) continue;
      require(data[k] == data_of(each.bytes, each.from, each.to, each.tag, static_cast<int>(k)),
              "wrong data");
      require(arrivals[k].rank == each.from, "wrong sender");
    }
  }
  for (offbeat_group*& group : groups) offbeat_group_free(&group);
}

TEST_P(Messages, MixWithCollectives) {
  const int size = GetParam();
  expect_success(
      ranks::run(size, [size](Shared& shared, int rank) { exchange_at_random(shared, rank, size); }));
}

TEST(Message, AdvancesInAThreadThatDoesAllWork) {
  expect_success(ranks::run(3, [](Shared& shared, int rank) {
    setenv("OFFBEAT_PROGRESS_CPUS", "0", 1);
    exchange_at_random(shared, rank, 3);
  }));
}

TEST(Message, NapsInLongWaits) {
  expect_success(ranks::run(3, [](Shared& shared, int rank) {
    setenv("OFFBEAT_WAIT", "sleep", 1);
    exchange_at_random(shared, rank, 3);
  }));
}

TEST(Message, TellsWhenItIsDone) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{300'000}}) {
      for (int k = 0; k < 100; ++k) {
        std::atomic<int> done{0};
        Bytes outgoing = data_of(bytes, rank, 1 - rank, 0, k), incoming(bytes);
        for (const bool sends : {false, true}) {
          offbeat_message message = message_of(group, 1 - rank, 0, sends ? outgoing : incoming);
          message.done_state = &done;
          message.done = [](void* state, offbeat_status status, const char* text) {
            require(status == OFFBEAT_OK && text[0] == '\0', "a message has failed");
            ++*static_cast<std::atomic<int>*>(state);
          };
          if (rank == 1 && k % 25 == 0) usleep(20'000);
          require((sends ? offbeat_begin_send : offbeat_begin_receive)(&message, nullptr) == OFFBEAT_OK,
                  "begin");
        }
        while (done.load() < 2) sched_yield();  // no call of offbeat advances them
        require(incoming == data_of(bytes, 1 - rank, rank, 0, k), "wrong data");
      }
    }
    offbeat_group_free(&group);
  }));
}

// -- errors

offbeat_status try_to_receive(offbeat_group* group, int peer, std::size_t bytes, double timeout_s = 0) {
  Bytes data(bytes);
  offbeat_message message = message_of(group, peer, 0, data);
  message.timeout_s = timeout_s;
  return offbeat_receive(&message);
}

offbeat_status try_to_send(offbeat_group* group, int peer, std::size_t bytes, double timeout_s = 0) {
  Bytes data(bytes);
  offbeat_message message = message_of(group, peer, 0, data);
  message.timeout_s = timeout_s;
  return offbeat_send(&message);
}

class WrongLengths : public testing::TestWithParam<std::pair<std::size_t, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(Lengths, WrongLengths,
                         testing::Values(std::pair{8, 16}, std::pair{16, 8}, std::pair{8, 50'000},
                                         std::pair{50'000, 8}, std::pair{50'000, 50'001}));

TEST_P(WrongLengths, AreErrorsOnBothRanks) {
  const auto [sent, expected] = GetParam();
  expect_success(ranks::run(2, [sent = sent, expected = expected](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    offbeat_status status = OFFBEAT_OK;
    if (rank == 0) {
      status = try_to_send(group, 1, sent, 20);
      if (status == OFFBEAT_OK) status = try_to_receive(group, 1, 1, 20);  // a short one was sent
    } else {
      Bytes data(expected);
      offbeat_arrival arrival{};
      offbeat_message message = message_of(group, 0, 0, data);
      message.arrival = &arrival;
      status = offbeat_receive(&message);
      require(arrival.bytes == sent && arrival.rank == 0, "the arrival has another length");
    }
    require(status == OFFBEAT_ERROR_MISMATCH, "no mismatch: " + std::to_string(status));
    require(text_has("receives " + std::to_string(expected) + " bytes from rank 0") &&
                text_has("sends " + std::to_string(sent) + " bytes"),
            "another text");
    offbeat_group_free(&group);
  }));
}

TEST(Message, NamesTheRankThatIsMissing) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    if (rank == 0) {
      const double began_s = now_s();
      require(try_to_receive(group, 1, 8, 0.3) == OFFBEAT_ERROR_TIMEOUT, "no time-out");
      require(text_has("rank 0 receives 8 bytes from rank 1 with tag 0") && text_has("0.3 s"),
              "another text");
      require(now_s() - began_s > 0.25, "it came too early");
      shared.words[0] = 1;
    } else {
      while (shared.words[0].load() == 0) usleep(1000);
      require(try_to_send(group, 0, 8) == OFFBEAT_ERROR_TIMEOUT,
              "the other rank does not hear of the time-out");
    }
    offbeat_group_free(&group);
  }));
}

enum class Waits { receives, receives_from_any, sends };
class Losses : public testing::TestWithParam<std::pair<Waits, bool>> {};
INSTANTIATE_TEST_SUITE_P(Cases, Losses,
                         testing::Values(std::pair{Waits::receives, true}, std::pair{Waits::receives, false},
                                         std::pair{Waits::receives_from_any, true},
                                         std::pair{Waits::receives_from_any, false},
                                         std::pair{Waits::sends, true}, std::pair{Waits::sends, false}));

TEST_P(Losses, AreNoticedWithinTwoSeconds) {
  const auto [waits, is_killed] = GetParam();
  const std::vector<int> ends =
      ranks::run(2, [waits = waits, is_killed = is_killed](Shared& shared, int rank) {
        offbeat_group* group = make_group(shared, rank, 2);
        if (rank == 1) {
          usleep(50'000);
          if (is_killed) kill(getpid(), SIGKILL);
          offbeat_group_free(&group);
          while (shared.words[0].load() == 0) usleep(1000);
          return;
        }
        const double began_s = now_s();
        const offbeat_status status = waits == Waits::sends      ? try_to_send(group, 1, 100'000)
                                      : waits == Waits::receives ? try_to_receive(group, 1, 8)
                                                                 : try_to_receive(group, OFFBEAT_ANY_RANK, 8);
        shared.words[0] = 1;
        require(status == OFFBEAT_ERROR_RANK, "no error: " + std::to_string(status));
        require(text_has("rank 1 has ") && text_has(is_killed ? "died" : "left the group"), "another text");
        require(now_s() - began_s < 2, "it took too long");
        offbeat_group_free(&group);
      });
  EXPECT_EQ(ends, (std::vector<int>{0, is_killed ? -SIGKILL : 0}));
}

TEST(Message, ThatWasSentArrivesAfterItsSenderHasDied) {
  const std::vector<int> ends = ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    if (rank == 1) {
      send(group, 0, 0, data_of(1000, 1, 0, 0));
      shared.words[0] = 1;
      kill(getpid(), SIGKILL);
    }
    while (shared.words[0].load() == 0) usleep(1000);
    usleep(100'000);
    require(receive(group, 1, 0, 1000) == data_of(1000, 1, 0, 0), "wrong data");
    require(try_to_receive(group, 1, 8) == OFFBEAT_ERROR_RANK, "no error");
    offbeat_group_free(&group);
  });
  EXPECT_EQ(ends, (std::vector<int>{0, -SIGKILL}));
}

TEST(Message, RefusesBadArguments) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    Bytes data(8);
    offbeat_request* request = nullptr;
    const auto refuses = [&](offbeat_message message, const std::string& what) {
      require(offbeat_send(&message) == OFFBEAT_ERROR_ARGUMENT, what);
      require(offbeat_begin_send(&message, &request) == OFFBEAT_ERROR_ARGUMENT && request == nullptr, what);
    };
    refuses(message_of(group, rank, 0, data), "a message to itself");
    refuses(message_of(group, 2, 0, data), "a rank that is not there");
    refuses(message_of(group, OFFBEAT_ANY_RANK, 0, data), "to any rank");
    refuses(message_of(group, 1 - rank, -1, data), "a negative tag");
    refuses(message_of(nullptr, 1 - rank, 0, data), "no group");
    offbeat_message without_data = message_of(group, 1 - rank, 0, data);
    without_data.data = nullptr;
    refuses(without_data, "no data");
    offbeat_message message = message_of(group, 1 - rank, 0, data);
    require(offbeat_begin_receive(&message, nullptr) == OFFBEAT_ERROR_ARGUMENT, "no request");
    barrier(group);
    offbeat_group_free(&group);
  }));
}

// With OFFBEAT_PROGRESS_CPUS, a message that was begun may wait until the progress thread takes it. A
// blocking message must not overtake it.
TEST(Message, KeepsTheOrderOfTheCallsIfAThreadDoesAllWork) {
  constexpr std::size_t begun = 6;
  const auto exchange = [](Shared& shared, int rank) {
    setenv("OFFBEAT_PROGRESS_CPUS", "0", 1);
    offbeat_group* group = make_group(shared, rank, 2);
    cpu_set_t other_core;
    CPU_ZERO(&other_core);
    CPU_SET(1, &other_core);
    sched_setaffinity(0, sizeof other_core,
                      &other_core);  // fails if there is only one core, which does no harm
    for (int round = 0; round < 3000; ++round) {
      std::array<Bytes, begun + 1> expected, data;
      std::array<offbeat_request*, begun> requests{};
      for (std::size_t k = 0; k <= begun; ++k) {
        expected[k] = data_of(8 * (k + 1), 0, 1, 5, round);
        data[k] = rank == 0 ? expected[k] : Bytes(expected[k].size());
        const offbeat_message message = message_of(group, 1 - rank, 5, data[k]);
        const offbeat_status status =
            k == begun ? (rank == 0 ? offbeat_send : offbeat_receive)(&message)
                       : (rank == 0 ? offbeat_begin_send : offbeat_begin_receive)(&message, &requests[k]);
        require(status == OFFBEAT_OK, "message " + std::to_string(k));
      }
      for (offbeat_request*& request : requests) require(offbeat_wait(&request) == OFFBEAT_OK, "wait");
      require(data == expected, "wrong data");
    }
    offbeat_group_free(&group);
  };
  // A message has to wait only by chance, so several pairs of processes try.
  for (int pair = 0; pair < 20 && !HasFailure(); ++pair) expect_success(ranks::run(2, exchange));
}

}  // namespace
