// SPDX-License-Identifier: BSD-3-Clause
#include "node/whereabouts.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/background_thread.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "node/own_frames.hpp"
#include "node/question.hpp"
#include "node/source_line.hpp"

namespace offbeat {
namespace {

// -- the side that answers

std::atomic<pid_t> answering{0};  // the process whose thread answers
std::atomic<pid_t> computing{0};  // the thread that is asked about
std::atomic<Question*> own_question{nullptr};

// A process whose main thread has left by pthread_exit() ends with its last thread, so this one must not
// stay.
bool main_thread_is_gone() {
  char text[512];
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, text, sizeof text);
  close(file);
  const std::string_view all(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::size_t name_end = all.rfind(')');
  return name_end != std::string_view::npos && name_end + 2 < all.size() && all[name_end + 2] == 'Z';
}

void answer_in(Question& question, std::uint32_t number) {
  std::string text;
  run_unless_out_of_memory([&] { text = frames_of(computing.load(std::memory_order_relaxed)); });
  question.text[text.copy(question.text.data(), question.text.size() - 1)] = '\0';
  question.answered.store(number, std::memory_order_release);
  wake_sleepers(question.answered);
}

void* answer_questions(void* given) {
  constexpr std::int64_t look_ns = 5 * ns_per_s;
  auto& question = *static_cast<Question*>(given);
  while (answering.load(std::memory_order_acquire) == getpid()) {
    const std::uint32_t asked = question.asked.load(std::memory_order_acquire);
    if (asked != question.answered.load(std::memory_order_relaxed)) {
      answer_in(question, asked);
    } else {
      sleep_while(question.asked, asked, look_ns);
      if (main_thread_is_gone()) return nullptr;
    }
  }
  return nullptr;
}

}  // namespace

// Each child of fork() that has its own counters also has its own thread.
void answer_where_this_thread_is() {
  const pid_t mine = getpid();
  if (answering.exchange(mine, std::memory_order_acq_rel) == mine) return;
  static std::vector<MappedCounters>* own = nullptr;
  own = new std::vector<MappedCounters>(counters_of_process(mine));  // never destroyed
  if (own->empty()) return;
  Question& question = question_of(own->front().header());
  computing.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
  own_question.store(&question, std::memory_order_release);
  static_cast<void>(start_background_thread(answer_questions, &question));
}

void stop_answering() noexcept {
  if (answering.exchange(0, std::memory_order_acq_rel) != getpid()) return;
  if (Question* const question = own_question.load(std::memory_order_acquire)) wake_sleepers(question->asked);
}

// -- the side that asks

namespace {

std::vector<std::string_view> parts_of(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(between);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string with_parentheses(std::string_view function) {
  return std::string(function) + (function.find('(') == std::string_view::npos ? "()" : "");
}

// Files whose frames tell a user nothing about the program.
bool is_of_system(std::string_view path) {
  constexpr std::string_view names[] = {"libc.so", "libc-",  "libpthread", "ld-linux",
                                        "libm.so", "[vdso]", "linux-vdso"};
  return std::ranges::any_of(names, [&](std::string_view name) { return base_name(path).starts_with(name); });
}

// What is known of the frame of a program or library: its function and its place in the file.
std::string place_in_file(std::string_view function, std::string_view file, std::string_view address) {
  const std::string place = std::string(base_name(file)) + "+" + std::string(address);
  return function.empty() ? place : with_parentheses(function) + " in " + place;
}

// Returns the innermost frame outside the system's libraries. If its line is unknown, the innermost frame
// whose line is known follows.
std::string text_of_frames(std::string_view text) {
  constexpr int most_look_ups = 6;
  std::string innermost;
  std::string of_system;
  int look_ups = 0;
  for (const std::string_view line : parts_of(text, '\n')) {
    const std::vector<std::string_view> part = parts_of(line, '\t');
    if (part[0] == "call" && part.size() == 2) return "the system call " + std::string(part[1]);
    if (part[0] == "python" && part.size() == 4)
      return with_parentheses(part[1]) + " at " + std::string(base_name(part[2])) + ":" +
             std::string(part[3]);
    if (part[0] != "frame" || part.size() != 4) continue;
    if (is_of_system(part[2])) {
      if (of_system.empty()) of_system = place_in_file(part[3], part[2], part[1]);
      continue;
    }
    if (look_ups++ == most_look_ups) break;
    const SourceLine found = source_line(part[2], part[1]);
    const std::string function = found.function.empty() ? std::string(part[3]) : found.function;
    if (!found.file.empty()) {
      const std::string here =
          with_parentheses(function) + " at " + std::string(base_name(found.file)) + ":" + found.line;
      return innermost.empty() ? here : innermost + ", called from " + here;
    }
    if (innermost.empty()) innermost = place_in_file(function, part[2], part[1]);
  }
  return innermost.empty() ? of_system : innermost;
}

}  // namespace

std::string ask_where(const MappedCounters& other) {
  constexpr std::int64_t limit_ns = ns_per_s;
  Question& question = question_of(other.header());
  const std::uint32_t number = question.asked.fetch_add(1, std::memory_order_acq_rel) + 1;
  wake_sleepers(question.asked);
  const std::int64_t began = monotonic_ns();
  for (;;) {
    const std::uint32_t answered = question.answered.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(answered - number) >= 0) break;
    const std::int64_t left = began + limit_ns - monotonic_ns();
    if (left <= 0) return {};
    sleep_while(question.answered, answered, left);
  }
  const std::string_view text(question.text.data(), question.text.size());
  return text_of_frames(text.substr(0, text.find('\0')));
}

}  // namespace offbeat
