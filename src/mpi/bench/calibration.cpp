// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/calibration.hpp"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "mpi/bench/mpi_header.hpp"
#include "mpi/bench/prober.hpp"
#include "mpi/bench/probes.hpp"
#include "mpi/bench/records.hpp"

namespace offbeat::bench {
namespace {

constexpr Nanoseconds nap_ns = 200'000;
constexpr int result_tag = 3;  // a Prober has 1 and 2

struct CalibrationArguments {
  std::string probes;
  std::string output;
  double deadline_s = 0;
  bool yield = false;
};

CalibrationArguments parse_calibration_arguments(int argc, char** argv) {
  CalibrationArguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--yield") {
      arguments.yield = true;
      continue;
    }
    if (i + 1 == argc) throw std::runtime_error("missing value for " + std::string(name));
    const std::string value = argv[++i];
    if (name == "--probes") {
      arguments.probes = value;
    } else if (name == "--output") {
      arguments.output = value;
    } else if (name == "--deadline") {
      arguments.deadline_s = std::stod(value);
    } else {
      throw std::runtime_error("unknown option " + std::string(name));
    }
  }
  if (arguments.probes.empty() || arguments.output.empty() || arguments.deadline_s <= 0)
    throw std::runtime_error("--probes, --output and --deadline are required");
  return arguments;
}

// Returns the text of a file that rank 0 reads. Other ranks may be on hosts that do not have it.
std::string text_of(const Job& job, const std::string& path) {
  std::string text;
  if (job.rank == 0) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    std::ostringstream all;
    all << file.rdbuf();
    text = all.str();
  }
  text.resize(value_on_rank_0(text.size()));
  broadcast_from_rank_0(std::span(text.data(), text.size()));
  return text;
}

// A barrier in which ranks nap while they wait.
void barrier_with_naps() {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    const timespec nap{0, nap_ns};
    if (done == 0) nanosleep(&nap, nullptr);
  }
}

// Brings the samples from the leader to rank 0.
Samples samples_on_rank_0(const Job& job, int leader, Samples samples) {
  if (leader == 0) return samples;
  for (std::vector<double>* values : {&samples.us, &samples.receive_us}) {
    if (job.rank == leader) {
      MPI_Send(values->data(), static_cast<int>(values->size()), MPI_DOUBLE, 0, result_tag, MPI_COMM_WORLD);
    } else if (job.rank == 0) {
      values->resize(Samples::most);
      MPI_Status status;
      int count = 0;
      MPI_Recv(values->data(), static_cast<int>(values->size()), MPI_DOUBLE, leader, result_tag,
               MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_DOUBLE, &count);
      values->resize(static_cast<std::size_t>(count));
    }
  }
  return samples;
}

Record record_of(const Probe& probe, const Samples& samples) {
  Record record("probe");
  const std::vector<double> ranks(probe.ranks.begin(), probe.ranks.end());
  record.add("kind", name_of(probe.kind)).add("round", probe.round);
  record.add("bytes", static_cast<std::int64_t>(probe.bytes)).add("ranks", ranks).add("us", samples.us);
  if (!samples.receive_us.empty()) record.add("receive_us", samples.receive_us);
  return record;
}

Record header_of(const Job& job, const std::vector<std::string>& hosts, double clock_residual_ns) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[std::strcspn(version, "\n")] = '\0';
  std::map<std::string, std::size_t> numbers;
  std::vector<double> nodes;
  for (const std::string& host : hosts)
    nodes.push_back(static_cast<double>(numbers.emplace(host, numbers.size()).first->second));
  Record record("header");
  record.add("ranks", std::int64_t{job.ranks}).add("host", hosts.front()).add("mpi", version);
  record.add("node_of_rank", nodes).add("clock_residual_ns", clock_residual_ns);
  return record;
}

}  // namespace

void run_calibration(Job& job, int argc, char** argv) {
  const CalibrationArguments arguments = parse_calibration_arguments(argc, argv);
  job.yield = arguments.yield;
  if (job.rank == 0) job.records.open(arguments.output);
  const std::vector<Probe> probes = parse_probes(text_of(job, arguments.probes), job.ranks);
  const std::vector<std::string> hosts = gather_texts(job, host_name());
  job.clock = synchronised_clock(job);
  const std::vector<double> residuals_ns = gather(job, std::vector{job.clock.residual_ns});
  if (job.rank == 0) job.records.write(header_of(job, hosts, *std::ranges::max_element(residuals_ns)));
  Prober prober(job);
  for (const Probe& probe : probes) {
    const Nanoseconds end = from_unix_time(arguments.deadline_s);
    if (value_on_rank_0(now_ns() >= end)) break;
    Samples samples;
    if (std::ranges::find(probe.ranks, job.rank) != probe.ranks.end()) samples = prober.run(probe);
    barrier_with_naps();
    samples = samples_on_rank_0(job, probe.ranks.front(), std::move(samples));
    job.records.write(record_of(probe, samples));
  }
  job.records.write(Record("end"));
}

}  // namespace offbeat::bench
