// SPDX-License-Identifier: BSD-3-Clause
// The exceptions of offbeat. They are for loading, parsing and failed communication, never for a
// decision in the steady state; src/mpi and src/capi turn them into codes, and nothing leaves those.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>

namespace offbeat {

// The user gave us something wrong: a setting, an expression, a library that does not fit.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A text that could not be parsed; `column` counts from 1.
class ExpressionError : public UsageError {
 public:
  ExpressionError(std::size_t column, const std::string& what)
      : UsageError("column " + std::to_string(column) + ": " + what), column(column) {}
  std::size_t column;
};

// A message could not be sent or received. `code` is the host MPI's error code where there is one.
class CommunicationError : public std::runtime_error {
 public:
  explicit CommunicationError(const std::string& what, int code = 0) : std::runtime_error(what), code(code) {}
  int code;
};

// Returns false where there was no memory for the body. For work that a call can do without, such as a line
// for people, and for failures that other ranks have to be told.
template <class Body>
bool try_to(Body&& body) {
  try {
    body();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// For bookkeeping, which must not fail a call of the program: what goes wrong in it is left out.
template <class Body>
[[gnu::always_inline]] inline void if_possible(Body&& body) noexcept {
  try {
    body();
  } catch (...) {
  }
}

}  // namespace offbeat
