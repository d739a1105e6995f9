// SPDX-License-Identifier: BSD-3-Clause
#include "base/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"

namespace offbeat {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // of UTF-8; some editors write it

}  // namespace

std::string read_text_file(const std::string& path, std::size_t most_mib) {
  const std::size_t most_bytes = most_mib << 20;
  const auto refuse = [&](const std::string& why) { throw UsageError(printable(path) + ": " + why); };
  // O_NONBLOCK keeps open() from waiting for the other end of a FIFO.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) refuse(std::strerror(errno));
  struct stat status {};
  const bool is_regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  std::string text;
  ssize_t length = 0;
  int error = 0;
  if (is_regular) {
    // One extra byte shows that a file is too long, even if it grows while it is read.
    text.resize(most_bytes + 1);
    std::size_t read_so_far = 0;
    while ((length = read(file, text.data() + read_so_far, text.size() - read_so_far)) > 0)
      read_so_far += static_cast<std::size_t>(length);
    error = errno;
    text.resize(read_so_far);
  }
  close(file);
  if (!is_regular) refuse("not a regular file");
  if (length < 0) refuse(std::strerror(error));
  if (text.size() > most_bytes) refuse("longer than " + std::to_string(most_mib) + " MiB");
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  return text;
}

}  // namespace offbeat
