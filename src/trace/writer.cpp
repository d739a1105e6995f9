// SPDX-License-Identifier: BSD-3-Clause
#include "trace/writer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/error.hpp"
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

void* map(int file, std::uint64_t offset, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

Writer::Writer(const std::string& path, std::size_t window_bytes, std::uint64_t most_bytes)
    : window_bytes_(window_bytes), most_bytes_(most_bytes), path_(path) {
  // Other users must never be able to write, whatever the umask: if somebody shortens a mapped file, the
  // process dies.
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file_ < 0) {
    if (errno == EEXIST) throw UsageError(path + " exists already: remove the trace or name another folder");
    const char* why = std::strerror(errno);
    throw UsageError("cannot write " + printable(path, PATH_MAX) + ": " + why);
  }
  int error = allocate_disk_space(file_, 0, header_bytes);
  if (error == 0) {
    header_ = static_cast<Header*>(map(file_, 0, header_bytes));
    if (header_ == nullptr) error = errno;
  }
  if (error != 0) {
    close(file_);
    unlink(path.c_str());
    throw UsageError("cannot write " + path + ": " + std::strerror(error));
  }
  file_bytes_ = header_bytes;
}

Writer::~Writer() {
  unmap();
  munmap(header_, header_bytes);
  close(file_);
}

void Writer::unmap() {
  if (window_ != nullptr) munmap(window_, static_cast<std::size_t>(window_end_ - window_));
  window_ = next_slot_ = window_end_ = nullptr;
}

// Reports the first failure; after that, records are counted as lost.
bool Writer::grow() {
  const std::uint64_t wanted = window_end_behind(file_bytes_);
  const int error =
      wanted > most_bytes_ ? EDQUOT : allocate_disk_space(file_, file_bytes_, wanted - file_bytes_);
  if (error == 0) {
    file_bytes_ = wanted;
    return true;
  }
  is_full_ = true;
  const std::string why = wanted > most_bytes_ ? "OFFBEAT_TRACE_MIB is reached" : std::strerror(error);
  say_once_on_node(path_ + ": no more calls are recorded: " + why);
  return false;
}

bool Writer::move_window() {
  const std::uint64_t offset = offset_of(slots_);
  const std::size_t bytes = window_end_behind(offset) - offset;
  auto* memory = static_cast<std::byte*>(map(file_, offset, bytes));
  if (memory == nullptr) {
    is_full_ = true;
    say_once_on_node(path_ + ": no more calls are recorded: " + std::strerror(errno));
    return false;
  }
  unmap();
  window_ = next_slot_ = memory;
  window_end_ = memory + bytes;
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
  unmap();
  window_begin_ = slots_;
  static_cast<void>(!ftruncate(file_, static_cast<off_t>(offset_of(slots_))));
  is_full_ = true;
}

}  // namespace offbeat::trace
