// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"

#include <unistd.h>

#include <cstdint>

#include "base/file_size_limit.hpp"

namespace offbeat {
namespace {

// Returns how many bytes the first character of `text` has, or 0 if it is not a printable character of UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(k < text.size() ? text[k] : 0); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  if (first < 0xc0 || first >= 0xf8) return 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  std::uint32_t code = first & (0x7fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(k) & 0x3fu);
  }
  // For each length in bytes: the lowest printable code. Lower codes are control characters, or are written
  // with more bytes than they need.
  constexpr std::uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code >= least[length] && code <= 0x10ffff && !is_surrogate ? length : 0;
}

std::string escaped(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default: {
      constexpr char digits[] = "0123456789abcdef";
      const auto code = static_cast<unsigned char>(c);
      return {'\\', 'x', digits[code / 16], digits[code % 16]};
    }
  }
}

}  // namespace

std::string printable(std::string_view text, std::size_t most_bytes) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const std::string next = length > 0 ? std::string(text.substr(0, length)) : escaped(text[0]);
    if (result.size() + next.size() > most_bytes) return result + "...";
    result += next;
    text.remove_prefix(length > 0 ? length : 1);
  }
  return result;
}

void say(std::string_view line) {
  const std::string text = "offbeat: " + printable(line, std::string::npos) + "\n";
  const FileSizeLimitIsError scope;  // the program may write its errors to a file
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
}

}  // namespace offbeat
