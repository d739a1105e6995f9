// SPDX-License-Identifier: BSD-3-Clause
#include "transport/node/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace offbeat {
namespace {

// Closes at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  [[nodiscard]] int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_;
};

std::uint64_t inode_of(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

SharedMemory SharedMemory::map(int descriptor, std::size_t bytes) {
  SharedMemory memory;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return memory;
  memory.data_ = data;
  memory.bytes_ = bytes;
  return memory;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

OfferedMemory::OfferedMemory(Way way, std::size_t bytes) {
  offer_.pid = getpid();
  const auto size = static_cast<off_t>(bytes);
  if (way == Way::memfd) {
    offer_.descriptor = memfd_create("offbeat", MFD_CLOEXEC);
    if (offer_.descriptor >= 0 && ftruncate(offer_.descriptor, size) != 0) withdraw();
  } else {
    static unsigned number = 0;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    std::snprintf(offer_.name, sizeof offer_.name, "/offbeat.%d.%u.%lx", offer_.pid, number++,
                  static_cast<unsigned long>(now.tv_nsec));
    offer_.descriptor = shm_open(offer_.name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (offer_.descriptor < 0) offer_.name[0] = '\0';
    // Reserve the pages now: a /dev/shm that is too small is an error here, and a SIGBUS later.
    if (offer_.descriptor >= 0 && posix_fallocate(offer_.descriptor, 0, size) != 0) withdraw();
  }
  if (offer_.descriptor >= 0) offer_.inode = inode_of(offer_.descriptor);
}

void OfferedMemory::withdraw() {
  if (offer_.name[0] != '\0') shm_unlink(offer_.name);
  if (offer_.descriptor >= 0) close(offer_.descriptor);
  offer_ = {};
}

SharedMemory accept(const MemoryOffer& offer, std::size_t bytes) {
  if (offer.descriptor < 0) return {};
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", offer.pid, offer.descriptor);
  const Descriptor descriptor(offer.name[0] != '\0' ? shm_open(offer.name, O_RDWR | O_CLOEXEC, 0600)
                                                    : open(path, O_RDWR | O_CLOEXEC));
  if (!descriptor || inode_of(descriptor.get()) != offer.inode) return {};
  return SharedMemory::map(descriptor.get(), bytes);
}

}  // namespace offbeat
