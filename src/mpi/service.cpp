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

Call arguments(const void* input, void* output, std::size_t count, const Reduction& reduction) {
  const void* from = input == nullptr ? output : input;
  return {Collective::allreduce,
          {static_cast<const std::byte*>(from), count, reduction.width},
          {static_cast<std::byte*>(output), count, reduction.width},
          &reduction};
}

Communicator* communicator_of(int fortran_communicator) {
  Runtime& process = start_runtime();
  if (!process.is_mpi_running()) return nullptr;
  return process.communicator(process.host.Comm_f2c(fortran_communicator));
}

void require_running_mpi() {
  if (!start_runtime().is_mpi_running()) throw CommunicationError("MPI is not running");
}

}  // namespace

bool allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
               int fortran_communicator) {
  const InsideOffbeat guard;
  Communicator* communicator = communicator_of(fortran_communicator);
  return communicator != nullptr &&
         communicator->run_without_host(arguments(input, output, count, reduction));
}

void OperationDeleter::operator()(Operation* operation) const { delete operation; }

OperationPointer begin_allreduce(const void* input, void* output, std::size_t count,
                                 const Reduction& reduction, int fortran_communicator) {
  const InsideOffbeat guard;
  Communicator* communicator = communicator_of(fortran_communicator);
  if (communicator == nullptr) return nullptr;
  return OperationPointer(communicator->begin(arguments(input, output, count, reduction)).release());
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
