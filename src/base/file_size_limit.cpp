// SPDX-License-Identifier: BSD-3-Clause
#include "base/file_size_limit.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <cerrno>

namespace offbeat {
namespace {

sigset_t only_file_size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

// The program may have blocked the signal itself. Then one that is pending is its own.
FileSizeLimitIsError::FileSizeLimitIsError() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY) return;
  const sigset_t signal = only_file_size_signal();
  if (pthread_sigmask(SIG_BLOCK, &signal, &before_) == 0) blocks_ = sigismember(&before_, SIGXFSZ) == 0;
}

// The kernel sends the signal to the thread that exceeds the limit. So this takes only its own.
FileSizeLimitIsError::~FileSizeLimitIsError() {
  if (!blocks_) return;
  const int code = errno;
  const sigset_t signal = only_file_size_signal();
  const timespec at_once{};
  while (sigtimedwait(&signal, nullptr, &at_once) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = code;
}

}  // namespace offbeat
