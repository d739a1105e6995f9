// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace offbeat {

// A resource that serves one request after the other, such as one direction of a network card.
struct ExclusivePort {
  double free_at = 0;
  double pass(double begin, double seconds) {
    free_at = std::max(free_at, begin) + seconds;
    return free_at;
  }
};

struct Computation;
struct SimulatedMessage;

// What uses a SharedPort: a message, or a computation of `rank`.
struct SharedUse {
  SimulatedMessage* message = nullptr;
  Computation* computation = nullptr;
  int rank = 0;
  double earliest_end = 0;   // a computation ends then, or later if the port is slower
  bool enters_node = false;  // a message: true if it enters the node
};

// Something that several ranks of a node use at once: the link out of the node, the link into it, or its
// memory. All uses under way share its rate equally.
class SharedPort {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  explicit SharedPort(double rate) : rate_(rate) {}

  void add(double now, const SharedUse& use, double bytes) {
    advance(now);
    under_way_.push_back({bytes_per_use_ + bytes, next_number_++, use});
    std::push_heap(under_way_.begin(), under_way_.end(), ends_later);
  }
  // Returns when the next use will have ended, if no further one is added.
  [[nodiscard]] double next() const {
    return under_way_.empty()
               ? never
               : advanced_until_ + std::max(0.0, under_way_.front().end - bytes_per_use_) / rate();
  }
  // Removes and returns a use that has ended; nothing if none has. A use also counts as ended if so little of
  // it remains that adding that time to `now` changes nothing. Otherwise next() would stay equal to `now`
  // forever.
  std::optional<SharedUse> take(double now) {
    advance(now);
    if (under_way_.empty()) return {};
    if (under_way_.front().end * (1 - rounding_factor) > bytes_per_use_ && next() > now) return {};
    const SharedUse use = under_way_.front().use;
    std::pop_heap(under_way_.begin(), under_way_.end(), ends_later);
    under_way_.pop_back();
    if (under_way_.empty()) bytes_per_use_ = 0;
    return use;
  }
  void clear() { *this = SharedPort(rate_); }
  // Sets the rate. Nothing may be under way.
  void set_rate(double rate) { rate_ = rate; }

  // The time and the sequence number of the last event that was scheduled for next(). Earlier events are
  // void.
  double scheduled = never;
  std::uint64_t scheduled_event = 0;

 private:
  static constexpr double rounding_factor = 1e-9;

  struct UnderWay {
    double end;  // the value of passed_ at which it has ended
    std::uint64_t number;
    SharedUse use;
  };
  static bool ends_later(const UnderWay& one, const UnderWay& other) {
    return one.end > other.end || (one.end == other.end && one.number > other.number);
  }

  [[nodiscard]] double rate() const { return rate_ / static_cast<double>(under_way_.size()); }
  void advance(double now) {
    if (!under_way_.empty()) bytes_per_use_ += (now - advanced_until_) * rate();
    advanced_until_ = now;
  }

  double rate_;
  double advanced_until_ = 0;
  double bytes_per_use_ = 0;  // how many bytes a use that was there all the time has moved until at_
  std::uint64_t next_number_ = 0;
  std::vector<UnderWay> under_way_;  // a heap
};

}  // namespace offbeat
