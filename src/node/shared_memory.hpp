// SPDX-License-Identifier: BSD-3-Clause
// Anonymous shared memory between processes of one node.
//
// The memory is a file that never has a name, so nobody has to remove it, however its processes end: a memfd
// or, where that is forbidden, an unnamed file in /dev/shm. Others fetch the file through /proc or by
// pidfd_getfd. Where both are closed (hidepid, other process namespaces, a system that forbids tracing), they
// get it over a socket of the abstract namespace, which has no name in a file system either. docs/security.md
// says what other users can do about it.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace offbeat {

// The system calls that failed, each listed once, with their errno. Never allocates.
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
  std::array<Refusal, 16> list_{};
  std::size_t count_ = 0;
};

// An open file, closed on destruction.
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

// A mapping, unmapped on destruction.
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
  // Pages [first, first + bytes) of a mapping become zeros, which take no memory.
  static void give_back(void* first, std::size_t bytes);
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

// A description of the memory that other processes need to map it. Plain data, to be sent to them.
struct MemoryOffer {
  pid_t pid = 0;
  int descriptor = -1;       // negative: there is none
  std::uint64_t device = 0;  // with the inode, to recognise the file: process namespaces differ
  std::uint64_t inode = 0;
};

// The offering side: a file of zeros that keeps its length; false if none can be made. It must stay open
// until all processes have it.
[[nodiscard]] Descriptor make_memory(std::size_t bytes, Refusals& refusals);
// Whether the shared mappings of this process, including one more of `bytes`, leave the program three
// quarters of the address space that it has without them. A limit on address space (ulimit -v) counts
// everything that is mapped, touched or not.
[[nodiscard]] bool has_address_space_for(std::size_t bytes);
// Whether pages that were given back can always be had again. In a /dev/shm, others may fill it meanwhile.
[[nodiscard]] bool can_give_pages_back(const Descriptor& file);
[[nodiscard]] MemoryOffer offer_of(const Descriptor& file);

// The other side: the offered file, through /proc or by pidfd_getfd; false if neither way works. A file
// shorter than `bytes` is rejected, because touching the missing part would end the process.
[[nodiscard]] Descriptor accept(const MemoryOffer& offer, std::size_t bytes, Refusals& refusals);

// Receives an open file from one sender. Nobody else can ever write here: before listen_to nobody can at all,
// and afterwards only the sender. Nothing here waits.
//
// A mailbox has two sockets. A connected datagram socket gets datagrams from its peer only (connect(2)). So
// the inbox is connected from the first moment on: to a socket that is closed before anybody knows its name,
// and later to the sender's outbox. An outbox cannot be connected, since only its peer could then connect to
// it; it is shut down for reading.
class Mailbox {
 public:
  struct Name {
    sockaddr_un address{};
    socklen_t bytes = 0;  // 0: there is none
  };
  struct Address {  // plain data, to be sent to others
    Name inbox;
    Name outbox;
  };
  explicit Mailbox(Refusals& refusals);
  [[nodiscard]] const Address& address() const { return address_; }
  // From now on the mailbox at `sender` can write here.
  void listen_to(const Address& sender, Refusals& refusals);
  // Sends to a mailbox that listens to this one.
  void send(const Descriptor& file, const Address& to, Refusals& refusals) const;
  // The offered file, if it came from a process of our user; otherwise false. Every other letter is thrown
  // away and every descriptor in it closed.
  [[nodiscard]] Descriptor take(const MemoryOffer& offer, std::size_t bytes, Refusals& refusals) const;

 private:
  Descriptor inbox_;
  Descriptor outbox_;
  Address address_;
};

}  // namespace offbeat
