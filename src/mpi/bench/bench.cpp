// SPDX-License-Identifier: BSD-3-Clause
// The program that the ranks of `offbeat bench` run, under mpirun and the preload. They measure every cell
// that they are asked for, and rank 0 writes JSON lines. With --calibrate they run calibration.hpp instead.

#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "mpi/bench/calibration.hpp"
#include "mpi/bench/measure.hpp"
#include "mpi/bench/mpi_header.hpp"
#include "mpi/bench/probe.hpp"
#include "mpi/bench/records.hpp"
#include "mpi/bench/size_bench.hpp"

namespace offbeat::bench {
namespace {

// Returns the CPUs that this rank may use, such as "0-3,8".
std::string allowed_cpus() {
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

Record header_record(const Job& job, const std::set<std::string>& hosts, double clock_residual_ns,
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

const Arrival& find_pattern(const std::vector<Arrival>& arrivals, const std::string& name) {
  for (const Arrival& arrival : arrivals) {
    if (arrival.name == name) return arrival;
  }
  throw std::runtime_error("no arrival pattern " + name);
}

std::string measure_cells(Job& job, const Options& options, const std::vector<Arrival>& arrivals,
                          const std::vector<CellRequest>& cells) {
  std::unique_ptr<SizeBench> bench;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::size_t left = cells.size() - c;
    if (time_is_over(options)) return {};
    if (c == 0 || cells[c].call != cells[c - 1].call) {
      bench.reset();  // frees its memory before the next one is allocated
      bench = std::make_unique<SizeBench>(job, options, cells[c]);
      if (std::string error = bench->prepare(left); !error.empty()) return error;
    }
    bench->measure_all(cells[c], find_pattern(arrivals, cells[c].pattern), left);
  }
  return {};
}

// Measures everything. Returns an empty text, or the reason why nothing more was measured.
std::string run(Job& job, const Options& options) {
  const std::vector<std::string> names = gather_texts(job, host_name());
  if (options.probe) {
    probe(job, names, gather_texts(job, allowed_cpus()));
    return {};
  }
  const std::set<std::string> hosts(names.begin(), names.end());
  const bool is_one_host = value_on_rank_0(hosts.size() == 1);
  if (!job.library.is_loaded()) return "liboffbeat is not loaded in the ranks";
  job.clock = synchronised_clock(job);
  job.gate =
      std::make_unique<Gate>(is_one_host ? options.gate : std::string(), job.rank, job.ranks, job.yield);
  const std::vector<Arrival> arrivals = read_arrivals(options.arrivals, static_cast<std::size_t>(job.ranks));
  const std::vector<std::string> cpus = gather_texts(job, allowed_cpus());
  const std::vector<double> residuals_ns = gather(job, std::vector{job.clock.residual_ns});
  if (job.rank == 0)
    job.records.write(header_record(job, hosts, *std::ranges::max_element(residuals_ns), cpus));
  return measure_cells(job, options, arrivals, read_cells(options.cells));
}

void run_options(Job& job, int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  job.yield = options.yield;
  if (job.rank == 0) job.records.open(options.output);
  const std::string error = run(job, options);
  job.records.write(error.empty() ? Record("end") : Record("error").add("message", error));
}

}  // namespace
}  // namespace offbeat::bench

extern "C" __attribute__((visibility("default"))) int offbeat_bench_main(int argc, char** argv) {
  using namespace offbeat::bench;
  std::signal(SIGXFSZ, SIG_IGN);  // a file that exceeds the limit on file size is an error
  MPI_Init(&argc, &argv);
  Job job;
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  try {
    const bool is_calibration = argc > 1 && std::strcmp(argv[1], "--calibrate") == 0;
    is_calibration ? run_calibration(job, argc - 1, argv + 1) : run_options(job, argc, argv);
  } catch (const std::exception& error) {
    // The error may have happened on this rank alone (rank 0 opens a file), so the others must not wait for
    // it.
    std::fprintf(stderr, "offbeat-bench: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
