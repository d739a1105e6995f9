// SPDX-License-Identifier: BSD-3-Clause
//
// The rank side of `offbeat bench`: runs under mpirun and the preload, measures
// every (size, arrival pattern, algorithm) and lets rank 0 write JSON lines.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <set>
#include <string>
#include <vector>

#include "measure.hpp"
#include "mpi_header.hpp"
#include "records.hpp"
#include "statistics.hpp"

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

static Record header(const Job& job, const std::set<std::string>& hosts) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[std::strcspn(version, "\n")] = '\0';
  Record record("header");
  record.add("ranks", std::int64_t{job.ranks}).add("host", *hosts.begin()).add("mpi", version);
  record.add("offbeat", job.library.version()).add("family", job.library.family()).add("yield", job.yield);
  return record;
}

static Record described(const Summary& summary) {
  Record record("");
  record.add("median", summary.median).add("p10", summary.p10).add("p90", summary.p90);
  record.add("ci95_low", summary.ci_low).add("ci95_high", summary.ci_high);
  return record;
}

static void add_wrong(Record& record, const Wrong& wrong) {
  record.add("wrong_elements", wrong.mismatch.wrong_elements);
  if (wrong.rank < 0) return;
  record.add("wrong_rank", std::int64_t{wrong.rank}).add("wrong_index", wrong.mismatch.first_index);
  record.add("expected", wrong.mismatch.expected).add("got", wrong.mismatch.got);
}

// All the work at one message size.
class SizeBench {
 public:
  SizeBench(Job& job, const Options& options, std::size_t size_bytes, RecordFile& records)
      : job_(job),
        options_(options),
        size_bytes_(static_cast<std::int64_t>(size_bytes)),
        buffers_(size_bytes / sizeof(float), job.rank, job.ranks),
        records_(records) {}

  // Empty, or why the benchmark cannot go on.
  std::string run(const std::vector<Arrival>& arrivals) {
    if (std::string error = check_all(); !error.empty()) return error;
    if (usable_.empty()) return {};
    begin("calibrate", "", "native");
    const double native_us = calibrate();
    for (const Arrival& arrival : arrivals) measure_all(arrival, native_us);
    return {};
  }

 private:
  void begin(const char* what, const std::string& pattern, const std::string& algorithm) {
    Record record("begin");
    record.add("what", what)
        .add("size_bytes", size_bytes_)
        .add("pattern", pattern)
        .add("algorithm", algorithm);
    records_.write(record);
  }

  // Fills usable_, the same on all ranks: the algorithms that are worth timing.
  std::string check_all() {
    for (const std::string& algorithm : options_.algorithms) {
      begin("check", "", algorithm);
      Check result = check(job_, algorithm, buffers_);
      Record record("check");
      record.add("size_bytes", size_bytes_).add("algorithm", algorithm).add("served", result.served);
      add_wrong(record, result.wrong);
      if (result.error.empty()) records_.write(record);
      const bool native = algorithm == "native";
      enum : int { kSkip, kTime, kFatal };
      int verdict = result.wrong.rank < 0 && (native || result.served) ? kTime : kSkip;
      if (!result.error.empty()) verdict = kFatal;
      MPI_Bcast(&verdict, 1, MPI_INT, 0, MPI_COMM_WORLD);
      if (verdict == kFatal) return result.error.empty() ? "rank 0 found an error" : result.error;
      if (verdict == kTime) usable_.push_back(algorithm);
      if (verdict == kSkip && native) return {};  // nothing to compare with at this size
    }
    return {};
  }

  double calibrate() {
    Cell cell;
    cell.budget_s = std::min(0.25 * options_.budget_s, 1.0);
    cell.max_iterations = 200;
    const std::vector<Measurement> native = measure(job_, cell, {"native"}, buffers_);
    double median_us = summarize(last_delays_us(native.front(), mostly_on_time(native))).median;
    MPI_Bcast(&median_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return median_us;
  }

  void measure_all(const Arrival& arrival, double native_us) {
    const double skew_us = options_.skew_us >= 0 ? options_.skew_us : options_.skew_factor * native_us;
    Cell cell;
    cell.arrival = &arrival;
    cell.skew_ns = static_cast<Nanoseconds>(skew_us * 1e3);
    cell.expected_ns = static_cast<Nanoseconds>(native_us * 1e3);
    cell.budget_s = options_.budget_s;
    cell.max_iterations = options_.max_iterations;
    begin("measure", arrival.name, "");
    const std::vector<Measurement> measurements = measure(job_, cell, usable_, buffers_);
    if (job_.rank != 0) return;
    const bool on_time = mostly_on_time(measurements);
    for (std::size_t a = 0; a < usable_.size(); ++a) {
      const Measurement& m = measurements[a];
      const Summary last = summarize(last_delays_us(m, on_time));
      Record record("result");
      record.add("pattern", arrival.name).add("size_bytes", size_bytes_).add("algorithm", usable_[a]);
      record.add("skew_us", skew_us).add("iterations", static_cast<std::int64_t>(last.count));
      record.add("on_time", on_time).add("stopped", m.stopped);
      record.add_json("last_delay_us", described(last));
      record.add_json("total_delay_us", described(summarize(total_delays_us(m, on_time))));
      add_wrong(record, m.wrong);
      records_.write(record);
    }
  }

  Job& job_;
  const Options& options_;
  const std::int64_t size_bytes_;
  Buffers buffers_;
  RecordFile& records_;
  std::vector<std::string> usable_;
};

// Empty, or why nothing (more) was measured.
static std::string run(Job& job, const Options& options, RecordFile& records) {
  const std::set<std::string> all_hosts = hosts(job);
  int host_count = static_cast<int>(all_hosts.size());
  MPI_Bcast(&host_count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (host_count > 1) {
    return "the ranks run on " + std::to_string(host_count) +
           " hosts; offbeat bench measures on one host for now, since clocks of several hosts differ";
  }
  if (!job.library.loaded()) return "liboffbeat is not loaded in the ranks";
  const std::vector<Arrival> arrivals = read_arrivals(options.arrivals, static_cast<std::size_t>(job.ranks));
  if (job.rank == 0) records.write(header(job, all_hosts));
  for (const std::size_t size_bytes : options.sizes_bytes) {
    if (std::string error = SizeBench(job, options, size_bytes, records).run(arrivals); !error.empty())
      return error;
  }
  return {};
}

static void run_options(Job& job, int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  job.yield = options.yield;
  RecordFile records = job.rank == 0 ? RecordFile(options.output) : RecordFile();
  const std::string error = run(job, options, records);
  records.write(error.empty() ? Record("end") : Record("error").add("message", error));
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
