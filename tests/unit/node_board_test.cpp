// SPDX-License-Identifier: BSD-3-Clause
// Two processes share the board of a group, and one dies at a bad moment.
#include "groups/node_board.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/page_bytes.hpp"
#include "collectives/board/readers.hpp"
#include "groups/callback_set_up.hpp"
#include "node/node_identity.hpp"

namespace offbeat {
namespace {

constexpr int ranks = 2;

// Memory that the two processes share beside the board.
struct Shared {
  std::array<std::array<std::byte, 512>, ranks> said{};
  std::atomic<int> arrived{0};

  void meet() {
    const int round = arrived.fetch_add(1) / ranks;
    while (arrived.load() < (round + 1) * ranks) sched_yield();
  }
};
struct Meeting {
  Shared* shared;
  int rank;

  static int exchange(void* state, const void* mine, std::size_t bytes, void* all) {
    const auto& me = *static_cast<const Meeting*>(state);
    std::memcpy(me.shared->said[static_cast<std::size_t>(me.rank)].data(), mine, bytes);
    me.shared->meet();
    for (std::size_t rank = 0; rank < ranks; ++rank)
      std::memcpy(static_cast<std::byte*>(all) + rank * bytes, me.shared->said[rank].data(), bytes);
    me.shared->meet();
    return 0;
  }
};

// Calls body(board) on one rank of a new board.
template <class Body>
void on_board(Shared& shared, int rank, Body&& body) {
  Meeting meeting{&shared, rank};
  CallbackSetUp set_up(rank, ranks, {Meeting::exchange, &meeting});
  Membership membership(ranks);
  membership.group(std::vector<NodeIdentity>(ranks, NodeIdentity::of_this_process()));
  const Locality locality(membership, rank);
  constexpr std::array numbers{0, 1};
  const Settings settings;
  WindowBudget budget(std::size_t{1} << 30);
  std::string why_not;
  const auto board = NodeBoard::create(
      set_up, locality, {.numbers = numbers, .space = "", .everyone = "group"}, settings, budget,
      {.window_bytes = std::size_t{64} << 10, .stages = 1, .compares_calls = true}, why_not);
  ASSERT_NE(board, nullptr) << why_not;
  body(*board);
}

// Rank 1 is killed while it gives pages back. Rank 0 must not wait at the gate for longer than it takes to
// notice any other death. Then it waits for rank 1 in the call, which names that rank.
TEST(NodeBoard, NamesARankThatDiesWhileTheGateIsClosed) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& shared = *new (memory) Shared;
  const pid_t child = fork();
  if (child == 0) {
    on_board(shared, 1, [](NodeBoard& board) {
      board.board().give_pages_back([](int, std::byte*, std::size_t) { kill(getpid(), SIGKILL); });
    });
    _exit(1);
  }
  alarm(30);  // a hang is a failure
  on_board(shared, 0, [&](NodeBoard& board) {
    siginfo_t how{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &how, WEXITED | WNOWAIT), 0);
    ASSERT_EQ(how.si_status, SIGKILL);
    const std::int64_t began_ns = monotonic_ns();
    NodeBoard::Stage& stage = board.stage(0);
    stage.board.enter(1, Collective::barrier, 0);
    stage.begin_use(4096);
    std::string text;
    try {
      Patience::Wait wait(stage.board.patience);
      while (monotonic_ns() - began_ns < 20 * ns_per_s) wait.pause();
    } catch (const BoardError& error) {
      text = error.what();
      EXPECT_EQ(error.rank, 1);
    }
    EXPECT_EQ(text, "the process of rank 1 has died");
    EXPECT_LT(monotonic_ns() - began_ns, 10 * ns_per_s);  // about a second, unless the machine is busy
    stage.end_use();
  });
  alarm(0);
  waitpid(child, nullptr, 0);
  munmap(memory, sizeof(Shared));
}

// Rank 1 may still read the slots by which rank 0 has introduced itself.
TEST(NodeBoard, ItsSlotsAreNotUsedBeforeAllRanksHaveReadTheIntroductions) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& shared = *new (memory) Shared;
  const pid_t child = fork();
  if (child == 0) {
    on_board(shared, 1, [](NodeBoard&) {});
    _exit(0);
  }
  alarm(30);  // a hang is a failure
  on_board(shared, 0, [&](NodeBoard& made) {
    Board& board = made.board();
    board.sequence.next(Collective::bcast, false);
    board.sequence.next(Collective::allreduce, true);
    EXPECT_FALSE(ReadersBefore(board, board.sequence, board.slot_readers).is_free());
    note_readers(board.sequence, board.slot_readers, {});
    board.sequence.next(Collective::bcast, false);
    board.sequence.next(Collective::allreduce, true);
    EXPECT_TRUE(ReadersBefore(board, board.sequence, board.slot_readers).is_free()) << "nobody reads";
  });
  alarm(0);
  waitpid(child, nullptr, 0);
  munmap(memory, sizeof(Shared));
}

// The system keeps pages that are locked, as those of a program that calls mlockall() are. They stay counted.
TEST(NodeBoard, CountsPagesThatTheSystemKeeps) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& shared = *new (memory) Shared;
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  alarm(30);  // a hang is a failure
  std::string wrong;
  on_board(shared, rank, [&](NodeBoard& board) {
    const auto expect = [&](bool holds, const char* what) {
      if (!holds) wrong += std::string(what) + "; ";
    };
    const auto use = [&] {
      board.stage(0).begin_use(100);
      std::memset(board.board().window(0, rank), 1, 100);
      board.stage(0).end_use();
      shared.meet();
    };
    const auto* const window = board.board().windows();
    use();
    const std::size_t kept = 2 * page_bytes();
    expect(board.kept_bytes == kept, "whole pages count");
    if (rank == 1) {
      board.give_pages_back();
      expect(board.kept_bytes == 0, "pages that were given back do not count");
      expect(*window == std::byte{0}, "they contain zeros");
    }
    shared.meet();
    use();
    if (rank == 1) {
      expect(mlock(window, 1) == 0, "memory can be locked");
      board.give_pages_back();
      expect(board.kept_bytes == kept, "locked pages count");
      expect(*window == std::byte{1}, "they keep their contents");
    }
    shared.meet();
  });
  if (child == 0) {
    std::fputs(wrong.c_str(), stderr);
    _exit(wrong.empty() ? 0 : 1);
  }
  EXPECT_EQ(wrong, "");
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  alarm(0);
  munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace offbeat
