// SPDX-License-Identifier: BSD-3-Clause
#include <offbeat/offbeat.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.hpp"
#include "mpi/service.hpp"

static_assert(OFFBEAT_BOOL == static_cast<int>(offbeat::ElementType::boolean));
static_assert(OFFBEAT_FLOAT16 == static_cast<int>(offbeat::ElementType::float16));
static_assert(OFFBEAT_BITWISE_XOR == static_cast<int>(offbeat::ReduceOp::bitwise_xor));

namespace {

using offbeat::Reduction;

bool is_known(offbeat_type type, offbeat_op op) {
  return type >= 0 && static_cast<std::size_t>(type) < offbeat::element_type_count && op >= 0 &&
         static_cast<std::size_t>(op) < offbeat::reduce_op_count;
}

Reduction reduction_of(offbeat_type type, offbeat_op op) {
  return {static_cast<offbeat::ElementType>(type), static_cast<offbeat::ReduceOp>(op)};
}

void write_line(char* target, std::size_t size, const char* text) {
  if (target == nullptr || size == 0) return;
  const std::size_t length = std::min(size - 1, std::strlen(text));
  std::memcpy(target, text, length);
  target[length] = '\0';
}

}  // namespace

extern "C" {

const char* offbeat_version(void) { return OFFBEAT_VERSION; }

const char* offbeat_status_string(offbeat_status status) {
  switch (status) {
    case OFFBEAT_OK:
      return "success";
    case OFFBEAT_ERROR_ARGUMENT:
      return "bad argument";
    case OFFBEAT_ERROR_EXPRESSION:
      return "not an algorithm expression";
    case OFFBEAT_ERROR_UNSUPPORTED:
      return "the operation is not defined on this type";
    case OFFBEAT_ERROR_MPI:
      return "the MPI library reported an error or is not running";
  }
  return "unknown status";
}

const char* offbeat_last_algorithm(void) { return offbeat::service::last_algorithm(); }

const char* offbeat_family(void) { return offbeat::service::family().data(); }

offbeat_status offbeat_select(const char* collective, const char* expression, char* error,
                              size_t error_size) {
  if (collective == nullptr || expression == nullptr) return OFFBEAT_ERROR_ARGUMENT;
  try {
    offbeat::service::select(collective, expression);
    return OFFBEAT_OK;
  } catch (const offbeat::ExpressionError& failure) {
    write_line(error, error_size, failure.what());
    return OFFBEAT_ERROR_EXPRESSION;
  } catch (const std::exception& failure) {
    write_line(error, error_size, failure.what());
    return OFFBEAT_ERROR_ARGUMENT;
  }
}

offbeat_status offbeat_count(const char* collective, offbeat_counters* counters, size_t size) {
  if (collective == nullptr || counters == nullptr || size < sizeof(offbeat_counters))
    return OFFBEAT_ERROR_ARGUMENT;
  try {
    const auto counts = offbeat::service::count(collective);
    *counters = {counts.intercepted, counts.served};
    return OFFBEAT_OK;
  } catch (const std::exception&) {
    return OFFBEAT_ERROR_ARGUMENT;
  }
}

offbeat_status offbeat_reduce(void* destination, const void* const* operands, size_t operand_count,
                              size_t count, offbeat_type type, offbeat_op op) {
  if (operands == nullptr || operand_count == 0 || !is_known(type, op)) return OFFBEAT_ERROR_ARGUMENT;
  if (destination == nullptr && count > 0) return OFFBEAT_ERROR_ARGUMENT;
  const Reduction reduction = reduction_of(type, op);
  if (!reduction) return OFFBEAT_ERROR_UNSUPPORTED;
  reduction(destination, operands, operand_count, count);
  return OFFBEAT_OK;
}

offbeat_status offbeat_allreduce(const void* input, void* output, size_t count, offbeat_type type,
                                 offbeat_op op, int fortran_communicator) {
  if (!is_known(type, op) || (output == nullptr && count > 0)) return OFFBEAT_ERROR_ARGUMENT;
  const Reduction reduction = reduction_of(type, op);
  if (!reduction) return OFFBEAT_ERROR_UNSUPPORTED;
  try {
    const bool served = offbeat::service::allreduce(input, output, count, reduction, fortran_communicator);
    return served ? OFFBEAT_OK : OFFBEAT_ERROR_MPI;
  } catch (const std::exception&) {
    return OFFBEAT_ERROR_MPI;
  }
}

offbeat_status offbeat_iallreduce(const void* input, void* output, size_t count, offbeat_type type,
                                  offbeat_op op, int fortran_communicator, offbeat_request** request) {
  if (request == nullptr) return OFFBEAT_ERROR_ARGUMENT;
  *request = nullptr;
  if (!is_known(type, op) || (output == nullptr && count > 0)) return OFFBEAT_ERROR_ARGUMENT;
  const Reduction reduction = reduction_of(type, op);
  if (!reduction) return OFFBEAT_ERROR_UNSUPPORTED;
  try {
    auto operation = offbeat::service::begin_allreduce(input, output, count, reduction, fortran_communicator);
    if (operation == nullptr) return OFFBEAT_ERROR_MPI;
    *request = reinterpret_cast<offbeat_request*>(operation.release());
    return OFFBEAT_OK;
  } catch (const std::exception&) {
    return OFFBEAT_ERROR_MPI;
  }
}

offbeat_status offbeat_test(offbeat_request** request, int* complete) {
  if (request == nullptr || complete == nullptr) return OFFBEAT_ERROR_ARGUMENT;
  *complete = 1;
  if (*request == nullptr) return OFFBEAT_OK;
  offbeat::service::OperationPointer operation(reinterpret_cast<offbeat::Operation*>(*request));
  *request = nullptr;
  try {
    if (offbeat::service::test(*operation)) return OFFBEAT_OK;
    *complete = 0;
    *request = reinterpret_cast<offbeat_request*>(operation.release());
    return OFFBEAT_OK;
  } catch (const std::exception&) {
    return OFFBEAT_ERROR_MPI;
  }
}

offbeat_status offbeat_wait(offbeat_request** request) {
  if (request == nullptr) return OFFBEAT_ERROR_ARGUMENT;
  if (*request == nullptr) return OFFBEAT_OK;
  const offbeat::service::OperationPointer operation(reinterpret_cast<offbeat::Operation*>(*request));
  *request = nullptr;
  try {
    offbeat::service::wait(*operation);
    return OFFBEAT_OK;
  } catch (const std::exception&) {
    return OFFBEAT_ERROR_MPI;
  }
}

}  // extern "C"
