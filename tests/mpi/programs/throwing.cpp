/* SPDX-License-Identifier: BSD-3-Clause
 *
 * throwing throw|jump...: error handlers that do not return. They throw an exception, which the program
 * catches, or jump, on all ranks or on one of them; then calls go on as if nothing had been.
 */
#include <csetjmp>
#include <stdexcept>

#include "check.h"

namespace {

std::jmp_buf before_the_call;
int handled;
long good_calls;

void throwing(MPI_Comm*, int*, ...) {
  ++handled;
  throw std::runtime_error("from the error handler");
}

void jumping(MPI_Comm*, int*, ...) {
  ++handled;
  std::longjmp(before_the_call, 1);
}

void wrong_call(MPI_Comm communicator) {
  const int one = 1;
  int sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_OP_NULL, communicator);
}

bool is_thrown(MPI_Comm communicator) {
  try {
    wrong_call(communicator);
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

bool is_jumped(MPI_Comm communicator) {
  if (setjmp(before_the_call) != 0) return true;
  wrong_call(communicator);
  return false;
}

void good_call(MPI_Comm communicator, const char* way) {
  const int mine = world_rank + 1;
  int sum = 0;
  allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(sum == world_size * (world_size + 1) / 2, "after %s: sum %d", way, sum);
  ++good_calls;
}

struct Way {
  const char* name;
  MPI_Comm_errhandler_function* handler;
  bool (*is_left)(MPI_Comm);
};

void leave(const Way& way, bool by_all, bool later) {
  MPI_Errhandler errors;
  MPI_Comm communicator;
  within(20, "%s, %s, %s", way.name, by_all ? "all" : "one", later ? "later" : "first");
  MPI_Comm_create_errhandler(way.handler, &errors);
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  MPI_Comm_set_errhandler(communicator, errors);
  if (later) good_call(communicator, "nothing");
  for (int time = 1; time <= 2; ++time) {
    handled = 0;
    if (by_all || world_rank == (later ? world_size - 1 : 0)) {
      const bool is_left = way.is_left(communicator);
      CHECK(is_left && handled == 1, "%s: handled %d times", way.name, handled);
    }
    good_call(communicator, way.name);
    good_call(MPI_COMM_WORLD, way.name);
  }
  MPI_Comm_free(&communicator);
  MPI_Errhandler_free(&errors);
}

}  // namespace

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  for (int k = 1; k < argc; ++k) {
    const bool throws = strcmp(argv[k], "throw") == 0;
    const Way way{argv[k], throws ? throwing : jumping, throws ? is_thrown : is_jumped};
    for (const bool later : {false, true}) {
      leave(way, false, later);
      leave(way, true, later);
    }
  }
  within(20, "the end");
  if (world_rank == 0) printf("good: %ld\n", good_calls);
  return check_finish();
}
