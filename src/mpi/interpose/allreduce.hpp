// SPDX-License-Identifier: BSD-3-Clause
// One intercepted allreduce, for every spelling of the call.
#pragma once

#include <new>
#include <optional>

#include "base/error.hpp"
#include "mpi/runtime.hpp"

namespace offbeat {

// The result of an attempt to serve a call.
struct Outcome {
  enum class Kind : std::uint8_t { served, native, failed };
  Kind kind = Kind::native;
  int code = MPI_SUCCESS;  // of the host MPI, of one that failed
};

// The arguments of MPI_Allreduce.
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

// One call on its way. Everything in here may throw what Communicator::run throws.
class Service {
 public:
  Service(Runtime& process, const AllreduceCall& call) : process_(process), call_(call) {}

  // Reads only values that MPI guarantees equal on all ranks, and so decides alike: type, operation, count,
  // communicator.
  Outcome run() {
    if (!process_.is_started()) return {};
    const Types& types = process_.types();
    const Reduction* reduction = types.predefined(call_.type, call_.op);
    if (call_.is_wrong(types) || (reduction == nullptr && !types.are_accepted(call_.type, call_.op)))
      return {};
    if (process_.settings.check && is_counted()) [[unlikely]]
      communicator_->check({process_.host, types, Collective::allreduce, call_.count, call_.type, call_.op});
    return reduction != nullptr ? run(*reduction) : run_user_defined();
  }

  // Without one the call is counted for the process.
  [[nodiscard]] bool has_communicator() const { return communicator_ != nullptr; }

 private:
  // Finds the communicator, once, and counts the call there.
  [[nodiscard]] bool is_counted() {
    if (communicator_ != nullptr) return true;
    communicator_ = process_.communicator(call_.communicator);
    if (communicator_ == nullptr) return false;
    communicator_->count(Collective::allreduce);
    return true;
  }

  // Apart from the others, which need no room for a reduction of their own.
  [[gnu::noinline]] Outcome run_user_defined() {
    std::optional<UserReduction> own;
    return process_.types().user_defined(call_.type, call_.op, own) ? run(own->reduction) : Outcome{};
  }

  Outcome run(const Reduction& reduction) {
    if (!is_counted()) return {};
    const auto count = static_cast<std::size_t>(call_.count);
    const Expression* chosen = communicator_->choose(Collective::allreduce, count, reduction.width);
    if (chosen == nullptr || communicator_->is_revoked()) return {};
    const void* input = call_.input == MPI_IN_PLACE ? call_.output : call_.input;
    communicator_->require_intact();
    communicator_->run(*chosen, {Collective::allreduce,
                                 {static_cast<const std::byte*>(input), count, reduction.width},
                                 {static_cast<std::byte*>(call_.output), count, reduction.width},
                                 &reduction});
    communicator_->count_served(Collective::allreduce);
    last_algorithm = chosen;
    return {Outcome::Kind::served};
  }

  Runtime& process_;
  const AllreduceCall& call_;
  Communicator* communicator_ = nullptr;
};

// Serves a call, or says that the host has to. The host's own function is not called in here, nor the error
// handler of the program: these may throw, or jump out of the call, and nothing of offbeat's may be in the
// way then.
inline Outcome serve(Runtime& process, const AllreduceCall& call) noexcept {
  const InsideOffbeat guard;
  last_algorithm = nullptr;
  try {
    Service service(process, call);
    const Outcome outcome = service.run();
    if (outcome.kind == Outcome::Kind::native && !service.has_communicator())
      process.count_native(Collective::allreduce);
    return outcome;
  } catch (const CommunicationError& error) {
    return {Outcome::Kind::failed, error.code != MPI_SUCCESS ? error.code : MPI_ERR_INTERN};
  } catch (const std::bad_alloc&) {
    return {Outcome::Kind::failed, MPI_ERR_NO_MEM};
  } catch (...) {
    return {Outcome::Kind::failed, MPI_ERR_INTERN};
  }
}

}  // namespace offbeat
