// SPDX-License-Identifier: BSD-3-Clause
//
// The rank side of `offbeat bench`: runs under mpirun and the preload, measures
// every cell that it is asked for and lets rank 0 write JSON lines.

#include <sched.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure.hpp"
#include "mpi_header.hpp"
#include "records.hpp"
#include "size_bench.hpp"

// After mpi.h.
// clang-format off
#include "mpi/clock_network.hpp"
// clang-format on

namespace offbeat::bench {

static std::set<std::string> hosts(const Job& job) {
  char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
  int length = 0;
  MPI_Get_processor_name(name, &length);
  std::vector<char> names(job.rank == 0 ? sizeof name * static_cast<std::size_t>(job.ranks) : 0);
  MPI_Gather(name, sizeof name, MPI_CHAR, names.data(), sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  std::set<std::string> result;
  for (std::size_t i = 0; i < names.size(); i += sizeof name) result.insert(&names[i]);
  return result;
}

// The CPUs that this rank may use, such as "0-3,8".
static std::string allowed_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "";
  std::string text;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &set)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
    first = last;
  }
  return text;
}

// Of every rank, on rank 0.
static std::vector<std::string> binding(const Job& job) {
  std::array<char, 128> mine{};
  allowed_cpus().copy(mine.data(), mine.size() - 1);
  std::vector<std::array<char, 128>> all(job.rank == 0 ? static_cast<std::size_t>(job.ranks) : 0);
  MPI_Gather(mine.data(), sizeof mine, MPI_CHAR, all.data(), sizeof mine, MPI_CHAR, 0, MPI_COMM_WORLD);
  std::vector<std::string> cpus;
  for (const auto& text : all) cpus.emplace_back(text.data());
  return cpus;
}

// Half a second for two hosts, so that the slope holds for minutes. No messages on one host.
static clock::Model synchronised(const Job& job) {
  const struct {
    decltype(&MPI_Send) Send = MPI_Send;
    decltype(&MPI_Recv) Recv = MPI_Recv;
    decltype(&MPI_Allgather) Allgather = MPI_Allgather;
  } mpi;
  ClockNetwork network(mpi, MPI_COMM_WORLD, job.rank, job.ranks);
  return clock::synchronise(network, network.hosts(), clock::Method::hca3, {.least_ns = 500'000'000});
}

// The worst of all ranks, on rank 0.
static double residual_ns(const Job& job) {
  double mine = job.clock.residual_ns;
  double worst = mine;
  MPI_Reduce(&mine, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  return worst;
}

static Record header(const Job& job, const std::set<std::string>& hosts, double clock_residual_ns,
                     const std::vector<std::string>& cpus) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[std::strcspn(version, "\n")] = '\0';
  Record record("header");
  record.add("ranks", std::int64_t{job.ranks}).add("host", *hosts.begin()).add("mpi", version);
  record.add("offbeat", job.library.version()).add("family", job.library.family()).add("yield", job.yield);
  record.add("hosts", static_cast<std::int64_t>(hosts.size())).add("clock_residual_ns", clock_residual_ns);
  record.add("cpus", cpus);
  return record;
}

static const Arrival& named(const std::vector<Arrival>& arrivals, const std::string& name) {
  for (const Arrival& arrival : arrivals) {
    if (arrival.name == name) return arrival;
  }
  throw std::runtime_error("no arrival pattern " + name);
}

static std::string measure_cells(Job& job, const Options& options, const std::vector<Arrival>& arrivals,
                                 const std::vector<CellRequest>& cells) {
  std::unique_ptr<SizeBench> bench;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::size_t left = cells.size() - c;
    if (time_is_over(options)) return {};
    if (c == 0 || cells[c].size_bytes != cells[c - 1].size_bytes ||
        cells[c].collective != cells[c - 1].collective) {
      bench.reset();  // its memory is free before the next is taken
      bench = std::make_unique<SizeBench>(job, options, cells[c]);
      if (std::string error = bench->prepare(left); !error.empty()) return error;
    }
    bench->measure_all(cells[c], named(arrivals, cells[c].pattern), left);
  }
  return {};
}

// Empty, or why nothing (more) was measured.
static std::string run(Job& job, const Options& options) {
  const std::set<std::string> all_hosts = hosts(job);
  int host_count = static_cast<int>(all_hosts.size());
  MPI_Bcast(&host_count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (!job.library.loaded()) return "liboffbeat is not loaded in the ranks";
  job.clock = synchronised(job);
  job.gate =
      std::make_unique<Gate>(host_count == 1 ? options.gate : std::string(), job.rank, job.ranks, job.yield);
  const std::vector<Arrival> arrivals = read_arrivals(options.arrivals, static_cast<std::size_t>(job.ranks));
  const std::vector<std::string> cpus = binding(job);
  const double clock_residual_ns = residual_ns(job);
  if (job.rank == 0) job.records.write(header(job, all_hosts, clock_residual_ns, cpus));
  return measure_cells(job, options, arrivals, read_cells(options.cells));
}

static void run_options(Job& job, int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  job.yield = options.yield;
  if (job.rank == 0) job.records.open(options.output);
  const std::string error = run(job, options);
  job.records.write(error.empty() ? Record("end") : Record("error").add("message", error));
}

}  // namespace offbeat::bench

extern "C" __attribute__((visibility("default"))) int offbeat_bench_main(int argc, char** argv) {
  using namespace offbeat::bench;
  MPI_Init(&argc, &argv);
  Job job;
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  try {
    run_options(job, argc, argv);
  } catch (const std::exception& error) {
    // Perhaps on this rank alone (rank 0 opens a file): the others must not wait for it.
    std::fprintf(stderr, "offbeat-bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
