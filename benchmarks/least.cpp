// SPDX-License-Identifier: BSD-3-Clause
// How near offbeat's collectives are to what none on copies can do without, with two ranks: each in turn with
// the least that is to be done, written by hand.
//
// An allreduce whose second rank is late: that rank has to read its own vector and what the other one has
// left, and to write its result and something from which the other one gets its own, 2n bytes read and 2n
// written, half of them in lines that the other core has. Its least is one sum in place and one copy, block
// by block, and a word for each quarter, at which the other rank copies it.
//
// Others, whose ranks come together: each block is copied into memory that both have, and out of it. Their
// least is these two copies in pieces, with a word for each piece, and a copy of the rank's own block; of
// several ways to cut and to copy, the one that was fastest.
//
//     benchmark_least [COLLECTIVE ...]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "base/copy.hpp"
#include "base/settings.hpp"
#include "collectives/algorithm.hpp"
#include "node/board.hpp"
#include "processes.hpp"
#include "selection/selection.hpp"

namespace offbeat {
namespace {

constexpr std::size_t most_bytes = std::size_t{4} << 20;
constexpr std::size_t footprint = std::size_t{8} << 20;
constexpr std::size_t most_pieces = 64;

struct alignas(64) Word {
  std::atomic<long> value;
  void set(long number) { value.store(number, std::memory_order_release); }
  void wait(long number) const {
    while (value.load(std::memory_order_acquire) != number) relax();
  }
};

struct Shared {
  Barrier barrier;
  Word left_by_early;
  Word done[2][most_pieces];
  double begins[2];
  double exits[2];
  alignas(4096) std::byte windows[2][most_bytes];
};

// How a block goes from one rank to the other.
struct Way {
  void (*put)(void* to, const void* from, std::size_t bytes);
  std::size_t piece_bytes;
};
constexpr Way ways[] = {
    {offbeat::copy, 4096},
    {offbeat::copy, 16384},
    {offbeat::copy, 65536},
    {offbeat::copy_to_shared, 8192},
    {offbeat::copy_to_shared, 65536},
    {offbeat::copy_past_cache, 16384},
    {offbeat::copy_past_cache, 65536},
};

template <class Do>
void in_pieces(const Way& way, std::size_t bytes, Do&& each) {
  const std::size_t length = std::max(way.piece_bytes, bytes / most_pieces);
  std::size_t number = 0;
  for (std::size_t first = 0; first < bytes; first += length)
    each(number++, first, std::min(length, bytes - first));
}

// One rank of a measurement: what it has, and the two things that it does in turn.
struct Rank {
  Shared& shared;
  Board& board;
  const Endpoint& net;
  const Reduction& sum;
  int me;
  long number = 0;  // of the last call of either kind

  // Into the window, in which this rank may write first what it read last; and out of the other one.
  void give(const Way& way, const std::byte* block, std::size_t bytes) const {
    std::byte* window = shared.windows[me ^ (number >> 1 & 1)];
    in_pieces(way, bytes, [&](std::size_t piece, std::size_t first, std::size_t length) {
      way.put(window + first, block + first, length);
      shared.done[me][piece].set(number);
    });
  }
  void take(const Way& way, std::byte* block, std::size_t bytes) const {
    const std::byte* window = shared.windows[(1 - me) ^ (number >> 1 & 1)];
    in_pieces(way, bytes, [&](std::size_t piece, std::size_t first, std::size_t length) {
      shared.done[1 - me][piece].wait(number);
      offbeat::copy(block + first, window + first, length);
    });
  }

  void least_of_late_allreduce(const Call& call) const {
    constexpr std::size_t parts = 4;
    std::byte* window = shared.windows[number >> 1 & 1];
    const std::size_t part = call.input.bytes() / parts;
    if (me == 0) {
      offbeat::copy(window, call.input.data, call.input.bytes());
      shared.left_by_early.set(number);
      for (std::size_t k = 0; k < parts; ++k) {
        shared.done[1][k].wait(number);
        offbeat::copy(call.output.data + k * part, window + k * part, part);
      }
      return;
    }
    shared.left_by_early.wait(number);
    for (std::size_t k = 0; k < parts; ++k) {
      for (std::size_t first = k * part; first < (k + 1) * part;) {
        const std::size_t length = std::min<std::size_t>(8192, (k + 1) * part - first);
        const void* operands[2] = {window + first, call.input.data + first};
        sum(window + first, operands, 2, length / sizeof(float));
        offbeat::copy(call.output.data + first, window + first, length);
        first += length;
      }
      shared.done[1][k].set(number);
    }
  }

  void least(const Call& call, const Way& way, std::size_t bytes) const {
    const auto mine = static_cast<std::size_t>(me) * bytes;
    const std::size_t other = bytes - mine;
    switch (call.collective) {
      case Collective::allreduce:
        return least_of_late_allreduce(call);
      case Collective::bcast:
        if (me == 0) return give(way, call.input.data, bytes);
        return take(way, call.output.data, bytes);
      case Collective::gather:
        if (me == 1) return give(way, call.input.data, bytes);
        offbeat::copy(call.output.data, call.input.data, bytes);
        return take(way, call.output.data + bytes, bytes);
      case Collective::allgather:
        give(way, call.input.data, bytes);
        offbeat::copy(call.output.data + mine, call.input.data, bytes);
        return take(way, call.output.data + other, bytes);
      default:  // alltoall
        give(way, call.input.data + other, bytes);
        offbeat::copy(call.output.data + mine, call.input.data + mine, bytes);
        return take(way, call.output.data + other, bytes);
    }
  }

  void by_offbeat(const Call& call, const Expression& expression, std::size_t bytes) const {
    board.enter(board.current_call_number + 1, call.collective, bytes);
    run_on_board(board, net, call, expression);
  }

