// SPDX-License-Identifier: BSD-3-Clause
// Names what takes suspiciously long inside a blocking call of the host, where nobody of ours can look.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace offbeat {

// As long as one lives, a thread that sleeps nearly always looks after it. That thread is started by the
// first one; it makes no call of MPI and takes no signal of the program's.
class Watch {
 public:
  // Says `line(waited)` once, when this has lived for more than `after_s` seconds; 0: never. `line` may be
  // called in another thread.
  using Line = std::string (*)(const void* state, const std::string& waited);
  Watch(double after_s, Line line, const void* state);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();
  // Whether it has been said, and then for how long this has lived.
  [[nodiscard]] std::string said_for() const;

 private:
  struct Slot {
    std::atomic<std::int64_t> since_ns{0};  // 0: free; negative: somebody is at it
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
