// SPDX-License-Identifier: BSD-3-Clause
// How near arrival_tree is to what no allreduce on copies can do without when the last of two ranks is late.
//
// The late rank has to read its own vector and what the other one has left, and to write its result and
// something from which the other one gets its own: 2n bytes read and 2n written, half of them in lines that
// the other core has. `least` is that in its barest form, written by hand: one sum in place and one copy,
// block by block, and a word for each quarter, at which the other rank copies it.
//
//     benchmark_late
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "base/copy.hpp"
#include "base/settings.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "node/board.hpp"
#include "processes.hpp"

namespace offbeat {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20;
constexpr std::size_t footprint = std::size_t{8} << 20;
constexpr std::size_t parts = 4;
constexpr int repeats = 501;

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
  Word part_done[parts];
  double due;
  double exits[2];
  alignas(4096) std::byte windows[2][most_bytes];
};

struct Buffers {
  std::vector<float> input;
  std::vector<float> output;
  explicit Buffers(std::size_t bytes) : input(bytes / sizeof(float), 1.0F), output(bytes / sizeof(float)) {}
};

void least(Shared& shared, bool is_late, const Reduction& sum, Buffers& buffers, long number) {
  const std::size_t bytes = buffers.input.size() * sizeof(float);
  auto* input = reinterpret_cast<const std::byte*>(buffers.input.data());
  auto* output = reinterpret_cast<std::byte*>(buffers.output.data());
  std::byte* window = shared.windows[number & 1];
  const std::size_t part = bytes / parts;
  if (!is_late) {
    offbeat::copy(window, input, bytes);
    shared.left_by_early.set(number);
    for (std::size_t k = 0; k < parts; ++k) {
      shared.part_done[k].wait(number);
      offbeat::copy(output + k * part, window + k * part, part);
    }
    return;
  }
  shared.left_by_early.wait(number);
  for (std::size_t k = 0; k < parts; ++k) {
    for (std::size_t first = k * part; first < (k + 1) * part;) {
      const std::size_t length = std::min<std::size_t>(8192, (k + 1) * part - first);
      const void* operands[2] = {window + first, input + first};
      sum(window + first, operands, 2, length / sizeof(float));
      offbeat::copy(output + first, window + first, length);
      first += length;
    }
    shared.part_done[k].set(number);
  }
}

void tree(Board& board, const Endpoint& net, const Expression& expression, const Reduction& sum,
          Buffers& buffers) {
  const std::size_t count = buffers.input.size();
  board.enter(board.entered + 1, offbeat::Collective::allreduce, count * sizeof(float));
  run_on_board(board, net, allreduce_of(buffers.input.data(), buffers.output.data(), count, sum), expression);
}

void live(Shared& shared, void* memory, const BoardShape& shape, int rank) {
  stay_on(rank);
  const bool is_late = rank == 1;
  BoardOnly transport;
  Board board(memory, shape, rank, Patience{});
  transport.board = &board;
  const Endpoint net(transport, rank, 2);
  const Reduction sum(ElementType::float32, ReduceOp::sum);
  const Expression arrival_tree = parse_expression(Collective::allreduce, "arrival_tree");
  long number = 0;
  for (std::size_t bytes = 4096; bytes <= most_bytes; bytes *= 2) {
    std::vector<Buffers> sets(std::clamp<std::size_t>(footprint / (2 * bytes), 2, 8), Buffers(bytes));
    const double late_by_us = 2 + static_cast<double>(bytes) * 0.4e-3;
    // From the moment at which the late rank was due to the exit of the last one; both in turn.
    std::vector<double> delays[2];
    for (int k = 0; k < 2 * repeats; ++k) {
      const bool is_least = k % 2 == 1;
      Buffers& buffers = sets[static_cast<std::size_t>(k) % sets.size()];
      shared.barrier.wait(2, false);
      if (is_late) {
        shared.due = now_us() + late_by_us;
        while (now_us() < shared.due) relax();
      }
      if (is_least) {
        least(shared, is_late, sum, buffers, ++number);
      } else {
        tree(board, net, arrival_tree, sum, buffers);
      }
      shared.exits[rank] = now_us();
      if (std::ranges::any_of(buffers.output, [](float value) { return value != 2.0F; })) {
        std::printf("a wrong result at %zu bytes\n", bytes);
        std::fflush(stdout);
        _exit(1);
      }
      std::ranges::fill(buffers.output, 0.0F);
      shared.barrier.wait(2, false);
      delays[is_least].push_back(std::max(shared.exits[0], shared.exits[1]) - shared.due);
    }
    if (rank == 0) {
      const double taken = median(delays[0]);
      const double needed = median(delays[1]);
      std::printf("%10zu  %14.2f  %10.2f  %6.2f\n", bytes, taken, needed, taken / needed);
      std::fflush(stdout);
    }
  }
}

void run() {
  const BoardShape shape{2, Settings{}.window_bytes};
  void* memory = offbeat::shared<std::byte>(shape.total_bytes());
  Shared& shared = *offbeat::shared<Shared>(1);
  std::printf("%10s  %14s  %10s  %6s\n", "bytes", "arrival_tree", "least, us", "ratio");
  std::fflush(stdout);
  if (fork() == 0) {
    die_with_parent();
    live(shared, memory, shape, 1);
    _exit(0);
  }
  live(shared, memory, shape, 0);
  while (wait(nullptr) > 0) {
  }
}

}  // namespace
}  // namespace offbeat

int main() { offbeat::run(); }
