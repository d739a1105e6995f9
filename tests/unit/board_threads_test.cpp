// SPDX-License-Identifier: BSD-3-Clause
// The board as it is in production, with threads for processes. ./test --sanitize builds it with
// ThreadSanitizer, too.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/board/board_round.hpp"
#include "collectives/repertoire.hpp"
#include "node/board.hpp"
#include "support/board_only.hpp"

namespace offbeat {
namespace {

class Mapping {
 public:
  explicit Mapping(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Mapping() { munmap(data_, bytes_); }
  [[nodiscard]] void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

std::uint32_t hash(std::uint64_t a, std::uint64_t b) {
  std::uint64_t bits = (a * 0x9E3779B97F4A7C15u + b + 1) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 29)) * 0x94D049BB133111EBu;
  return static_cast<std::uint32_t>(bits >> 32);
}

// Most ranks go on at once, some come late, a few very late.
void dawdle(std::uint32_t random) {
  if (random % 128 == 0) {
    const timespec nap{0, static_cast<long>(random >> 15)};  // to 131 us
    nanosleep(&nap, nullptr);
  } else if (random % 16 == 0) {
    sched_yield();
  } else if (random % 4 == 0) {
    for (std::uint32_t k = random >> 24; k > 0; --k) relax();
  }
}

class BoardOfThreads : public testing::TestWithParam<int> {};

// Rank 0 asks, from a thread that stays on one core.
TEST(Board, KnowsWhichRankWantsTheCore) {
  const BoardShape shape{3, 4096};
  const Mapping memory(shape.total_bytes());
  std::jthread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    Board here(memory.data(), shape, 0, {.shares_cores = true});
    Board neighbour(memory.data(), shape, 1, {.shares_cores = true});
    Board spinner(memory.data(), shape, 2, {.shares_cores = false});
    const auto nobody_has_come = [](int) { return false; };
    here.enter(1, Collective::allreduce, 8);
    spinner.enter(1, Collective::allreduce, 8);
    EXPECT_FALSE(here.core_is_wanted(nobody_has_come)) << "of the others nobody has shown a core";
    neighbour.enter(1, Collective::allreduce, 8);
    EXPECT_TRUE(here.core_is_wanted(nobody_has_come));
    EXPECT_TRUE(here.core_is_wanted([](int rank) { return rank != 1; }));
    EXPECT_FALSE(here.core_is_wanted([](int rank) { return rank == 1; }));
    neighbour.presence(1).core.store(4096, std::memory_order_relaxed);
    EXPECT_FALSE(here.core_is_wanted(nobody_has_come)) << "it has gone to another core";
  }).join();
}

bool is_aligned(const void* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

TEST(Board, AlignsInlineVectorsForEveryType) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const BoardShape shape{ranks, 4096};
    const Mapping memory(shape.total_bytes());
    const Board board(memory.data(), shape, 0, {});
    for (std::uint64_t sequence = 0; sequence < 4; ++sequence) {
      for (int owner = 0; owner < ranks; ++owner) {
        const Board::InlineSlot& slot = board.inline_slot(sequence, owner);
        EXPECT_TRUE(is_aligned(slot.data, alignof(std::max_align_t)));
        EXPECT_TRUE(is_aligned(&slot.sequence, BoardShape::line));
        EXPECT_LE(slot.data + 4, reinterpret_cast<const std::byte*>(&slot) + BoardShape::line);
      }
    }
  }
}

// The largest alignment that a type of this width can have.
std::size_t alignment_of(std::size_t width) {
  return std::min(alignof(std::max_align_t), width & (~width + 1));
}

