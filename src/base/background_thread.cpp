// SPDX-License-Identifier: BSD-3-Clause
#include "base/background_thread.hpp"

#include <pthread.h>

#include <csignal>

namespace offbeat {

bool start_background_thread(void* (*body)(void*), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Address space can be limited, and 8 MiB are the usual stack. Where thread-local data does not fit in
  // with the small one, the system says so.
  pthread_attr_t small_stack;
  pthread_attr_init(&small_stack);
  pthread_attr_setstacksize(&small_stack, 256 * 1024);
  pthread_t thread;
  const bool is_started = pthread_create(&thread, &small_stack, body, argument) == 0 ||
                          pthread_create(&thread, nullptr, body, argument) == 0;
  if (is_started) pthread_detach(thread);
  pthread_attr_destroy(&small_stack);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_started;
}

}  // namespace offbeat
