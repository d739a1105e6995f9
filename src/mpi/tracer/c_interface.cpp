// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/tracer/c_interface.hpp"

#include "base/error.hpp"
#include "mpi/tracer/describe.hpp"

namespace offbeat::trace {
namespace {

ArgumentFacts facts_of(Tracer& tracer, const Communicator& communicator, const ObservedCall& call) {
  ArgumentFacts facts{.count = call.count,
                      .bytes = call.count * call.width,
                      .root = call.root,
                      .type = tracer.named_type(call.type, call.width),
                      .operation = tracer.named_operation(call.operation),
                      .is_in_place = call.is_in_place};
  if (has_many_blocks(call.collective)) facts.bytes *= communicator.peers;
  return facts;
}

std::uint64_t begins(const ObservedCall& call) noexcept {
  const Nanoseconds arrival = clock::now();
  Tracer* tracer = Tracer::tracer_if_called_by_program();
  OpenCall open;
  if (tracer == nullptr) return open.slot;
  run_ignoring_exceptions([&] {
    const auto lock = tracer->lock();
    Communicator* communicator = tracer->count_call_on(lower_layers().host.Comm_f2c(call.communicator));
    if (communicator == nullptr || !tracer->is_to_be_recorded(call.collective, *communicator)) return;
    const int flags = call.is_blocking ? 0 : CallFlag::nonblocking;
    open = tracer->begin(call.collective, static_cast<std::uint8_t>(flags), *communicator,
                         facts_of(*tracer, *communicator, call), arrival);
  });
  return open.slot;
}

void returns(std::uint64_t slot, bool is_complete, const char* algorithm) noexcept {
  const Nanoseconds exit = clock::now();
  Tracer* tracer = Tracer::tracer_if_called_by_program();
  if (tracer == nullptr) return;
  run_ignoring_exceptions([&] {
    const auto lock = tracer->lock();
    tracer->record_exit({slot}, exit, is_complete, algorithm);
  });
}

void completes(std::uint64_t slot) noexcept {
  const Nanoseconds completion = clock::now();
  Tracer* tracer = Tracer::tracer_if_called_by_program();
  if (tracer == nullptr) return;
  const auto lock = tracer->lock();
  tracer->complete({slot}, completion);
}

}  // namespace

const Observer c_interface{begins, returns, completes};

}  // namespace offbeat::trace
