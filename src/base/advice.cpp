// SPDX-License-Identifier: BSD-3-Clause
#include "base/advice.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace offbeat {
namespace {

// A rank that is without a core for less time than this has only met kernel threads.
constexpr std::int64_t least_wait_ns = 20'000'000;
constexpr std::int64_t least_percent = 3;
constexpr std::size_t most_command_bytes = 160;

// Quotes a word for a shell, if it needs that.
std::string quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string line_on_contention(const Contention& cores) {
  const std::int64_t ready_ns = cores.ran_ns + cores.waited_ns;
  if (cores.waited_ns < least_wait_ns || 100 * cores.waited_ns < least_percent * ready_ns) return {};
  return "cores are overloaded: rank 0 had no core for " + std::to_string(100 * cores.waited_ns / ready_ns) +
         "% of the time that it could have run, and lost its core " + std::to_string(cores.preemptions) +
         " times";
}

std::string line_on_next_command(const Settings& settings, int ranks, const std::string& words) {
  const std::string what = "what these calls cost, and who is late: offbeat ";
  if (!settings.trace.empty()) return what + "report " + quoted(settings.trace);
  std::string program;
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find('\0', begin), words.size());
    program += " " + quoted(words.substr(begin, end - begin));
    begin = end + 1;
  }
  if (program.size() > most_command_bytes) program = " PROGRAM";
  return what + "trace -n " + std::to_string(ranks) + " --" + program + "; then: offbeat report run.trace";
}

}  // namespace offbeat
