// SPDX-License-Identifier: BSD-3-Clause
// Random collectives and messages in groups, in several threads of several processes. At the end of a round
// the ranks free the group, or one of them gives up, runs out of time, leaves early or is killed.
//
// OFFBEAT_STRESS_SEED is the first seed, and OFFBEAT_STRESS_SECONDS how long the test takes; 0: a few seeds.
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ranks.hpp"

namespace {

using ranks::call_of;
using ranks::make_group;
using ranks::require;
using ranks::Shared;
using Bytes = std::vector<unsigned char>;

// -- what the ranks do, which all of them know

enum class Ending { freed, given_up, timed_out, left_early, killed };
enum class Style { blocking, begun, with_done };

struct PlannedMessage {
  int from, to, tag;
  std::size_t bytes;
  bool from_any;
  std::array<Style, 2> styles;  // of the sender, and of the receiver
};

struct PlannedCall {
  const char* collective;
  int root;
  std::size_t count;
  Style style;
};

constexpr int threads_with_messages = 2;

struct Plan {
  Ending ending = Ending::freed;
  int troublemaker = 0;
  useconds_t trouble_after_us = 0;
  std::array<std::vector<PlannedMessage>, threads_with_messages> messages;
  std::vector<PlannedCall> runs;    // one thread of each rank runs these
  std::vector<PlannedCall> begins;  // and another one begins these
};

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(engine_() % end); }
  int number_below(int end) { return static_cast<int>(below(static_cast<std::size_t>(end))); }
  // Most vectors are short, and some have up to 4 MiB.
  std::size_t length() {
    constexpr std::array<std::size_t, 8> ends{1, 9, 100, 2000, 17'000, 70'000, 300'000, (4U << 20) + 1};
    return below(ends[std::min(below(10), below(8))]);
  }

 private:
  std::mt19937 engine_;
};

