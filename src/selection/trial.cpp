// SPDX-License-Identifier: BSD-3-Clause
#include "selection/trial.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/own_floating_point.hpp"

namespace offbeat {
namespace {

constexpr std::uint64_t missing(CombineTimes combine) {
  return combine == CombineTimes::shortest ? std::numeric_limits<std::uint64_t>::max() : 0;
}

// Returns the mean of the half of `times`, which are sorted, after the shortest eighth. Long times say
// little, because a rank may be interrupted in any call. If the longest time over the ranks counts, the
// shortest quarter is averaged: that time contains the wait for a late root, which hides how the alternatives
// differ.
std::uint64_t robust_mean(std::span<const std::uint64_t> times, CombineTimes combine) {
  if (times.empty()) return 0;
  const auto counted = combine == CombineTimes::longest
                           ? times.first((times.size() + 3) / 4)
                           : times.subspan(times.size() / 8, (times.size() + 1) / 2);
  return std::accumulate(counted.begin(), counted.end(), std::uint64_t{0}) / counted.size();
}

}  // namespace

// After `samples` calls of each alternative, including warm-ups, the trial drops every alternative whose
// shortest time is more than `factor` times that of the best. The fewer the calls, the larger the factor.
// This bounds what a trial can cost. A late root adds to the longest time over the ranks, so its factors are
// larger.
struct Trial::Look {
  std::size_t samples;
  double factor;
  bool during_warm_ups = false;
  bool drops_pinned = true;  // a few interrupted calls must not unpin an alternative