TEST(Board, AlignsChunksAsTheirElementsWantIt) {
  const BoardShape shape{3, 65536};
  const Mapping memory(shape.total_bytes());
  BoardOnly transport;
  Board board(memory.data(), shape, 1, {});
  transport.board = &board;
  const Endpoint net(transport, 1, shape.ranks);
  const Reduction nothing;
  std::size_t chunks = 0;
  const auto look = [&](const BoardRound& round) -> Task {
    const std::size_t alignment = alignment_of(round.call.input.width);
    EXPECT_LE(round.chunks, shape.most_chunks());
    for (int owner = 0; owner < shape.ranks; ++owner) {
      const std::byte* window = board.window(round.tag, owner);
      EXPECT_TRUE(is_aligned(window, alignof(std::max_align_t)));
      for (std::size_t chunk = 0; chunk < round.chunks; ++chunk, ++chunks) {
        const Vector part = round.chunk_on_board(owner, chunk);
        EXPECT_TRUE(is_aligned(part.data, alignment)) << "width " << part.width << ", chunk " << chunk;
        EXPECT_LE(part.data + part.bytes(), window + shape.window_bytes);
      }
    }
    co_return;
  };
  for (const std::size_t width : {1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 80, 1040, 4096}) {
    for (const std::size_t count : {1, 7, 257, 1001, 4001}) {
      std::vector<std::byte> vector(count * width);
      const Call args{
          Collective::allreduce, {vector.data(), count, width}, {vector.data(), count, width}, &nothing};
      for (const int concurrent_ranks : {1, 2, 3}) {
        Task task = run_in_rounds(net, args, chunk_bytes_among(args, concurrent_ranks), look);
        task.start();
        ASSERT_TRUE(task.done());
        task.rethrow_if_failed();
      }
    }
  }
  EXPECT_GT(chunks, 1000U);
}

// Ranks that come one after the other, each soon enough: the leader waits for long, but for none of them. If
// the machine is so busy that one comes too late, all come again.
TEST(Board, ALeaderThatGetsFurtherReportsNoStall) {
  constexpr std::int64_t between_ns = 400 * ns_per_ms, too_late_ns = ns_per_s;
  const BoardShape shape{4, 4096};
  const Reduction sum(ElementType::uint32, ReduceOp::sum);
  const Expression expression = parse_expression(Collective::allreduce, "arrival_leader");
  bool came_in_time = false;
  for (int attempt = 0; attempt < 10 && !came_in_time; ++attempt) {
    const Mapping memory(shape.total_bytes());
    std::atomic<int> stalls{0};
    std::array<std::int64_t, 4> began_ns{};
    const auto live = [&](int rank) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(rank * between_ns));
      BoardOnly transport;
      Patience patience{.shares_cores = true};
      if (rank == 0) {
        patience.stall = {
            .after_ns = too_late_ns,
            .call = [](void* state, std::int64_t, bool) { ++*static_cast<std::atomic<int>*>(state); },
            .state = &stalls};
      }
      Board board(memory.data(), shape, rank, patience);
      transport.board = &board;
      std::uint32_t value = 1;
      const Vector vector{reinterpret_cast<std::byte*>(&value), 1, sizeof value};
      Task task = carry_out(Endpoint(transport, rank, shape.ranks),
                            {Collective::allreduce, vector, vector, &sum}, expression);
      began_ns[static_cast<std::size_t>(rank)] = monotonic_ns();
      task.start();
      ASSERT_TRUE(task.done());
      EXPECT_EQ(value, 4U);
    };
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < shape.ranks; ++rank) threads.emplace_back(live, rank);
    threads.clear();
    came_in_time = true;
    for (std::size_t rank = 1; rank < began_ns.size(); ++rank)
      came_in_time = came_in_time && began_ns[rank] - began_ns[rank - 1] < too_late_ns * 9 / 10;
    if (came_in_time) {
      EXPECT_EQ(stalls, 0);
    }
  }
  EXPECT_TRUE(came_in_time) << "this machine is too busy";
}

