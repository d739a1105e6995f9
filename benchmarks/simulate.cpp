// SPDX-License-Identifier: BSD-3-Clause
// What simulating costs, one line for each run. The goal on one core: recursive doubling of 8 bytes over
// 32,768 ranks in less than 1 s and 200 MB. The first algorithms are bare loops, so that only the simulator
// is measured; `hierarchy` also has a board for each node.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "collectives/algorithm.hpp"
#include "simulator/simulator.hpp"
#include "support/bare_algorithms.hpp"

namespace {

using namespace offbeat;

// A cluster with 16 ranks per node; times as in Nuriyev et al., JPDC 2024, halved within a node.
SimulatedMachine cluster(int ranks_per_node = 16) {
  SimulatedMachine machine;
  machine.ranks_per_node = ranks_per_node;
  machine.intra_alpha = 0.75e-6;
  machine.intra_beta = 3.125e-11;
  machine.inter_alpha = 1.5e-6;
  machine.inter_beta = 6.25e-11;
  machine.injection_rate = 24e9;
  machine.gamma = 2e-10;
  return machine;
}

const Reduction sum(ElementType::int64, ReduceOp::sum);

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

template <class MakeTask>
void report(const char* name, int ranks, const SimulationOptions& options, MakeTask make,
            const SimulatedMachine& machine = cluster(), int lanes = 1) {
  const auto begin = std::chrono::steady_clock::now();
  Simulator simulator(ranks, machine, options);
  const SimulationResult result = simulator.run(make, {}, lanes);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%-30s %8d %9.3f %13.3f %12llu %12llu %10.2f %9.1f\n", name, ranks, seconds,
              result.last_exit * 1e6, static_cast<unsigned long long>(result.messages),
              static_cast<unsigned long long>(result.events),
              static_cast<double>(result.events) / seconds * 1e-6, static_cast<double>(peak_kib()) / 1024);
  std::fflush(stdout);
}

bool run_recursive_doubling(int ranks) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(ranks), 1);
  report("recursive doubling, 8 B", ranks, {}, [&](int rank, Endpoint net) {
    auto* value = reinterpret_cast<std::byte*>(&values[static_cast<std::size_t>(rank)]);
    return bare_recursive_doubling(net, sum, Vector{value, 1, sizeof(std::int64_t)});
  });
  return std::all_of(values.begin(), values.end(), [&](std::int64_t value) { return value == ranks; });
}

bool run_ring(int ranks) {
  constexpr std::size_t count = (std::size_t{64} << 20) / sizeof(std::int64_t);
  report("ring, 64 MiB, phantom", ranks, {.phantom = true}, [&](int, Endpoint net) {
    return bare_ring(net, sum, Vector{nullptr, count, sizeof(std::int64_t)});
  });
  return true;
}

bool run_hierarchy(const char* name, int ranks, int ranks_per_node) {
  const Expression hierarchy =
      parse_expression(Collective::allreduce, "hierarchy(arrival_tree, recursive_doubling)");
  const Vector data{nullptr, 2048, sizeof(std::int64_t)};
  report(
      name, ranks, {.phantom = true, .board_window_bytes = std::size_t{64} << 10},
      [&](int, Endpoint net) {
        return carry_out(net, {Collective::allreduce, data, data, &sum}, hierarchy);
      },
      cluster(ranks_per_node), hierarchy.lanes());
  return true;
}

// In a process of its own, so that the peak is that of this run.
template <class Run>
bool apart(Run run) {
  const pid_t child = fork();
  if (child == 0) _exit(run() ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main() {
  std::printf("%-30s %8s %9s %13s %12s %12s %10s %9s\n", "", "ranks", "wall s", "simulated us", "messages",
              "events", "Mevents/s", "peak MiB");
  std::fflush(stdout);
  bool right = apart([] { return run_recursive_doubling(32768); });
  right &= apart([] { return run_ring(1024); });
  right &= apart([] { return run_ring(4096); });
  right &= apart([] { return run_recursive_doubling(262144); });
  right &= apart([] { return run_hierarchy("hierarchy, 16 KiB, 16 a node", 65536, 16); });
  right &= apart([] { return run_hierarchy("hierarchy, 16 KiB, 64 a node", 65536, 64); });
  if (!right) std::puts("WRONG RESULT");
  return right ? 0 : 1;
}
