// SPDX-License-Identifier: BSD-3-Clause
// serve() serves one intercepted blocking collective, in every spelling of the call.
#pragma once

#include <type_traits>

#include "mpi/interpose/blocking_carrier.hpp"
#include "mpi/interpose/combining_call.hpp"
#include "mpi/interpose/copying_call.hpp"

namespace offbeat {

template <Collective collective, class Arguments, class Carrier>
class CallWithoutData : public JudgedCall<collective, Arguments, Carrier> {
 public:
  using JudgedCall<collective, Arguments, Carrier>::JudgedCall;

  // Serves the call. The process must be started.
  Outcome run() {
    if (!this->find_communicator_and_count()) return this->leave_to_host();
    if (this->is_checked()) [[unlikely]]
      this->communicator_->check(signature_of(collective));
    return this->carry_out({collective}, 0, false, this->kept_);
  }
};

template <Collective collective, class Arguments, class Carrier>
using ServedCall = std::conditional_t<
    !moves_data(collective), CallWithoutData<collective, Arguments, Carrier>,
    std::conditional_t<facts_of(collective).has_operation, CombiningCall<collective, Arguments, Carrier>,
                       CopyingCall<collective, Arguments, Carrier>>>;

// Serves a blocking call, or says that the host has to. It calls neither the host's own function nor the
// program's error handler: these may throw, or jump out of the call, and must not skip a destructor of
// offbeat's.
template <Collective collective, class Arguments>
[[gnu::always_inline]] inline Outcome serve(Runtime& process, const Arguments& call) noexcept {
  const InsideOffbeat guard;
  last_algorithm = nullptr;
  try {
    if (!process.is_started()) {
      process.count_native(collective);
      return {};
    }
    BlockingCarrier carrier{process.types()};
    typename ServedCall<collective, Arguments, BlockingCarrier>::KeptBuffers kept;
    using Serving = ServedCall<collective, Arguments, BlockingCarrier>;
    const Outcome outcome = Serving(process, call, carrier, kept).run();
    if (outcome.kind == Outcome::Kind::native && !outcome.is_counted) process.count_native(collective);
    return outcome;
  } catch (...) {
    return {.kind = Outcome::Kind::failed, .code = code_of_exception()};
  }
}

}  // namespace offbeat
