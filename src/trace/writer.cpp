// SPDX-License-Identifier: BSD-3-Clause
#include "trace/writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file_size_limit.hpp"
#include "base/line_of_node.hpp"
#include "base/log.hpp"

namespace offbeat::trace {
namespace {

// Takes disk space by writing zeros. Returns an error number, or 0. This works alike on every file system. On
// ext4 it takes half the time of posix_fallocate and the page faults that follow it. One call takes as much
// as possible: a file system with large folios then takes the memory in one piece, and one page fault maps
// all of it.
int allocate_disk_space(int file, std::uint64_t offset, std::uint64_t bytes) {
  const FileSizeLimitIsError scope;
  static std::array<std::byte, 4096> zeros{};
  std::array<iovec, 64> parts;
  parts.fill({zeros.data(), zeros.size()});
  while (bytes > 0) {
    const auto whole = static_cast<int>(std::min<std::uint64_t>(bytes / zeros.size(), parts.size()));
    if (whole == 0) parts[0].iov_len = bytes;  // after a short write
    const ssize_t written = pwritev(file, parts.data(), std::max(1, whole), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    offset += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::uint64_t>(written);
  }
  return 0;
}

}  // namespace

Writer::Writer(const std::string& path, std::size_t window_bytes, std::uint64_t most_bytes)
    : window_bytes_(window_bytes), most_bytes_(most_bytes), path_(path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const int code = error ? error.value() : create_file();
  if (code == 0) return;
  is_full_ = true;
  has_found_a_file_ = code == EEXIST;
  failure_ =
      "cannot write " + printable(error ? folder.string() : path, PATH_MAX) + ": " +
      (code == EEXIST ? "it exists already; remove the trace or name another folder" : std::strerror(code));
}

// Returns 0 or an error number.
int Writer::create_file() {
  // Other users must never be able to write, whatever the umask.
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file_ < 0) return errno;
  struct stat status {};
  has_links_ = fstat(file_, &status) == 0 && status.st_nlink > 0;
  int code = allocate_disk_space(file_, 0, header_bytes);
  if (code == 0) code = mapped_header_.map(file_, 0, header_bytes);
  if (code != 0) {
    discard();
    return code;
  }
  header_ = reinterpret_cast<Header*>(mapped_header_.begin());
  file_bytes_ = header_bytes;
  return 0;
}

Writer::~Writer() {
  if (file_ >= 0) close(file_);
}

void Writer::discard() {
  if (file_ < 0) return;
  is_full_ = true;
  window_.unmap();
  next_slot_ = window_end_ = nullptr;
  header_ = &without_file_;
  mapped_header_.unmap();
  close(std::exchange(file_, -1));
  unlink(path_.c_str());
}

void Writer::stop(const std::string& why) {
  if (is_full_) return;
  is_full_ = true;
  say_once_on_node(printable(path_, PATH_MAX) + ": no more calls are recorded: " + why);
}

// Returns false if what was written is no longer in the file.
bool Writer::is_whole() {
  struct stat status {};
  if (fstat(file_, &status) != 0) {
    stop(std::strerror(errno));
  } else if (static_cast<std::uint64_t>(status.st_size) < file_bytes_) {
    stop("somebody has cut the file");
  } else if (window_.has_come_off() || mapped_header_.has_come_off()) {
    stop("the file system does not store what was written");
  } else if (has_links_ && status.st_nlink == 0) {
    stop("somebody has removed the file");
  } else {
    return true;
  }
  return false;
}

bool Writer::grow() {
  if (!is_whole()) return false;
  const std::uint64_t wanted = window_end_behind(file_bytes_);
  if (wanted > most_bytes_) {
    stop("OFFBEAT_TRACE_MIB is reached");
    return false;
  }
  if (const int error = allocate_disk_space(file_, file_bytes_, wanted - file_bytes_); error != 0) {
    stop(std::strerror(error));
    return false;
  }
  file_bytes_ = wanted;
  return true;
}

bool Writer::move_window() {
  const std::size_t offset_in_window = offset_of(slots_) % window_bytes_;
  if (const int error = window_.map(file_, offset_of(slots_) - offset_in_window, window_bytes_); error != 0) {
    stop(std::strerror(error));
    return false;
  }
  first_slot_ = next_slot_ = window_.begin() + offset_in_window;
  window_end_ = window_.end();
  window_begin_ = slots_;
  return true;
}

// Makes room for `slots` slots in the file and for one slot in the window. Returns false if there is none.
bool Writer::reserve(std::uint64_t slots) {
  if (is_full_) return false;
  while (offset_of(slots_ + slots) > file_bytes_) {
    if (!grow()) return false;
  }
  return next_slot_ != window_end_ || move_window();
}

bool Writer::write(std::span<const std::byte> head, std::span<const std::byte> rest) {
  const std::size_t bytes = head.size() + rest.size();
  const std::uint64_t slots = (bytes + slot_bytes - 1) / slot_bytes;
  if (!reserve(slots)) return false;
  const std::uint64_t first = slots_;
  for (std::size_t done = 0; done < bytes; done += slot_bytes) {
    if (next_slot_ == window_end_ && !move_window()) {
      // No further window could be mapped, in the middle of this record. It stays unpublished, and no record
      // follows it.
      slots_ = first;
      return false;
    }
    std::byte slot[slot_bytes]{};
    for (std::size_t i = done; i < std::min(bytes, done + slot_bytes); ++i) {
      slot[i - done] = i < head.size() ? head[i] : rest[i - head.size()];
    }
    std::memcpy(next_slot_, slot, slot_bytes);
    next_slot_ += slot_bytes;
    ++slots_;
  }
  std::atomic_ref(header_->slots).store(slots_, std::memory_order_release);
  return true;
}

bool Writer::load(std::uint64_t slot, CallRecord& record) const {
  return pread(file_, &record, sizeof record, static_cast<off_t>(offset_of(slot))) == sizeof record;
}

void Writer::store(std::uint64_t slot, const CallRecord& record) const {
  const FileSizeLimitIsError scope;
  static_cast<void>(!pwrite(file_, &record, sizeof record, static_cast<off_t>(offset_of(slot))));
}

void Writer::finish() {
  if (file_ < 0) return;
  const bool keeps_its_length = !is_whole();
  window_.unmap();
  next_slot_ = window_end_ = nullptr;
  window_begin_ = slots_;
  if (!keeps_its_length) static_cast<void>(!ftruncate(file_, static_cast<off_t>(offset_of(slots_))));
  is_full_ = true;
}

}  // namespace offbeat::trace
