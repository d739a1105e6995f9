// SPDX-License-Identifier: BSD-3-Clause
#include "node/blocked_stack.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace offbeat {
namespace {

std::atomic<pid_t> reader{0};
std::atomic<char> taken{0};

// Blocks in a system call until the pipe has a byte.
[[gnu::noinline]] void read_byte(int file) {
  char byte = 0;
  if (read(file, &byte, 1) == 1) taken = byte;
}

[[gnu::noinline]] void read_deeper(int file, int depth) {
  if (depth == 0)
    read_byte(file);
  else
    read_deeper(file, depth - 1);
  taken.fetch_add(0);  // so that the call above is no jump
}

// Returns the frames of a thread when it is in a system call, or none.
std::vector<std::uintptr_t> frames_of(std::thread& thread, pid_t number) {
  for (int k = 0; k < 2000; ++k) {
    std::ifstream file("/proc/self/task/" + std::to_string(number) + "/syscall");
    std::string text;
    std::getline(file, text);
    unsigned long pointer = 0;
    unsigned long counter = 0;
    if (std::sscanf(text.c_str(), "0 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%lx 0x%lx", &pointer, &counter) ==
        2)
      return frames_of_blocked(thread.native_handle(), counter, pointer);
    usleep(1000);
  }
  return {};
}

template <class Function>
bool has(const std::vector<std::uintptr_t>& frames, Function* function, std::ptrdiff_t least) {
  const auto begin = reinterpret_cast<std::uintptr_t>(function);
  return std::ranges::count_if(
             frames, [&](std::uintptr_t each) { return each >= begin && each < begin + 160; }) >= least;
}

TEST(blocked_stack, callers_of_a_system_call) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "other processors name the call only";
#endif
  if (access("/proc/self/syscall", R_OK) != 0) GTEST_SKIP() << "the system does not say who is in a call";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::thread thread([&] {
    reader = static_cast<pid_t>(syscall(SYS_gettid));
    read_deeper(ends[0], 5);
  });
  while (reader == 0) usleep(100);
  const std::vector<std::uintptr_t> frames = frames_of(thread, reader);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  thread.join();
  EXPECT_EQ(taken, 'x');
  EXPECT_TRUE(has(frames, read_byte, 1)) << frames.size();
  EXPECT_TRUE(has(frames, read_deeper, 2)) << frames.size();
  close(ends[0]);
  close(ends[1]);
}

TEST(blocked_stack, nonsense_gives_no_frames_and_no_crash) {
  const pthread_t self = pthread_self();
  int local = 0;
  EXPECT_LE(frames_of_blocked(self, 0, reinterpret_cast<std::uintptr_t>(&local)).size(), 1U);
  EXPECT_TRUE(frames_of_blocked(self, 1, 0).empty());
  EXPECT_LE(frames_of_blocked(self, 12345, reinterpret_cast<std::uintptr_t>(&local)).size(), 1U);
}

}  // namespace
}  // namespace offbeat
