// SPDX-License-Identifier: BSD-3-Clause
#include "selection/trial.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace offbeat {
namespace {

constexpr std::uint64_t missing(CombineTimes combine) {
  return combine == CombineTimes::shortest ? std::numeric_limits<std::uint64_t>::max() : 0;
}

// Returns the mean of the half that begins after the shortest eighth: a rank may be interrupted in any call,
// so long times say little. `times` is sorted.
std::uint64_t robust_mean(std::span<const std::uint64_t> times) {
  if (times.empty()) return 0;
  const auto counted = times.subspan(times.size() / 8, (times.size() + 1) / 2);
  return std::accumulate(counted.begin(), counted.end(), std::uint64_t{0}) / counted.size();
}

}  // namespace

// After `samples` calls of each alternative, warm-ups included, those are dropped whose shortest time is more
// than `factor` times that of the best. The fewer the calls, the larger the factor. That bounds what a trial
// can cost.
struct Trial::Look {
  std::size_t samples;
  double factor;

  // Returns the look that is due after this number of samples, or null. Several samples may have come at
  // once.
  static const Look* after(std::size_t samples, std::size_t at_once) {
    static constexpr Look looks[] = {{4, 1.5}, {8, 1.25}, {12, 1.25}};
    for (const Look& each : looks)
      if (samples >= each.samples && samples < each.samples + at_once) return &each;
    return nullptr;
  }
};

Trial::Trial(std::size_t alternatives, CombineTimes combine, std::size_t calls_in_a_row, std::size_t warm_ups)
    : alternatives_(alternatives),
      combine_(combine),
      in_a_row_(calls_in_a_row),
      absences_(alternatives),
      shortest_(alternatives),
      estimates_(alternatives) {
  const std::size_t most_samples =
      std::max(warm_ups + first_samples, later_warm_ups + later_samples) + 2 * in_a_row_;
  alive_.reserve(alternatives);
  order_.reserve(alternatives * in_a_row_);
  times_.resize(alternatives * most_samples);
  sorted_.reserve(most_samples);
  open(warm_ups, first_samples);
  until_first_look_ = warm_ups;
}

void Trial::open(std::size_t warm_ups, std::size_t samples) {
  alive_.clear();
  for (std::size_t k = 0; k < alternatives_; ++k) {
    if (absences_[k].openings == 0) {
      alive_.push_back(k);
    } else {
      --absences_[k].openings;
    }
  }
  if (alive_.size() == 1) {
    wait_for_next_opening();
    return;
  }
  is_open_ = true;
  ++opening_;
  warm_ups_ = (warm_ups + in_a_row_ - 1) / in_a_row_ * in_a_row_;
  samples_ = (samples + in_a_row_ - 1) / in_a_row_ * in_a_row_;
  std::ranges::fill(times_, missing(combine_));
  round_ = 0;
  calls_measured_ = 0;
  begin_round();
}

// Calls of a program may differ in turns, such as long and short ones. The rounds are turned round as the
// Thue-Morse sequence says, which gives each of two alternatives equal shares of the calls of such patterns.
void Trial::begin_round() {
  position_ = 0;
  order_.clear();
  const std::size_t warm_up_rounds = warm_ups_ / in_a_row_;
  const std::size_t counted = round_ > warm_up_rounds ? round_ - warm_up_rounds : 0;
  const bool is_turned = std::popcount(counted) % 2 == 1;
  for (std::size_t k = 0; k < alive_.size(); ++k)
    order_.insert(order_.end(), in_a_row_, alive_[is_turned ? alive_.size() - 1 - k : k]);
}

std::size_t Trial::count_call() {
  if (is_due_) return no_slot;
  if (!is_open_) {
    if (--calls_left_ > 0) return no_slot;
    until_first_look_ = 0;
    open(later_warm_ups, later_samples);
    return no_slot;
  }
  ++calls_measured_;
  const std::size_t slot = order_[position_] * all_samples() + samples_so_far() + position_ % in_a_row_;
  if (++position_ < order_.size()) return slot;
  ++round_;
  is_due_ = samples_so_far() == all_samples() ||
            (samples_so_far() > until_first_look_ && Look::after(samples_so_far(), in_a_row_) != nullptr);
  begin_round();
  return slot;
}

bool Trial::is_alive(std::size_t alternative) const {
  return std::ranges::find(alive_, alternative) != alive_.end();
}

void Trial::estimate_all() {
  for (std::size_t k = 0; k < alternatives_; ++k) {
    const auto mine = std::span(times_).subspan(k * all_samples(), all_samples());
    const auto is_known = [&](std::uint64_t time) { return time != missing(combine_); };
    shortest_[k] = 0;
    for (const std::uint64_t time : mine)
      if (is_known(time) && (shortest_[k] == 0 || time < shortest_[k])) shortest_[k] = time;
    sorted_.clear();
    std::ranges::copy_if(mine.subspan(warm_ups_), std::back_inserter(sorted_), is_known);
    std::ranges::sort(sorted_);
    estimates_[k] = sorted_.empty() ? shortest_[k] : robust_mean(sorted_);
  }
}

void Trial::drop_by(const Look& look) {
  std::uint64_t best = std::numeric_limits<std::uint64_t>::max();
  for (const std::size_t each : alive_)
    if (shortest_[each] > 0) best = std::min(best, shortest_[each]);
  std::erase_if(alive_, [&](std::size_t each) {
    const double slower = static_cast<double>(shortest_[each]) / static_cast<double>(best);
    const bool is_dropped = slower > look.factor;
    if (is_dropped && slower > hopeless) {
      absences_[each].openings = absences_[each].next;
      absences_[each].next = 2 * absences_[each].next + 1;
    }
    return is_dropped;
  });
}

bool Trial::decide() {
  is_due_ = false;
  estimate_all();
  if (const Look* look = Look::after(samples_so_far(), in_a_row_)) drop_by(*look);
  if (samples_so_far() < all_samples() && alive_.size() > 1) {
    begin_round();
    return false;
  }
  pin();
  return true;
}

void Trial::pin() {
  std::size_t best = is_alive(pinned_) ? pinned_ : alive_.front();
  double least = static_cast<double>(estimates_[best]) * (1 - margin);
  for (const std::size_t each : alive_) {
    const auto time = static_cast<double>(estimates_[each]);
    if (time > 0 && time < least) {
      best = each;
      least = time;
    }
  }
  pinned_ = best;
  wait_for_next_opening();
}

void Trial::wait_for_next_opening() {
  is_open_ = false;
  calls_left_ = period_;
  period_ = std::min(period_ * 2, longest_period);
}

}  // namespace offbeat
