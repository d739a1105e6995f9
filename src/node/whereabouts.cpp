// SPDX-License-Identifier: BSD-3-Clause
#include "node/whereabouts.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
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
ThreadNames computing;            // the thread that is asked about
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
  run_unless_out_of_memory([&] { text = frames_of(computing); });
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
  computing = this_thread();
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

// The files of the system, of MPIs and of offbeat, whose frames tell a user nothing about the program.
bool is_of_system(std::string_view path) {
  constexpr std::string_view names[] = {"libc.so",     "libc-",       "libpthread", "ld-linux", "ld-",
                                        "libm.so",     "[vdso]",      "linux-vdso", "libmpi",   "libopen-pal",
                                        "libopen-rte", "libopen_mpi", "libpmix",    "libprrte", "libucp",
                                        "libucs",      "libuct",      "libfabric",  "libmpich", "liboffbeat",
                                        "libevent",    "libpsm",      "libgomp",    "libmca",   "mca_"};
  return std::ranges::any_of(names, [&](std::string_view name) { return base_name(path).starts_with(name); });
}

// The files of Python itself and of what is installed with it, such as torch.
bool is_of_python(std::string_view path) {
  return path.find("/lib/python3") != std::string_view::npos || path.starts_with("<frozen ");
}

// A frame as the process tells it, and what is known of it.
struct Frame {
  bool is_python = false;
  std::string function;
  std::string file;
  std::string place;  // the line, or the address in the file

  [[nodiscard]] bool is_of_program() const { return is_python ? !is_of_python(file) : !is_of_system(file); }
};

struct Answer {
  std::string call;  // the system call in which the thread is; empty: none
  std::vector<Frame> frames;

  static Answer parse(std::string_view text) {
    Answer answer;
    for (const std::string_view line : parts_of(text, '\n')) {
      const std::vector<std::string_view> part = parts_of(line, '\t');
      if (part[0] == "call" && part.size() == 2) answer.call = part[1];
      if (part.size() != 4) continue;
      if (part[0] == "python")
        answer.frames.push_back({true, std::string(part[1]), std::string(part[2]), std::string(part[3])});
      if (part[0] == "frame")
        answer.frames.push_back({false, std::string(part[3]), std::string(part[2]), std::string(part[1])});
    }
    return answer;
  }
};

// A frame in words, and whether its line is known.
struct FrameText {
  std::string text;
  bool has_line = false;
};

FrameText text_of(const Frame& frame) {
  if (frame.is_python)
    return {
        with_parentheses(frame.function) + " at " + std::string(base_name(frame.file)) + ":" + frame.place,
        true};
  const SourceLine found = source_line(frame.file, frame.place);
  const std::string& function = found.function.empty() ? frame.function : found.function;
  if (!found.file.empty())
    return {with_parentheses(function) + " at " + std::string(base_name(found.file)) + ":" + found.line,
            true};
  const std::string place = std::string(base_name(frame.file)) + "+" + frame.place;
  return {function.empty() ? place : with_parentheses(function) + " in " + place, false};
}

// Returns the function of a library that the program has called last, if it is known; else the system call.
std::string called_by_program(const Answer& answer, std::size_t innermost) {
  if (innermost > 0 && !answer.frames[innermost].is_python) {
    const Frame& called = answer.frames[innermost - 1];
    // dladdr() knows no symbols without a size, such as those of Intel MPI.
    const std::string function =
        !called.function.empty() ? called.function : source_line(called.file, called.place).function;
    if (!function.empty() && !function.starts_with("__") && !function.starts_with("PMPI_"))
      return with_parentheses(function);
    if (function.starts_with("PMPI_")) return with_parentheses(function.substr(1));
  }
  return answer.call.empty() ? "" : "the system call " + answer.call;
}

// Returns the innermost frame of the program, and what it has called. If its line is unknown, the innermost
// frame whose line is known follows.
std::string short_text(const Answer& answer) {
  constexpr std::size_t most_look_ups = 6;
  const bool is_python = std::ranges::any_of(answer.frames, &Frame::is_python);
  const auto is_wanted = [&](const Frame& frame) {
    return frame.is_python == is_python && frame.is_of_program();
  };
  const auto innermost = std::ranges::find_if(answer.frames, is_wanted);
  if (innermost == answer.frames.end()) {
    if (!answer.call.empty()) return "the system call " + answer.call;
    return answer.frames.empty() ? "" : text_of(answer.frames.front()).text;
  }
  const std::string called =
      called_by_program(answer, static_cast<std::size_t>(innermost - answer.frames.begin()));
  FrameText found = text_of(*innermost);
  std::size_t look_ups = 1;
  for (auto each = innermost + 1; each < answer.frames.end() && !found.has_line && look_ups < most_look_ups;
       ++each) {
    if (!is_wanted(*each)) continue;
    ++look_ups;
    const FrameText caller = text_of(*each);
    if (caller.has_line) found = {found.text + ", called from " + caller.text, true};
  }
  return called.empty() ? found.text : called + " called by " + found.text;
}

// Remembers the texts, because whoever asks a rank often gets the same frames, and each takes addr2line a
// while.
std::string remembered_text_of(const Frame& frame) {
  constexpr std::size_t most = 10'000;
  static std::mutex mutex;
  static auto& known = *new std::map<std::tuple<std::string, std::string, std::string>, std::string>;
  const std::scoped_lock lock(mutex);
  const std::tuple key(frame.file, frame.place, frame.function);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (known.size() >= most) known.clear();
  return known[key] = text_of(frame).text;
}

// Asks a process. The answer is empty if it does not answer.
Answer ask(const MappedCounters& other) {
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
  return Answer::parse(text.substr(0, text.find('\0')));
}

}  // namespace

std::string ask_where(const MappedCounters& other) { return short_text(ask(other)); }

std::vector<std::string> ask_for_stack(const MappedCounters& other) {
  constexpr std::size_t most_frames = 32;
  const Answer answer = ask(other);
  const bool is_python = std::ranges::any_of(answer.frames, &Frame::is_python);
  std::vector<std::string> lines;
  if (!answer.call.empty()) lines.push_back("the system call " + answer.call);
  for (const Frame& each : answer.frames) {
    if (each.is_python == is_python && lines.size() < most_frames) lines.push_back(remembered_text_of(each));
  }
  return lines;
}

}  // namespace offbeat
