// SPDX-License-Identifier: BSD-3-Clause
// Reports a blocking call of the host that takes suspiciously long; none of our code runs inside such a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace offbeat {

// A thread that sleeps nearly all the time looks after each Watch. The first Watch starts the thread, which
// makes no call of MPI and takes none of the program's signals.
class Watch {
 public:
  // Says `line(waited)` once, when this has lived for more than `after_s` seconds; 0: never. `line` may be
  // called in another thread.
  using Line = std::string (*)(const void* state, const std::string& waited);
  Watch(double after_s, Line line, const void* state);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();
  // How long this has lived, if the line has been said; otherwise empty.
  [[nodiscard]] std::string said_for() const;

 private:
  struct Slot {
    std::atomic<std::int64_t> since_ns{0};  // 0: free; negative: being changed
    std::atomic<bool> is_said{false};
    Line line = nullptr;
    const void* state = nullptr;
  };
  static constexpr int slots = 64;  // more at once are not watched
  static Slot watched[slots];

  static void* look_after(void* after_s);
  Slot* slot_ = nullptr;
  std::int64_t since_ns_ = 0;
};

}  // namespace offbeat
