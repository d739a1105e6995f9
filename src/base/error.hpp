// SPDX-License-Identifier: BSD-3-Clause
// The exceptions that offbeat throws while it loads, parses or communicates. They never take part in a
// decision in the steady state. src/mpi and src/capi turn them into error codes; no exception leaves the
// library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

namespace offbeat {

// The user gave something that is wrong: a setting, an expression, a library that does not fit.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A text could not be parsed; `column` counts from 1.
class ExpressionError : public UsageError {
 public:
  ExpressionError(std::size_t column, const std::string& what)
      : UsageError("column " + std::to_string(column) + ": " + what), column(column) {}
  std::size_t column;
};

// A message could not be sent or received. `code` is the error code of the host MPI, or 0 if there is none.
class CommunicationError : public std::runtime_error {
 public:
  explicit CommunicationError(const std::string& what, int code = 0) : std::runtime_error(what), code(code) {}
  int code;
};

// A rank gives more data than another one has room for.
class TruncationError : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

// Why ranks cannot go on together.
enum class Trouble : std::uint8_t {
  set_up = 1,  // they could not get a board
  rank,        // a rank has died, has left, or has given up
  timeout,     // a rank has not arrived in time
  mismatch,    // they did not make the same call
  death,       // the process of a rank has died
};

// The ranks of a board cannot go on, because of `rank`.
class BoardError : public CommunicationError {
 public:
  BoardError(Trouble trouble, int rank, const std::string& what, int code = 0)
      : CommunicationError(what, code), trouble(trouble), rank(rank) {}
  Trouble trouble;
  int rank;
};

// Runs `body`; returns false if it ran out of memory. This is for work that a call can do without, such as a
// line for people, and for failures that this rank must report to the others.
template <class Body>
bool run_unless_out_of_memory(Body&& body) {
  try {
    body();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Runs `body` and ignores its exceptions. This is for bookkeeping, which must never make a call of the
// program fail.
template <class Body>
[[gnu::always_inline]] inline void run_ignoring_exceptions(Body&& body) noexcept {
  try {
    body();
  } catch (...) {
  }
}

}  // namespace offbeat
