// SPDX-License-Identifier: BSD-3-Clause
#include <offbeat/offbeat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/collective.hpp"
#include "base/error.hpp"
#include "base/pool.hpp"
#include "groups/call_record.hpp"
#include "groups/group.hpp"
#include "groups/mpi_of_process.hpp"

static_assert(OFFBEAT_BOOL == static_cast<int>(offbeat::ElementType::boolean));
static_assert(OFFBEAT_FLOAT16 == static_cast<int>(offbeat::ElementType::float16));
static_assert(OFFBEAT_BITWISE_XOR == static_cast<int>(offbeat::ReduceOp::bitwise_xor));

namespace {

using offbeat::CallOptions;
using offbeat::Group;
using offbeat::GroupRequest;
using offbeat::Reduction;
using offbeat::Request;

// The last error of this thread: the code of the host MPI, or 0, and one line of text.
struct LastError {
  int code = 0;
  char text[320] = "";
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

offbeat_status status_of(offbeat::Trouble trouble) {
  switch (trouble) {
    case offbeat::Trouble::set_up:
      return OFFBEAT_ERROR_SET_UP;
    case offbeat::Trouble::rank:
    case offbeat::Trouble::death:
      return OFFBEAT_ERROR_RANK;
    case offbeat::Trouble::timeout:
      return OFFBEAT_ERROR_TIMEOUT;
    case offbeat::Trouble::mismatch:
      return OFFBEAT_ERROR_MISMATCH;
  }
  return OFFBEAT_ERROR_RANK;
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
  } catch (const offbeat::BoardError& failure) {
    return fail(status_of(failure.trouble), failure.what(), failure.code);
  } catch (const offbeat::CommunicationError& failure) {
    return fail(OFFBEAT_ERROR_MPI, failure.what(), failure.code);
  } catch (const std::exception& failure) {
    return fail(OFFBEAT_ERROR_MPI, failure.what());
  } catch (...) {  // from a function of the program
    return fail(OFFBEAT_ERROR_MPI, "an exception that is no std::exception");
  }
}

bool is_known(offbeat_type type, offbeat_op op) {
  return type >= 0 && static_cast<std::size_t>(type) < offbeat::element_type_count && op >= 0 &&
         static_cast<std::size_t>(op) < offbeat::reduce_op_count;
}

Reduction reduction_of(offbeat_type type, offbeat_op op) {
  return {static_cast<offbeat::ElementType>(type), static_cast<offbeat::ReduceOp>(op)};
}

Group* group_of(offbeat_group* group) { return reinterpret_cast<Group*>(group); }

// What an older program passes: it knows no groups.
constexpr std::size_t oldest_call_size = offsetof(offbeat_call, group);

// Returns the collective of a call. Only programs of MPI call those in which ranks have no lists but the
// root.
offbeat::Collective collective_of_call(const char* name) {
  const offbeat::Collective collective = offbeat::served_collective(name);
  if (offbeat::collectives_with_lists_at_root.contain(collective))
    throw offbeat::UsageError("calls of this interface cannot be '" + std::string(name) + "'");
  return collective;
}

// Calls body(arguments, call) if the call is valid; otherwise returns the error.
template <class Body>
offbeat_status with_arguments(const offbeat_call* passed, Body&& body) {
  if (passed == nullptr || passed->size < oldest_call_size || passed->collective == nullptr)
    return fail(OFFBEAT_ERROR_ARGUMENT, "not a call: begin with OFFBEAT_CALL_INIT and name the collective");
  offbeat_call call = OFFBEAT_CALL_INIT;
  std::memcpy(&call, passed, std::min(passed->size, sizeof call));
  if (!is_known(call.type, call.op)) return fail(OFFBEAT_ERROR_ARGUMENT, "unknown type or operation");
  if (call.group == nullptr && (call.timeout_s != 0 || call.done != nullptr))
    return fail(OFFBEAT_ERROR_ARGUMENT, "`timeout_s` and `done` need a group");
  if (!(call.timeout_s >= 0)) return fail(OFFBEAT_ERROR_ARGUMENT, "`timeout_s` is negative");
  if (call.op_label < 0 || call.op_label > offbeat::CallRecord::most_op_label)
    return fail(OFFBEAT_ERROR_ARGUMENT, "`op_label` is not from 0 to 127");
  return guarded([&] {
    offbeat::mpi_of_process::Arguments arguments;
    static_cast<offbeat::CallArguments&>(arguments) = {.collective = collective_of_call(call.collective),
                                                       .root = call.root,
                                                       .input = call.input,
                                                       .output = call.output,
                                                       .count = call.count,
                                                       .type = static_cast<offbeat::ElementType>(call.type),
                                                       .op = static_cast<offbeat::ReduceOp>(call.op),
                                                       .op_label = call.op_label,
                                                       .reduction = reduction_of(call.type, call.op),
                                                       .input_counts = call.input_counts,
                                                       .input_begins = call.input_begins,
                                                       .output_counts = call.output_counts,
                                                       .output_begins = call.output_begins};
    arguments.communicator = call.communicator;
    if (offbeat::facts_of(arguments.collective).has_operation && !arguments.reduction)
      return fail(OFFBEAT_ERROR_UNSUPPORTED, "this operation is not defined on this type");
    return body(arguments, call);
  });
}

Request* request_of(offbeat_request* request) { return reinterpret_cast<Request*>(request); }
offbeat_request* hand_out(std::unique_ptr<Request> request) {
  return reinterpret_cast<offbeat_request*>(request.release());
}

// The function of the program for the end of a call, with its state. It deletes itself.
struct Done {
  static void* operator new(std::size_t bytes) { return offbeat::pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { offbeat::pool::release(memory, bytes); }

  void (*call)(void* state, offbeat_status status, const char* text);
  void* state;

  static void end(void* self, const std::exception_ptr& failure) {
    const std::unique_ptr<Done> mine(static_cast<Done*>(self));
    if (failure == nullptr) return mine->call(mine->state, OFFBEAT_OK, "");
    const LastError before = last_error;
    const offbeat_status status = guarded([&]() -> offbeat_status { std::rethrow_exception(failure); });
    const LastError mine_error = std::exchange(last_error, before);
    mine->call(mine->state, status, mine_error.text);
  }
};

// Begins a request, and gives it the function of the program if there is one.
template <class Passed, class Begin>
std::unique_ptr<GroupRequest> begin_with_done(const Passed& passed, Begin&& begin) {
  CallOptions options{.timeout_s = passed.timeout_s};
  std::unique_ptr<Done> done;
  if (passed.done != nullptr) {
    done.reset(new Done{passed.done, passed.done_state});
    options.done = Done::end;
    options.state = done.get();
  }
  std::unique_ptr<GroupRequest> request = begin(options);
  done.release();  // NOLINT(bugprone-unused-return-value): it deletes itself
  return request;
}

// Calls body(group, arguments, message) if the message is valid; otherwise returns the error.
template <class Body>
offbeat_status with_message(const offbeat_message* passed, bool is_send, Body&& body) {
  if (passed == nullptr || passed->size < sizeof(offbeat_message) || passed->group == nullptr)
    return fail(OFFBEAT_ERROR_ARGUMENT, "not a message: begin with OFFBEAT_MESSAGE_INIT and name the group");
  if (!(passed->timeout_s >= 0)) return fail(OFFBEAT_ERROR_ARGUMENT, "`timeout_s` is negative");
  offbeat::MessageArguments arguments{.is_send = is_send,
                                      .peer = passed->peer,
                                      .tag = passed->tag,
                                      .data = passed->data,
                                      .bytes = passed->bytes,
                                      .arrival = {}};
  if (passed->arrival != nullptr && !is_send)
    arguments.arrival = {&passed->arrival->rank, &passed->arrival->tag, &passed->arrival->bytes};
  return guarded([&] { return body(*group_of(passed->group), arguments); });
}

offbeat_status transfer(const offbeat_message* message, bool is_send) {
  return with_message(message, is_send, [&](Group& group, const offbeat::MessageArguments& arguments) {
    group.transfer(arguments, {.timeout_s = message->timeout_s});
    return OFFBEAT_OK;
  });
}

offbeat_status begin_transfer(const offbeat_message* message, offbeat_request** request, bool is_send) {
  if (request != nullptr) *request = nullptr;
  return with_message(message, is_send, [&](Group& group, const offbeat::MessageArguments& arguments) {
    if (request == nullptr && message->done == nullptr)
      return fail(OFFBEAT_ERROR_ARGUMENT, "`request` is NULL");
    std::unique_ptr<GroupRequest> made = begin_with_done(
        *message, [&](const CallOptions& options) { return group.begin_transfer(arguments, options); });
    if (made != nullptr) *request = hand_out(std::move(made));
    return OFFBEAT_OK;
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
    case OFFBEAT_ERROR_SET_UP:
      return "the group could not be made";
    case OFFBEAT_ERROR_RANK:
      return "a rank has died, has left the group, or has given up";
    case OFFBEAT_ERROR_TIMEOUT:
      return "a call has taken longer than its time limit";
    case OFFBEAT_ERROR_MISMATCH:
      return "the ranks did not make the same call";
  }
  return "unknown status";
}

const char* offbeat_last_algorithm(void) { return offbeat::mpi_of_process::last_algorithm(); }

const char* offbeat_family(void) { return offbeat::mpi_of_process::family().data(); }

offbeat_status offbeat_select(const char* collective, const char* expression, char* error,
                              size_t error_size) {
  const offbeat_status status =
      collective == nullptr || expression == nullptr
          ? fail(OFFBEAT_ERROR_ARGUMENT, "the collective or the expression is NULL")
          : guarded([&] {
              offbeat::mpi_of_process::select(collective, expression);
              offbeat::select_for_groups(offbeat::served_collective(collective), expression);
              return OFFBEAT_OK;
            });
  if (status != OFFBEAT_OK) write_line(error, error_size, last_error.text);
  return status;
}

offbeat_status offbeat_count(const char* collective, offbeat_counters* counters, size_t size) {
  if (collective == nullptr || counters == nullptr || size < sizeof(offbeat_counters))
    return fail(OFFBEAT_ERROR_ARGUMENT, "the collective or the counters are NULL, or `size` is too small");
  return guarded([&] {
    const auto counts = offbeat::mpi_of_process::count(collective);
    const auto in_groups = offbeat::calls_of_groups(offbeat::served_collective(collective));
    *counters = {counts.intercepted + in_groups, counts.served + in_groups};
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
  return guarded([&] {
    reduction(destination, operands, operand_count, count);
    return OFFBEAT_OK;
  });
}

offbeat_status offbeat_group_make(int rank, int size, offbeat_exchange exchange, void* state,
                                  offbeat_group** group) {
  if (group == nullptr) return fail(OFFBEAT_ERROR_ARGUMENT, "`group` is NULL");
  *group = nullptr;
  if (size < 1 || size > offbeat::Board::most_ranks || rank < 0 || rank >= size)
    return fail(OFFBEAT_ERROR_ARGUMENT, "`rank` or `size` is out of range");
  if (exchange == nullptr && size > 1) return fail(OFFBEAT_ERROR_ARGUMENT, "`exchange` is NULL");
  const offbeat_status status = guarded([&] {
    *group = reinterpret_cast<offbeat_group*>(Group::make(rank, size, {exchange, state},
                                                          offbeat::mpi_of_process::observer_of_groups(),
                                                          offbeat::mpi_of_process::mpi_network)
                                                  .release());
    return OFFBEAT_OK;
  });
  return status == OFFBEAT_ERROR_MPI ? OFFBEAT_ERROR_SET_UP : status;  // without MPI there is no such error
}

offbeat_status offbeat_group_free(offbeat_group** group) {
  if (group == nullptr) return fail(OFFBEAT_ERROR_ARGUMENT, "`group` is NULL");
  if (*group != nullptr) Group::free(std::unique_ptr<Group>(group_of(*group)));
  *group = nullptr;
  return OFFBEAT_OK;
}

offbeat_status offbeat_group_give_up(offbeat_group* group, const char* why) {
  if (group == nullptr) return fail(OFFBEAT_ERROR_ARGUMENT, "`group` is NULL");
  return guarded([&] {
    group_of(group)->give_up(why != nullptr ? why : "");
    return OFFBEAT_OK;
  });
}

offbeat_status offbeat_run(const offbeat_call* call) {
  return with_arguments(
      call, [](const offbeat::mpi_of_process::Arguments& arguments, const offbeat_call& known) {
        if (known.group == nullptr) {
          offbeat::mpi_of_process::run(arguments);
          return OFFBEAT_OK;
        }
        Group& group = *group_of(known.group);
        group.run(arguments, {.timeout_s = known.timeout_s, .as_begun = known.as_begun != 0});
        offbeat::mpi_of_process::note_algorithm(group.last_algorithm());
        return OFFBEAT_OK;
      });
}

offbeat_status offbeat_begin(const offbeat_call* call, offbeat_request** request) {
  if (request != nullptr) *request = nullptr;
  return with_arguments(
      call, [&](const offbeat::mpi_of_process::Arguments& arguments, const offbeat_call& known) {
        if (request == nullptr && known.done == nullptr)
          return fail(OFFBEAT_ERROR_ARGUMENT, "`request` is NULL");
        if (known.group == nullptr) {
          *request = hand_out(offbeat::mpi_of_process::begin(arguments));
          return OFFBEAT_OK;
        }
        Group& group = *group_of(known.group);
        std::unique_ptr<GroupRequest> made = begin_with_done(
            known, [&](const CallOptions& options) { return group.begin(arguments, options); });
        offbeat::mpi_of_process::note_algorithm(group.last_algorithm());
        if (made != nullptr) *request = hand_out(std::move(made));
        return OFFBEAT_OK;
      });
}

offbeat_status offbeat_test(offbeat_request** request, int* complete) {
  if (request == nullptr || complete == nullptr)
    return fail(OFFBEAT_ERROR_ARGUMENT, "`request` or `complete` is NULL");
  *complete = 1;
  if (*request == nullptr) return OFFBEAT_OK;
  std::unique_ptr<Request> mine(request_of(*request));
  *request = nullptr;
  return guarded([&] {
    if (mine->test_call()) return OFFBEAT_OK;
    *complete = 0;
    *request = hand_out(std::move(mine));
    return OFFBEAT_OK;
  });
}

offbeat_status offbeat_wait(offbeat_request** request) {
  if (request == nullptr) return fail(OFFBEAT_ERROR_ARGUMENT, "`request` is NULL");
  if (*request == nullptr) return OFFBEAT_OK;
  const std::unique_ptr<Request> mine(request_of(*request));
  *request = nullptr;
  return guarded([&] {
    mine->wait_for_call();
    return OFFBEAT_OK;
  });
}

offbeat_status offbeat_send(const offbeat_message* message) { return transfer(message, true); }

offbeat_status offbeat_receive(const offbeat_message* message) { return transfer(message, false); }

offbeat_status offbeat_begin_send(const offbeat_message* message, offbeat_request** request) {
  return begin_transfer(message, request, true);
}

offbeat_status offbeat_begin_receive(const offbeat_message* message, offbeat_request** request) {
  return begin_transfer(message, request, false);
}

offbeat_status offbeat_wait_until(offbeat_group* group, int (*is_over)(void* state), void* state) {
  if (group == nullptr || is_over == nullptr)
    return fail(OFFBEAT_ERROR_ARGUMENT, "`group` or `is_over` is NULL");
  return guarded([&] {
    struct Condition {
      int (*is_over)(void* state);
      void* state;
    } condition{is_over, state};
    group_of(group)->wait_until(
        [](void* known) {
          const auto& mine = *static_cast<const Condition*>(known);
          return mine.is_over(mine.state) != 0;
        },
        &condition);
    return OFFBEAT_OK;
  });
}

const char* offbeat_error_text(void) { return last_error.text; }

int offbeat_error_code(void) { return last_error.code; }

// The tracer calls this to see the calls of this interface. It comes from the same build, so the function is
// not in the public header.
void offbeat_observe(const offbeat::Observer* observer) { offbeat::mpi_of_process::observe(*observer); }

}  // extern "C"
