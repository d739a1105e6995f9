// SPDX-License-Identifier: BSD-3-Clause
#include "trace/communicator_filter.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>

namespace offbeat::trace {
namespace {

// Returns the number that the whole text is, or `otherwise` if the text is empty.
std::optional<int> number(std::string_view text, int otherwise) {
  if (text.empty()) return otherwise;
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [read_to, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || read_to != end) return std::nullopt;
  return value;
}

bool is_in_range(std::string_view range, int ranks) {
  if (range.empty()) return false;
  const std::size_t dots = range.find("..");
  const bool is_one = dots == std::string_view::npos;
  const auto least = number(range.substr(0, dots), 1);
  const auto most = is_one ? least : number(range.substr(dots + 2), std::numeric_limits<int>::max());
  return least && most && *least <= ranks && ranks <= *most;
}

}  // namespace

bool matches_communicator(std::string_view filter, int ranks, int world_ranks, std::string_view name) {
  if (filter.empty()) return true;
  for (std::size_t begin = 0; begin <= filter.size();) {
    const std::size_t end = std::min(filter.find(',', begin), filter.size());
    const std::string_view part = filter.substr(begin, end - begin);
    if (part == "world" && ranks == world_ranks) return true;
    if (is_in_range(part, ranks) || (!part.empty() && part == name)) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace offbeat::trace
