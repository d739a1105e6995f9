// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <csignal>

namespace offbeat {

// While this object lives, this thread gets EFBIG for a file that would exceed the limit on file size (ulimit
// -f). Otherwise the kernel also sends SIGXFSZ, which ends the program. The limit also holds for shared
// memory, and for writes beyond it in a file that is longer already. The program may lower it at any time.
class FileSizeLimitIsError {
 public:
  FileSizeLimitIsError();
  FileSizeLimitIsError(const FileSizeLimitIsError&) = delete;
  FileSizeLimitIsError& operator=(const FileSizeLimitIsError&) = delete;
  ~FileSizeLimitIsError();

 private:
  bool blocks_ = false;
  sigset_t before_;
};

}  // namespace offbeat
