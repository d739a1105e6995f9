// SPDX-License-Identifier: BSD-3-Clause
// Anonymous shared memory between processes of one node.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace offbeat {

// A mapping; unmapped at the end. Nothing in a file system outlives the processes.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMemory();
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

  // Map an open file.
  static SharedMemory map(int descriptor, std::size_t bytes);

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// How one process offers memory to others; plain data, to be sent to them. Two ways, because each is forbidden somewhere:
// a memfd, reached through /proc/PID/fd, never has a name; POSIX shared memory has one until everybody opened it.
struct MemoryOffer {
  pid_t pid = 0;
  int descriptor = -1;
  std::uint64_t inode = 0;  // to be sure that /proc shows the same file: process namespaces can differ
  char name[32] = {};       // of the POSIX object; empty: memfd
};

// The offering side. Closes its descriptor and unlinks the name at the end, or at once by withdraw().
class OfferedMemory {
 public:
  enum class Way { memfd, posix };
  // False in `offer().descriptor < 0`: this way is closed here.
  OfferedMemory(Way way, std::size_t bytes);
  OfferedMemory(const OfferedMemory&) = delete;
  OfferedMemory& operator=(const OfferedMemory&) = delete;
  ~OfferedMemory() { withdraw(); }
  [[nodiscard]] const MemoryOffer& offer() const { return offer_; }
  void withdraw();

 private:
  MemoryOffer offer_;
};

// Empty if it cannot be reached from here.
[[nodiscard]] SharedMemory accept(const MemoryOffer& offer, std::size_t bytes);

}  // namespace offbeat
