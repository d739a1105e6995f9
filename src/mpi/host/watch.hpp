// SPDX-License-Identifier: BSD-3-Clause
// Watch reports a blocking call of the host that takes suspiciously long. None of offbeat's code runs inside
// such a call, so another thread must watch it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace offbeat {

// Created before a blocking call and destroyed after it. The thread that checks each Watch sleeps nearly all
// the time. A Watch starts it, and it ends when it finds none. It does not call MPI and takes none of the
// program's signals.
class Watch {
 public:
  // Prints `line(state, waited)` once if the object lives for more than `after_s` seconds; 0: never. `line`
  // may be called in another thread.
  using MakeLine = std::string (*)(const void* state, const std::string& waited);
  Watch(long after_s, MakeLine line, const void* state);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();
  // Returns how long ago this Watch was created, such as "12 s", if it has printed its line. Otherwise
  // returns an empty text.
  [[nodiscard]] std::string waited_if_reported() const;

 private:
  struct Slot {
    std::atomic<std::int64_t> since_ns{0};  // 0: free; negative: being changed
    std::atomic<bool> is_printed{false};
    MakeLine line = nullptr;
    const void* state = nullptr;
  };
  static constexpr int slots = 64;  // if more are alive, they are not watched
  static Slot watched[slots];

  static void* watch_slots(void* after_s);
  Slot* slot_ = nullptr;
  std::int64_t since_ns_ = 0;
};

}  // namespace offbeat
