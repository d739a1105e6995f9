// SPDX-License-Identifier: BSD-3-Clause
// Anonymous memory that the processes of one node share.
//
// The memory is a file that never has a name, so nothing has to be removed, however its processes end. It is
// a memfd or, if that is forbidden, an unnamed file in /dev/shm. Other processes get the file through /proc
// or by pidfd_getfd. Both may be closed (hidepid, other process namespaces, a system that forbids tracing).
// They then get it over a socket of the abstract namespace, which has no name in a file system either.
// docs/explanation/security.md says what other users can do about it.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace offbeat {

// The system calls that failed, with their errno. Each pair is listed once. Adding never allocates.
struct Refusal {
  const char* call = nullptr;
  int code = 0;
};
class Refusals {
 public:
  void add(const char* call, int code);
  [[nodiscard]] const Refusal* begin() const { return refusals_.data(); }
  [[nodiscard]] const Refusal* end() const { return refusals_.data() + count_; }

 private:
  std::array<Refusal, 16> refusals_{};
  std::size_t count_ = 0;
};

// An open file; the destructor closes it.
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

// A mapping of shared memory; the destructor unmaps it.
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
  // Gives the pages in [first, first + bytes) of a mapping back to the system. They read as zeros afterwards.
  // `first` is where a page begins, and `bytes` are whole pages: the system would take the rest of the last
  // page, too. Returns false if the system refuses, maybe after it took some.
  [[nodiscard]] static bool give_back(void* first, std::size_t bytes);
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }
  // Asks for huge pages. This has an effect if /sys/kernel/mm/transparent_hugepage/shmem_enabled says
  // "advise".
  void prefer_huge_pages();

  // Maps an open file. The result is empty if the system refuses.
  static SharedMemory map(const Descriptor& file, std::size_t bytes, Refusals& refusals);

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// What other processes need to know to map the memory. Plain data that is sent to them.
struct MemoryOffer {
  pid_t pid = 0;
  int descriptor = -1;  // negative: there is no memory
  // `device` and `inode` identify the file. A process number alone would not, because it differs between
  // namespaces.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// Makes the file on the offering side: zeros, with a fixed length. The result is empty if no file can be
// made. The file must stay open until all processes have it.
[[nodiscard]] Descriptor make_memory(std::size_t bytes, Refusals& refusals);
// Returns true if this process has address space for `bytes` more of shared memory. All shared mappings
// together may take a quarter of the address space that the program would have without them. A limit on
// address space (ulimit -v) counts everything that is mapped, touched or not.
[[nodiscard]] bool has_address_space_for(std::size_t bytes);
// Returns true if pages that were given back can always be had again. In /dev/shm others may fill the space
// meanwhile.
[[nodiscard]] bool can_give_pages_back(const Descriptor& file);
[[nodiscard]] MemoryOffer offer_of(const Descriptor& file);

// Opens the offered file on the other side, through /proc or by pidfd_getfd. The result is empty if neither
// works. A file of fewer than `bytes` bytes is rejected, because touching the missing part would end the
// process.
[[nodiscard]] Descriptor accept(const MemoryOffer& offer, std::size_t bytes, Refusals& refusals);

// Receives an open file from one sender. Only that sender can ever write here, and before listen_to() nobody
// can. No function waits.
//
// A mailbox has two sockets. A connected datagram socket receives datagrams from its peer only (connect(2)).
// So the inbox is always connected: first to a socket that is closed before anybody knows its name, and later
// to the sender's outbox. An outbox cannot be connected, because then only its peer could connect to it. It
// is shut down for reading instead.
class Mailbox {
 public:
  struct Name {
    sockaddr_un address{};
    socklen_t bytes = 0;  // 0: the socket has no name
  };
  struct Address {  // plain data that is sent to others
    Name inbox;
    Name outbox;
  };
  explicit Mailbox(Refusals& refusals);
  [[nodiscard]] const Address& address() const { return address_; }
  // From now on, the mailbox at `sender` can send to this one.
  void listen_to(const Address& sender, Refusals& refusals);
  // Sends `file` to a mailbox that listens to this one.
  void send(const Descriptor& file, const Address& to, Refusals& refusals) const;
  // Returns the offered file if it came from a process of this user; otherwise an empty descriptor. All other
  // messages are thrown away, and the descriptors in them are closed.
  [[nodiscard]] Descriptor take(const MemoryOffer& offer, std::size_t bytes, Refusals& refusals) const;

 private:
  Descriptor inbox_;
  Descriptor outbox_;
  Address address_;
};

}  // namespace offbeat
