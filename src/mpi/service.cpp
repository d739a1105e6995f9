// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/service.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "base/error.hpp"
#include "mpi/runtime.hpp"

namespace offbeat::service {
namespace {

void require_allreduce(std::string_view collective) {
  if (collective != "allreduce") throw UsageError("unknown collective '" + std::string(collective) + "'");
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
  require_allreduce(collective);
  start_runtime().allreduce.choose_always(expression, "offbeat_select");
}

Counts count(std::string_view collective) {
  require_allreduce(collective);
  const Runtime::Counts counts = start_runtime().counts();
  return {counts.intercepted, counts.served};
}

namespace {

const Expression& fallback() {
  static const Expression expression = parse_expression("allreduce", "recursive_doubling");
  return expression;
}

Allreduce arguments(const void* input, void* output, std::size_t count, const Reduction& reduction) {
  const void* from = input == nullptr ? output : input;
  return {{static_cast<const std::byte*>(from), count, reduction.width},
          {static_cast<std::byte*>(output), count, reduction.width},
          &reduction};
}

Context* context_of(int fortran_communicator) {
  Runtime& process = start_runtime();
  return process.context(process.host.Comm_f2c(fortran_communicator));
}

}  // namespace

bool allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
               int fortran_communicator) {
  const InsideOffbeat guard;
  Context* context = context_of(fortran_communicator);
  return context != nullptr &&
         context->run_without_host(fallback(), arguments(input, output, count, reduction));
}

class Operation : public Context::Open {};

void OperationDeleter::operator()(Operation* operation) const { delete operation; }

OperationPointer begin_allreduce(const void* input, void* output, std::size_t count,
                                 const Reduction& reduction, int fortran_communicator) {
  const InsideOffbeat guard;
  Context* context = context_of(fortran_communicator);
  if (context == nullptr) return nullptr;
  OperationPointer operation(new Operation{{context, reduction}});
  const bool begun =
      context->begin(fallback(), *operation, arguments(input, output, count, operation->reduction));
  return begun ? std::move(operation) : nullptr;
}

bool test(Operation& operation) {
  const InsideOffbeat guard;
  return operation.context->advance(operation);
}

}  // namespace offbeat::service
