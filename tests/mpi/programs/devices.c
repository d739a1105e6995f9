/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     devices DRIVER MODE [LEVEL_ZERO]
 *
 * MODE: values, refused, interface, failing_read, failing_write, failing_event, overlapping, registering,
 * level_zero, native, or served.
 *
 * Makes those calls with GPU memory that the random calls (exchanges.cpp) do not make. The GPU is a stub
 * (tests/support/stub_gpu.cpp). Even ranks pass device memory, odd ranks host memory.
 */
#ifdef WITH_INTERFACE
#include "interface.h"
#endif
#include "check.h"

#include "../../support/stub_gpu.h"

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAS_PERSISTENT 1
#endif

static struct stub_gpu gpu;
static int has_gpu;

/* Allocates ints, on the GPU if this rank has one. */
static int *make(size_t count, int first) {
  int *const values = malloc(count * sizeof *values);
  for (size_t k = 0; k < count; ++k) values[k] = first + (int)k;
  if (!has_gpu) return values;
  int *const there = gpu.allocate(count * sizeof *values, STUB_DEVICE);
  gpu.write(there, values, count * sizeof *values);
  free(values);
  return there;
}
static void drop(int *values) {
  has_gpu ? gpu.release(values) : free(values);
}
static int get(const int *values, size_t k) {
  int value;
  if (!has_gpu) return values[k];
  gpu.read(&value, values + k, sizeof value);
  return value;
}
static void set(int *values, size_t k, int value) {
  has_gpu ? gpu.write(values + k, &value, sizeof value) : (void)(values[k] = value);
}

static void add(void *input, void *output, int *count, MPI_Datatype *type) {
  (void)type;
  for (int k = 0; k < *count; ++k) ((int *)output)[k] += ((int *)input)[k];
}

/* Returns the sum over all ranks of 10 * rank + k + extra. */
static int sum(int size, int k, int extra) { return 10 * size * (size - 1) / 2 + size * (k + extra); }