// All the while a thread gives pages back whenever no rank uses them. Now and then all ranks stand still
// between two calls, and the last one that comes there gives the pages back, too.
TEST_P(BoardOfThreads, GivesTheRightResultThousandsOfTimes) {
  const char* const wanted = std::getenv("BOARD_TEST_CALLS");
  const std::uint32_t collectives =
      wanted == nullptr ? 10'000 : static_cast<std::uint32_t>(std::atoi(wanted));
  const BoardShape shape{GetParam(), 8192};
  const std::size_t most_elements = 3 * shape.window_bytes / sizeof(std::uint32_t);
  const Mapping memory(shape.total_bytes());
  const Reduction sum(ElementType::uint32, ReduceOp::sum);
  std::vector<Expression> expressions;
  for (const Algorithm* algorithm : repertoire(Collective::allreduce).algorithms) {
    if (algorithm->needs.board == OnBoard::one_node)
      expressions.push_back(parse_expression(Collective::allreduce, algorithm->name));
  }
  std::atomic<std::uint32_t> wrong_elements{0};

  const auto give_pages_back = [](Board& board) {
    return board.give_pages_back(
        [](int, std::byte* pages, std::size_t bytes) { std::memset(pages, 0, bytes); });
  };
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> given_back{0};
  const auto stand_still = [&](Board& board, std::uint32_t times) {
    if (arrived.fetch_add(1) + 1 == times * static_cast<std::uint32_t>(shape.ranks)) {
      while (!give_pages_back(board)) sched_yield();  // the other thread may be about it
      given_back = times;
    }
    while (given_back < times) sched_yield();
  };

  const auto live = [&](int rank) {
    BoardOnly transport;
    // Every second rank sleeps whenever it can, and must be woken.
    Board board(memory.data(), shape, rank,
                {.shares_cores = true, .sleep_after_ns = rank % 2 == 0 ? ns_per_ms : 0});
    transport.board = &board;
    const Endpoint net(transport, rank, shape.ranks);
    std::vector<std::uint32_t> input(most_elements);
    std::vector<std::uint32_t> output(most_elements);
    const auto start = [](std::uint32_t k, int rank) { return hash(k, static_cast<std::uint64_t>(rank)); };

    for (std::uint32_t k = 0; k < collectives; ++k) {
      if (k % 256 == 255) stand_still(board, k / 256 + 1);
      // Equal on all ranks.
      const std::uint32_t random = hash(k, 1000);
      const std::size_t count = random % 4 == 0 ? hash(k, 1001) % (most_elements + 1) : hash(k, 1001) % 1025;
      const bool in_place = random % 8 < 4;
      const Expression& expression = expressions[random / 8 % expressions.size()];
      board.concurrent_ranks = 1 + static_cast<int>(hash(k, 1002) % static_cast<std::uint32_t>(shape.ranks));
      const Immediate* const form =
          immediate_form(allreduce_algorithms::arrival_tree, shape.ranks, count * sizeof(std::uint32_t));

      auto& from = in_place ? output : input;
      for (std::size_t i = 0; i < count; ++i) from[i] = start(k, rank) + static_cast<std::uint32_t>(i * k);
      const Call args = allreduce_of(from.data(), output.data(), count, sum);
      dawdle(hash(k, 2000 + static_cast<std::uint64_t>(rank)));
      if (random >> 31 != 0 && form != nullptr) {
        form->run(board, args);
      } else {
        board.begin_use();
        Task task = carry_out(net, args, expression);
        task.start();
        ASSERT_TRUE(task.done());
        task.rethrow_if_failed();
        board.end_use();
      }

      std::uint32_t expected = 0;
      for (int each = 0; each < shape.ranks; ++each) expected += start(k, each);
      for (std::size_t i = 0; i < count; ++i) {
        if (output[i] !=
            expected + static_cast<std::uint32_t>(shape.ranks) * static_cast<std::uint32_t>(i * k)) {
          ++wrong_elements;
        }
      }
    }
  };
  Board bystander(memory.data(), shape, 0, {});
  bystander.open_gate();
  {
    std::jthread collector([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        static_cast<void>(give_pages_back(bystander));
        std::this_thread::yield();
      }
    });
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < shape.ranks; ++rank) threads.emplace_back(live, rank);
  }
  EXPECT_EQ(wrong_elements, 0U);
  EXPECT_EQ(given_back, collectives / 256);
}

