/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wrong_calls CASE:all|one...: a wrong call, on all ranks or on one, as the first on a communicator or later, with
 * errors returned or given to a handler. Rank 0 prints for each what the ranks got, "-" for one that did not call:
 *
 *     null_operation, one, first, handled: class 10 -, handled here 1 0, elsewhere 0 0
 *
 * What is right differs between MPIs: the lines are to be compared with those of a run without offbeat. After each
 * wrong call good ones must give the right sums; the line "good: N" says how many calls these were.
 */
#include "check.h"

enum { ELEMENTS = 4, MANY = 5000, NO_CALL = -1 };

static int input[2 * ELEMENTS], output[2 * ELEMENTS];
static MPI_Datatype uncommitted;
static MPI_Op user_sum;
static MPI_Comm communicator;
static long good;

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
  int bytes;
  MPI_Type_size(*type, &bytes);
  for (int k = 0; k < *count * bytes / (int)sizeof(int); ++k) ((int *)inout)[k] += ((int *)in)[k];
}

/* -- the wrong calls */

static int sum(const void *from, void *to, int count) {
  return MPI_Allreduce(from, to, count, MPI_INT, MPI_SUM, communicator);
}

static int negative_count(void) { return sum(input, output, -1); }
static int null_input(void) { return sum(NULL, output, ELEMENTS); }
static int null_output(void) { return sum(input, NULL, ELEMENTS); }
static int same_buffer(void) { return sum(input, input, ELEMENTS); }
static int in_place_output(void) { return sum(input, MPI_IN_PLACE, ELEMENTS); }
static int in_place_both(void) { return sum(MPI_IN_PLACE, MPI_IN_PLACE, ELEMENTS); }
static int null_type(void) {
  return MPI_Allreduce(input, output, ELEMENTS, MPI_DATATYPE_NULL, MPI_SUM, communicator);
}
static int null_operation(void) {
  return MPI_Allreduce(input, output, ELEMENTS, MPI_INT, MPI_OP_NULL, communicator);
}
static int bits_of_floats(void) {
  return MPI_Allreduce(input, output, ELEMENTS, MPI_FLOAT, MPI_BAND, communicator);
}
static int uncommitted_type(void) {
  return MPI_Allreduce(input, output, ELEMENTS, uncommitted, user_sum, communicator);
}
static int free_world(void) {
  MPI_Comm world = MPI_COMM_WORLD;
  return MPI_Comm_free(&world);
}

static const struct wrong_call {
  const char *name;
  int (*make)(void);
} wrong_calls[] = {
    {"negative_count", negative_count},   {"null_input", null_input},
    {"null_output", null_output},         {"same_buffer", same_buffer},
    {"in_place_output", in_place_output}, {"in_place_both", in_place_both},
    {"null_type", null_type},             {"null_operation", null_operation},
    {"bits_of_floats", bits_of_floats},   {"uncommitted_type", uncommitted_type},
    {"free_world", free_world},
};

/* -- who is told */

enum outcome { CLASS, HERE, ELSEWHERE, OUTCOMES };
static int mine[OUTCOMES];

static void handler(MPI_Comm *raised_on, int *code, ...) {
  int class;
  MPI_Error_class(*code, &class);
  ++mine[*raised_on == communicator ? HERE : ELSEWHERE];
}

static void good_call(MPI_Comm on, const char *after) {
  const int own = world_rank + 1;
  int total = 0;
  const int code = allreduce(&own, &total, 1, MPI_INT, MPI_SUM, on);
  const int expected = world_size * (world_size + 1) / 2;
  CHECK(code == MPI_SUCCESS && total == expected, "after %s: code %d, sum %d", after, code, total);
  ++good;
}

static void good_long_call(MPI_Comm on, const char *after) {
  static double ones[MANY], total[MANY];
  for (int k = 0; k < MANY; ++k) ones[k] = k + 1;
  const int code = allreduce(ones, total, MANY, MPI_DOUBLE, MPI_SUM, on);
  int wrong = code != MPI_SUCCESS;
  for (int k = 0; k < MANY; ++k) wrong += total[k] != (double)world_size * (k + 1);
  CHECK(wrong == 0, "after %s: code %d, %d of %d wrong", after, code, wrong, MANY);
  ++good;
}

static void print(const char *text) {
  int *all = allocate(sizeof mine * (size_t)world_size);
  MPI_Gather(mine, OUTCOMES, MPI_INT, all, OUTCOMES, MPI_INT, 0, MPI_COMM_WORLD);
  if (world_rank == 0) {
    const char *words[] = {"class", ", handled here", ", elsewhere"};
    printf("%s: ", text);
    for (int k = 0; k < OUTCOMES; ++k) {
      printf("%s", words[k]);
      for (int rank = 0; rank < world_size; ++rank) {
        const int value = all[rank * OUTCOMES + k];
        if (value == NO_CALL) printf(" -");
        else printf(" %d", value);
      }
    }
    printf("\n");
    fflush(stdout);
  }
  free(all);
}

static void try_call(const struct wrong_call *wrong, const char *who, int later, MPI_Errhandler told,
                     const char *how) {
  const int by_all = strcmp(who, "all") == 0;
  char text[150];
  snprintf(text, sizeof text, "%s, %s, %s, %s", wrong->name, who, later ? "later" : "first", how);
  within(20, "%s", text);
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  MPI_Comm_set_errhandler(communicator, told);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, told);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, told);
  if (later) good_call(communicator, "nothing");
  mine[CLASS] = NO_CALL;
  mine[HERE] = mine[ELSEWHERE] = 0;
  if (by_all || world_rank == (later ? world_size - 1 : 0)) {
    const int code = wrong->make();
    MPI_Error_class(code, &mine[CLASS]);
  }
  MPI_Barrier(communicator); /* would meet whatever a wrong call has done with the host before it failed */
  for (int k = 0; k < 3; ++k) good_call(communicator, text);
  good_long_call(communicator, text);
  good_call(MPI_COMM_WORLD, text);
  print(text);
  MPI_Comm_free(&communicator);
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  MPI_Errhandler own;
  MPI_Comm_create_errhandler(handler, &own);
  MPI_Type_contiguous(2, MPI_INT, &uncommitted);
  MPI_Op_create(add, 1, &user_sum);
  for (int k = 1; k < argc; ++k) {
    const char *name = strtok(argv[k], ":"), *who = strtok(NULL, ":");
    const struct wrong_call *wrong = NULL;
    for (size_t n = 0; n < sizeof wrong_calls / sizeof *wrong_calls; ++n)
      if (strcmp(wrong_calls[n].name, name) == 0) wrong = &wrong_calls[n];
    CHECK(wrong != NULL && who != NULL, "%s: no such case", name);
    for (int later = 0; wrong && who && later < 2; ++later) {
      try_call(wrong, who, later, MPI_ERRORS_RETURN, "returned");
      try_call(wrong, who, later, own, "handled");
    }
  }
  alarm(0);
  MPI_Op_free(&user_sum);
  MPI_Type_free(&uncommitted);
  MPI_Errhandler_free(&own);
  if (world_rank == 0) printf("good: %ld\n", good);
  return check_finish();
}
