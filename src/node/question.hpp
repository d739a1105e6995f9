// SPDX-License-Identifier: BSD-3-Clause
// The words by which a process is asked where it is, and its answer. They are beside its counters.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>

#include "node/call_counters.hpp"

namespace offbeat {

struct alignas(64) Question {
  static constexpr std::size_t offset = 1024;  // behind the CounterHeader
  std::atomic<std::uint32_t> asked;            // counts questions
  std::atomic<std::uint32_t> answered;         // the last question that was answered
  // One frame a line, the innermost first. The fields of a line have tabs between them:
  //   python  function  file  line
  //   frame   address in the file  file  name of the function, if the dynamic symbols have it
  //   call    name of the system call
  std::array<char, counter_block_bytes - offset - 64> text;
};
static_assert(sizeof(CounterHeader) <= Question::offset);
static_assert(Question::offset + sizeof(Question) <= counter_block_bytes);

[[nodiscard]] inline Question& question_of(CounterHeader& header) {
  return *reinterpret_cast<Question*>(reinterpret_cast<std::byte*>(&header) + Question::offset);
}

// These work between processes. The first sleeps while the word has this value, at most for `limit_ns`, which
// is less than 10 s.
inline void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t limit_ns) {
  const timespec limit{static_cast<time_t>(limit_ns / 1'000'000'000),
                       static_cast<long>(limit_ns % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}
inline void wake_sleepers(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace offbeat