static void user_operation(MPI_Comm communicator, int rank, int size, int count) {
  MPI_Op op;
  MPI_Request request;
  MPI_Op_create(add, 1, &op);
  int *const input = make((size_t)count, 10 * rank), *const output = make((size_t)count, -1);
  allreduce(input, output, count, MPI_INT, op, communicator);
  CHECK(get(output, 0) == sum(size, 0, 0) && get(output, (size_t)count - 1) == sum(size, count - 1, 0),
        "user operation on %d: %d", count, get(output, 0));
  MPI_Iallreduce(input, output, count, MPI_INT, MPI_MAX, communicator, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(get(output, 0) == 10 * (size - 1), "non-blocking maximum of %d", count);
  CHECK(get(input, 0) == 10 * rank, "the input has changed");
  allreduce(MPI_IN_PLACE, input, count, MPI_INT, op, communicator);
  CHECK(get(input, 0) == sum(size, 0, 0), "user operation in place on %d", count);
  drop(input);
  drop(output);
  MPI_Op_free(&op);
}

/* The program writes between the elements of an output while the collective is under way. */
static void gaps(MPI_Comm communicator, int rank, int size) {
  enum { rows = 40 };
  const size_t n = (size_t)size;
  int *const column = make(rows, 100 * rank);
  int *const matrices[2] = {make(2 * rows * n, -1), make(2 * rows * n, -1)};
  MPI_Datatype every_other;
  MPI_Request requests[2];
  MPI_Type_vector(rows, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  MPI_Datatype block;
  MPI_Type_create_resized(every_other, 0, 2 * rows * sizeof(int), &block);
  MPI_Type_commit(&block);
  /* Two collectives at once fill the two halves of one matrix. */
  MPI_Iallgather(column, rows, MPI_INT, matrices[0], 1, block, communicator, &requests[0]);
  MPI_Iallgather(column, rows, MPI_INT, matrices[0] + 1, 1, block, communicator, &requests[1]);
  MPI_Type_free(&block);
  MPI_Type_free(&every_other);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  int wrong = 0;
  for (size_t k = 0; k < 2 * rows * n; ++k)
    wrong += get(matrices[0], k) != 100 * (int)(k / (2 * rows)) + (int)(k % (2 * rows) / 2);
  CHECK(wrong == 0, "%d of %zu wrong in both halves", wrong, 2 * rows * n);

  int counts[16], displacements[16];
  for (int r = 0; r < size; ++r) {
    counts[r] = rows;
    displacements[r] = 2 * rows * (size - 1 - r); /* backwards */
  }
  MPI_Iallgatherv(column, rows, MPI_INT, matrices[1], counts, displacements, MPI_INT, communicator, &requests[0]);
  for (size_t k = rows; k < 2 * rows; ++k) set(matrices[1], k, (int)k);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  CHECK(get(matrices[1], rows) == rows && get(matrices[1], 2 * rows - 1) == 2 * rows - 1,
        "what the program wrote is gone");
  CHECK(get(matrices[1], 0) == 100 * (size - 1), "wrong block");
  drop(column);
  drop(matrices[0]);
  drop(matrices[1]);
}

static void persistent(MPI_Comm communicator, int rank, int size) {
#ifdef HAS_PERSISTENT
  enum { count = 300 };
  int *const input = make(count, 10 * rank), *const output = make(count, -1);
  int *const blocks = make((size_t)size, -1);
  MPI_Request requests[2];
  MPI_Allreduce_init(input, output, count, MPI_INT, MPI_SUM, communicator, MPI_INFO_NULL, &requests[0]);
  MPI_Allgather_init(input, 1, MPI_INT, blocks, 1, MPI_INT, communicator, MPI_INFO_NULL, &requests[1]);
  for (int round = 0; round < 3; ++round) {
    for (int k = 0; k < count; ++k) set(input, (size_t)k, 10 * rank + k + round);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(get(output, 0) == sum(size, 0, round) && get(output, count - 1) == sum(size, count - 1, round),
          "round %d of a persistent sum: %d", round, get(output, 0));
    CHECK(get(blocks, (size_t)size - 1) == 10 * (size - 1) + round, "round %d of a persistent allgather", round);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  drop(input);
  drop(output);
  drop(blocks);
#else
  (void)communicator, (void)rank, (void)size;
#endif
}

static void pairs(MPI_Comm communicator, int rank, int size) {
  int *const pair = make(2, 0), *const least = make(2, -1);
  set(pair, 0, 50 - rank);
  set(pair, 1, rank);
  MPI_Reduce(pair, least, 1, MPI_2INT, MPI_MINLOC, 0, communicator);
  if (rank == 0) CHECK(get(least, 0) == 51 - size && get(least, 1) == size - 1, "least pair");
  drop(pair);
  drop(least);
}

static void values(void) {
  MPI_Comm communicators[3] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};
  MPI_Comm_dup(MPI_COMM_SELF, &communicators[2]);
  for (int k = 0; k < 3; ++k) {
    int rank, size;
    MPI_Comm_rank(communicators[k], &rank);
    MPI_Comm_size(communicators[k], &size);
    MPI_Barrier(communicators[k]);
    within(60, "communicator %d", k);
    persistent(communicators[k], rank, size);
    user_operation(communicators[k], rank, size, 1);
    user_operation(communicators[k], rank, size, 3000);
    user_operation(communicators[k], rank, size, 300000);
    gaps(communicators[k], rank, size);
    pairs(communicators[k], rank, size);
  }
  MPI_Comm_free(&communicators[2]);
  if (has_gpu) CHECK(gpu.depth() == 0, "a context is still there");
}

/* No call keeps the program waiting for a copy, not even the one that begins a collective. */
static void overlapping(void) {
  enum { shortest = 1, middle = 20000, longest = 1 << 20 };
  const int counts[] = {shortest, middle, longest};
  for (int k = 0; k < 3; ++k) {
    const int count = counts[k];
    within(60, "%d elements", count);
    int *const input = make((size_t)count, 10 * world_rank), *const output = make((size_t)count, -1);
    int *const all = make((size_t)(count * world_size), -1);
    MPI_Request requests[2];
    allreduce(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const long before = has_gpu ? gpu.calls(STUB_BLOCKING) : 0;
    if (has_gpu) gpu.delay(20000);
    const double start = MPI_Wtime();
    MPI_Iallreduce(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallgather(input, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD, &requests[1]);
    const double begun_s = MPI_Wtime() - start;
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    const double complete_s = MPI_Wtime() - start;
    if (has_gpu) {
      gpu.delay(0);
      CHECK(gpu.calls(STUB_BLOCKING) == before, "%ld copies kept the program waiting",
            gpu.calls(STUB_BLOCKING) - before);
      CHECK(begun_s < complete_s / 2, "%d elements: begun after %g s of %g s", count, begun_s, complete_s);
      if (count == longest) CHECK(gpu.calls(STUB_AT_ONCE) >= 4, "one copy at a time");
    }
    CHECK(get(output, (size_t)count - 1) == sum(world_size, count - 1, 0), "sum of %d", count);
    CHECK(get(all, (size_t)(count * world_size) - 1) == 10 * (world_size - 1) + count - 1, "allgather of %d", count);
    drop(input);
    drop(output);
    drop(all);
  }
}

/* The windows of a board are registered once, and not for short calls. */
static void registering(void) {
  enum { count = 1 << 18 };
  int *const input = make(count, 10 * world_rank), *const output = make(count, -1);
  long made = 0;
  for (int call = 0; call < 10; ++call) {
    allreduce(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(get(output, count - 1) == sum(world_size, count - 1, 0), "call %d", call);
    if (!has_gpu) continue;
    if (call == 0) made = gpu.calls(STUB_REGISTER);
    CHECK(made > 0 && gpu.calls(STUB_REGISTER) == made, "call %d: %ld registrations", call, gpu.calls(STUB_REGISTER));
    CHECK(gpu.calls(STUB_FORGET) == 0, "memory in use was forgotten");
  }
  /* Each of many communicators may have a board. What it registers is forgotten with it. */
  for (int k = 0; k < 20; ++k) {
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    allreduce(input, output, count, MPI_INT, MPI_SUM, other);
    CHECK(get(output, 0) == sum(world_size, 0, 0), "communicator %d", k);
    MPI_Comm_free(&other);
  }
  if (has_gpu) CHECK(gpu.calls(STUB_REGISTER) <= made + 4, "%ld registrations", gpu.calls(STUB_REGISTER));
  drop(input);
  drop(output);
}

#ifdef WITH_INTERFACE
/* The sum of ones in half the width: a whole number, which both types have. */
static void narrow(offbeat_type type, unsigned short one, unsigned short sum_of_ranks) {
  enum { count = 200000 };
  const int world = FORTRAN_HANDLE(MPI_COMM_WORLD);
  offbeat_request *request = NULL;
  int *const input = make(count / 2, one << 16 | one), *const output = make(count / 2, -1);
  for (size_t k = 0; k < count / 2; ++k) set(input, k, one << 16 | one);
  for (int begun = 0; begun < 2; ++begun) {
    set(output, count / 2 - 1, -1);
    if (begun) {
      CHECK(offbeat_iallreduce(input, output, count, type, OFFBEAT_SUM, world, &request) == OFFBEAT_OK, "begin");
      ((__typeof__(&offbeat_wait))function("offbeat_wait"))(&request);
    } else {
      CHECK(offbeat_allreduce(input, output, count, type, OFFBEAT_SUM, world) == OFFBEAT_OK, "run");
    }
    CHECK(get(output, count / 2 - 1) == (sum_of_ranks << 16 | sum_of_ranks), "type %d: %x", (int)type,
          (unsigned)get(output, count / 2 - 1));
  }
  drop(input);
  drop(output);
}

static void interface(void) {
  if (world_size == 3) {
    narrow(OFFBEAT_FLOAT16, 0x3c00, 0x4200);  /* 1 and 3 */
    narrow(OFFBEAT_BFLOAT16, 0x3f80, 0x4040);
  }
  offbeat_request *request = NULL;
  const int world = FORTRAN_HANDLE(MPI_COMM_WORLD);
  for (int count = 1; count < 200000; count *= 50) {
    int *const input = make((size_t)count, 10 * world_rank), *const output = make((size_t)count, -1);
    CHECK(offbeat_allreduce(input, output, (size_t)count, OFFBEAT_INT32, OFFBEAT_SUM, world) == OFFBEAT_OK, "run");
    CHECK(get(output, (size_t)count - 1) == sum(world_size, count - 1, 0), "sum of %d", count);
    set(output, 0, -1);
    CHECK(offbeat_iallreduce(input, output, (size_t)count, OFFBEAT_INT32, OFFBEAT_SUM, world, &request) == OFFBEAT_OK,
          "begin");
    ((__typeof__(&offbeat_wait))function("offbeat_wait"))(&request);
    CHECK(get(output, 0) == sum(world_size, 0, 0), "begun sum of %d", count);
    CHECK(offbeat_allreduce(NULL, input, (size_t)count, OFFBEAT_INT32, OFFBEAT_SUM, world) == OFFBEAT_OK, "in place");
    CHECK(get(input, (size_t)count - 1) == sum(world_size, count - 1, 0), "sum of %d in place", count);
    drop(input);
    drop(output);
  }
}
#endif

/* Rank 0's driver does not copy. Rank 0 gets an error; the others get the sum, or an error. */
static void failing(enum stub_call what, int count) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int *const input = make((size_t)count, 10 * world_rank), *const output = make((size_t)count, -1);
  MPI_Barrier(MPI_COMM_WORLD);
  if (has_gpu && world_rank == 0) gpu.fail(what, 719);
  const int code = allreduce(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (world_rank == 0) CHECK(code != MPI_SUCCESS, "no error");
  if (code == MPI_SUCCESS) CHECK(get(output, 0) == sum(world_size, 0, 0), "wrong sum");
  const int later = allreduce(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(later != MPI_SUCCESS, "no error later");
  printf("rank %d: %s\n", world_rank, code == MPI_SUCCESS ? "sum" : "error");
  fflush(stdout);
}

static void host_memory(void) {
  int value = world_rank, result = -1;
  for (int k = 0; k < 3; ++k) allreduce(&value, &result, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(result == world_size * (world_size - 1) / 2, "sum");
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  within(100, "%s", argv[2]);
  const char *const mode = argv[2];
  if (strcmp(mode, "level_zero") == 0) {
    if (world_rank == 0 && dlopen(argv[3], RTLD_NOW | RTLD_LOCAL) == NULL) return 2;
    host_memory();
    return check_finish();
  }
  if (world_rank % 2 == 0) {
    gpu = stub_load(argv[1]);
    has_gpu = 1;
  }
  if (strcmp(mode, "values") == 0) values();
#ifdef WITH_INTERFACE
  if (strcmp(mode, "interface") == 0) interface();
#endif
  if (strcmp(mode, "refused") == 0) {
    if (has_gpu) gpu.fail(STUB_REGISTER, 801);
    values();
    if (has_gpu) CHECK(gpu.calls(STUB_REGISTER) > 0 && gpu.calls(STUB_BLOCKING) > 0, "nothing was refused");
  }
  if (strcmp(mode, "failing_read") == 0) failing(STUB_READ, 4);
  if (strcmp(mode, "failing_write") == 0) failing(STUB_WRITE, 4);
  if (strcmp(mode, "failing_event") == 0) failing(STUB_EVENT, 1 << 20);
  if (strcmp(mode, "overlapping") == 0) overlapping();
  if (strcmp(mode, "registering") == 0) registering();
  if (strcmp(mode, "served") == 0) host_memory();
  if (strcmp(mode, "native") == 0) {
    host_memory();
    if (has_gpu) CHECK(gpu.calls(STUB_QUERY) == 0, "the driver was asked");
  }
  return check_finish();
}