  // The medians of calls by offbeat and of the least, in turn: from the moment at which the last rank was due
  // to the exit of the last one.
  void compare(Collective collective, const Way& way, std::size_t bytes, double late_us,
               double (&medians)[2]) {
    const std::size_t count = bytes / sizeof(float);
    const bool is_personalised = collective == Collective::alltoall;
    const bool collects =
        is_personalised || collective == Collective::allgather || collective == Collective::gather;
    struct Buffers {
      std::vector<float> input;
      std::vector<float> output;
    };
    // Odd, so that both take turns with all of them.
    const std::size_t sets = std::clamp<std::size_t>(footprint / (2 * bytes), 3, 9) | 1;
    std::vector<Buffers> buffers(sets, {std::vector<float>(is_personalised ? 2 * count : count, 1.0F),
                                        std::vector<float>(collects ? 2 * count : count)});
    const Placement placement{.ranks = 2, .nodes = 1, .board = true};
    const Expression& expression = *Selection().plan(collective, placement).row_for(bytes).expression;
    const float expected = collective == Collective::allreduce ? 2.0F : 1.0F;
    const bool has_result = collective != Collective::gather || me == 0;
    std::vector<double> delays[2];
    const int repeats = bytes <= (std::size_t{1} << 20) ? 301 : 51;
    for (int k = 0; k < 2 * repeats; ++k) {
      const bool is_least = k % 2 == 1;
      Buffers& set = buffers[static_cast<std::size_t>(k) % sets];
      Call call{collective,
                {reinterpret_cast<const std::byte*>(set.input.data()), set.input.size(), sizeof(float)},
                {reinterpret_cast<std::byte*>(set.output.data()), set.output.size(), sizeof(float)},
                collective == Collective::allreduce ? &sum : nullptr};
      if (collective == Collective::bcast && me == 0)
        call.output = {reinterpret_cast<std::byte*>(set.input.data()), count, sizeof(float)};
      ++number;
      shared.barrier.wait(2, false);
      shared.begins[me] = now_us() + (me == 1 ? late_us : 0);
      while (now_us() < shared.begins[me]) relax();
      is_least ? least(call, way, bytes) : by_offbeat(call, expression, bytes);
      shared.exits[me] = now_us();
      const auto* result = reinterpret_cast<const float*>(call.output.data);
      if (has_result &&
          std::any_of(result, result + call.output.count, [&](float value) { return value != expected; })) {
        std::printf("a wrong result at %zu bytes\n", bytes);
        std::fflush(stdout);
        _exit(1);
      }
      std::ranges::fill(set.output, 0.0F);
      shared.barrier.wait(2, false);
      delays[is_least].push_back(std::max(shared.exits[0], shared.exits[1]) -
                                 std::max(shared.begins[0], shared.begins[1]));
    }
    medians[0] = median(delays[0]);
    medians[1] = median(delays[1]);
  }

  void measure(Collective collective) {
    const bool is_late = collective == Collective::allreduce;
    if (me == 0)
      std::printf("\n%s%s\n%10s  %11s  %9s  %6s\n", name_of(collective).data(), is_late ? ", one late" : "",
                  "bytes", "offbeat, us", "least, us", "ratio");
    for (std::size_t bytes = 1024; bytes <= most_bytes; bytes *= 4) {
      double best[2] = {};
      for (const Way& way : ways) {
        double medians[2];
        compare(collective, way, bytes, is_late ? 2 + static_cast<double>(bytes) * 0.4e-3 : 0, medians);
        if (best[1] == 0 || medians[1] < best[1]) std::copy_n(medians, 2, best);
        if (is_late) break;  // it has one way
      }
      if (me == 0) std::printf("%10zu  %11.2f  %9.2f  %6.2f\n", bytes, best[0], best[1], best[0] / best[1]);
      std::fflush(stdout);
    }
  }
};

void live(Shared& shared, void* memory, const BoardShape& shape, int me,
          const std::vector<Collective>& collectives) {
  stay_on(me);
  BoardOnly transport;
  Board board(memory, shape, me, Patience{});
  transport.board = &board;
  const Endpoint net(transport, me, 2);
  const Reduction sum(ElementType::float32, ReduceOp::sum);
  Rank rank{shared, board, net, sum, me};
  for (Collective collective : collectives) rank.measure(collective);
}

void run(const std::vector<Collective>& collectives) {
  const BoardShape shape{2, Settings{}.window_bytes};
  void* memory = offbeat::shared<std::byte>(shape.total_bytes());
  Shared& shared = *offbeat::shared<Shared>(1);
  std::fflush(stdout);
  if (fork() == 0) {
    die_with_parent();
    live(shared, memory, shape, 1, collectives);
    _exit(0);
  }
  live(shared, memory, shape, 0, collectives);
  while (wait(nullptr) > 0) {
  }
}

}  // namespace
}  // namespace offbeat

int main(int argc, char** argv) {
  using offbeat::Collective;
  const std::vector<Collective> known{Collective::allreduce, Collective::bcast, Collective::gather,
                                      Collective::allgather, Collective::alltoall};
  std::vector<Collective> chosen;
  for (int k = 1; k < argc; ++k) {
    const auto named = std::ranges::find_if(known, [&](Collective collective) {
      return std::string_view(argv[k]) == offbeat::name_of(collective);
    });
    if (named == known.end()) {
      std::fprintf(stderr, "benchmark_least: %s is not among allreduce, bcast, gather, allgather, alltoall\n",
                   argv[k]);
      return 1;
    }
    chosen.push_back(*named);
  }
  offbeat::run(chosen.empty() ? known : chosen);
}
