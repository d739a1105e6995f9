// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/communicator_life.hpp"

#include <new>
#include <utility>

#include "base/error.hpp"
#include "mpi/host/error_code.hpp"

namespace offbeat {
namespace {

CommunicatorLife::Failure failure_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    return {"no memory", code_of_exception()};
  } catch (const BoardError& error) {
    const bool has_died = error.trouble == Trouble::death;
    const bool is_lost = has_died || error.trouble == Trouble::rank;
    return {error.what(), code_of_exception(), is_lost ? error.rank : MPI_UNDEFINED, has_died};
  } catch (const CommunicationError& error) {
    if (error.code == FaultTolerance::revoked) return {nullptr, error.code};
    return {error.what(), code_of_exception()};
  } catch (const std::exception& error) {
    return {error.what(), code_of_exception()};
  } catch (...) {
    return {"an error", code_of_exception()};
  }
}

}  // namespace

// The handle is null if a persistent request has outlived the program's communicator.
bool CommunicatorLife::must_ask_whether_revoked() const {
  return handle() != MPI_COMM_NULL && fault_tolerance_.is_revoked(handle());
}

void CommunicatorLife::require_live_processes() const {
  if (handle() == MPI_COMM_NULL) return;
  if (fault_tolerance_.is_revoked(handle()))
    throw CommunicationError("the communicator was revoked", FaultTolerance::revoked);
  if (fault_tolerance_.has_dead_process(handle()))
    throw CommunicationError("a process of the communicator has died", FaultTolerance::process_failed);
}

void CommunicatorLife::throw_earlier_failure() const {
  throw CommunicationError("an earlier collective on this communicator failed", failure_);
}

std::optional<CommunicatorLife::Failure> CommunicatorLife::record_failure(
    const std::exception_ptr& exception) {
  if (is_broken()) return {};
  const Failure failure = failure_of(exception);
  const bool is_meant_for_the_program =
      failure.code == FaultTolerance::revoked || failure.code == FaultTolerance::process_failed;
  if (is_meant_for_the_program) failure_ = failure.code;
  if (is_broken_.exchange(true, std::memory_order_acq_rel)) return {};
  return failure;
}

}  // namespace offbeat
