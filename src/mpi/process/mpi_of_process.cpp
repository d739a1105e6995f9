// SPDX-License-Identifier: BSD-3-Clause
#include "groups/mpi_of_process.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/pool.hpp"
#include "groups/algorithm_text.hpp"
#include "groups/observation.hpp"
#include "mpi/communicators/mpi_network.hpp"
#include "mpi/host/observer.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat::mpi_of_process {

const char* last_algorithm() { return algorithm_text(offbeat::last_algorithm); }

void note_algorithm(const Expression* ran) { offbeat::last_algorithm = ran; }

std::string_view family() { return abi::family; }

void select(std::string_view collective, std::string_view expression) {
  Runtime& process = start_runtime();
  const Collective known = served_collective(collective);
  process.selection.choose_for_every_length(known, expression, "offbeat_select");
  if (process.has_started()) process.report_unknown_choice(known);
}

Counts count(std::string_view collective) {
  const offbeat::Counts counts = start_runtime().counts(served_collective(collective));
  return {counts.intercepted, counts.served};
}

namespace {

void require_running_mpi() {
  if (!start_runtime().is_mpi_running()) throw CommunicationError("MPI is not running");
}

Communicator& communicator_of(int fortran_communicator, Collective collective) {
  require_running_mpi();
  Runtime& process = start_runtime();
  Communicator* communicator = process.communicator(process.host.Comm_f2c(fortran_communicator), collective);
  if (communicator == nullptr) throw CommunicationError("this communicator cannot be used");
  return *communicator;
}

[[noreturn]] void refuse() {
  throw CommunicationError("offbeat cannot serve this communicator; OFFBEAT_VERBOSE=1 says why");
}

// Throws UsageError for a collective with lists of counts.
void require_no_lists(Collective collective) {
  const Collectives with_lists{Collective::allgatherv, Collective::alltoallv, Collective::reduce_scatter};
  if (with_lists.contain(collective) || collectives_with_lists_at_root.contain(collective))
    throw UsageError(std::string(name_of(collective)) +
                     " takes lists of counts, which calls on a communicator cannot have");
}

}  // namespace

namespace {

std::atomic<const Observer*> the_observer{nullptr};

ObservedCall observed(const Arguments& call, Collective collective, bool is_blocking) {
  const bool moves = moves_data(collective);
  const CollectiveFacts& known = facts_of(collective);
  return {.collective = collective,
          .is_blocking = is_blocking,
          .is_in_place = collective != Collective::bcast && moves &&
                         (call.input == nullptr || call.input == call.output),
          .communicator = call.communicator,
          .root = known.has_root ? call.root : -1,
          .count = moves ? static_cast<std::int64_t>(call.count) : 0,
          .width = moves ? static_cast<std::uint32_t>(width_of(call.type)) : 0,
          .type = moves ? name_of(call.type).data() : "",
          .operation = known.has_operation ? name_of(call.op).data() : ""};
}

void observe_completion(std::uint64_t number) {
  if (const Observer* observer = the_observer.load(std::memory_order_acquire)) observer->completes(number);
}

// With OFFBEAT_CHECK=1, throws CommunicationError if the ranks do not make the same call.
void check(const Runtime& process, Communicator& communicator, const Arguments& arguments, const Call& call) {
  if (!process.settings.check) return;
  const Collective collective = call.collective;
  if (!moves_data(collective)) return communicator.check(signature_of(collective));
  if (call.op != nullptr) {
    CallSignature mine(collective, static_cast<std::int64_t>(call.output.count), name_of(arguments.type),
                       name_of(arguments.op), call.root);
    mine.is_of_mpi = true;
    communicator.check(mine);
  } else {
    // This compares bytes as for MPI calls, because types may differ between ranks.
    const auto bytes = static_cast<std::int64_t>(call.length(communicator.size()));
    communicator.check(
        signature_of(process.host, process.types(), collective, bytes, MPI_BYTE, {}, call.root));
  }
}

}  // namespace

GroupObserver* observer_of_groups() { return nullptr; }

std::unique_ptr<Network> mpi_network() { return std::make_unique<MpiNetwork>(); }

void observe(const Observer& observer) { the_observer.store(&observer, std::memory_order_release); }

void run(const Arguments& arguments) {
  const InsideOffbeat guard;
  const Collective collective = arguments.collective;
  require_no_lists(collective);
  require_running_mpi();
  offbeat::last_algorithm = nullptr;
  Observation observation(the_observer.load(std::memory_order_acquire),
                          [&] { return observed(arguments, collective, true); });
  Communicator& communicator = communicator_of(arguments.communicator, collective);
  PreparedCall prepared(arguments, communicator.rank(), communicator.size());
  check(start_runtime(), communicator, arguments, prepared.call());
  if (!communicator.run_without_host(prepared)) refuse();
  observation.returns(true, last_algorithm);
}

namespace {

// A call that was begun on a communicator.
class CommunicatorRequest final : public Request {
 public:
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  void begin(const Arguments& arguments) {
    const Collective collective = arguments.collective;
    Observation observation(the_observer.load(std::memory_order_acquire),
                            [&] { return observed(arguments, collective, false); });
    Communicator& communicator = communicator_of(arguments.communicator, collective);
    prepared_.emplace(arguments, communicator.rank(), communicator.size());
    operation_ = communicator.begin(*prepared_);
    if (operation_ == nullptr) refuse();
    number_ = observation.number();
    observation.returns(false, last_algorithm);
  }
  [[nodiscard]] bool test_call() override {
    const InsideOffbeat guard;
    require_running_mpi();
    if (!operation_->test()) return false;
    observe_completion(number_);
    return true;
  }
  void wait_for_call() override {
    const InsideOffbeat guard;
    require_running_mpi();
    operation_->wait();
    observe_completion(number_);
  }

 private:
  std::optional<PreparedCall> prepared_;  // must live longer than the operation
  std::unique_ptr<Operation> operation_;
  std::uint64_t number_ = 0;  // the observer's number of the call
};

}  // namespace

std::unique_ptr<Request> begin(const Arguments& arguments) {
  const InsideOffbeat guard;
  require_no_lists(arguments.collective);
  require_running_mpi();
  offbeat::last_algorithm = nullptr;
  auto request = std::make_unique<CommunicatorRequest>();  // before the call, because memory may be missing
  request->begin(arguments);
  return request;
}

}  // namespace offbeat::mpi_of_process
