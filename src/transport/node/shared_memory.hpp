// SPDX-License-Identifier: BSD-3-Clause
// Anonymous shared memory between processes of one node.
//
// The memory is a file that never has a name, so nobody has to remove it, however its processes end: a memfd
// or, where that is forbidden, an unnamed file in /dev/shm. Others reach it through /proc or, where that is
// closed (hidepid, other process namespaces), get it over a socket of the abstract namespace, which has no
// name in a file system either.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace offbeat {

// What the system did not let us do, each thing once: the call, and its errno. Makes no allocation.
struct Refusal {
  const char* call = nullptr;
  int code = 0;
};
class Refusals {
 public:
  void add(const char* call, int code);
  [[nodiscard]] const Refusal* begin() const { return list_.data(); }
  [[nodiscard]] const Refusal* end() const { return list_.data() + count_; }

 private:
  std::array<Refusal, 8> list_{};
  std::size_t count_ = 0;
};

// An open file; closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();
  [[nodiscard]] int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_;
};

// A mapping; unmapped at the end.
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
  // Has an effect where /sys/kernel/mm/transparent_hugepage/shmem_enabled says "advise".
  void prefer_huge_pages();

  // Map an open file; empty if that is refused.
  static SharedMemory map(const Descriptor& file, std::size_t bytes, Refusals& refusals);

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// What others must know of the memory; plain data, to be sent to them.
struct MemoryOffer {
  pid_t pid = 0;
  int descriptor = -1;      // negative: there is none
  std::uint64_t inode = 0;  // to be sure that it is the same file: process namespaces can differ
};

// The offering side: a file of zeros, false if there can be none. It must stay open until all have it.
[[nodiscard]] Descriptor make_memory(std::size_t bytes, Refusals& refusals);
[[nodiscard]] MemoryOffer offer_of(const Descriptor& file);

// Where a process can be sent an open file. Nothing here waits.
class Mailbox {
 public:
  struct Address {  // plain data, to be sent to others
    sockaddr_un name{};
    socklen_t bytes = 0;  // 0: there is none
  };
  explicit Mailbox(Refusals& refusals);
  [[nodiscard]] const Address& address() const { return address_; }
  // What was sent; false if nothing was.
  [[nodiscard]] Descriptor take(Refusals& refusals) const;
  static void send(const Descriptor& file, const Address& to, Refusals& refusals);

 private:
  Descriptor socket_;
  Address address_;
};

// The other side; false if it cannot be reached from here. Through /proc, or what came to the mailbox.
[[nodiscard]] Descriptor accept(const MemoryOffer& offer, Refusals& refusals);
[[nodiscard]] Descriptor accept(const MemoryOffer& offer, const Mailbox& mailbox, Refusals& refusals);

}  // namespace offbeat
