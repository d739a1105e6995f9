// SPDX-License-Identifier: BSD-3-Clause
#include "groups/progress_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <new>

// This process can start no thread, and gets no memory if `has_memory` is false.
namespace {
bool has_memory = true;
int refused_threads = 0;
}  // namespace
int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) {
  ++refused_threads;
  return EAGAIN;
}
void* operator new(std::size_t bytes) {
  void* const memory = has_memory ? std::malloc(bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// If g++ inlines only one of new and delete, it warns that they do not match.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace offbeat {
namespace {

// The operation that the thread should look after is under way, so its call must not fail.
TEST(ProgressThread, MayBeMissingWithoutMemoryForALine) {
  const ProgressThread progress({});
  has_memory = false;
  bool throws = false;
  try {
    progress.ensure();
  } catch (const std::bad_alloc&) {
    throws = true;
  }
  has_memory = true;
  EXPECT_FALSE(throws);
  EXPECT_GT(refused_threads, 0);
}

}  // namespace
}  // namespace offbeat
