// SPDX-License-Identifier: BSD-3-Clause
// The algorithms on the board without any MPI: what the board itself costs, beside a copy by memcpy and one
// by the kernel from the memory of another process, which would save the copy to the board.
//
// Then where the time of arrival_tree goes; and before all that, what it costs that a core changes from rank
// to rank, where ranks share cores.
//
//     benchmark_board [RANKS [ALGORITHM ...]]
#include "node/board.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/repertoire.hpp"
#include "processes.hpp"

namespace offbeat {
namespace {

constexpr std::size_t footprint = std::size_t{8} << 20;

struct Job {
  int ranks;
  bool shares_cores;
  int concurrent_ranks;
  BoardShape shape;
  void* memory;
  void* other_memory;  // of another board
  Barrier* meeting;
  pid_t* processes;
  float** inputs;  // the first of each rank
  double* arrivals;
  double* exits;
  double* accounts;
};

// Median of last exit - last arrival, on rank 0.
template <class Body>
double measure(const Job& job, int rank, std::size_t bytes, Body&& body) {
  const int repeats = bytes <= (std::size_t{1} << 20) ? 301 : 21;
  std::vector<double> delays;
  for (int k = 0; k < repeats; ++k) {
    job.meeting->wait(job.ranks, job.shares_cores);
    job.arrivals[rank * 8] = now_us();
    body(static_cast<std::size_t>(k));
    job.exits[rank * 8] = now_us();
    job.meeting->wait(job.ranks, job.shares_cores);
    double first = 0;
    double last = 0;
    for (int each = 0; each < job.ranks; ++each) {
      first = std::max(first, job.arrivals[each * 8]);
      last = std::max(last, job.exits[each * 8]);
    }
    delays.push_back(last - first);
  }
  return median(delays);
}

void live(const Job& job, int rank, const std::vector<Expression>& expressions) {
  BoardOnly transport;
  Board board(job.memory, job.shape, rank, Patience{.shares_cores = job.shares_cores});
  board.concurrent_ranks = job.concurrent_ranks;
  transport.board = &board;
  const Endpoint net(transport, rank, job.ranks);
  const Reduction sum(ElementType::float32, ReduceOp::sum);
  if (rank == 0) {
    std::printf("%d ranks; last delay in us\n%10s  %10s  %10s", job.ranks, "bytes", "memcpy", "vm_readv");
    for (const Expression& expression : expressions)
      std::printf("  %14s", expression.canonical_text().c_str());
    std::printf("\n");
    std::fflush(stdout);
  }
  std::uint64_t calls = 0;
  for (std::size_t bytes = 4; bytes <= (std::size_t{64} << 20); bytes *= 4) {
    const std::size_t sets = std::clamp<std::size_t>(footprint / (2 * bytes), 2, 8);
    std::vector<std::vector<float>> inputs(sets, std::vector<float>(bytes / 4, 1.0F));
    std::vector<std::vector<float>> outputs(sets, std::vector<float>(bytes / 4));
    const double copy = measure(job, rank, bytes, [&](std::size_t k) {
      std::memcpy(outputs[k % sets].data(), inputs[k % sets].data(), bytes);
    });
    job.processes[rank] = getpid();
    job.inputs[rank] = inputs[0].data();
    const double kernel_copy = measure(job, rank, bytes, [&](std::size_t k) {
      const int other = (rank + 1) % job.ranks;
      const iovec here{outputs[k % sets].data(), bytes};
      const iovec there{job.inputs[other], bytes};
      if (process_vm_readv(job.processes[other], &here, 1, &there, 1, 0) < 0) std::perror("process_vm_readv");
    });
    if (rank == 0) std::printf("%10zu  %10.2f  %10.2f", bytes, copy, kernel_copy);
    for (const Expression& expression : expressions) {
      const double time = measure(job, rank, bytes, [&](std::size_t k) {
        board.enter(++calls, offbeat::Collective::allreduce, bytes);
        const std::size_t set = k % sets;
        run_on_board(board, net, allreduce_of(inputs[set].data(), outputs[set].data(), bytes / 4, sum),
                     expression);
      });
      if (rank == 0) std::printf("  %14.2f", time);
    }
    if (rank == 0) std::printf("\n");
    std::fflush(stdout);
  }
}

// Does what it is asked to, and keeps count of what that takes.
class Accounting final : public Transport {
 public:
  enum Part { put, combine, collect, parts };

