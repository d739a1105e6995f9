// SPDX-License-Identifier: BSD-3-Clause
// One intercepted allreduce, for every spelling of the call.
#pragma once

#include <new>
#include <optional>

#include "base/error.hpp"
#include "mpi/runtime.hpp"

namespace offbeat {

// What became of a call that offbeat was to serve.
struct Outcome {
  enum class Kind : std::uint8_t { served, native, failed };
  Kind kind = Kind::native;
  int code = MPI_SUCCESS;  // of the host MPI, of one that failed
};

// What a program hands to MPI_Allreduce.
struct AllreduceCall {
  const void* input;
  void* output;
  std::int64_t count;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm communicator;

  // Errors of the program in count and buffers. Perhaps only this rank has made them, and the host reports
  // them without asking another rank: nothing collective may come before this.
  [[nodiscard]] bool is_wrong(const Types& types) const {
    if (count <= 0) return count < 0 || output == MPI_IN_PLACE;
    return output == MPI_IN_PLACE || output == nullptr || input == nullptr ||
           (input == output && count >= types.least_rejected_alias());
  }
};

// Serves a call, or says that the host has to. Reads only values that MPI guarantees equal on all ranks, and
// so decides alike: type, operation, count, communicator.
//
// The host's own function is not called in here, nor the error handler of the program: these may throw, or
// jump out of the call, and nothing of offbeat's may be in the way then.
inline Outcome serve(Runtime& process, const AllreduceCall& call) noexcept {
  const InsideOffbeat guard;
  last_algorithm = nullptr;
  try {
    Communicator* communicator = nullptr;
    const auto count_in = [&] {
      communicator = process.communicator(call.communicator);
      if (communicator != nullptr) communicator->intercepted.increment();
      return communicator != nullptr;
    };
    const auto native = [&] {
      if (communicator == nullptr) process.count_native();
      return Outcome{};
    };
    if (!process.is_started()) return native();
    const Types& types = process.types();
    const Reduction* reduction = types.predefined(call.type, call.op);
    if (call.is_wrong(types) || (reduction == nullptr && !types.are_accepted(call.type, call.op)))
      return native();
    if (process.settings.check && count_in()) [[unlikely]]
      communicator->check({process.host, types, call.count, call.type, call.op});
    std::optional<UserReduction> own;
    if (reduction == nullptr && types.user_defined(call.type, call.op, own)) reduction = &own->reduction;
    if (reduction == nullptr) return native();

    if (communicator == nullptr && !count_in()) return native();
    const auto count = static_cast<std::size_t>(call.count);
    const Expression* chosen = communicator->choose(count, reduction->width);
    if (chosen == nullptr || communicator->is_revoked()) return native();
    const Vector output{static_cast<std::byte*>(call.output), count, reduction->width};
    const void* input = call.input == MPI_IN_PLACE ? call.output : call.input;
    communicator->require_intact();
    communicator->run(*chosen,
                      {{static_cast<const std::byte*>(input), count, reduction->width}, output, reduction});
    communicator->served.increment();
    last_algorithm = chosen;
    return {Outcome::Kind::served};
  } catch (const CommunicationError& error) {
    return {Outcome::Kind::failed, error.code != MPI_SUCCESS ? error.code : MPI_ERR_INTERN};
  } catch (const std::bad_alloc&) {
    return {Outcome::Kind::failed, MPI_ERR_NO_MEM};
  } catch (...) {
    return {Outcome::Kind::failed, MPI_ERR_INTERN};
  }
}

}  // namespace offbeat
