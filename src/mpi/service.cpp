// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/service.hpp"

#include "base/error.hpp"
#include "mpi/runtime.hpp"

namespace offbeat::service {
namespace {

void require_allreduce(std::string_view collective) {
  if (collective != "allreduce") throw UsageError("unknown collective '" + std::string(collective) + "'");
}

}  // namespace

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

bool allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
               int fortran_communicator) {
  static const Expression fallback = parse_expression("allreduce", "recursive_doubling");
  Runtime& process = start_runtime();
  const InsideOffbeat guard;
  Context* context = process.context(process.host.Comm_f2c(fortran_communicator));
  if (context == nullptr) return false;
  const void* from = input == nullptr ? output : input;
  return context->run_without_host(fallback, {{static_cast<const std::byte*>(from), count, reduction.width},
                                              {static_cast<std::byte*>(output), count, reduction.width},
                                              &reduction});
}

}  // namespace offbeat::service
