// SPDX-License-Identifier: BSD-3-Clause
// One intercepted collective, for every spelling of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

#include "base/error.hpp"
#include "mpi/collective_call.hpp"
#include "mpi/runtime.hpp"

namespace offbeat {

// The result of an attempt to serve a call.
struct Outcome {
  enum class Kind : std::uint8_t { served, native, failed };
  Kind kind = Kind::native;
  bool is_counted = false;  // by a communicator; without one the call is counted for the process
  int code = MPI_SUCCESS;   // of the host MPI, of one that failed
};

// Errors of the program in the counts and buffers of one rank.
[[nodiscard]] inline bool is_wrong_input(const Elements<const void>& input) {
  return input.count < 0 || (input.count > 0 && input.data == nullptr);
}
[[nodiscard]] inline bool is_wrong_output(const Elements<void>& output) {
  return output.count < 0 || output.data == MPI_IN_PLACE || (output.count > 0 && output.data == nullptr);
}

// One call on its way. Everything in here may throw what Communicator::run throws.
template <Collective collective, class Arguments>
class Service {
 public:
  Service(Runtime& process, const Arguments& call) : process_(process), call_(call) {}

  // Reads only values that MPI guarantees equal on all ranks, and so decides alike: type, operation, count,
  // communicator.
  Outcome run() {
    if (!process_.is_started()) return {};
    if constexpr (!has_data) {
      if (process_.settings.check && is_counted()) [[unlikely]]
        communicator_->check({process_.host, process_.types(), collective});
      return run(nullptr);
    } else {
      const Types& types = process_.types();
      const Reduction* reduction = types.predefined(call_.output.type, call_.op);
      if (is_wrong(types) || (reduction == nullptr && !types.are_accepted(call_.output.type, call_.op)))
        return {};
      if (process_.settings.check && is_counted()) [[unlikely]]
        communicator_->check(
            {process_.host, types, collective, call_.output.count, call_.output.type, call_.op});
      return reduction != nullptr ? run(reduction) : run_user_defined(*this);
    }
  }

 private:
  static constexpr CollectiveFacts known = facts(collective);
  static constexpr bool has_data = moves_data(collective);
  static_assert(
      !has_data || (known.has_operation && !known.has_root),
      "say here which buffers count on which rank, and how wide an element is without an operation");

  // Perhaps only this rank has made the error, and the host reports it without asking another rank: nothing
  // collective may come before this.
  [[nodiscard]] bool is_wrong(const Types& types) const {
    return is_wrong_input(call_.input) || is_wrong_output(call_.output) ||
           (call_.input.data == call_.output.data && call_.output.count >= types.least_rejected_alias());
  }

  // Finds the communicator, once, and counts the call there.
  [[nodiscard]] bool is_counted() {
    if (communicator_ != nullptr) return true;
    communicator_ = process_.communicator(call_.communicator, collective);
    if (communicator_ == nullptr) return false;
    communicator_->count(collective);
    return true;
  }

  // Apart from the others, which need no room for a reduction of their own; and with a copy, so that theirs
  // stays in registers.
  [[gnu::noinline]] static Outcome run_user_defined(Service self) {
    std::optional<UserReduction> own;
    const bool is_known = self.process_.types().user_defined(self.call_.output.type, self.call_.op, own);
    return is_known ? self.run(&own->reduction) : self.leave_to_host();
  }

  [[nodiscard]] Outcome leave_to_host() const { return {.is_counted = communicator_ != nullptr}; }

  [[nodiscard]] Call described(const Reduction* reduction) const {
    if constexpr (has_data) {
      const auto count = static_cast<std::size_t>(call_.output.count);
      const void* input = call_.input.data == MPI_IN_PLACE ? call_.output.data : call_.input.data;
      return {collective,
              {static_cast<const std::byte*>(input), count, reduction->width},
              {static_cast<std::byte*>(call_.output.data), count, reduction->width},
              reduction};
    } else {
      return {collective};
    }
  }

  Outcome run(const Reduction* reduction) {
    if (!is_counted()) return leave_to_host();
    const Call call = described(reduction);
    const Expression* chosen = communicator_->choose(collective, call.output.count, call.output.width);
    if (chosen == nullptr || communicator_->is_revoked()) return leave_to_host();
    communicator_->require_intact();
    communicator_->run(*chosen, call);
    communicator_->count_served(collective);
    last_algorithm = chosen;
    return {.kind = Outcome::Kind::served};
  }

  Runtime& process_;
  Arguments call_;
  Communicator* communicator_ = nullptr;
};

// Serves a call, or says that the host has to. The host's own function is not called in here, nor the error
// handler of the program: these may throw, or jump out of the call, and nothing of offbeat's may be in the
// way then.
template <Collective collective, class Arguments>
[[gnu::always_inline]] inline Outcome serve(Runtime& process, const Arguments& call) noexcept {
  const InsideOffbeat guard;
  last_algorithm = nullptr;
  try {
    Service<collective, Arguments> service(process, call);
    const Outcome outcome = service.run();
    if (outcome.kind == Outcome::Kind::native && !outcome.is_counted) process.count_native(collective);
    return outcome;
  } catch (const CommunicationError& error) {
    return {.kind = Outcome::Kind::failed, .code = error.code != MPI_SUCCESS ? error.code : MPI_ERR_INTERN};
  } catch (const std::bad_alloc&) {
    return {.kind = Outcome::Kind::failed, .code = MPI_ERR_NO_MEM};
  } catch (...) {
    return {.kind = Outcome::Kind::failed, .code = MPI_ERR_INTERN};
  }
}

}  // namespace offbeat
