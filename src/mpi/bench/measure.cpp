// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "mpi/bench/mpi_header.hpp"
#include "mpi/bench/statistics.hpp"

namespace offbeat::bench {
namespace {

constexpr std::size_t enough_samples = 5;
constexpr std::size_t precise_samples = enough_for_batches;
constexpr double precision = 0.025;  // half of the 95% interval, relative to the median
constexpr Nanoseconds longest_batch_ns = 50'000'000;
constexpr Nanoseconds longest_silence_ns = 5'000'000'000;

// The times of one call on one rank, in the global clock.
struct CallTimes {
  Nanoseconds arrival;
  Nanoseconds exit;
  Nanoseconds late;    // arrival minus the time that the pattern asks for
  Nanoseconds notice;  // time from rank 0's announcement of the start until this rank knew it
};

// What rank 0 announces. If there are no rounds, the cell is finished.
struct AnnouncedBatch {
  std::int64_t rounds;
  Nanoseconds lead_ns;
};

// Calls of one variant in a row. The first calls are not counted: they find the code of another variant in
// the caches, so their times would depend on the variant before. In long calls this makes no difference.
struct CallBlock {
  int calls;
  int counts_for_result;
};
constexpr int max_counted_calls = 12;
constexpr int usual_warm_up = 4;

CallBlock block_for_expected_time(double expected_us, std::optional<int> warm_up) {
  if (expected_us > 10'000) return {warm_up.value_or(0) + 1, 1};
  if (expected_us > 100) return {warm_up.value_or(0) + 4, 4};
  return {warm_up.value_or(usual_warm_up) + max_counted_calls, max_counted_calls};
}

struct TimedCall {
  std::size_t variant;
  bool counts_for_result;
};

CallTimes call(const Job& job, Nanoseconds lead_ns, Nanoseconds delay_ns, Buffers& buffers, std::size_t set,
               Mode mode, const Computation& computation) {
  buffers.prepare(set);
  const Nanoseconds start = job.gate->next_start(lead_ns);
  const Nanoseconds noticed = job.clock.to_global(now_ns());
  const Nanoseconds arrival =
      job.clock.to_global(wait_until(job.clock.to_local(start + delay_ns), job.yield));
  Nanoseconds computed_ns = 0;
  if (mode == Mode::blocking) {
    buffers.call(set);
  } else {
    MPI_Request request;
    buffers.call(set, &request);
    if (mode == Mode::computing) computed_ns = computation.perform();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  const Nanoseconds exit = job.clock.to_global(now_ns() - computed_ns);
  return {arrival, exit, arrival - (start + delay_ns), noticed - (start - lead_ns)};
}

// The work for one cell on every rank, in batches. Rank 0 gathers the times and decides when to stop.
class CellRun {
 public:
  CellRun(Job& job, const Cell& cell, const std::vector<MeasuredVariant>& variants, Buffers& buffers)
      : job_(job),
        cell_(cell),
        variants_(variants),
        buffers_(buffers),
        computation_(cell.computing_ns, cell.sleeps),
        last_user_of_set_(buffers.sets()),
        measurements_(variants.size()),
        blocks_(variants.size()) {}

  std::vector<Measurement> run() {
    AnnouncedBatch batch = next();
    while (batch.rounds > 0) {
      execute(batch);
      batch = next();
    }
    return std::move(measurements_);
  }

 private:
  AnnouncedBatch next() {
    AnnouncedBatch batch{};
    if (job_.rank == 0) {
      batch = {stopped() ? 0 : rounds_, job_.lead_ns};
      choose_blocks();
    }
    broadcast_from_rank_0(std::span(blocks_));
    return value_on_rank_0(batch);
  }

  void execute(const AnnouncedBatch& batch) {
    const Nanoseconds begin = now_ns();
    for (std::size_t set = 0; set < buffers_.sets(); ++set) buffers_.fill_with_wrong_values(set);
    std::fill(last_user_of_set_.begin(), last_user_of_set_.end(), variants_.size());
    std::vector<CallTimes> times;
    std::vector<TimedCall> calls;
    for (std::int64_t i = 0; i < batch.rounds; ++i, ++round_) {
      for (std::size_t v = 0; v < variants_.size(); ++v)
        run_block((v + round_) % variants_.size(), batch, times, calls);
    }
    gather_times(batch, times, calls);
    gather_mismatches();
    report_alive();
    if (now_ns() - begin < longest_batch_ns / 2) rounds_ = std::min<std::int64_t>(rounds_ * 2, 32);
  }

  // Reports that the ranks are alive. A cell may take long, and silence would mean that the ranks hang.
  void report_alive() {
    if (now_ns() - job_.reported_alive_ns < longest_silence_ns) return;
    job_.records.write(Record("alive"));
    job_.reported_alive_ns = now_ns();
  }

  void run_block(std::size_t variant, const AnnouncedBatch& batch, std::vector<CallTimes>& times,
                 std::vector<TimedCall>& calls) {
    const auto& [algorithm, mode] = variants_[variant];
    // check() has verified that the expression is accepted.
    static_cast<void>(job_.library.select(buffers_.runner().collective, algorithm));
    const CallBlock block = blocks_[variant];
    if (block.calls > 0 && mode != Mode::blocking) begin_block(variant);
    for (int i = 0; i < block.calls; ++i) {
      const std::size_t set = next_set(variant);
      // Every variant gets the same delays, so that differences come from the variants.
      const Nanoseconds late = delay(round_ * most_calls() + static_cast<std::size_t>(i));
      times.push_back(call(job_, batch.lead_ns, late, buffers_, set, mode, computation_));
      calls.push_back({variant, i >= block.calls - block.counts_for_result});
    }
  }

  // Makes a blocking call, in which the ranks agree on an algorithm. Without it a non-blocking call would go
  // to the host.
  void begin_block(std::size_t variant) {
    const std::size_t set = next_set(variant);
    buffers_.prepare(set);
    buffers_.call(set);
    if (variants_[variant].mode == Mode::computing) computation_.measure_alone();
  }

  std::size_t next_set(std::size_t variant) {
    const std::size_t set = calls_++ % buffers_.sets();
    last_user_of_set_[set] = variant;
    return set;
  }

  void choose_blocks() {
    for (std::size_t v = 0; v < measurements_.size(); ++v) {
      const std::vector<double> delays_us = last_delays_us(measurements_[v], false);
      const bool enough = delays_us.size() >= static_cast<std::size_t>(cell_.max_iterations);
      const double us = delays_us.empty() ? expected_us(v) : summarize(delays_us).median;
      blocks_[v] = enough ? CallBlock{0, 0} : block_for_expected_time(us + computing_us(v), cell_.warm_up);
    }
  }

  // Returns the expected time of a call, in us, before anything is measured. Only the host's time is known
  // then. An algorithm of offbeat is assumed to be fast, so that it gets enough calls.
  double expected_us(std::size_t variant) const {
    return is_native(variants_[variant].algorithm) ? static_cast<double>(cell_.expected_ns) * 1e-3 : 0;
  }

  Nanoseconds delay(std::size_t round) const {
    if (cell_.arrival == nullptr) return 0;
    const double fraction = cell_.arrival->delay_fraction(round, static_cast<std::size_t>(job_.rank));
    return std::llround(fraction * static_cast<double>(cell_.skew_ns));
  }

  void gather_times(const AnnouncedBatch& batch, const std::vector<CallTimes>& times,
                    const std::vector<TimedCall>& calls) {
    const auto ranks = static_cast<std::size_t>(job_.ranks);
    const std::vector<CallTimes> all = gather(job_, times);
    if (job_.rank != 0) return;

    const Nanoseconds tolerance_ns = std::max<Nanoseconds>(1000, cell_.skew_ns / 20);
    std::vector<double> notices;
    for (std::size_t i = 0; i < times.size(); ++i) {
      CallTimes last = begun(all[i]);
      std::int64_t first_arrival = last.arrival;
      for (std::size_t rank = 1; rank < ranks; ++rank) {
        const CallTimes other = begun(all[rank * times.size() + i]);
        first_arrival = std::min(first_arrival, other.arrival);
        last = {std::max(last.arrival, other.arrival), std::max(last.exit, other.exit),
                std::max(last.late, other.late), std::max(last.notice, other.notice)};
      }
      notices.push_back(static_cast<double>(last.notice));
      Measurement& m = measurements_[calls[i].variant];
      const bool enough = m.samples.size() >= static_cast<std::size_t>(cell_.max_iterations);
      if (!calls[i].counts_for_result || (cell_.all_iterations && enough)) continue;
      m.samples.push_back({static_cast<double>(last.exit - last.arrival) * 1e-3,
                           static_cast<double>(last.exit - first_arrival) * 1e-3, last.late <= tolerance_ns});
      m.rank_us.resize(ranks);
      m.rank_on_time_us.resize(ranks);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const CallTimes mine = begun(all[rank * times.size() + i]);
        const double us = static_cast<double>(mine.exit - mine.arrival) * 1e-3;
        m.rank_us[rank] += us;
        if (m.samples.back().on_time) m.rank_on_time_us[rank] += us;
      }
    }
    // The next start is soon enough not to waste time, and late enough that nearly every rank knows of it in
    // time.
    const double notice_ns = summarize(notices).percentile_90;
    const double wanted_ns = std::clamp(1.5 * notice_ns + 2000, 5'000.0, 5'000'000.0);
    job_.lead_ns = std::max(static_cast<Nanoseconds>(wanted_ns), batch.lead_ns / 2);
  }

  // Replaces the arrival by the time from which delays count; see measure.hpp.
  CallTimes begun(CallTimes times) const {
    if (job_.yield) times.arrival -= times.late;
    return times;
  }

  // Verifies the results. Each set still holds the result of the last call that used it.
  void gather_mismatches() {
    std::vector<Mismatch> mine(variants_.size());
    for (std::size_t set = 0; set < last_user_of_set_.size(); ++set) {
      if (last_user_of_set_[set] == variants_.size()) continue;
      Mismatch& first = mine[last_user_of_set_[set]];
      if (first.wrong_elements == 0) first = buffers_.verify(set);
    }
    const std::vector<WrongResult> found = first_wrong_results(job_, mine);
    for (std::size_t v = 0; v < found.size(); ++v) {
      WrongResult& wrong = measurements_[v].wrong;
      if (wrong.rank < 0) wrong = found[v];
    }
  }

  bool stopped() {
    const Nanoseconds now = now_ns();
    std::size_t fewest = measurements_.front().samples.size();
    bool precise = !cell_.all_iterations && (job_.yield || enough_on_time_samples(measurements_));
    bool wrong = false;
    for (const Measurement& m : measurements_) {
      fewest = std::min(fewest, m.samples.size());
      wrong = wrong || m.wrong.rank >= 0;
    }
    for (std::size_t v = 0; precise && v < measurements_.size(); ++v) precise = is_precise(v);
    const char* reason = nullptr;
    if (fewest >= static_cast<std::size_t>(cell_.max_iterations)) reason = "iterations";
    if (now > cell_.deadline_ns && fewest >= enough_samples) reason = "budget";
    if (now > cell_.end_ns) reason = "budget";
    if (precise) reason = "precision";
    if (wrong && reason == nullptr) reason = "wrong result";
    for (Measurement& m : measurements_) m.stop_reason = reason == nullptr ? "" : reason;
    return reason != nullptr;
  }

  // Returns true if the interval is narrow enough. The part that a computation does not hide may be close to
  // 0, so the interval is compared with that part plus the computation.
  bool is_precise(std::size_t variant) const {
    const Summary summary = summarize(last_delays_us(measurements_[variant], !job_.yield));
    return summary.count >= precise_samples &&
           summary.high - summary.low <= 2 * precision * (summary.median + computing_us(variant));
  }

  // Returns how many calls a turn has at most. Each of them has its own delays.
  std::size_t most_calls() const {
    return static_cast<std::size_t>(max_counted_calls + std::max(cell_.warm_up.value_or(0), usual_warm_up));
  }

  double computing_us(std::size_t variant) const {
    return variants_[variant].mode == Mode::computing ? static_cast<double>(cell_.computing_ns) * 1e-3 : 0;
  }

  Job& job_;
  const Cell& cell_;
  const std::vector<MeasuredVariant>& variants_;
  Buffers& buffers_;
  Computation computation_;
  // The variant that last used each set; variants_.size() means none.
  std::vector<std::size_t> last_user_of_set_;
  std::vector<Measurement> measurements_;
  std::vector<CallBlock> blocks_;
  std::int64_t rounds_ = 1;  // how many rounds the next batch has (rank 0)
  std::size_t round_ = 0;
  std::size_t calls_ = 0;
};

template <class Member>
std::vector<double> collect(const Measurement& measurement, bool only_on_time, Member member) {
  std::vector<double> values;
  for (const Sample& sample : measurement.samples) {
    if (sample.on_time || !only_on_time) values.push_back(sample.*member);
  }
  return values;
}

}  // namespace

std::vector<Measurement> measure(Job& job, const Cell& cell, const std::vector<MeasuredVariant>& variants,
                                 Buffers& buffers) {
  return CellRun(job, cell, variants, buffers).run();
}

bool enough_on_time_samples(const std::vector<Measurement>& measurements) {
  for (const Measurement& m : measurements) {
    std::size_t on_time = 0;
    for (const Sample& sample : m.samples) on_time += sample.on_time ? 1 : 0;
    if (on_time < enough_samples || 4 * on_time < m.samples.size()) return false;
  }
  return true;
}

std::vector<double> last_delays_us(const Measurement& measurement, bool only_on_time) {
  return collect(measurement, only_on_time, &Sample::last_delay_us);
}

std::vector<double> total_delays_us(const Measurement& measurement, bool only_on_time) {
  return collect(measurement, only_on_time, &Sample::total_delay_us);
}

RankTimes rank_times(const Measurement& measurement, bool only_on_time) {
  const auto calls = static_cast<double>(last_delays_us(measurement, only_on_time).size());
  const std::vector<double>& us = only_on_time ? measurement.rank_on_time_us : measurement.rank_us;
  const auto [least, most] = std::ranges::minmax(us);
  const double all = std::accumulate(us.begin(), us.end(), 0.0);
  return {least / calls, all / static_cast<double>(us.size()) / calls, most / calls};
}

}  // namespace offbeat::bench