// Short calls in short slots and in inline slots, and in trees of more ranks. A call gives each rank what no
// other call does. In each call some ranks spin and some run the coroutine: both drivers of a text write the
// same words.
TEST(BoardOfManyThreads, GivesTheRightResults) {
  constexpr std::uint32_t collectives = 600;
  constexpr Collective kinds[] = {Collective::allreduce, Collective::bcast,  Collective::reduce,
                                  Collective::allgather, Collective::gather, Collective::scatter,
                                  Collective::barrier};
  for (const int ranks : {2, 4, 17, 22}) {
    const auto p = static_cast<std::size_t>(ranks);
    const BoardShape shape{ranks, 8192};
    const Mapping memory(shape.total_bytes());
    const Reduction sum(ElementType::uint32, ReduceOp::sum);
    std::atomic<std::uint32_t> wrong_calls{0};
    std::vector<std::atomic<int>> begun(collectives);

    const auto live = [&](int rank) {
      BoardOnly transport;
      Board board(memory.data(), shape, rank,
                  {.shares_cores = true, .sleep_after_ns = rank % 2 == 0 ? ns_per_ms : 0});
      transport.board = &board;
      const auto value = [](std::uint32_t k, int rank, std::size_t i) {
        return hash(k * 64 + static_cast<std::uint32_t>(rank), i);
      };
      for (std::uint32_t k = 0; k < collectives; ++k) {
        // Equal on all ranks.
        const Collective collective = kinds[hash(k, 1) % std::size(kinds)];
        const int root = facts_of(collective).has_root ? static_cast<int>(hash(k, 2) % p) : 0;
        const Roles who = roles_of(collective);
        const bool gets_blocks = collective == Collective::allgather || collective == Collective::gather;
        const bool has_blocks = gets_blocks || who.is_personalised;
        const std::size_t count = 1 + hash(k, 3) % (has_blocks ? 40 : 500);
        std::vector<std::uint32_t> input(count * (who.is_personalised ? p : 1));
        std::vector<std::uint32_t> output(count * (gets_blocks ? p : 1));
        for (std::size_t i = 0; i < input.size(); ++i) input[i] = value(k, rank, i);
        if (collective == Collective::bcast && rank == root) output = input;
        auto vector_of = [](std::vector<std::uint32_t>& all) {
          return Vector{reinterpret_cast<std::byte*>(all.data()), all.size(), sizeof(std::uint32_t)};
        };
        Call call{collective, vector_of(input), vector_of(output), &sum, root};
        if (collective == Collective::bcast) call.input = rank == root ? call.output : Vector{};
        if (collective == Collective::scatter && rank != root) call.input = {};
        if (collective == Collective::gather && rank != root) call.output = {};
        if (collective == Collective::reduce && rank != root) call.output.data = nullptr;
        if (collective == Collective::barrier) call = {collective};

        dawdle(hash(k, 2000 + static_cast<std::uint64_t>(rank)));
        ++begun[k];
        Expression expression;
        for (const Algorithm* each : repertoire(collective).algorithms) {
          if (each->immediate != nullptr) expression.algorithm = each;
        }
        const Immediate* form = immediate_form(*expression.algorithm, ranks, call.length(ranks));
        ASSERT_NE(form, nullptr);
        if (hash(k, 3000 + static_cast<std::uint64_t>(rank)) % 2 == 0) {
          form->run(board, call);
        } else {
          finish(carry_out(Endpoint(transport, rank, ranks), call, expression));
        }

        bool is_right = true;
        if (collective == Collective::barrier) is_right = begun[k] == ranks;
        if (collective != Collective::barrier && who.takes(rank, root)) {
          for (std::size_t i = 0; i < output.size(); ++i) {
            std::uint32_t expected = 0;
            if (facts_of(collective).has_operation) {
              for (int each = 0; each < ranks; ++each) expected += value(k, each, i);
            } else if (gets_blocks) {
              expected = value(k, static_cast<int>(i / count), i % count);
            } else {
              expected =
                  value(k, root, i + (who.is_personalised ? static_cast<std::size_t>(rank) * count : 0));
            }
            is_right = is_right && output[i] == expected;
          }
        }
        wrong_calls += is_right ? 0 : 1;
      }
    };
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(live, rank);
    }
    EXPECT_EQ(wrong_calls, 0U) << ranks << " ranks";
  }
}

// The kernel gives back whole pages: a range that begins elsewhere is refused, and one that ends elsewhere
// loses what comes next. On Arm and POWER, pages may have 64 KiB.
TEST(Board, GivesBackWholePages) {
  for (const std::size_t page : {std::size_t{4096}, std::size_t{16384}, std::size_t{65536}}) {
    for (const int ranks : {1, 2, 3, 17}) {
      for (const std::size_t window : {std::size_t{4096}, std::size_t{20480}, std::size_t{1} << 20}) {
        for (const bool compares : {false, true}) {
          const BoardShape shape{.ranks = ranks,
                                 .window_bytes = window,
                                 .stages = 4,
                                 .compares_calls = compares,
                                 .page_bytes = page};
          const Mapping memory(shape.total_bytes());
          Board board(memory.data(), shape, 0, {});
          board.open_gate();
          const auto* const begin = static_cast<const std::byte*>(memory.data());
          int stages = 0;
          EXPECT_TRUE(board.give_pages_back([&](int stage, std::byte* pages, std::size_t bytes) {
            EXPECT_EQ(stage, stages++);
            EXPECT_EQ((pages - begin) % static_cast<std::ptrdiff_t>(page), 0);
            EXPECT_EQ(bytes % page, 0U);
            Board mine(memory.data(), shape, 0, {}, stage);
            EXPECT_LE(pages, reinterpret_cast<std::byte*>(&mine.step(0, 0).word(0)));
            EXPECT_GE(pages + bytes, mine.windows() + shape.windows_bytes());
            const auto* const next =
                stage + 1 < shape.stages
                    ? reinterpret_cast<std::byte*>(
                          &Board(memory.data(), shape, 0, {}, stage + 1).inline_slot(0, 0))
                    : begin + shape.total_bytes();
            EXPECT_LE(pages + bytes, next);
          }));
          EXPECT_EQ(stages, shape.stages);
        }
      }
    }
  }
}

