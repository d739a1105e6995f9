// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace offbeat {

// Observation reports one call to a log, if there is a log. The call counts as failed unless returns() is
// called. `Log` has begins() and returns(), as GroupCallLog does.
template <class Log>
class Observation {
 public:
  // `describe()` returns the call. It is called only if there is a log.
  template <class Describe>
  Observation(Log* log, Describe&& describe) : log_(log) {
    if (log_ != nullptr) [[unlikely]]
      number_ = log_->begins(describe());
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  ~Observation() {
    returns(true, [] { return nullptr; });
  }
  // Returns the number that the log has given the call.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // `algorithm()` returns the text of what the call has run. Only the first call of this function counts.
  template <class Algorithm>
  void returns(bool is_complete, Algorithm&& algorithm) {
    if (log_ != nullptr) [[unlikely]]
      log_->returns(number_, is_complete, algorithm());
    log_ = nullptr;
  }

 private:
  Log* log_;
  std::uint64_t number_ = 0;
};

}  // namespace offbeat
