// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace offbeat {

// A resource that serves one request after the other.
struct SimulatedPort {
  double free = 0;
  double pass(double begin, double seconds) {
    free = std::max(free, begin) + seconds;
    return free;
  }
};

struct SimulatedMessage;

// A node's way out: what is on its way at once shares its rate equally.
class SharedPort {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  explicit SharedPort(double rate) : rate_(rate) {}

  void add(double now, SimulatedMessage& message, double bytes) {
    advance(now);
    under_way_.push_back({passed_ + bytes, next_number_++, &message});
    std::push_heap(under_way_.begin(), under_way_.end(), later);
  }
  // When the next message will have left, if no other one comes.
  [[nodiscard]] double next() const {
    return under_way_.empty() ? never : at_ + std::max(0.0, under_way_.front().end - passed_) / rate();
  }
  // One that has left; null: none has. It has left, too, when the rest takes less time than can be told so
  // late: next() would be now forever.
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

  // Of the event for next() that was scheduled last: only that one counts.
  double scheduled = never;
  std::uint64_t event = 0;

 private:
  static constexpr double rounding = 1e-9;

  struct UnderWay {
    double end;  // in terms of passed_
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
  double passed_ = 0;  // until at_, of each message that was under way all the time
  std::uint64_t next_number_ = 0;
  std::vector<UnderWay> under_way_;  // a heap
};

}  // namespace offbeat
