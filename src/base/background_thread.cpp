// SPDX-License-Identifier: BSD-3-Clause
#include "base/background_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <new>

namespace offbeat {
namespace {

void bind(pthread_attr_t& attributes, const std::vector<int>& cpus) {
  const auto count = static_cast<std::size_t>(*std::max_element(cpus.begin(), cpus.end())) + 1;
  cpu_set_t* const set = CPU_ALLOC(count);
  if (set == nullptr) throw std::bad_alloc();
  CPU_ZERO_S(CPU_ALLOC_SIZE(count), set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), CPU_ALLOC_SIZE(count), set);
  pthread_attr_setaffinity_np(&attributes, CPU_ALLOC_SIZE(count), set);
  CPU_FREE(set);
}

}  // namespace

bool start_background_thread(void* (*body)(void*), void* argument, const std::vector<int>& cpus) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (!cpus.empty()) bind(attributes, cpus);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // The thread may call `done` functions of the program, which expect the usual stack and may nest. If there
  // is no address space for it, a small stack is tried.
  std::size_t usual_stack = 0;
  pthread_attr_getstacksize(&attributes, &usual_stack);
  int error = 0;
  for (const std::size_t stack : {usual_stack, std::size_t{256} << 10}) {
    pthread_t thread;
    pthread_attr_setstacksize(&attributes, stack);
    error = pthread_create(&thread, &attributes, body, argument);
    if (error != 0) continue;
    pthread_detach(thread);
    break;
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return error == 0;
}

}  // namespace offbeat
