// SPDX-License-Identifier: BSD-3-Clause
#include <offbeat/offbeat.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/collective.hpp"
#include "base/error.hpp"
#include "mpi/process/service.hpp"

static_assert(OFFBEAT_BOOL == static_cast<int>(offbeat::ElementType::boolean));
static_assert(OFFBEAT_FLOAT16 == static_cast<int>(offbeat::ElementType::float16));
static_assert(OFFBEAT_BITWISE_XOR == static_cast<int>(offbeat::ReduceOp::bitwise_xor));

namespace {

using offbeat::Reduction;
using offbeat::service::Request;
using offbeat::service::RequestPointer;

// The last error of this thread: the code of the host MPI, or 0, and one line of text.
struct LastError {
  int code = 0;
  char text[256] = "";
};
constinit thread_local LastError last_error;

void write_line(char* target, std::size_t size, const char* text) {
  if (target == nullptr || size == 0) return;
  const std::size_t length = std::min(size - 1, std::strlen(text));
  std::memcpy(target, text, length);
  target[length] = '\0';
}

offbeat_status fail(offbeat_status status, const char* text, int code = 0) {
  last_error.code = code;
  write_line(last_error.text, sizeof last_error.text, text);
  return status;
}

// Turns exceptions of `body` into a status, because no exception may leave the library.
template <class Body>
offbeat_status guarded(Body&& body) {
  try {
    return body();
  } catch (const offbeat::ExpressionError& failure) {
    return fail(OFFBEAT_ERROR_EXPRESSION, failure.what());
  } catch (const offbeat::UsageError& failure) {
    return fail(OFFBEAT_ERROR_ARGUMENT, failure.what());
  } catch (const offbeat::CommunicationError& failure) {
    return fail(OFFBEAT_ERROR_MPI, failure.what(), failure.code);
  } catch (const std::exception& failure) {
    return fail(OFFBEAT_ERROR_MPI, failure.what());
  }
}

bool is_known(offbeat_type type, offbeat_op op) {
  return type >= 0 && static_cast<std::size_t>(type) < offbeat::element_type_count && op >= 0 &&
         static_cast<std::size_t>(op) < offbeat::reduce_op_count;
}

Reduction reduction_of(offbeat_type type, offbeat_op op) {
  return {static_cast<offbeat::ElementType>(type), static_cast<offbeat::ReduceOp>(op)};
}

// Calls body(arguments) if the call is valid; otherwise returns the error.
template <class Body>
offbeat_status with_arguments(const offbeat_call* call, Body&& body) {
  if (call == nullptr || call->size < sizeof(offbeat_call) || call->collective == nullptr)
    return fail(OFFBEAT_ERROR_ARGUMENT, "not a call: begin with OFFBEAT_CALL_INIT and name the collective");
  if (!is_known(call->type, call->op)) return fail(OFFBEAT_ERROR_ARGUMENT, "unknown type or operation");
  return guarded([&] {
    const offbeat::service::Arguments arguments{.collective = call->collective,
                                                .communicator = call->communicator,
                                                .root = call->root,
                                                .input = call->input,
                                                .output = call->output,
                                                .count = call->count,
                                                .type = static_cast<offbeat::ElementType>(call->type),
                                                .op = static_cast<offbeat::ReduceOp>(call->op),
                                                .reduction = reduction_of(call->type, call->op)};
    const auto collective = offbeat::collective_named(call->collective);
    if (collective && offbeat::facts(*collective).has_operation && !arguments.reduction)
      return fail(OFFBEAT_ERROR_UNSUPPORTED, "this operation is not defined on this type");
    return body(arguments);
  });
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
  const offbeat_status status = collective == nullptr || expression == nullptr
                                    ? fail(OFFBEAT_ERROR_ARGUMENT, "the collective or the expression is NULL")
                                    : guarded([&] {
                                        offbeat::service::select(collective, expression);
                                        return OFFBEAT_OK;
                                      });
  if (status != OFFBEAT_OK) write_line(error, error_size, last_error.text);
  return status;
}

offbeat_status offbeat_count(const char* collective, offbeat_counters* counters, size_t size) {
  if (collective == nullptr || counters == nullptr || size < sizeof(offbeat_counters))
    return fail(OFFBEAT_ERROR_ARGUMENT, "the collective or the counters are NULL, or `size` is too small");
  return guarded([&] {
    const auto counts = offbeat::service::count(collective);
    *counters = {counts.intercepted, counts.served};
    return OFFBEAT_OK;
  });
}

offbeat_status offbeat_reduce(void* destination, const void* const* operands, size_t operand_count,
                              size_t count, offbeat_type type, offbeat_op op) {
  if (operands == nullptr || operand_count == 0 || !is_known(type, op))
    return fail(OFFBEAT_ERROR_ARGUMENT, "no operands, or unknown type or operation");
  if (destination == nullptr && count > 0)
    return fail(OFFBEAT_ERROR_ARGUMENT, "there are elements, but no destination");
  const Reduction reduction = reduction_of(type, op);
  if (!reduction) return fail(OFFBEAT_ERROR_UNSUPPORTED, "this operation is not defined on this type");
  reduction(destination, operands, operand_count, count);
  return OFFBEAT_OK;
}

offbeat_status offbeat_run(const offbeat_call* call) {
  return with_arguments(call, [](const offbeat::service::Arguments& arguments) {
    offbeat::service::run(arguments);
    return OFFBEAT_OK;
  });
}

offbeat_status offbeat_begin(const offbeat_call* call, offbeat_request** request) {
  if (request == nullptr) return fail(OFFBEAT_ERROR_ARGUMENT, "`request` is NULL");
  *request = nullptr;
  return with_arguments(call, [&](const offbeat::service::Arguments& arguments) {
    *request = reinterpret_cast<offbeat_request*>(offbeat::service::begin(arguments).release());
    return OFFBEAT_OK;
  });
}

offbeat_status offbeat_test(offbeat_request** request, int* complete) {
  if (request == nullptr || complete == nullptr)
    return fail(OFFBEAT_ERROR_ARGUMENT, "`request` or `complete` is NULL");
  *complete = 1;
  if (*request == nullptr) return OFFBEAT_OK;
  RequestPointer mine(reinterpret_cast<Request*>(*request));
  *request = nullptr;
  return guarded([&] {
    if (offbeat::service::test(*mine)) return OFFBEAT_OK;
    *complete = 0;
    *request = reinterpret_cast<offbeat_request*>(mine.release());
    return OFFBEAT_OK;
  });
}

offbeat_status offbeat_wait(offbeat_request** request) {
  if (request == nullptr) return fail(OFFBEAT_ERROR_ARGUMENT, "`request` is NULL");
  if (*request == nullptr) return OFFBEAT_OK;
  const RequestPointer mine(reinterpret_cast<Request*>(*request));
  *request = nullptr;
  return guarded([&] {
    offbeat::service::wait(*mine);
    return OFFBEAT_OK;
  });
}

const char* offbeat_error_text(void) { return last_error.text; }

int offbeat_error_code(void) { return last_error.code; }

// The tracer calls this to see the calls of this interface. It comes from the same build, so the function is
// not in the public header.
void offbeat_observe(const offbeat::Observer* observer) { offbeat::service::observe(*observer); }

}  // extern "C"
