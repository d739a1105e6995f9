// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/service.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "mpi/runtime.hpp"

namespace offbeat::service {
namespace {

// Throws UsageError where offbeat serves none of this name.
Collective served_collective(std::string_view name) {
  const auto collective = collective_named(name);
  if (!collective || repertoire(*collective).algorithms.empty())
    throw UsageError("unknown collective '" + printable(name) + "'");
  return *collective;
}

// Expressions live as long as the process, and so do their texts.
const char* text_of(const Expression* expression) {
  static std::mutex mutex;
  static auto* texts =
      new std::map<const Expression*, std::string>;  // never freed: also used while the process ends
  const std::lock_guard lock(mutex);
  std::string& text = (*texts)[expression];
  if (text.empty()) text = expression->text();
  return text.c_str();
}

}  // namespace

const char* last_algorithm() {
  struct Known {
    const Expression* expression;
    const char* text;
  };
  static constinit thread_local std::array<Known, 8> known{};
  const Expression* ran = offbeat::last_algorithm;
  if (ran == nullptr) return nullptr;
  Known& entry = known[(reinterpret_cast<std::uintptr_t>(ran) / alignof(std::max_align_t)) % known.size()];
  if (entry.expression != ran) entry = {ran, text_of(ran)};
  return entry.text;
}

std::string_view family() { return abi::family; }

void select(std::string_view collective, std::string_view expression) {
  start_runtime().selection.choose_always(served_collective(collective), expression, "offbeat_select");
}

Counts count(std::string_view collective) {
  const offbeat::Counts counts = start_runtime().counts(served_collective(collective));
  return {counts.intercepted, counts.served};
}

namespace {

Call call_of(const Arguments& arguments) {
  const Collective collective = served_collective(arguments.collective);
  const void* input = arguments.input == nullptr ? arguments.output : arguments.input;
  const std::size_t width = arguments.reduction.width;
  return {collective,
          {static_cast<const std::byte*>(input), arguments.count, width},
          {static_cast<std::byte*>(arguments.output), arguments.count, width},
          facts(collective).has_operation ? &arguments.reduction : nullptr,
          arguments.root};
}

void require_running_mpi() {
  if (!start_runtime().is_mpi_running()) throw CommunicationError("MPI is not running");
}

Communicator& communicator_of(int fortran_communicator, Collective collective) {
  require_running_mpi();
  Runtime& process = start_runtime();
  Communicator* communicator = process.communicator(process.host.Comm_f2c(fortran_communicator), collective);
  if (communicator == nullptr) throw CommunicationError("this is no communicator that can be used");
  return *communicator;
}

[[noreturn]] void refuse() {
  throw CommunicationError("offbeat cannot serve this communicator; OFFBEAT_VERBOSE=1 says why");
}

}  // namespace

void run(const Arguments& arguments) {
  const InsideOffbeat guard;
  const Call call = call_of(arguments);
  if (!communicator_of(arguments.communicator, call.collective).run_without_host(call)) refuse();
}

void OperationDeleter::operator()(Operation* operation) const { delete operation; }

OperationPointer begin(const Arguments& arguments) {
  const InsideOffbeat guard;
  const Call call = call_of(arguments);
  OperationPointer operation(communicator_of(arguments.communicator, call.collective).begin(call).release());
  if (operation == nullptr) refuse();
  return operation;
}

bool test(Operation& operation) {
  const InsideOffbeat guard;
  require_running_mpi();
  return operation.test();
}

void wait(Operation& operation) {
  const InsideOffbeat guard;
  require_running_mpi();
  operation.wait();
}

}  // namespace offbeat::service
