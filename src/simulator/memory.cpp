// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/memory.hpp"

#include <sys/mman.h>

#include <new>

namespace offbeat {

SimulatedMemory::SimulatedMemory(std::size_t bytes)
    : bytes_(bytes),
      data_(bytes == 0 ? nullptr
                       : mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
  if (data_ == MAP_FAILED) throw std::bad_alloc();
}

SimulatedMemory::~SimulatedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

// The kernel takes the pages back and provides pages of zeros at the next access.
void SimulatedMemory::clear() { madvise(data_, bytes_, MADV_DONTNEED); }

}  // namespace offbeat
