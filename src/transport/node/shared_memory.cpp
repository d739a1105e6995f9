// SPDX-License-Identifier: BSD-3-Clause
#include "transport/node/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace offbeat {
namespace {

std::uint64_t inode_of(const Descriptor& file) {
  struct stat status {};
  return fstat(file.get(), &status) == 0 ? status.st_ino : 0;
}

// The limit on the size of files (ulimit -f) holds for these, too, and a file that is too long is a signal
// that ends the process, not an error.
bool may_have_file_of(std::size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

// A message of one byte that carries an open file.
struct Letter {
  char byte = 0;
  iovec text{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  Letter() {
    header.msg_iov = &text;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

}  // namespace

void Refusals::add(const char* call, int code) {
  const bool known = std::any_of(begin(), end(), [&](const Refusal& each) {
    return std::strcmp(each.call, call) == 0 && each.code == code;
  });
  if (!known && count_ < list_.size()) list_[count_++] = {call, code};
}

Descriptor::~Descriptor() {
  if (value_ >= 0) close(value_);
}

SharedMemory SharedMemory::map(const Descriptor& file, std::size_t bytes, Refusals& refusals) {
  SharedMemory memory;
  if (!file) return memory;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    refusals.add("mmap", errno);
    return memory;
  }
  memory.data_ = data;
  memory.bytes_ = bytes;
  return memory;
}

void SharedMemory::prefer_huge_pages() { static_cast<void>(madvise(data_, bytes_, MADV_HUGEPAGE)); }

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Descriptor make_memory(std::size_t bytes, Refusals& refusals) {
  if (!may_have_file_of(bytes)) {
    refusals.add("ftruncate", EFBIG);
    return Descriptor();
  }
  const auto size = static_cast<off_t>(bytes);
  if (Descriptor file(memfd_create("offbeat", MFD_CLOEXEC)); !file) {
    refusals.add("memfd_create", errno);
  } else if (ftruncate(file.get(), size) != 0) {
    refusals.add("ftruncate", errno);
  } else {
    return file;
  }
  Descriptor file(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) {
    refusals.add("/dev/shm", errno);
    return file;
  }
  // Reserve the pages now: a /dev/shm that is too small is an error here, and a SIGBUS later.
  if (const int code = posix_fallocate(file.get(), 0, size); code != 0) {
    refusals.add("/dev/shm", code);
    return Descriptor();
  }
  return file;
}

MemoryOffer offer_of(const Descriptor& file) {
  if (!file) return {};
  return {.pid = getpid(), .descriptor = file.get(), .inode = inode_of(file)};
}

Mailbox::Mailbox(Refusals& refusals)
    : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  Address mine;
  mine.name.sun_family = AF_UNIX;
  mine.bytes = sizeof mine.name;
  auto* name = reinterpret_cast<sockaddr*>(&mine.name);
  // No more than the family: the kernel chooses a name that is free.
  if (!socket_ || bind(socket_.get(), name, sizeof(sa_family_t)) != 0 ||
      getsockname(socket_.get(), name, &mine.bytes) != 0) {
    refusals.add("socket", errno);
  } else {
    address_ = mine;
  }
}

void Mailbox::send(const Descriptor& file, const Address& to, Refusals& refusals) {
  if (!file || to.bytes == 0) return;
  Address address = to;
  Letter letter;
  letter.header.msg_name = &address.name;
  letter.header.msg_namelen = address.bytes;
  cmsghdr* enclosed = CMSG_FIRSTHDR(&letter.header);
  enclosed->cmsg_level = SOL_SOCKET;
  enclosed->cmsg_type = SCM_RIGHTS;
  enclosed->cmsg_len = CMSG_LEN(sizeof(int));
  const int value = file.get();
  std::memcpy(CMSG_DATA(enclosed), &value, sizeof value);
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || sendmsg(socket.get(), &letter.header, MSG_NOSIGNAL) != 1) refusals.add("socket", errno);
}

Descriptor Mailbox::take(Refusals& refusals) const {
  Letter letter;
  if (address_.bytes == 0) return Descriptor();
  if (recvmsg(socket_.get(), &letter.header, MSG_CMSG_CLOEXEC) != 1) {
    refusals.add("socket", errno);
    return Descriptor();
  }
  const cmsghdr* enclosed = CMSG_FIRSTHDR(&letter.header);
  if (enclosed == nullptr || enclosed->cmsg_type != SCM_RIGHTS) return Descriptor();
  int value = -1;
  std::memcpy(&value, CMSG_DATA(enclosed), sizeof value);
  return Descriptor(value);
}

Descriptor accept(const MemoryOffer& offer, Refusals& refusals) {
  if (offer.descriptor < 0) return Descriptor();
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", offer.pid, offer.descriptor);
  Descriptor file(open(path, O_RDWR | O_CLOEXEC));
  if (file && inode_of(file) == offer.inode) return file;
  refusals.add("/proc/PID/fd", file ? ENOENT : errno);
  return Descriptor();
}

Descriptor accept(const MemoryOffer& offer, const Mailbox& mailbox, Refusals& refusals) {
  if (offer.descriptor < 0) return Descriptor();
  Descriptor file = mailbox.take(refusals);
  // Anybody may write to a mailbox.
  if (file && inode_of(file) == offer.inode) return file;
  return Descriptor();
}

}  // namespace offbeat
