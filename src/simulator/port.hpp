// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace offbeat {

// A resource that serves one request after the other, such as one direction of a network card.
struct SimulatedPort {
  double free = 0;
  double pass(double begin, double seconds) {
    free = std::max(free, begin) + seconds;
    return free;
  }
};

struct SimulatedMessage;

// The link by which messages leave a node. All messages on it share its rate equally.
class SharedPort {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  explicit SharedPort(double rate) : rate_(rate) {}

  void add(double now, SimulatedMessage& message, double bytes) {
    advance(now);
    under_way_.push_back({passed_ + bytes, next_number_++, &message});
    std::push_heap(under_way_.begin(), under_way_.end(), later);
  }
  // Returns when the next message will have left, if no further one is added.
  [[nodiscard]] double next() const {
    return under_way_.empty() ? never : at_ + std::max(0.0, under_way_.front().end - passed_) / rate();
  }
  // Removes and returns a message that has left; null if none has. A message also counts as left if so little
  // of it remains that adding that time to `now` changes nothing. Otherwise next() would stay equal to `now`
  // forever.
  SimulatedMessage* take(double now) {
    advance(now);
    if (under_way_.empty()) return nullptr;
    if (under_way_.front().end * (1 - rounding) > passed_ && next() > now) return nullptr;
    SimulatedMessage* message = under_way_.front().message;
    std::pop_heap(under_way_.begin(), under_way_.end(), later);
    under_way_.pop_back();
    if (under_way_.empty()) passed_ = 0;
    return message;
  }
  void clear() { *this = SharedPort(rate_); }

  // The time and the sequence number of the last event that was scheduled for next(). Earlier events are
  // void.
  double scheduled = never;
  std::uint64_t event = 0;

 private:
  static constexpr double rounding = 1e-9;

  struct UnderWay {
    double end;  // the value of passed_ at which it has left
    std::uint64_t number;
    SimulatedMessage* message;
  };
  static bool later(const UnderWay& one, const UnderWay& other) {
    return one.end > other.end || (one.end == other.end && one.number > other.number);
  }

  [[nodiscard]] double rate() const { return rate_ / static_cast<double>(under_way_.size()); }
  void advance(double now) {
    if (!under_way_.empty()) passed_ += (now - at_) * rate();
    at_ = now;
  }

  double rate_;
  double at_ = 0;
  double passed_ = 0;  // how many bytes a message that was there all the time has sent until at_
  std::uint64_t next_number_ = 0;
  std::vector<UnderWay> under_way_;  // a heap
};

}  // namespace offbeat
