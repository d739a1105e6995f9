// SPDX-License-Identifier: BSD-3-Clause
// A Trial measures the alternatives of a rule, `A | B`, in the calls of the program, and pins the fastest
// one.
//
// All ranks must take the same alternative in a call, and no message may be spent on that. So the number of
// calls alone says which alternative comes next. Each rank times its own calls. After a number of calls that
// all ranks know, they combine their times in one small collective, and each computes the same result.
//
// The time of an alternative must not depend on how late ranks are. If no rank can leave a collective before
// all have arrived, the rank that arrives last waits least, so the shortest time over the ranks is that of
// the algorithm. If ranks can leave early, the longest time counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/collective.hpp"

namespace offbeat {

// How the ranks combine their times of one call.
enum class CombineTimes : std::uint8_t { shortest, longest };
[[nodiscard]] constexpr CombineTimes combine_times(Collective collective) {
  constexpr Collectives more_meetings{Collective::allgatherv, Collective::alltoallv,
                                      Collective::reduce_scatter};
  const bool all_meet = synchronising_collectives.contain(collective) || more_meetings.contain(collective);
  return all_meet ? CombineTimes::shortest : CombineTimes::longest;
}

class Trial {
 public:
  // A round runs each alternative `calls_in_a_row` times, or at most twice in the first rounds. The first
  // `warm_ups` calls of each alternative are not averaged; during them, only a hopeless alternative is
  // dropped. Throws std::bad_alloc; nothing else here allocates memory.
  Trial(std::size_t alternatives, CombineTimes combine, std::size_t calls_in_a_row = 1,
        std::size_t warm_ups = 2);

  // Returns the alternative that the next call runs.
  [[nodiscard]] std::size_t next() const { return measures() ? order_[position_] : pinned_; }
  // Returns true if the time of the next call matters.
  [[nodiscard]] bool measures() const { return is_open_ && !is_due_; }

  // Counts the next call if counting is all that has to be done. Otherwise returns false, and count_call()
  // must follow.
  [[nodiscard]] bool try_count_call() {
    if (is_open_ || calls_left_ == 1) return false;
    --calls_left_;
    return true;
  }
  // Counts the next call. Returns the slot for its duration, or `no_slot` if the trial needs none. Slots that
  // stay empty are ignored. So are times that come after the ranks have combined them.
  static constexpr std::size_t no_slot = std::numeric_limits<std::size_t>::max();
  std::size_t count_call();
  void set_time(std::size_t slot, std::uint64_t nanoseconds) {
    if (slot >= slots_combined_) times_[slot] = nanoseconds;
  }

  // Returns how often the trial has opened. A slot belongs to one opening.
  [[nodiscard]] std::uint32_t opening() const { return opening_; }

  // Returns true if the ranks have to combine times(), element by element, and call decide(). Until they do,
  // calls run the alternative that was pinned last, and are not measured.
  [[nodiscard]] bool is_due() const { return is_due_; }
  [[nodiscard]] std::span<std::uint64_t> times() {
    return std::span(times_).subspan(slots_combined_, slots_so_far() - slots_combined_);
  }
  // Returns how many times the ranks have to combine at most.
  [[nodiscard]] std::size_t most_times() const { return times_.size(); }
  // Returns true if an alternative is pinned now. It then runs for a while.
  bool decide();

  // Returns the alternative that was pinned last; at first, alternative 0.
  [[nodiscard]] std::size_t pinned() const { return pinned_; }
  // Returns the time of an alternative in nanoseconds, once decide() has returned true. It is 0 if no rank
  // has measured the alternative.
  [[nodiscard]] std::uint64_t estimate(std::size_t alternative) const { return estimates_[alternative]; }
  // Returns how many calls were measured since the trial opened last.
  [[nodiscard]] std::size_t calls_measured() const { return calls_measured_; }

  // How much faster an alternative must be than the one that was pinned before, or than the first one.
  static constexpr double margin = 0.03;
  // How many calls of each alternative are averaged after its warm-ups, in the first trial and when it opens
  // again. An alternative that takes 4 times as long as the best is dropped after 2 calls, one that takes 1.5
  // times as long after 4, and one that takes 1.25 times as long after 8. If the longest time over the ranks
  // counts, these are 4 times after 4 calls and 1.5 times after 8.
  static constexpr std::size_t first_samples = 14;
  static constexpr std::size_t later_samples = 7;
  static constexpr std::size_t later_warm_ups = 1;
  // The number of calls until the trial opens again for the first time. It doubles each time.
  static constexpr std::uint64_t first_period = 256;
  static constexpr std::uint64_t longest_period = std::uint64_t{1} << 20;
  // A slower alternative waits before it takes part again. In the time that it lost, the best one could have
  // run some calls. The wait is this many calls for each of them, so the loss is 0.5%. It is at most
  // `longest_wait` periods, or an eighth of that if the longest time counts.
  static constexpr std::uint64_t calls_per_lost_call = 200;
  static constexpr std::uint64_t longest_wait = 64;

 private:
  void open(std::size_t warm_ups, std::size_t samples);
  void wait_for_next_opening();
  void begin_round();
  struct Look;
  [[nodiscard]] const Look* look_due() const;
  [[nodiscard]] bool is_alive(std::size_t alternative) const;
  [[nodiscard]] std::size_t slots_so_far() const { return samples_so_far_ * alternatives_; }
  void estimate_all();
  void make_slower_ones_wait();
  void drop_by(const Look& look);
  void pin();

  std::uint64_t calls_left_ = 0;  // until the trial opens again
  bool is_open_ = true;
  bool is_due_ = false;
  const CombineTimes combine_;
  const std::size_t alternatives_;
  const std::size_t in_a_row_;
  std::size_t pinned_ = 0;
  std::uint64_t period_ = first_period;
  std::size_t calls_measured_ = 0;
  std::uint32_t opening_ = 0;

  std::vector<std::uint64_t> waits_;  // calls until each alternative takes part again
  std::vector<std::size_t> alive_;    // the alternatives that are not dropped
  std::vector<std::size_t> order_;    // the calls of this round
  std::size_t position_ = 0;          // in order_
  std::size_t row_ = 0;               // calls of each alternative in this round
  std::size_t rounds_averaged_ = 0;   // the rounds before this one
  std::size_t samples_so_far_ = 0;    // of each alternative, in the rounds before this one
  std::size_t all_samples_ = 0;       // of each alternative, including warm-ups
  std::size_t warm_ups_ = 0;          // of each alternative
  std::size_t until_first_look_ = 0;  // samples of each alternative
  std::vector<std::uint64_t> times_;  // the first sample of all alternatives, then the second and so on
  std::size_t slots_combined_ = 0;    // slots whose times the ranks have combined
  std::vector<std::uint64_t> sorted_;
  std::vector<std::uint64_t> shortest_;  // of each alternative
  std::vector<std::uint64_t> estimates_;
  std::vector<std::uint64_t> known_;  // how many times each alternative has
};

}  // namespace offbeat
