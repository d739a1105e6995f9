// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/process/service.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/pool.hpp"
#include "collectives/repertoire.hpp"
#include "collectives/staged_call.hpp"
#include "mpi/host/observer.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat::service {
namespace {

// Returns the collective of this name. Throws UsageError if offbeat does not serve it.
Collective served_collective(std::string_view name) {
  const auto collective = collective_named(name);
  if (!collective || repertoire(*collective).algorithms.empty())
    throw UsageError("unknown collective '" + printable(name) + "'");
  return *collective;
}

// Returns the text of an expression. Expressions live as long as the process, and so do their texts.
const char* text_of(const Expression* expression) {
  static std::mutex mutex;
  static auto* texts =
      new std::map<const Expression*, std::string>;  // never freed, because it is used while the process ends
  const std::lock_guard lock(mutex);
  std::string& text = (*texts)[expression];
  if (text.empty()) text = expression->text();
  return text.c_str();
}

}  // namespace

const char* last_algorithm() { return algorithm_text(offbeat::last_algorithm); }

// A cache avoids the lock for an expression that this thread has asked for recently.
const char* algorithm_text(const Expression* ran) {
  struct Known {
    const Expression* expression;
    const char* text;
  };
  static constinit thread_local std::array<Known, 8> known{};
  if (ran == nullptr) return nullptr;
  Known& entry = known[(reinterpret_cast<std::uintptr_t>(ran) / alignof(std::max_align_t)) % known.size()];
  if (entry.expression != ran) entry = {ran, text_of(ran)};
  return entry.text;
}

std::string_view family() { return abi::family; }

void select(std::string_view collective, std::string_view expression) {
  Runtime& process = start_runtime();
  const Collective known = served_collective(collective);
  process.selection.choose_always(known, expression, "offbeat_select");
  if (process.has_started()) process.name_unknown_choice(known);
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

// Returns the collective of this name. Throws UsageError if offbeat_call cannot describe it.
Collective callable_collective(std::string_view name) {
  const Collective collective = served_collective(name);
  const Collectives with_lists{Collective::allgatherv, Collective::alltoallv, Collective::reduce_scatter};
  if (with_lists.contain(collective))
    throw UsageError(std::string(name) + " takes lists of counts, which offbeat_call does not have");
  return collective;
}

// Makes the call that the arguments describe. Every block has `arguments.count` elements, and the blocks of a
// vector are in rank order. Throws UsageError.
Call call_of(const Arguments& arguments, Collective collective, const Communicator& communicator) {
  if (!moves_data(collective)) return {collective};
  const int rank = communicator.rank();
  const int ranks = communicator.size();
  const Roles who = roles(collective);
  const bool combines = facts(collective).has_operation;
  if (facts(collective).has_root && (arguments.root < 0 || arguments.root >= ranks))
    throw UsageError("root " + std::to_string(arguments.root) + " of " + std::to_string(ranks) + " ranks");
  const bool gives = who.gives(rank, arguments.root);
  const bool takes = who.takes(rank, arguments.root);
  if (takes && arguments.output == nullptr && arguments.count > 0)
    throw UsageError("there are elements, but no output");

  // If the collective combines nothing, elements are bytes.
  const std::size_t width = combines ? arguments.reduction.width : 1;
  const std::size_t count = arguments.count * arguments.reduction.width / width;
  const auto blocks = [&](bool many) { return many ? count * static_cast<std::size_t>(ranks) : count; };
  const bool has_many = !combines && !who.root_gives;
  Call call{collective,
            {static_cast<const std::byte*>(arguments.input), gives ? blocks(who.is_personal) : 0, width},
            {takes ? static_cast<std::byte*>(arguments.output) : nullptr, blocks(has_many), width},
            combines ? &arguments.reduction : nullptr,
            facts(collective).has_root ? arguments.root : 0};
  const bool is_in_place = arguments.input == nullptr || arguments.input == arguments.output;
  if (collective == Collective::bcast) {
    if (gives) call.input = call.output;
  } else if (is_in_place && gives && arguments.count > 0) {
    const bool gives_only = !takes && facts(collective).has_root;
    if (gives_only || who.is_personal || arguments.output == nullptr)
      throw UsageError("there are elements, but no separate input");
    call.input = has_many ? call.output.block(ranks, rank) : call.output;
    if (!takes) call.input.data = static_cast<const std::byte*>(arguments.output);
  }
  return call;
}

// Replaces device memory in the call with host memory.
void stage(Communicator& communicator, Call& call, StagedCall& staged) {
  if (!devices::may_have_memory()) return;
  const std::size_t bytes = call.length(communicator.size());
  communicator.or_break(call.collective, bytes, [&] {
    staged.take(call);
    staged.fetch_input();
  });
}

}  // namespace

