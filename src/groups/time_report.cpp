// SPDX-License-Identifier: BSD-3-Clause
#include "groups/time_report.hpp"

#include <algorithm>
#include <map>

#include "base/time.hpp"
#include "node/counters_of_job.hpp"

namespace offbeat {
namespace {

struct WaitingFor {
  std::uint64_t waits = 0;
  std::int64_t ns = 0;
};

void add(TimeInCollectives& time, std::map<int, WaitingFor>& late, const MappedCounters& one) {
  const TickRate rate{one.header().begun_ticks, one.header().begun_ns};
  ++time.ranks;
  time.elapsed_ns += monotonic_ns() - one.header().begun_ns;
  one.for_each([&](const CommunicatorCounters& block) {
    for (const CollectiveCounters& mine : block.of_collectives) {
      time.inside_ns += rate.to_ns(mine.ticks.value());
      time.waiting_ns += rate.to_ns(mine.waiting_ticks.value());
      time.waits += mine.waits.value();
      for (const auto& each : mine.late_ranks) {
        const std::uint32_t number = each.number_plus_1.load(std::memory_order_relaxed);
        if (number == 0 || each.ticks.value() == 0) continue;
        WaitingFor& sum = late[static_cast<int>(number) - 1];
        sum.waits += each.calls.load(std::memory_order_relaxed);
        sum.ns += rate.to_ns(each.ticks.value());
      }
    }
  });
}

std::string percent(std::int64_t part, std::int64_t whole) {
  __extension__ using Wide = __int128;
  const auto tenths =
      static_cast<std::int64_t>((Wide{1000} * part + whole / 2) / std::max<std::int64_t>(1, whole));
  if (tenths >= 100 || tenths % 10 == 0) return std::to_string((tenths + 5) / 10) + "%";
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
}

std::string short_time(std::int64_t ns) {
  if (ns >= 10 * ns_per_s) return std::to_string(ns / ns_per_s) + " s";
  if (ns >= 10 * ns_per_ms) return std::to_string(ns / ns_per_ms) + " ms";
  return std::to_string(std::max<std::int64_t>(1, ns / ns_per_us)) + " us";
}

}  // namespace

TimeInCollectives time_in_collectives(const CounterFile& counters) {
  TimeInCollectives time;
  std::map<int, WaitingFor> late;
  for (const MappedCounters& one : counters_of_job(counters.job())) add(time, late, one);
  const auto worst = std::ranges::max_element(late, {}, [](const auto& each) { return each.second.ns; });
  if (worst != late.end()) {
    time.late_rank = worst->first;
    time.waits_for_late_rank = worst->second.waits;
    time.waiting_ns_for_late_rank = worst->second.ns;
  }
  return time;
}

std::vector<std::string> lines_on_time(const TimeInCollectives& time, std::string_view space) {
  if (time.inside_ns == 0 || time.elapsed_ns == 0) return {};
  std::vector<std::string> lines;
  const std::int64_t rest = std::max<std::int64_t>(0, time.inside_ns - time.waiting_ns);
  lines.push_back("time in collectives: " + percent(time.inside_ns, time.elapsed_ns) +
                  " (waiting for the last rank of the node " + percent(time.waiting_ns, time.elapsed_ns) +
                  ", communicating " + percent(rest, time.elapsed_ns) + "), mean of " +
                  std::to_string(time.ranks) + (time.ranks == 1 ? " rank" : " ranks"));
  if (time.late_rank >= 0 && time.waits_for_late_rank > 0)
    lines.push_back(
        "most of the waiting is for rank " + std::to_string(time.late_rank) + std::string(space) + ": " +
        percent(time.waiting_ns_for_late_rank, time.waiting_ns) + ", mean wait " +
        short_time(time.waiting_ns_for_late_rank / static_cast<std::int64_t>(time.waits_for_late_rank)));
  return lines;
}

}  // namespace offbeat
