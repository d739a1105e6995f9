/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What all of soak.cpp needs: random numbers, the digest of the results, and where the program stands.
 */
#ifndef SOAK_COMMON_H
#define SOAK_COMMON_H

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace soak {

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

struct Random {
  std::uint64_t state;
  std::uint64_t bits() { return mixed(++state); }
  int below(int limit) { return static_cast<int>(bits() % static_cast<unsigned>(limit)); }
  bool chance(int percent) { return below(100) < percent; }
};

struct Digest {  // FNV-1a
  std::uint64_t value = 0xcbf29ce484222325u;
  void fold(const void* data, std::size_t bytes) {
    for (auto* byte = static_cast<const unsigned char*>(data); bytes-- > 0; ++byte) {
      value = (value ^ *byte) * 0x100000001b3u;
    }
  }
  void fold(std::uint64_t number) { fold(&number, sizeof number); }
};

// A thread that the program starts has its own.
inline thread_local Random draw;  // the same numbers on all ranks; begins anew with each step
inline thread_local Digest digest;
inline thread_local long calls;

inline std::uint64_t seed;
inline int world_rank, world_size;
inline int me;  // names this rank: its rank in MPI_COMM_WORLD, in a spawned job counted from `first_child`
constexpr int first_child = 100;
inline bool is_slow;

enum class Host { open_mpi, mpich, intel };
inline Host host;
inline int thread_level;

// Where the program stands.
inline std::atomic<int> step{0};
inline std::atomic<const char*> kind_name{"start"}, doing{""};
inline std::atomic<long> failures{0};
inline FILE* trace;

// One write, so that the lines of several ranks do not mix.
__attribute__((format(printf, 2, 3))) inline void say(int file, const char* format, ...) {
  char text[500];
  std::va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text - 1, format, arguments);
  va_end(arguments);
  const auto end = std::clamp<std::size_t>(length, 0, sizeof text - 2);
  text[end] = '\n';
  if (write(file, text, end + 1) < 0) std::_Exit(3);
}

inline void say_where(const char* what, const char* more) {
  say(STDERR_FILENO, "%s seed %llu step %d kind %s rank %d: %s", what, static_cast<unsigned long long>(seed),
      step.load(), kind_name.load(), me, more);
}

inline void on_alarm(int) {
  say_where("HANG", doing);
  sleep(1);  // so that the other ranks can say it, too
  std::_Exit(9);
}

inline void on_crash(int signal) {
  char what[30];
  std::snprintf(what, sizeof what, "SIGNAL %d", signal);
  say_where(what, doing);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

inline void wrong(const std::string& what) {
  if (failures.fetch_add(1) < 5) say_where("WRONG", what.c_str());
}

inline void check(bool holds, const char* what) {
  if (!holds) wrong(what);
}

// For a call of MPI that must succeed.
inline void succeed(int code, const char* what) {
  if (code != MPI_SUCCESS) wrong(std::string(what) + " returned code " + std::to_string(code));
}

// Goes into the digest, and into the trace that is read where two runs differ.
__attribute__((format(printf, 1, 2))) inline void note(const char* format, ...) {
  char text[200];
  std::va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  digest.fold(text, std::clamp<std::size_t>(length, 0, sizeof text - 1));
  if (trace) std::fprintf(trace, "  %s\n", text);
}

}  // namespace soak

#endif