namespace {

std::atomic<const Observer*> the_observer{nullptr};

// Tells the observer about a call, if there is an observer. The call counts as failed unless returns() is
// called.
class Observation {
 public:
  Observation(const Arguments& call, Collective collective, bool is_blocking)
      : observer_(the_observer.load(std::memory_order_acquire)) {
    if (observer_ == nullptr) return;
    const bool combines = facts(collective).has_operation;
    number_ = observer_->begins(
        {.collective = collective,
         .is_blocking = is_blocking,
         .is_in_place = collective != Collective::bcast && moves_data(collective) &&
                        (call.input == nullptr || call.input == call.output),
         .communicator = call.communicator,
         .root = facts(collective).has_root ? call.root : -1,
         .count = moves_data(collective) ? static_cast<std::int64_t>(call.count) : 0,
         .width = moves_data(collective) ? static_cast<std::uint32_t>(width_of(call.type)) : 0,
         .type = moves_data(collective) ? name_of(call.type).data() : "",
         .operation = combines ? name_of(call.op).data() : ""});
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  ~Observation() {
    if (observer_ != nullptr) observer_->returns(number_, true, nullptr);
  }
  // Call this when the call returns. Returns its number, for `observe_completion`.
  std::uint64_t returns(bool is_complete) {
    if (observer_ != nullptr) observer_->returns(number_, is_complete, last_algorithm());
    observer_ = nullptr;
    return number_;
  }

 private:
  const Observer* observer_;
  std::uint64_t number_ = 0;
};

void observe_completion(std::uint64_t number) {
  if (const Observer* observer = the_observer.load(std::memory_order_acquire)) observer->completes(number);
}

// With OFFBEAT_CHECK=1, throws CommunicationError if the ranks do not make the same call.
void check(const Runtime& process, Communicator& communicator, const Arguments& arguments, const Call& call) {
  if (!process.settings.check) return;
  const Collective collective = call.collective;
  if (!moves_data(collective)) return communicator.check({process.host, process.types(), collective});
  if (call.op != nullptr) {
    communicator.check({collective, static_cast<std::int64_t>(call.output.count), name_of(arguments.type),
                        name_of(arguments.op), call.root});
  } else {
    // This compares bytes as for MPI calls, because types may differ between ranks.
    const auto bytes = static_cast<std::int64_t>(call.length(communicator.size()));
    communicator.check({process.host, process.types(), collective, bytes, MPI_BYTE, {}, call.root});
  }
}

}  // namespace

void observe(const Observer& observer) { the_observer.store(&observer, std::memory_order_release); }

void run(const Arguments& arguments) {
  const InsideOffbeat guard;
  const Collective collective = callable_collective(arguments.collective);
  require_running_mpi();
  offbeat::last_algorithm = nullptr;
  Observation observation(arguments, collective, true);
  Communicator& communicator = communicator_of(arguments.communicator, collective);
  Call call = call_of(arguments, collective, communicator);
  check(start_runtime(), communicator, arguments, call);
  StagedCall staged;
  stage(communicator, call, staged);
  if (!communicator.run_without_host(call)) refuse();
  staged.deliver_output();
  observation.returns(true);
}

struct Request {
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  StagedCall staged;  // must live longer than the operation
  std::unique_ptr<Operation> operation;
  std::uint64_t number = 0;  // the observer's number of the call
};

void RequestDeleter::operator()(Request* request) const { delete request; }

RequestPointer begin(const Arguments& arguments) {
  const InsideOffbeat guard;
  const Collective collective = callable_collective(arguments.collective);
  require_running_mpi();
  offbeat::last_algorithm = nullptr;
  RequestPointer request(new Request);  // made before the call begins, because memory may be missing
  Observation observation(arguments, collective, false);
  Communicator& communicator = communicator_of(arguments.communicator, collective);
  Call call = call_of(arguments, collective, communicator);
  stage(communicator, call, request->staged);
  request->operation = communicator.begin(call);
  if (request->operation == nullptr) refuse();
  request->number = observation.returns(false);
  return request;
}

bool test(Request& request) {
  const InsideOffbeat guard;
  require_running_mpi();
  if (!request.operation->test()) return false;
  request.staged.deliver_output();
  observe_completion(request.number);
  return true;
}

void wait(Request& request) {
  const InsideOffbeat guard;
  require_running_mpi();
  request.operation->wait();
  request.staged.deliver_output();
  observe_completion(request.number);
}

}  // namespace offbeat::service
