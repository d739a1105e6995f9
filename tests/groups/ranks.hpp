// SPDX-License-Identifier: BSD-3-Clause
// Runs a function in several processes, which make groups without MPI.
#pragma once

#include <offbeat/offbeat.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace ranks {

// Memory that the processes of a test share: an exchange for each of some sets of ranks, and words for the
// tests.
struct Shared {
  static constexpr int most_ranks = 8;
  static constexpr int exchanges = 4;
  struct Board {
    std::atomic<int> arrived{0};
    std::atomic<int> round{0};
    unsigned char data[most_ranks][4096];
  };
  Board boards[exchanges];
  std::atomic<long> words[16];
  char texts[most_ranks][512];
};

// The exchange of one rank: a barrier, a copy, and another barrier.
struct Meeting {
  Shared::Board* board;
  int rank;
  int size;
};

inline void meet(const Meeting& me) {
  const int round = me.board->round.load();
  if (me.board->arrived.fetch_add(1) + 1 == me.size) {
    me.board->arrived.store(0);
    me.board->round.store(round + 1);
  } else {
    while (me.board->round.load() == round) sched_yield();
  }
}

inline int exchange(void* state, const void* mine, std::size_t bytes, void* all) {
  const auto& me = *static_cast<Meeting*>(state);
  std::memcpy(me.board->data[me.rank], mine, bytes);
  meet(me);
  for (int rank = 0; rank < me.size; ++rank)
    std::memcpy(static_cast<unsigned char*>(all) + static_cast<std::size_t>(rank) * bytes,
                me.board->data[rank], bytes);
  meet(me);
  return 0;
}

// Ends this process with a line if `holds` is false.
inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "[%d] %s; offbeat says: %s\n", getpid(), what.c_str(), offbeat_error_text());
  _exit(1);
}

inline offbeat_group* make_group(Shared& shared, int rank, int size, int exchange_number = 0) {
  Meeting me{&shared.boards[exchange_number], rank, size};
  offbeat_group* group = nullptr;
  require(offbeat_group_make(rank, size, exchange, &me, &group) == OFFBEAT_OK, "no group");
  return group;
}

inline offbeat_call call_of(offbeat_group* group, const char* collective) {
  offbeat_call call = OFFBEAT_CALL_INIT;
  call.group = group;
  call.collective = collective;
  return call;
}

// Runs body(shared, rank) in `size` processes, and returns how each ended: its exit code, or minus the
// signal.
inline std::vector<int> run(int size, const std::function<void(Shared&, int)>& body) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared;
  std::vector<pid_t> processes;
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(100);  // a hang is a failure
      body(*shared, rank);
      _exit(0);
    }
    processes.push_back(pid);
  }
  std::vector<int> ends;
  for (const pid_t pid : processes) {
    int status = 0;
    waitpid(pid, &status, 0);
    ends.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  munmap(memory, sizeof(Shared));
  return ends;
}

}  // namespace ranks