Plan make_plan(std::uint32_t seed, int size) {
  Random random(seed);
  Plan plan;
  plan.ending = static_cast<Ending>(std::min<std::size_t>(random.below(8), 4));
  if (random.below(2) == 0) plan.ending = Ending::freed;
  plan.troublemaker = random.number_below(size);
  plan.trouble_after_us = static_cast<useconds_t>(random.below(60'000));
  for (std::size_t t = 0; t < plan.messages.size(); ++t) {
    const std::size_t count = random.below(60);
    for (std::size_t k = 0; k < count; ++k) {
      const int from = random.number_below(size);
      const int to = (from + 1 + random.number_below(size - 1)) % size;
      // A tag has one sender and one thread, so that a receive from any rank has one answer.
      const int tag = (random.number_below(2) * size + from) * threads_with_messages + static_cast<int>(t);
      plan.messages[t].push_back(
          {from,
           to,
           tag,
           random.length(),
           random.below(4) == 0,
           {static_cast<Style>(random.below(3)), static_cast<Style>(random.below(3))}});
    }
  }
  constexpr std::array collectives{"allreduce", "bcast", "allgather", "alltoallv", "barrier"};
  for (auto* const calls : {&plan.runs, &plan.begins}) {
    const std::size_t count = random.below(40);
    for (std::size_t k = 0; k < count; ++k)
      calls->push_back({collectives[random.below(collectives.size())], random.number_below(size),
                        random.length() / 4 / static_cast<std::size_t>(size),
                        calls == &plan.runs ? Style::blocking : static_cast<Style>(1 + random.below(2))});
  }
  return plan;
}

// -- one call or message

// What a rank has begun: its vectors, and whether it is over. A thread completes each.
struct Task {
  double timeout_s = 0;
  offbeat_request* request = nullptr;
  std::atomic<int> status{-1};
  Bytes input, output, expected;
  std::vector<std::size_t> input_counts, output_counts;
  offbeat_arrival arrival{};
  int expected_rank = -1;

  static void done(void* self, offbeat_status status, const char*) {
    static_cast<Task*>(self)->status.store(status);
  }
  void wait() {
    if (request != nullptr) status = offbeat_wait(&request);
    while (status.load() < 0) usleep(200);
  }
  // Returns true if it has succeeded, with the right result.
  bool succeeds(Ending ending) {
    wait();
    const int found = status.load();
    if (found == OFFBEAT_OK) {
      require(output == expected, "a wrong result");
      require(expected_rank < 0 || arrival.rank == expected_rank, "a wrong sender");
      return true;
    }
    require(ending != Ending::freed, "an error, status " + std::to_string(found));
    require(found == OFFBEAT_ERROR_RANK || found == OFFBEAT_ERROR_TIMEOUT,
            "a wrong status: " + std::to_string(found));
    return false;
  }
};

void fill(Bytes& data, std::uint32_t state) {
  for (unsigned char& each : data) {
    state = state * 1664525 + 1013904223;
    each = static_cast<unsigned char>(state >> 24);
  }
}

void start(Task& task, offbeat_group* group, const PlannedMessage& planned, std::uint32_t number, int rank) {
  const bool sends = planned.from == rank;
  Bytes data(planned.bytes);
  fill(data, number * 7919 + static_cast<std::uint32_t>(planned.tag));
  offbeat_message message = OFFBEAT_MESSAGE_INIT;
  message.group = group;
  message.tag = planned.tag;
  message.bytes = planned.bytes;
  message.timeout_s = task.timeout_s;
  if (sends) {
    message.peer = planned.to;
    task.input = std::move(data);
    message.data = task.input.data();
  } else {
    message.peer = planned.from_any ? OFFBEAT_ANY_RANK : planned.from;
    task.expected = std::move(data);
    task.expected_rank = planned.from;
    task.output.resize(planned.bytes);
    message.data = task.output.data();
    message.arrival = &task.arrival;
  }
  const Style style = planned.styles[sends ? 0 : 1];
  if (style == Style::blocking) {
    task.status = (sends ? offbeat_send : offbeat_receive)(&message);
    return;
  }
  if (style == Style::with_done) {
    message.done = Task::done;
    message.done_state = &task;
  }
  const offbeat_status begun = (sends ? offbeat_begin_send : offbeat_begin_receive)(&message, &task.request);
  if (begun != OFFBEAT_OK) task.status = begun;
}

unsigned char byte_of(int rank, std::uint32_t number) {
  return static_cast<unsigned char>(static_cast<std::uint32_t>(rank) * 31 + number * 17);
}

void start(Task& task, offbeat_group* group, const PlannedCall& planned, std::uint32_t number, int rank,
           int size) {
  const std::string collective = planned.collective;
  offbeat_call call = call_of(group, planned.collective);
  call.count = planned.count;
  call.root = planned.root;
  call.type = OFFBEAT_UINT8;
  call.timeout_s = task.timeout_s;
  if (collective == "allreduce") {
    task.input.assign(planned.count, byte_of(rank, number));
    unsigned char sum = 0;
    for (int each = 0; each < size; ++each) sum = static_cast<unsigned char>(sum + byte_of(each, number));
    task.expected.assign(planned.count, sum);
    task.output.resize(planned.count);
  } else if (collective == "bcast") {
    task.expected.assign(planned.count, byte_of(planned.root, number));
    task.output.assign(planned.count, byte_of(rank, number));
  } else if (collective == "allgather") {
    task.input.assign(planned.count, byte_of(rank, number));
    for (int each = 0; each < size; ++each)
      task.expected.insert(task.expected.end(), planned.count, byte_of(each, number));
    task.output.resize(task.expected.size());
  } else if (collective == "alltoallv") {  // the last rank gives more to the first one
    const auto length = [&](int from, int to) {
      return from == size - 1 && to == 0 ? planned.count : planned.count / 3 * static_cast<std::size_t>(to);
    };
    for (int each = 0; each < size; ++each) {
      task.input_counts.push_back(length(rank, each));
      task.output_counts.push_back(length(each, rank));
      task.input.insert(task.input.end(), length(rank, each), byte_of(rank, number));
      task.expected.insert(task.expected.end(), length(each, rank), byte_of(each, number));
    }
    task.output.resize(task.expected.size());
    call.input_counts = task.input_counts.data();
    call.output_counts = task.output_counts.data();
  }
  // An empty vector needs an address, because NULL means in place.
  task.input.reserve(1);
  task.output.reserve(1);
  call.input = task.input.data();
  call.output = task.output.data();
  if (planned.style == Style::blocking) {
    task.status = offbeat_run(&call);
    return;
  }
  if (planned.style == Style::with_done) {
    call.done = Task::done;
    call.done_state = &task;
  }
  const offbeat_status begun = offbeat_begin(&call, &task.request);
  if (begun != OFFBEAT_OK) task.status = begun;
}

// -- rounds

// Starts things in their order, with at most 8 under way, and completes them in any order. Returns when all
// that was started is over. After an error, or if `stops` returns true, it starts nothing more. A rank that
// leaves early may wait for others that wait for it, so then all have a time limit.
template <class Start, class Stops>
void carry_out(std::size_t count, std::uint32_t seed, Ending ending, Start&& start_one, Stops&& stops) {
  Random random(seed);
  std::vector<std::unique_ptr<Task>> under_way;
  bool goes_on = true;
  const auto complete = [&](std::size_t which) {
    goes_on = under_way[which]->succeeds(ending) && goes_on;
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
  };
  for (std::size_t k = 0; k < count && goes_on && !stops(); ++k) {
    under_way.push_back(std::make_unique<Task>());
    under_way.back()->timeout_s = ending == Ending::left_early ? 1 : 0;
    if (!start_one(*under_way.back(), k)) under_way.pop_back();
    while (under_way.size() > random.below(9)) complete(random.below(under_way.size()));
  }
  while (!under_way.empty()) complete(random.below(under_way.size()));
}

void make_trouble(offbeat_group* group, Ending ending) {
  if (ending == Ending::given_up) require(offbeat_group_give_up(group, "stress") == OFFBEAT_OK, "no end");
  if (ending == Ending::killed) kill(getpid(), SIGKILL);
  if (ending != Ending::timed_out) return;
  offbeat_message message = OFFBEAT_MESSAGE_INIT;  // which nobody sends
  unsigned char byte = 0;
  message.group = group;
  message.tag = 1'000'000;
  message.data = &byte;
  message.bytes = 1;
  message.timeout_s = 0.01;
  const offbeat_status status = offbeat_receive(&message);
  require(status == OFFBEAT_ERROR_TIMEOUT || status == OFFBEAT_ERROR_RANK, "no time-out");
}

void carry_out_round(const Plan& plan, offbeat_group* group, std::uint32_t seed, int rank, int size) {
  std::atomic<bool> leaves{false};
  const bool makes_trouble = plan.ending != Ending::freed && plan.troublemaker == rank;
  const auto stops = [&] { return leaves.load(); };
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < plan.messages.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto& messages = plan.messages[t];
      carry_out(
          messages.size(), seed + static_cast<std::uint32_t>(rank), plan.ending,
          [&](Task& task, std::size_t k) {
            if (messages[k].from != rank && messages[k].to != rank) return false;
            start(task, group, messages[k], seed + static_cast<std::uint32_t>(k), rank);
            return true;
          },
          stops);
    });
  }
  for (const auto* const calls : {&plan.runs, &plan.begins}) {
    threads.emplace_back([&, calls] {
      carry_out(
          calls->size(), seed + static_cast<std::uint32_t>(rank), plan.ending,
          [&](Task& task, std::size_t k) {
            start(task, group, (*calls)[k], seed + static_cast<std::uint32_t>(k), rank, size);
            return true;
          },
          stops);
    });
  }
  if (makes_trouble) {
    usleep(plan.trouble_after_us);
    leaves = plan.ending == Ending::left_early;
    make_trouble(group, plan.ending);
  }
  for (std::thread& each : threads) each.join();
}