// What ranks call on a board, of which one was left out of the first call, because its host rejected that.
struct LeftOut {
  const char* name;
  int rank;
  std::vector<Collective> calls;  // of the other ranks; the root is rank 0
};

// The bool: the calls proceed while the program computes, and use several stages in turn.
class BoardOfLeftOut : public testing::TestWithParam<std::tuple<LeftOut, bool>> {};

// Rank 0 has the right data for call k in a bcast, and gets them in a reduce.
std::uint32_t value_of(std::size_t call, int rank) {
  return static_cast<std::uint32_t>(1000 * (call + 1)) + static_cast<std::uint32_t>(rank);
}

std::size_t own_of(std::size_t count, int ranks, int rank) {
  return block_begin(count, ranks, rank + 1) - block_begin(count, ranks, rank);
}

// Nobody may get data of another call. One rank notices, also if the one that was left out makes no further
// call, and then all of them end.
TEST_P(BoardOfLeftOut, NoRankTakesTheDataOfAnotherCall) {
  const Reduction sum(ElementType::uint32, ReduceOp::sum);
  const auto& [name, left_out, calls] = std::get<0>(GetParam());
  const bool are_begun = std::get<1>(GetParam());
  const int stages = are_begun ? 3 : 1;
  for (const int ranks : {2, 3, 17}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{3000}}) {
      const BoardShape shape{ranks, 65536, stages};
      const Mapping memory(shape.total_bytes());
      std::atomic<int> noticed{0};
      std::atomic<int> wrong{0};
      const auto live = [&](int rank) {
        struct Wait {
          std::vector<std::unique_ptr<Board>> boards;
          std::atomic<int>* noticed;
        } state{{}, &noticed};
        const auto look = [](void* wait) {
          auto& [boards, noticed] = *static_cast<Wait*>(wait);
          for (const auto& board : boards) *noticed += board->shows_other_collective() ? 1 : 0;
          if (*noticed > 0) throw CommunicationError("a mismatch");
        };
        const Patience patience{.shares_cores = true, .turn = {look, &state}};
        for (int stage = 0; stage < stages; ++stage)
          state.boards.push_back(std::make_unique<Board>(memory.data(), shape, rank, patience, stage));
        std::size_t made = 0;
        std::uint64_t history = 0;
        const auto all = static_cast<std::size_t>(ranks) * count;
        for (std::size_t k = rank == left_out ? 1 : 0; k < calls.size(); ++k) {
          std::vector<std::uint32_t> mine(count, value_of(k, rank));
          std::vector<std::uint32_t> output(all);
          const bool is_bcast = calls[k] == Collective::bcast;
          auto* const from = reinterpret_cast<std::byte*>(mine.data());
          auto* const to = is_bcast ? from : reinterpret_cast<std::byte*>(output.data());
          const bool is_scattered = calls[k] == Collective::reduce_scatter;
          const Call call{calls[k],
                          {from, count, 4},
                          {to,
                           calls[k] == Collective::gather ? all
                           : is_scattered                 ? own_of(count, ranks, rank)
                                                          : count,
                           4},
                          facts_of(calls[k]).has_operation ? &sum : nullptr};
          const bool combines = facts_of(calls[k]).has_operation;
          const char* const algorithm = calls[k] == Collective::reduce ? "arrival_tree"
                                        : combines                     ? "arrival_shares"
                                                                       : "arrival_direct";
          Board& board = *state.boards[made++ % state.boards.size()];
          if (are_begun)
            board.set_history(std::exchange(history, Board::RoundNumber::next_history(history, calls[k])));
          BoardOnly transport;
          transport.board = &board;
          const Endpoint net(transport, rank, ranks);
          run_on_board(board, net, call, parse_expression(calls[k], algorithm));
          if (is_bcast && mine.back() != value_of(k, 0)) ++wrong;
          std::uint32_t expected = 0;
          for (int other = 0; other < ranks; ++other) expected += value_of(k, other);
          if (calls[k] == Collective::reduce && rank == 0 && output[count - 1] != expected) ++wrong;
        }
      };
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] { run_ignoring_exceptions([&] { live(rank); }); });
      threads.clear();
      EXPECT_EQ(wrong, 0) << ranks << " ranks, " << count << " elements";
      EXPECT_GT(noticed, 0) << ranks << " ranks, " << count << " elements";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, BoardOfLeftOut,
    testing::Combine(
        testing::Values(LeftOut{"OfAGather", 0, {Collective::gather, Collective::reduce}},
                        LeftOut{"AndGives", 0, {Collective::gather, Collective::bcast}},
                        LeftOut{
                            "AndGivesTwice", 0, {Collective::gather, Collective::bcast, Collective::bcast}},
                        LeftOut{"OfAReduceScatter", 0, {Collective::reduce_scatter, Collective::allreduce}},
                        LeftOut{"OfABcast", 1, {Collective::bcast, Collective::reduce, Collective::reduce}}),
        testing::Bool()),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) + (std::get<1>(info.param) ? "Begun" : "");
    });

