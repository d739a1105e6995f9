// SPDX-License-Identifier: BSD-3-Clause
// Groups in programs with several threads, and with functions that begin the next call when one is done.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ranks.hpp"

namespace {

using ranks::call_of;
using ranks::make_group;
using ranks::require;
using ranks::Shared;

void expect_success(const std::vector<int>& ends) { EXPECT_EQ(ends, std::vector<int>(ends.size(), 0)); }

// -- functions that begin the next call

// Each call or message begins the next one when it is done.
struct Chain {
  offbeat_group* group;
  long left;
  double input = 1;
  double output = 0;
  int tag = 0;
  std::atomic<bool> is_over{false};

  void allreduce() {
    offbeat_call call = call_of(group, "allreduce");
    call.input = &input;
    call.output = &output;
    call.count = 1;
    call.type = OFFBEAT_FLOAT64;
    call.done = next<&Chain::allreduce>;
    call.done_state = this;
    require(offbeat_begin(&call, nullptr) == OFFBEAT_OK, "not begun");
  }
  void receive() {
    offbeat_message message = OFFBEAT_MESSAGE_INIT;
    message.group = group;
    message.peer = 0;
    message.tag = std::exchange(tag, 0);
    message.data = &output;
    message.bytes = sizeof output;
    message.done = next<&Chain::receive>;
    message.done_state = this;
    require(offbeat_begin_receive(&message, nullptr) == OFFBEAT_OK, "not begun");
  }
  template <void (Chain::*begin)()>
  static void next(void* self, offbeat_status status, const char*) {
    require(status == OFFBEAT_OK, "not done well");
    auto& mine = *static_cast<Chain*>(self);
    --mine.left > 0 ? (mine.*begin)() : mine.is_over.store(true);
  }
  void wait() const {
    while (!is_over.load()) usleep(1000);
  }
};

// A chain must not nest: the stack of a thread has room for some thousand functions.
TEST(Chains, DoNotNestInAGroupOfOne) {
  expect_success(ranks::run(1, [](Shared& shared, int rank) {
    Chain chain{.group = make_group(shared, rank, 1), .left = 200'000};
    chain.allreduce();
    chain.wait();
    offbeat_group_free(&chain.group);
  }));
}

TEST(Chains, DoNotNestWhenMessagesAreThereAlready) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    constexpr int count = 1500;  // fewer than a ring has room for
    Chain chain{.group = make_group(shared, rank, 2), .left = count + 1, .tag = 2};
    offbeat_message message = OFFBEAT_MESSAGE_INIT;
    message.group = chain.group;
    message.data = &chain.input;
    message.bytes = sizeof chain.input;
    message.peer = 1 - rank;
    message.tag = 1;
    if (rank == 0) {
      message.tag = 0;
      for (int k = 0; k < count; ++k) require(offbeat_send(&message) == OFFBEAT_OK, "not sent");
      message.tag = 1;
      require(offbeat_send(&message) == OFFBEAT_OK, "not sent");
      usleep(100'000);
      message.tag = 2;  // a thread of offbeat receives it, and has a small stack
      require(offbeat_send(&message) == OFFBEAT_OK, "not sent");
    } else {
      require(offbeat_receive(&message) == OFFBEAT_OK, "not received");  // reads all others, too
      chain.receive();
      chain.wait();
    }
    offbeat_group_free(&chain.group);
  }));
}

// No thread of offbeat may still wait for a call of the group.
TEST(AFunctionAtTheEnd, FreesItsGroup) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    struct State {
      offbeat_group* group;
      std::atomic<bool> is_over{false};
    };
    for (int k = 0; k < 20; ++k) {
      State mine{.group = make_group(shared, rank, 2)};
      offbeat_call call = call_of(mine.group, "barrier");
      call.done_state = &mine;
      call.done = [](void* state, offbeat_status status, const char*) {
        require(status == OFFBEAT_OK, "not done well");
        auto& found = *static_cast<State*>(state);
        offbeat_group_free(&found.group);
        found.is_over = true;
      };
      if (rank == 1) usleep(5000);
      require(offbeat_begin(&call, nullptr) == OFFBEAT_OK, "not begun");
      while (!mine.is_over.load()) usleep(100);
    }
  }));
}

// -- several threads

// One thread of each rank waits in a blocking call, for as long as another one begins calls. It may be the
// one that ends them, but calls nobody's functions before its own call is over.
TEST(Threads, HearThatACallIsDoneWhileAnotherOneWaits) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    std::thread beginner([&] {
      for (int k = 0; k < 1000; ++k) {
        std::atomic<bool> is_done{false};
        offbeat_call call = call_of(group, "barrier");
        call.done_state = &is_done;
        call.done = [](void* state, offbeat_status status, const char*) {
          require(status == OFFBEAT_OK, "not done well");
          static_cast<std::atomic<bool>*>(state)->store(true);
        };
        require(offbeat_begin(&call, nullptr) == OFFBEAT_OK, "not begun");
        while (!is_done.load()) sched_yield();
      }
      ++shared.words[0];
    });
    while (rank == 1 && shared.words[0].load() < 2) usleep(1000);
    offbeat_call call = call_of(group, "barrier");
    require(offbeat_run(&call) == OFFBEAT_OK, "barrier");
    beginner.join();
    offbeat_group_free(&group);
  }));
}

// While one thread runs calls and another one begins some, a third one changes the algorithm of a collective
// that they do not call.
TEST(Threads, ShareAGroup) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    std::atomic<bool> is_over{false};
    std::thread chooser([&] {
      for (int k = 0; !is_over.load(); ++k) {
        const char* const algorithm = k % 2 == 0 ? "arrival_tree" : "";
        require(offbeat_select("reduce", algorithm, nullptr, 0) == OFFBEAT_OK, "not selected");
        usleep(20);
      }
    });
    std::thread beginner([&] {
      for (int k = 0; k < 2000; ++k) {
        float sum = 1;
        offbeat_call call = call_of(group, "allreduce");
        call.output = &sum;
        call.count = 1;
        call.type = OFFBEAT_FLOAT32;
        offbeat_request* request = nullptr;
        require(offbeat_begin(&call, &request) == OFFBEAT_OK, "not begun");
        require(std::string(offbeat_last_algorithm()) == "arrival_tree", "another thread's algorithm");
        require(offbeat_wait(&request) == OFFBEAT_OK && sum == 2, "a wrong sum");
      }
    });
    for (int k = 0; k < 2000; ++k) {
      offbeat_call call = call_of(group, "barrier");
      require(offbeat_run(&call) == OFFBEAT_OK, "barrier");
      require(std::string(offbeat_last_algorithm()) != "arrival_tree", "another thread's algorithm");
    }
    beginner.join();
    is_over = true;
    chooser.join();
    offbeat_group_free(&group);
  }));
}

// The process forks while one of its threads makes the first group. The children make groups, too: no lock of
// that thread may block them.
TEST(Threads, MayForkWhileTheFirstGroupIsMade) {
  expect_success(ranks::run(1, [](Shared& shared, int rank) {
    std::atomic<bool> is_over{false};
    std::thread maker([&] {
      offbeat_group* group = make_group(shared, rank, 1);
      is_over = true;
      offbeat_group_free(&group);
    });
    std::vector<pid_t> children;
    while (!is_over.load() && children.size() < 50) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);  // a hang is a failure
        offbeat_group* own = make_group(shared, 0, 1);
        offbeat_group_free(&own);
        _exit(0);
      }
      children.push_back(child);
    }
    maker.join();
    for (const pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      require(status == 0, "a child has failed");
    }
  }));
}

}  // namespace
