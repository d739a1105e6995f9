// SPDX-License-Identifier: BSD-3-Clause
// This program takes the part of Python: it exports the functions that offbeat looks for, and its name begins
// with "python".
#include "node/own_frames.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

namespace {

std::atomic<pid_t> writer{0};
char state_of_thread = 0;

pid_t number_of_this_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
void* PyGILState_GetThisThreadState();
void _Py_DumpTraceback(int file, void* thread);
int Py_IsInitialized();
}
#pragma GCC visibility pop
void* PyGILState_GetThisThreadState() { return &state_of_thread; }
void _Py_DumpTraceback(int file, void*) {
  constexpr char text[] = "  File \"/a/solver.py\", line 12 in solve\n";
  writer = number_of_this_thread();
  static_cast<void>(!write(file, text, std::strlen(text)));
}
int Py_IsInitialized() { return 1; }

namespace offbeat {
namespace {

// The thread goes on as soon as its call ends, and pushes and pops the frames of Python.
TEST(OwnFrames, OnlyTheThreadItselfWalksTheFramesOfPython) {
  if (access("/proc/self/syscall", R_OK) != 0) GTEST_SKIP() << "the system does not say who is in a call";
  ThreadNames names;
  std::atomic<bool> has_names{false};
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::thread python([&] {
    names = this_thread();
    has_names = true;
    char byte = 0;
    while (read(ends[0], &byte, 1) < 0) {
    }
  });
  while (!has_names) usleep(1000);
  std::string text;
  for (int k = 0; k < 1000 && text.find("call\tread\n") != 0; ++k) {
    usleep(1000);
    text = frames_of(names);
  }
  const bool has_frames = text.find("python\tsolve\t/a/solver.py\t12\n") != std::string::npos;
  const bool is_in_call = text.find("call\tread\n") == 0;
  static_cast<void>(!write(ends[1], "", 1));
  python.join();
#if defined(__x86_64__)
  EXPECT_TRUE(has_frames && is_in_call) << text;
  EXPECT_EQ(writer, names.number);
#endif
}

}  // namespace
}  // namespace offbeat