void carry_out_rounds(Shared& shared, std::uint32_t seed, int rank, int size) {
  Random random(seed);
  const std::size_t variant = random.below(6);
  if (variant == 1) setenv("OFFBEAT_WAIT", "sleep", 1);
  if (variant == 2) setenv("OFFBEAT_PROGRESS_CPUS", "0", 1);
  if (variant == 3) setenv("OFFBEAT_CHECK", "1", 1);
  if (variant == 4) setenv("OFFBEAT_MEMORY_MIB", "1", 1);
  if (variant == 5) setenv("OFFBEAT_BOARD_KIB", "64", 1);
  const ranks::Meeting everyone{&shared.boards[3], rank, size};
  offbeat_group* other = make_group(shared, size - 1 - rank, size, 1);  // stays for all rounds
  const std::size_t rounds = 3 + random.below(4);
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::uint32_t seed_of_round = seed * 100 + static_cast<std::uint32_t>(round);
    Plan plan = make_plan(seed_of_round, size);
    if (round + 1 < rounds && plan.ending == Ending::killed) plan.ending = Ending::given_up;
    offbeat_group* group = make_group(shared, rank, size, 0);
    std::thread beside([&] {
      if (plan.ending == Ending::killed) return;
      const Plan calm = make_plan(seed_of_round + 77, size);
      carry_out(
          calm.begins.size() / 4, seed, Ending::freed,
          [&](Task& task, std::size_t k) {
            start(task, other, calm.begins[k], seed + static_cast<std::uint32_t>(k), size - 1 - rank, size);
            return true;
          },
          [] { return false; });
    });
    carry_out_round(plan, group, seed_of_round, rank, size);
    beside.join();
    // Others may still wait for a rank that is not in trouble.
    const bool may_go = plan.ending == Ending::left_early && plan.troublemaker == rank;
    if (plan.ending == Ending::freed && !may_go) ranks::meet(everyone);
    offbeat_group_free(&group);
    if (plan.ending != Ending::killed && plan.ending != Ending::freed) ranks::meet(everyone);
  }
  offbeat_group_free(&other);
}

