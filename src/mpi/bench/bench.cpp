// SPDX-License-Identifier: BSD-3-Clause
//
// The rank side of `offbeat bench`: runs under mpirun and the preload, measures
// every (size, arrival pattern, algorithm) and lets rank 0 write JSON lines.

#include <algorithm>
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

// What one cell may take of the others' time until it has enough samples.
constexpr Nanoseconds kMostShares = 5;

// All the work at one message size.
class SizeBench {
 public:
  SizeBench(Job& job, const Options& options, std::size_t size_bytes, double native_us, RecordFile& records)
      : job_(job),
        options_(options),
        end_ns_(from_unix_time(options.deadline_s)),
        size_bytes_(static_cast<std::int64_t>(size_bytes)),
        buffers_(size_bytes / sizeof(float), job.rank, job.ranks),
        records_(records),
        native_us_(native_us) {}

  // Checks, and measures native where it is not known. Empty, or why the benchmark cannot go on.
  std::string prepare(std::size_t cells_left) {
    if (std::string error = check_all(); !error.empty()) return error;
    if (usable_.empty() || native_us_ > 0) return {};
    begin("calibrate", "", "native");
    native_us_ = calibrate(cells_left);
    return {};
  }

  // Measures all algorithms; `cells_left`, this one among them, share the time that is left.
  void measure_all(std::size_t number, const CellRequest& request, const Arrival& arrival,
                   std::size_t cells_left) {
    if (usable_.empty()) return;
    const double skew_us = request.skew_factor * native_us_ + request.skew_us;
    Cell cell;
    cell.arrival = &arrival;
    cell.skew_ns = static_cast<Nanoseconds>(skew_us * 1e3);
    cell.expected_ns = static_cast<Nanoseconds>(native_us_ * 1e3);
    const Nanoseconds now = now_ns(), share = share_ns(cells_left);
    cell.deadline_ns = now + share;
    cell.end_ns = std::min(end_ns_, now + kMostShares * share);
    cell.max_iterations = options_.max_iterations;
    begin("measure", arrival.name, "");
    const std::vector<Measurement> measurements = measure(job_, cell, usable_, buffers_);
    if (job_.rank != 0) return;
    const bool on_time = mostly_on_time(measurements);
    for (std::size_t a = 0; a < usable_.size(); ++a) {
      const Measurement& m = measurements[a];
      const std::vector<double> last_us = last_delays_us(m, on_time && !job_.yield);
      if (last_us.empty()) continue;
      Record record("result");
      record.add("cell", static_cast<std::int64_t>(number)).add("algorithm", usable_[a]);
      record.add("pattern", arrival.name).add("size_bytes", size_bytes_);
      record.add("skew_us", skew_us).add("native_us", native_us_);
      record.add("iterations", static_cast<std::int64_t>(last_us.size()));
      record.add("on_time", on_time).add("stopped", m.stopped);
      record.add_json("last_delay_us", described(summarize(last_us)));
      record.add_json("total_delay_us", described(summarize(total_delays_us(m, on_time && !job_.yield))));
      add_wrong(record, m.wrong);
      records_.write(record);
    }
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

  Nanoseconds share_ns(std::size_t cells_left) const {
    return std::max<Nanoseconds>(end_ns_ - now_ns(), 0) / static_cast<Nanoseconds>(cells_left);
  }

  double calibrate(std::size_t cells_left) {
    Cell cell;
    cell.deadline_ns = now_ns() + std::min<Nanoseconds>(share_ns(cells_left) / 4, 1'000'000'000);
    cell.end_ns = end_ns_;
    cell.max_iterations = 200;
    const std::vector<Measurement> native = measure(job_, cell, {"native"}, buffers_);
    const bool only_on_time = mostly_on_time(native) && !job_.yield;
    double median_us = summarize(last_delays_us(native.front(), only_on_time)).median;
    MPI_Bcast(&median_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return median_us;
  }

  Job& job_;
  const Options& options_;
  const Nanoseconds end_ns_;
  const std::int64_t size_bytes_;
  Buffers buffers_;
  RecordFile& records_;
  double native_us_;  // the balanced median
  std::vector<std::string> usable_;
};

// The same answer on all ranks, whose clocks may differ.
static bool time_is_over(const Options& options) {
  int over = now_ns() >= from_unix_time(options.deadline_s) ? 1 : 0;
  MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return over != 0;
}

static const Arrival& named(const std::vector<Arrival>& arrivals, const std::string& name) {
  for (const Arrival& arrival : arrivals) {
    if (arrival.name == name) return arrival;
  }
  throw std::runtime_error("no arrival pattern " + name);
}

static std::string measure_cells(Job& job, const Options& options, const std::vector<Arrival>& arrivals,
                                 const std::vector<CellRequest>& cells, RecordFile& records) {
  std::unique_ptr<SizeBench> bench;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::size_t left = cells.size() - c;
    if (time_is_over(options)) return {};
    if (c == 0 || cells[c].size_bytes != cells[c - 1].size_bytes) {
      bench.reset();  // its memory is free before the next is taken
      bench = std::make_unique<SizeBench>(job, options, cells[c].size_bytes, cells[c].native_us, records);
      if (std::string error = bench->prepare(left); !error.empty()) return error;
    }
    bench->measure_all(c, cells[c], named(arrivals, cells[c].pattern), left);
  }
  return {};
}

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
  job.gate = std::make_unique<Gate>(options.gate, job.rank, job.ranks, job.yield);
  const std::vector<Arrival> arrivals = read_arrivals(options.arrivals, static_cast<std::size_t>(job.ranks));
  if (job.rank == 0) records.write(header(job, all_hosts));
  return measure_cells(job, options, arrivals, read_cells(options.cells), records);
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
