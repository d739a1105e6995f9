// SPDX-License-Identifier: BSD-3-Clause
//
// adapting_failures return|throw|free...: broadcasts of which the MPI lets some fail, on one rank or on all
// (libmpi_faulty.c). The error handler returns, throws, or has the communicator freed. The calls go on.
#include <dlfcn.h>

#include <stdexcept>
#include <vector>

#include "check.h"
#include "faulty.h"

namespace {

constexpr int calls = 200;
long failed;

void throwing(MPI_Comm*, int*, ...) { throw std::runtime_error("from the error handler"); }
void freeing(MPI_Comm* communicator, int*, ...) { MPI_Comm_free(communicator); }

// Returns true if the call has failed.
bool fails(std::vector<int>& data, int root, MPI_Comm communicator) {
  try {
    return MPI_Bcast(data.data(), static_cast<int>(data.size()), MPI_INT, root, communicator) != MPI_SUCCESS;
  } catch (const std::runtime_error&) {
    return true;
  }
}

MPI_Comm made(const char* way) {
  MPI_Comm communicator;
  MPI_Errhandler errors = MPI_ERRORS_RETURN;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  if (strcmp(way, "throw") == 0) MPI_Comm_create_errhandler(throwing, &errors);
  if (strcmp(way, "free") == 0) MPI_Comm_create_errhandler(freeing, &errors);
  MPI_Comm_set_errhandler(communicator, errors);
  int nothing = 0;
  MPI_Bcast(&nothing, 1, MPI_INT, 0, communicator);  // sets everything up, and is of another trial
  return communicator;
}

void broadcasts(const char* way, faulty_arm_function* arm) {
  const bool frees = strcmp(way, "free") == 0;
  MPI_Comm communicator = made(way);
  for (int call = 0; call < calls; ++call) {
    within(20, "%s, call %d", way, call);
    std::vector<int> data(1000, -1);
    const int root = call % world_size;
    if (world_rank == root) data.assign(data.size(), call);
    // The MPI serves only some of these calls, the first ones of a trial among them.
    const bool by_all = call % 5 == 2;
    const bool by_one = call % 7 == 0 && call % world_size == world_rank && !frees;
    if (by_all || by_one) arm(BROADCASTS, 1, 0);
    const bool has_failed = fails(data, root, communicator);
    arm(NOTHING, 0, 0);
    failed += has_failed ? 1 : 0;
    CHECK(data == std::vector<int>(1000, call), "%s, call %d: wrong data", way, call);
    if (has_failed && frees) communicator = made(way);
  }
  MPI_Comm_free(&communicator);
}

}  // namespace

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  auto* const arm = reinterpret_cast<faulty_arm_function*>(dlsym(RTLD_DEFAULT, "faulty_arm"));
  for (int k = 1; k < argc; ++k) broadcasts(argv[k], arm);
  within(20, "the end");
  if (world_rank == 0) printf("failed: %ld\n", failed);
  return check_finish();
}