// A rooted collective lets ranks run ahead of others, whose turn is still to come.
TEST(Board, PagesStayWhileARankIsBehind) {
  const BoardShape shape{2, 4096};
  const Mapping memory(shape.total_bytes());
  Board ahead(memory.data(), shape, 0, {});
  Board behind(memory.data(), shape, 1, {});
  const auto are_given_back = [&] { return ahead.give_pages_back([](int, std::byte*, std::size_t) {}); };
  EXPECT_FALSE(are_given_back()) << "nobody has opened the gate";
  ahead.open_gate();
  EXPECT_TRUE(are_given_back());
  ahead.begin_use();
  EXPECT_FALSE(are_given_back());
  ahead.end_use();
  EXPECT_FALSE(are_given_back()) << "the other one has still to come";
  behind.begin_use();
  EXPECT_FALSE(are_given_back());
  behind.end_use();
  EXPECT_TRUE(are_given_back());
}

// Rank 0 has been on one stage and rank 1 on the other. Each rank still has to come to the stage where the
// other one was.
TEST(Board, PagesStayWhileRanksAreOnDifferentStages) {
  const BoardShape shape{2, 4096, 2};
  const Mapping memory(shape.total_bytes());
  Board first_of_0(memory.data(), shape, 0, {}, 0);
  Board second_of_0(memory.data(), shape, 0, {}, 1);
  Board first_of_1(memory.data(), shape, 1, {}, 0);
  Board second_of_1(memory.data(), shape, 1, {}, 1);
  const auto use = [](Board& board) {
    board.begin_use();
    board.end_use();
  };
  const auto are_given_back = [&] { return first_of_0.give_pages_back([](int, std::byte*, std::size_t) {}); };
  first_of_0.open_gate();
  use(first_of_0);
  use(second_of_1);
  EXPECT_FALSE(are_given_back());
  use(second_of_0);
  use(first_of_1);
  EXPECT_TRUE(are_given_back());
}

// One rank makes a blocking call and an operation in two threads, while a third thread wants the pages back.
// No thread may find the pages gone while it uses them, and at the end every use is over.
TEST(Board, CountsUsesOfSeveralThreads) {
  constexpr int uses = 20'000;
  const BoardShape shape{1, 4096, 2};
  const Mapping memory(shape.total_bytes());
  std::array<std::atomic<bool>, 2> is_used{};
  std::atomic<int> taken_in_use{0};
  Board bystander(memory.data(), shape, 0, {});
  bystander.open_gate();
  const auto take = [&] {
    return bystander.give_pages_back([&](int, std::byte*, std::size_t) {
      for (const auto& each : is_used) taken_in_use += each.load(std::memory_order_relaxed) ? 1 : 0;
    });
  };
  {
    std::jthread collector([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        static_cast<void>(take());
        std::this_thread::yield();
      }
    });
    std::vector<std::jthread> threads;
    for (int stage = 0; stage < shape.stages; ++stage) {
      threads.emplace_back([&, stage] {
        Board board(memory.data(), shape, 0, {}, stage);
        for (int k = 0; k < uses; ++k) {
          board.begin_use();
          is_used[static_cast<std::size_t>(stage)].store(true, std::memory_order_relaxed);
          if (k % 256 == 0) sched_yield();
          is_used[static_cast<std::size_t>(stage)].store(false, std::memory_order_relaxed);
          board.end_use();
        }
      });
    }
  }
  EXPECT_EQ(taken_in_use, 0);
  EXPECT_TRUE(take()) << "a use was not counted, so the pages stay for ever";
}

INSTANTIATE_TEST_SUITE_P(Threads, BoardOfThreads, testing::Values(2, 3, 4, 5, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace offbeat
