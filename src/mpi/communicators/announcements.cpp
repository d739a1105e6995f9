// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/announcements.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "mpi/communicators/adaptation.hpp"

namespace offbeat {
namespace {

std::string size_text(std::size_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

std::string microseconds_text(std::uint64_t nanoseconds) {
  return std::to_string(nanoseconds / 1000) + "." + std::to_string(nanoseconds % 1000 / 100) + " us";
}

std::string range_text(const Range<std::size_t>& bytes) {
  if (bytes.most == max_length)
    return bytes.least == 0 ? " of any length" : " from " + size_text(bytes.least);
  return (bytes.least == 0 ? " up to " : " from " + size_text(bytes.least) + " to ") + size_text(bytes.most);
}

// Returns the lengths of the rows around row `index` for which the line would be equal.
Range<std::size_t> lengths_with_equal_line(const std::vector<PlanRow>& rows, std::size_t index) {
  const auto is_alike = [&](const PlanRow& row) {
    return row.expression == rows[index].expression && row.reason == rows[index].reason;
  };
  std::size_t first = index;
  std::size_t last = index;
  while (first > 0 && is_alike(rows[first - 1])) --first;
  while (last + 1 < rows.size() && is_alike(rows[last + 1])) ++last;
  return {rows[first].bytes.least, rows[last].bytes.most};
}

}  // namespace

void Announcements::say_choice(Collective collective, CallForm form, const Plan& plan, std::size_t bytes,
                               int ranks, std::string_view why_native) {
  if (plan.empty()) return;
  const PlanRow& row = plan.row_for(bytes);
  const auto index = static_cast<std::size_t>(&row - plan.rows.data());
  const std::uint64_t bit = std::uint64_t{1} << std::min<std::size_t>(index, 63);
  std::uint64_t& said = said_[form == CallForm::nonblocking ? 1 : 0][index_of(collective)];
  if ((said & bit) != 0) return;
  said |= bit;
  // The lines are never destroyed, because a program may call MPI while it exits.
  static std::mutex mutex;
  static auto* lines = new std::set<std::pair<int, std::string>>;
  run_unless_out_of_memory([&] {
    const Expression& expression = *row.expression;
    const bool varies = !expression.runs_on_host() && !expression.same_bits_every_run();
    const std::string why = why_native.empty() ? row.reason : std::string(why_native);
    const std::string line = std::string(prefix_of(form)) + std::string(name_of(collective)) +
                             range_text(lengths_with_equal_line(plan.rows, index)) +
                             ", ranks: " + std::to_string(ranks) + ": " + expression.canonical_text() + " (" +
                             why + (varies ? "; bits differ from run to run)" : ")");
    const std::lock_guard lock(mutex);
    if (lines->emplace(ranks, line).second) say(line);
  });
}

void Announcements::say_pinned(const RowTrial& row, int ranks) {
  run_unless_out_of_memory([&] {
    const Trial& trial = row.trial();
    const std::vector<Alternative>& all = row.row().alternatives;
    std::string times;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::uint64_t time = trial.estimate(k);
      times += (k == 0 ? "" : ", ") + all[k].expression->canonical_text() + " " +
               (time == 0 ? "not measured" : microseconds_text(time));
    }
    say(std::string(prefix_of(row.form())) + std::string(name_of(row.collective())) +
        range_text(row.bytes()) + ", ranks: " + std::to_string(ranks) + ": " +
        all[trial.pinned()].expression->canonical_text() + " is pinned after " +
        std::to_string(trial.calls_measured()) + " measured calls (" + times + ")");
  });
}

}  // namespace offbeat
