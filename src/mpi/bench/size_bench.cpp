// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/size_bench.hpp"

#include <algorithm>
#include <utility>

#include "mpi/bench/statistics.hpp"

namespace offbeat::bench {
namespace {

// If a cell has too few samples, it may take this many times its share of the time.
constexpr Nanoseconds max_shares = 5;
constexpr Nanoseconds most_calibration_ns = 1'000'000'000;

void add_wrong(Record& record, const WrongResult& wrong) {
  if (wrong.rank < 0) return;
  record.add("wrong_elements", wrong.mismatch.wrong_elements);
  record.add("wrong_rank", std::int64_t{wrong.rank}).add("wrong_index", wrong.mismatch.first_index);
  record.add("expected", wrong.mismatch.expected_value).add("got", wrong.mismatch.found_value);
}

Record result_record(const CellRequest& request, const std::string& algorithm) {
  Record record("result");
  const CallRequest& call = request.call;
  record.add("collective", call.collective);
  record.add("size_bytes", static_cast<std::int64_t>(call.size_bytes));
  record.add("type", call.type).add("operation", call.operation);
  record.add("root", std::int64_t{call.root}).add("in_place", call.in_place);
  record.add("pattern", request.pattern).add("skew", request.skew).add("algorithm", algorithm);
  return record;
}

}  // namespace

bool time_is_over(const Options& options) {
  return value_on_rank_0(now_ns() >= from_unix_time(options.deadline_s));
}

SizeBench::SizeBench(Job& job, const Options& options, const CellRequest& first)
    : job_(job),
      options_(options),
      end_ns_(from_unix_time(options.deadline_s)),
      size_bytes_(static_cast<std::int64_t>(first.call.size_bytes)),
      buffers_(first.call, job.rank, job.ranks, options.same_buffers),
      native_us_(first.native_us) {}

std::string SizeBench::prepare(std::size_t cells_left) {
  if (std::string error = check_all(); !error.empty()) return error;
  if (usable_algorithms_.empty() || native_us_ > 0) return {};
  begin("calibrate", "", usable_algorithms_.front());
  native_us_ = calibrate(cells_left);
  return {};
}

void SizeBench::measure_all(const CellRequest& request, const Arrival& arrival, std::size_t cells_left) {
  const double skew_us = request.skew_factor * native_us_ + request.skew_us;
  const Nanoseconds now = now_ns();
  const Nanoseconds share = time_share_ns(cells_left);
  Cell cell;
  cell.arrival = &arrival;
  cell.skew_ns = static_cast<Nanoseconds>(skew_us * 1e3);
  const Computing computing = options_.computing.value_or(Computing{});
  const double computing_us = computing.factor * native_us_ + computing.us;
  cell.computing_ns = static_cast<Nanoseconds>(computing_us * 1e3);
  cell.sleeps = options_.sleeps;
  cell.expected_ns = static_cast<Nanoseconds>(native_us_ * 1e3);
  cell.deadline_ns = now + share;
  cell.end_ns = std::min(end_ns_, now + max_shares * share);
  cell.max_iterations = options_.max_iterations;
  cell.all_iterations = options_.all_iterations;
  cell.warm_up = options_.warm_up;
  begin("measure", arrival.name, "");
  std::vector<Measurement> measurements;
  if (!usable_algorithms_.empty()) measurements = measure(job_, cell, variants(), buffers_);
  if (job_.rank != 0) return;

  const bool on_time = enough_on_time_samples(measurements);
  const bool only = use_only_on_time(measurements);
  std::vector<Record> records;
  for (std::size_t a = 0; a < usable_algorithms_.size(); ++a) {
    const Measurement& m = measurements[a];
    const Measurement* const waiting =
        options_.computing ? &measurements[usable_algorithms_.size() + a] : nullptr;
    const WrongResult& wrong = waiting != nullptr && m.wrong.rank < 0 ? waiting->wrong : m.wrong;
    const std::vector<double> last_us = last_delays_us(m, only);
    if (last_us.empty() || (waiting != nullptr && waiting->samples.empty()))
      return;  // out of time: the cell is left out
    Record record = result_record(request, usable_algorithms_[a]);
    record.add("status", wrong.rank < 0 ? "measured" : "wrong");
    record.add("skew_us", skew_us).add("native_us", native_us_);
    record.add("on_time", on_time).add("stopped", m.stop_reason);
    record.add("last_delays_us", last_us).add("total_delays_us", total_delays_us(m, only));
    const RankTimes times = rank_times(m, only);
    record.add("t_min_us", times.min_us).add("t_avg_us", times.mean_us).add("t_max_us", times.max_us);
    if (waiting != nullptr)
      record.add("computing_us", computing_us).add("waiting_delays_us", last_delays_us(*waiting, only));
    add_wrong(record, wrong);
    records.push_back(std::move(record));
  }
  add_unusable(records, request);
  job_.records.write(records);
}

void SizeBench::begin(const char* what, const std::string& pattern, const std::string& algorithm) {
  Record record("begin");
  record.add("what", what).add("collective", name_of(collective())).add("size_bytes", size_bytes_);
  record.add("pattern", pattern).add("algorithm", algorithm);
  job_.records.write(record);
}

std::vector<MeasuredVariant> SizeBench::variants() const {
  std::vector<MeasuredVariant> variants;
  const Mode first = options_.computing ? Mode::computing : Mode::blocking;
  for (const std::string& algorithm : usable_algorithms_) variants.push_back({algorithm, first});
  if (!options_.computing) return variants;
  for (const std::string& algorithm : usable_algorithms_) variants.push_back({algorithm, Mode::waiting});
  return variants;
}

// Returns true if offbeat accepts the algorithm for this collective. A job measures several collectives, and
// an expression need not be valid for all of them. `offbeat bench` has checked that it is valid for at least
// one.
bool SizeBench::host_accepts_name(const std::string& algorithm) const {
  return job_.library.select(collective(), algorithm).empty();
}

std::string SizeBench::check_all() {
  for (const std::string& algorithm : options_.algorithms) {
    const bool native = is_native(algorithm);
    if (!native && !host_accepts_name(algorithm)) continue;
    if (time_is_over(options_)) return {};
    begin("check", "", algorithm);
    CorrectnessCheck found = check(job_, {algorithm, mode()}, buffers_);
    const bool has_error = value_on_rank_0(!found.error.empty());
    if (has_error) return found.error.empty() ? "rank 0 found an error" : found.error;
    const bool must_be_served = !native && algorithm != built_in_choice;
    const bool usable = value_on_rank_0(found.wrong.rank < 0 && (found.served || !must_be_served));
    checked_.push_back({algorithm, usable, found.wrong});
    if (!usable && native) break;  // there is nothing to compare with at this size
  }
  for (const CheckedAlgorithm& checked : checked_) {
    if (checked.usable) usable_algorithms_.push_back(checked.algorithm);
  }
  return {};
}

double SizeBench::calibrate(std::size_t cells_left) {
  Cell cell;
  cell.deadline_ns = now_ns() + std::min<Nanoseconds>(time_share_ns(cells_left) / 4, most_calibration_ns);
  cell.end_ns = end_ns_;
  cell.max_iterations = 200;
  const std::vector<Measurement> native =
      measure(job_, cell, {{usable_algorithms_.front(), mode()}}, buffers_);
  return value_on_rank_0(summarize(last_delays_us(native.front(), use_only_on_time(native))).median);
}

Nanoseconds SizeBench::time_share_ns(std::size_t cells_left) const {
  return std::max<Nanoseconds>(end_ns_ - now_ns(), 0) / static_cast<Nanoseconds>(cells_left);
}

bool SizeBench::use_only_on_time(const std::vector<Measurement>& measurements) const {
  return !job_.yield && enough_on_time_samples(measurements);
}

void SizeBench::add_unusable(std::vector<Record>& records, const CellRequest& request) const {
  for (const CheckedAlgorithm& checked : checked_) {
    if (checked.usable) continue;
    Record record = result_record(request, checked.algorithm);
    record.add("status", checked.wrong.rank < 0 ? "not served" : "wrong");
    add_wrong(record, checked.wrong);
    records.push_back(std::move(record));
  }
}

}  // namespace offbeat::bench