void run_seed(std::uint32_t seed) {
  Random random(seed * 31);
  const int size = 2 + random.number_below(4);
  Random of_ranks(seed);
  static_cast<void>(of_ranks.below(6));
  const std::size_t rounds = 3 + of_ranks.below(4);
  const Plan last = make_plan(seed * 100 + static_cast<std::uint32_t>(rounds - 1), size);
  std::vector<int> expected(static_cast<std::size_t>(size));
  if (last.ending == Ending::killed) expected[static_cast<std::size_t>(last.troublemaker)] = -SIGKILL;
  const std::vector<int> ends =
      ranks::run(size, [=](Shared& shared, int rank) { carry_out_rounds(shared, seed, rank, size); });
  EXPECT_EQ(ends, expected) << "seed " << seed;
}

long number_in(const char* name, long otherwise) {
  const char* const text = getenv(name);
  return text != nullptr ? std::atol(text) : otherwise;
}

TEST(Stress, EndsWellOrWithAnError) {
  const long seconds = number_in("OFFBEAT_STRESS_SECONDS", 0);
  auto seed = static_cast<std::uint32_t>(number_in("OFFBEAT_STRESS_SEED", 1));
  unsetenv("OFFBEAT_STRESS_SECONDS");
  unsetenv("OFFBEAT_STRESS_SEED");
  const time_t began = time(nullptr);
  for (int k = 0; seconds > 0 ? time(nullptr) - began < seconds : k < 12; ++k) {
    run_seed(seed++);
    if (HasFailure()) break;
  }
}

}  // namespace