  Accounting(const std::byte* memory, std::size_t bytes) : begin_(memory), end_(memory + bytes) {}
  bool start(Transfer&) override { throw std::logic_error("a message on the board"); }
  bool start(Computation& computation) override {
    const std::byte* to = computation.destination.data;
    const Part part = computation.operand_count > 1 ? combine : begin_ <= to && to < end_ ? put : collect;
    const double start = now_us();
    computation.perform();
    us[part] += now_us() - start;
    bytes[part] += static_cast<double>(computation.destination.bytes());
    return true;
  }

  double us[parts] = {};
  double bytes[parts] = {};

 private:
  const std::byte* begin_;
  const std::byte* end_;
};

// Sums over all ranks, of one allreduce.
void where_time_goes(const Job& job, int rank) {
  const Reduction sum(ElementType::float32, ReduceOp::sum);
  const Expression arrival_tree = parse_expression(offbeat::Collective::allreduce, "arrival_tree");
  auto* const memory = static_cast<std::byte*>(job.other_memory);
  Board board(memory, job.shape, rank, Patience{.shares_cores = job.shares_cores});
  board.concurrent_ranks = job.concurrent_ranks;
  if (rank == 0) {
    std::printf("arrival_tree, all ranks together: us (GB/s written)\n%10s  %18s  %18s  %18s\n", "bytes",
                "put on the board", "combine", "collect");
  }
  constexpr std::size_t sets = 4;
  for (std::size_t bytes = 16384; bytes <= (std::size_t{1} << 20); bytes *= 4) {
    std::vector<std::vector<float>> inputs(sets, std::vector<float>(bytes / 4, 1.0F));
    std::vector<std::vector<float>> outputs(sets, std::vector<float>(bytes / 4));
    Accounting transport(memory, job.shape.total_bytes());
    transport.board = &board;
    const Endpoint net(transport, rank, job.ranks);
    constexpr std::size_t calls = 300;
    for (std::size_t k = 0; k < calls; ++k) {
      const std::size_t set = k % sets;
      job.meeting->wait(job.ranks, job.shares_cores);
      board.enter(board.current_call_number + 1, offbeat::Collective::allreduce, bytes);
      finish(carry_out(net, allreduce_of(inputs[set].data(), outputs[set].data(), bytes / 4, sum),
                       arrival_tree));
    }
    double* const mine = job.accounts + static_cast<std::ptrdiff_t>(rank) * 2 * Accounting::parts;
    std::copy_n(transport.us, Accounting::parts, mine);
    std::copy_n(transport.bytes, Accounting::parts, mine + Accounting::parts);
    job.meeting->wait(job.ranks, job.shares_cores);
    if (rank == 0) {
      std::printf("%10zu", bytes);
      for (int part = 0; part < Accounting::parts; ++part) {
        double us = 0;
        double written = 0;
        for (int each = 0; each < job.ranks; ++each) {
          us += job.accounts[each * 2 * Accounting::parts + part];
          written += job.accounts[(each * 2 + 1) * Accounting::parts + part];
        }
        std::printf("  %10.2f (%5.1f)", us / calls, us > 0 ? written / us * 1e-3 : 0);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
    job.meeting->wait(job.ranks, job.shares_cores);
  }
}

double changes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_nvcsw + used.ru_nivcsw);
}

// Two processes on one core that can only go on in turn: the time of one change between them.
double change_of_rank_us() {
  constexpr int turns = 100000;
  auto* turn = shared<std::atomic<int>>(1);
  const auto play = [&](int me) {
    stay_on(0);
    for (int k = me; k < turns; k += 2) {
      while (turn->load() != k) sched_yield();
      turn->store(k + 1);
    }
  };
  const double start = now_us();
  const pid_t other = fork();
  if (other == 0) {
    die_with_parent();
    play(1);
    _exit(0);
  }
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  play(0);
  waitpid(other, nullptr, 0);
  const double time = now_us() - start;
  sched_setaffinity(0, sizeof before, &before);
  return time / turns;
}

// Allreduces of 4 bytes, one after the other.
void back_to_back(const Job& job, int rank) {
  constexpr int calls = 50000;
  BoardShape shape = job.shape;
  Board board(job.other_memory, shape, rank, Patience{.shares_cores = job.shares_cores});
  const Reduction sum(ElementType::float32, ReduceOp::sum);
  float input = 1;
  float output = 0;
  const Call args = allreduce_of(&input, &output, 1, sum);
  const Algorithm& arrival_tree = allreduce_algorithms::arrival_tree;
  const Immediate* form = immediate_form(arrival_tree, job.ranks, sizeof input);
  if (form == nullptr) return;
  job.meeting->wait(job.ranks, job.shares_cores);
  const double changes_before = changes();
  const double start = now_us();
  for (int k = 0; k < calls; ++k) {
    board.enter(static_cast<std::uint64_t>(k) + 1, offbeat::Collective::allreduce, sizeof input);
    form->run(board, args);
  }
  job.exits[rank * 8] = (now_us() - start) / calls;
  job.arrivals[rank * 8] = (changes() - changes_before) / calls;
  job.meeting->wait(job.ranks, job.shares_cores);
  double changes_of_all = 0;
  for (int each = 0; each < job.ranks; ++each) changes_of_all += job.arrivals[each * 8];
  if (rank == 0) {
    std::printf("4 bytes, back to back: %.2f us, %.2f changes of rank on all cores\n", job.exits[0],
                changes_of_all);
    std::fflush(stdout);
  }
}

void run(int ranks, const std::vector<Expression>& expressions) {
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const BoardShape shape{ranks, Settings{}.window_bytes};
  const Job job{.ranks = ranks,
                .shares_cores = ranks > cores,
                .concurrent_ranks = std::min(ranks, cores),
                .shape = shape,
                .memory = shared<std::byte>(shape.total_bytes()),
                .other_memory = shared<std::byte>(shape.total_bytes()),
                .meeting = shared<Barrier>(1),
                .processes = shared<pid_t>(static_cast<std::size_t>(ranks)),
                .inputs = shared<float*>(static_cast<std::size_t>(ranks)),
                .arrivals = shared<double>(static_cast<std::size_t>(ranks) * 8),
                .exits = shared<double>(static_cast<std::size_t>(ranks) * 8),
                .accounts = shared<double>(static_cast<std::size_t>(ranks) * 2 * Accounting::parts)};
  if (job.shares_cores)
    std::printf("a core changes from one rank to another in %.2f us\n", change_of_rank_us());
  std::fflush(stdout);
  for (int rank = 1; rank < ranks; ++rank) {
    if (fork() == 0) {
      die_with_parent();
      if (!job.shares_cores) stay_on(rank);
      back_to_back(job, rank);
      live(job, rank, expressions);
      where_time_goes(job, rank);
      _exit(0);
    }
  }
  if (!job.shares_cores) stay_on(0);
  back_to_back(job, 0);
  live(job, 0, expressions);
  where_time_goes(job, 0);
  while (wait(nullptr) > 0) {
  }
}

}  // namespace
}  // namespace offbeat

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<offbeat::Expression> expressions;
  for (int k = 2; k < argc; ++k)
    expressions.push_back(offbeat::parse_expression(offbeat::Collective::allreduce, argv[k]));
  if (expressions.empty()) {
    for (const auto* algorithm : offbeat::repertoire(offbeat::Collective::allreduce).algorithms) {
      if (algorithm->needs.board == offbeat::OnBoard::one_node) {
        expressions.push_back(offbeat::parse_expression(offbeat::Collective::allreduce, algorithm->name));
      }
    }
  }
  offbeat::run(ranks, expressions);
}