  // Returns the last look that became due when `samples_before` became `samples_now`, or null.
  static const Look* between(std::size_t samples_before, std::size_t samples_now, CombineTimes combine) {
    static constexpr std::array of_shortest{Look{2, 4, true, false}, Look{4, 1.5}, Look{8, 1.25}};
    static constexpr std::array of_longest{Look{4, 4, true, false}, Look{8, 1.5}};
    const Look* last = nullptr;
    for (const Look& each : combine == CombineTimes::shortest ? std::span<const Look>(of_shortest)
                                                              : std::span<const Look>(of_longest))
      if (samples_before < each.samples && samples_now >= each.samples) last = &each;
    return last;
  }
};

Trial::Trial(std::size_t alternatives, CombineTimes combine, std::size_t calls_in_a_row, std::size_t warm_ups)
    : combine_(combine),
      alternatives_(alternatives),
      in_a_row_(calls_in_a_row),
      waits_(alternatives),
      shortest_(alternatives),
      estimates_(alternatives),
      known_(alternatives) {
  const std::size_t most_samples =
      std::max(warm_ups + first_samples, later_warm_ups + later_samples) + in_a_row_;
  alive_.reserve(alternatives);
  order_.reserve(alternatives * in_a_row_);
  times_.resize(alternatives * most_samples);
  sorted_.reserve(most_samples);
  open(warm_ups, first_samples);
  until_first_look_ = warm_ups;
}

void Trial::open(std::size_t warm_ups, std::size_t samples) {
  alive_.clear();
  for (std::size_t k = 0; k < alternatives_; ++k)
    if (waits_[k] == 0) alive_.push_back(k);
  is_open_ = true;
  ++opening_;
  warm_ups_ = warm_ups;
  all_samples_ = warm_ups + samples;
  std::ranges::fill(times_, missing(combine_));
  slots_combined_ = 0;
  samples_so_far_ = 0;
  rounds_averaged_ = 0;
  calls_measured_ = 0;
  begin_round();
}

// A program may make long and short calls in turn. So the order within a round is reversed as the Thue-Morse
// sequence says, which gives each of two alternatives equal shares of the calls of such patterns.
void Trial::begin_round() {
  position_ = 0;
  row_ = samples_so_far_ < in_a_row_ ? std::min<std::size_t>(in_a_row_, 2) : in_a_row_;
  order_.clear();
  const bool is_turned = std::popcount(rounds_averaged_) % 2 == 1;
  for (std::size_t k = 0; k < alive_.size(); ++k)
    order_.insert(order_.end(), row_, alive_[is_turned ? alive_.size() - 1 - k : k]);
}

const Trial::Look* Trial::look_due() const {
  const Look* look = Look::between(slots_combined_ / alternatives_, samples_so_far_, combine_);
  const bool is_due = look != nullptr && (look->during_warm_ups || samples_so_far_ > until_first_look_);
  return is_due ? look : nullptr;
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
  const std::size_t sample = samples_so_far_ + position_ % row_;
  const std::size_t slot = sample * alternatives_ + order_[position_];
  if (++position_ < order_.size()) return slot;
  samples_so_far_ += row_;
  if (samples_so_far_ > warm_ups_) ++rounds_averaged_;
  is_due_ = samples_so_far_ >= all_samples_ || look_due() != nullptr;
  begin_round();
  return slot;
}

bool Trial::is_alive(std::size_t alternative) const {
  return std::ranges::find(alive_, alternative) != alive_.end();
}

void Trial::estimate_all() {
  for (std::size_t k = 0; k < alternatives_; ++k) {
    shortest_[k] = 0;
    known_[k] = 0;
    sorted_.clear();
    for (std::size_t sample = 0; sample < samples_so_far_; ++sample) {
      const std::uint64_t time = times_[sample * alternatives_ + k];
      if (time == missing(combine_)) continue;
      ++known_[k];
      if (shortest_[k] == 0 || time < shortest_[k]) shortest_[k] = time;
      if (sample >= warm_ups_) sorted_.push_back(time);
    }
    std::ranges::sort(sorted_);
    estimates_[k] = sorted_.empty() ? shortest_[k] : robust_mean(sorted_, combine_);
  }
}

void Trial::drop_by(const Look& look) {
  std::uint64_t best = std::numeric_limits<std::uint64_t>::max();
  for (const std::size_t each : alive_)
    if (shortest_[each] > 0) best = std::min(best, shortest_[each]);
  std::erase_if(alive_, [&](std::size_t each) {
    if (each == pinned_ && !look.drops_pinned) return false;
    return static_cast<double>(shortest_[each]) / static_cast<double>(best) > look.factor;
  });
}

bool Trial::decide() {
  const OwnFloatingPoint own;
  is_due_ = false;
  const Look* const look = look_due();
  slots_combined_ = slots_so_far();
  estimate_all();
  if (look != nullptr) drop_by(*look);
  // In a sparse alltoallv no rank may have a time, and more calls would bring none.
  const bool has_times = std::ranges::any_of(known_, [](std::uint64_t times) { return times > 0; });
  if (has_times && samples_so_far_ < all_samples_ && alive_.size() > 1) {
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
  make_slower_ones_wait();
  wait_for_next_opening();
}

void Trial::make_slower_ones_wait() {
  const std::uint64_t best = shortest_[pinned_];
  if (best == 0) return;
  // If the longest time counts, the root may have been late. So the wait is shorter.
  const std::uint64_t longest = combine_ == CombineTimes::shortest ? longest_wait : longest_wait / 8;
  for (std::size_t k = 0; k < alternatives_; ++k) {
    if (known_[k] == 0 || shortest_[k] <= best) continue;  // it took no part, or lost nothing
    const std::uint64_t lost = known_[k] * (shortest_[k] - best);
    waits_[k] = std::min(lost * calls_per_lost_call / best, longest * period_);
  }
}

// The trial opens again as soon as another alternative than the pinned one may take part.
void Trial::wait_for_next_opening() {
  is_open_ = false;
  waits_[pinned_] = 0;
  std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t k = 0; k < alternatives_; ++k)
    if (k != pinned_) shortest = std::min(shortest, waits_[k]);
  calls_left_ = std::max(period_, shortest);
  for (std::uint64_t& each : waits_) each -= std::min(each, calls_left_);
  period_ = std::min(period_ * 2, longest_period);
}

}  // namespace offbeat
