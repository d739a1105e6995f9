// SPDX-License-Identifier: BSD-3-Clause
// CommunicatorLife says whether a communicator can still be used: the program may free or revoke it, one of
// its processes may die, or a collective on it may fail.
#pragma once

#include <atomic>
#include <exception>
#include <optional>

#include "mpi/host/fault_tolerance.hpp"

namespace offbeat {

class CommunicatorLife {
 public:
  CommunicatorLife(const FaultTolerance& faults, MPI_Comm handle, bool may_be_revoked)
      : fault_tolerance_(faults), handle_(handle), may_be_revoked_(may_be_revoked) {}
  // Makes the life of a communicator that works apart: it serves one persistent request of the program's
  // communicator, with a board stage and tags of its own. `program_communicator_life` must outlive it.
  explicit CommunicatorLife(const CommunicatorLife* program_communicator_life)
      : fault_tolerance_(program_communicator_life->fault_tolerance_),
        origin_(program_communicator_life),
        may_be_revoked_(program_communicator_life->may_be_revoked_) {}
  CommunicatorLife(const CommunicatorLife&) = delete;
  CommunicatorLife& operator=(const CommunicatorLife&) = delete;

  // Returns the handle of the program's communicator, or null if the program has freed it.
  [[nodiscard]] MPI_Comm handle() const { return program_communicator_life().handle_; }
  // Returns the life of the program's communicator itself.
  [[nodiscard]] const CommunicatorLife& program_communicator_life() const {
    return origin_ != nullptr ? *origin_ : *this;
  }
  [[nodiscard]] bool serves_persistent_request() const { return origin_ != nullptr; }

  // -- the program frees its communicator

  // Operations under way and persistent requests use a communicator. end_use() and abandon() return true if
  // the program has freed the communicator and nothing uses it any more. Only one thread may call these at a
  // time.
  void begin_use() noexcept { ++in_use_; }
  [[nodiscard]] bool end_use() noexcept { return --in_use_ == 0 && is_abandoned_; }
  [[nodiscard]] bool abandon() noexcept {
    handle_ = MPI_COMM_NULL;
    may_be_revoked_ = false;
    is_abandoned_ = true;
    return in_use_ == 0;
  }

  // -- the program revokes it, or a process dies (ULFM)

  [[nodiscard]] bool may_be_revoked() const { return may_be_revoked_; }
  // Returns true if the program has revoked the communicator. The host reports that to the program.
  [[nodiscard]] bool is_revoked() const { return may_be_revoked_ && must_ask_whether_revoked(); }
  // Throws CommunicationError if the program's communicator was revoked or has lost a process.
  void require_live_processes() const;
  // Returns the rank in MPI_COMM_WORLD of a process that is known to be dead, or MPI_UNDEFINED.
  [[nodiscard]] int first_dead_process() const { return fault_tolerance_.first_dead_process(handle()); }

  // -- a collective fails

  // Throws CommunicationError after an earlier failure.
  void require_intact() const {
    if (is_broken()) [[unlikely]]
      throw_earlier_failure();
  }
  [[nodiscard]] bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  struct Failure {
    const char* text;  // lives as long as the exception; null if the program itself revoked the communicator
    int code;          // an error code of the host MPI
    int lost_rank = MPI_UNDEFINED;  // in MPI_COMM_WORLD, if it is that rank that has failed
    bool has_died = false;          // the process of that rank
  };
  // Ends all use of the communicator. Returns nothing if an earlier failure has done that.
  [[nodiscard]] std::optional<Failure> record_failure(const std::exception_ptr& exception);

 private:
  [[nodiscard]] bool must_ask_whether_revoked() const;
  [[noreturn]] void throw_earlier_failure() const;

  const FaultTolerance& fault_tolerance_;
  const CommunicatorLife* const origin_ = nullptr;
  MPI_Comm handle_ = MPI_COMM_NULL;
  bool may_be_revoked_;
  std::atomic<bool> is_broken_ = false;  // the progress thread may look, too
  bool is_abandoned_ = false;
  std::atomic<int> failure_ = MPI_ERR_OTHER;  // the error of every later call
  int in_use_ = 0;  // how many operations under way and persistent requests use this
};

}  // namespace offbeat
