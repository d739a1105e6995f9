// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/line_of_node.hpp"
#include "mpi/host/abi.hpp"

namespace offbeat {

// Ends the whole job if Hydra runs it, the launcher of MPICH and Intel MPI. Hydra does not notice that a rank
// ends before MPI_Init, and the others wait for it there. Any rank may send this command of PMI-1. Hydra then
// ends this process, which waits for that: a rank that ends at the same moment can end Hydra by SIGPIPE. On
// busy cores that of Intel MPI 2021.18 may end by SIGPIPE anyway, also after MPI_Abort without offbeat (29 of
// 480 jobs). That of 2021.19 did not.
inline void abort_job_of_hydra() {
  const char* const descriptor = std::getenv("PMI_FD");
  const bool is_hydra = descriptor != nullptr && std::getenv("MPI_LOCALRANKID") != nullptr;
  if (!is_hydra) return;
  dprintf(static_cast<int>(std::strtol(descriptor, nullptr, 10)), "cmd=abort exitcode=2\n");
  usleep(1'000'000);
}

// Waits up to ten seconds until somebody has read what this process wrote to standard error. A launcher that
// ends the job drops what it has not read. Other readers find it after the end of this process, too.
inline void wait_for_reader_of_errors() {
  if (!has_launcher()) return;
  struct stat errors {};
  if (fstat(STDERR_FILENO, &errors) != 0 || (!S_ISFIFO(errors.st_mode) && !S_ISSOCK(errors.st_mode))) return;
  constexpr useconds_t millisecond = 1000;
  const unsigned long question = S_ISFIFO(errors.st_mode) ? FIONREAD : SIOCOUTQ;
  int unread = 0;
  for (int k = 0; k < 10'000; ++k) {
    if (ioctl(STDERR_FILENO, question, &unread) != 0 || unread == 0) return;
    usleep(millisecond);
  }
}

// Ends the process with exit code 2. One rank of each node prints the error. Other ranks first wait up to a
// second for rank 0: most launchers end the ranks of other nodes as soon as it has ended. They print if rank
// 0 did not fail.
[[noreturn]] inline void exit_with(const UsageError& error) {
  constexpr useconds_t second = 1'000'000;
  LineOfNode line(error.what());
  if (launcher_rank(abi::family) != 0) {
    for (int k = 0; k < 100 && !line.is_said(); ++k) usleep(second / 100);
  }
  if (!line.say_first()) {
    usleep(second / 10);  // the end of this rank must not end the one that prints
  } else if (launcher_ranks_on_node() > 1) {
    usleep(second);  // while this process lives, the others know that the line is printed
  }
  wait_for_reader_of_errors();
  abort_job_of_hydra();
  _exit(2);
}

}  // namespace offbeat
