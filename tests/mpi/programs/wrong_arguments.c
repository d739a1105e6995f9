/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wrong_arguments FORM first|later FROM [WITHOUT...]: each collective with each wrong argument on one rank, which calls
 * again, correctly, if it gets an error. FORM is blocking, nonblocking or persistent. The call is the first on its
 * communicator, or a later one. Rank 0 prints what each rank got:
 *
 *     17: gather same_buffer, rank 0 wrong: class 12 0
 *
 * What is right differs between MPIs: the lines are to be compared with those of a run without offbeat. After each wrong
 * call good ones must give the right results. In some cases the other ranks do not call before the wrong rank has got its
 * error. The cases before number FROM are left out, and those in WITHOUT, such as gather:null_input or same_buffer.
 */
#include "check.h"
#include "persistent.h"

enum { ELEMENTS = 3, RANKS = 8 };
enum form { BLOCKING, NONBLOCKING, PERSISTENT };
enum has {
  INPUT = 1,        /* an input and an output */
  OUTPUT_TYPE = 2,  /* the output has a count and a type of its own */
  INPUT_LISTS = 4,  /* blocks of the input have counts and displacements */
  OUTPUT_LISTS = 8, /* likewise */
  COUNTS = 16,      /* blocks of the output have counts */
  OPERATION = 32,
  ROOT = 64,
  ELEMENTS_ONLY = 128 /* the input has one count */
};

struct call {
  void *in, *out;
  int n, m, root;
  const int *counts, *places, *out_counts, *out_places;
  MPI_Datatype type, out_type;
  MPI_Op op;
  MPI_Comm on;
};

/* -- the collectives */

enum { COMBINES = INPUT | OPERATION | ELEMENTS_ONLY, COPIES = INPUT | OUTPUT_TYPE };
static const struct {
  const char *name;
  int has;
} collectives[] = {
    {"allreduce", COMBINES},
    {"barrier", 0},
    {"bcast", ROOT | ELEMENTS_ONLY},
    {"reduce", COMBINES | ROOT},
    {"allgather", COPIES | ELEMENTS_ONLY},
    {"allgatherv", COPIES | ELEMENTS_ONLY | OUTPUT_LISTS},
    {"alltoall", COPIES | ELEMENTS_ONLY},
    {"alltoallv", COPIES | INPUT_LISTS | OUTPUT_LISTS},
    {"gather", COPIES | ELEMENTS_ONLY | ROOT},
    {"scatter", COPIES | ELEMENTS_ONLY | ROOT},
    {"reduce_scatter", INPUT | OPERATION | COUNTS},
    {"reduce_scatter_block", COMBINES},
    {"scan", COMBINES},
    {"exscan", COMBINES},
    {"gatherv", COPIES | ELEMENTS_ONLY | OUTPUT_LISTS | ROOT},
    {"scatterv", COPIES | INPUT_LISTS | ROOT},
};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

#define BEGIN(Name, name, ...)                                         \
  return form == BLOCKING      ? MPI_##Name(__VA_ARGS__)               \
         : form == NONBLOCKING ? MPI_I##name(__VA_ARGS__, request)     \
                               : INIT(Name, __VA_ARGS__)
#if HAS_PERSISTENT
#define INIT(Name, ...) MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request)
#else
#define INIT(Name, ...) MPI_SUCCESS
#endif

static int begin(int collective, enum form form, const struct call *c, MPI_Request *request) {
  switch (collective) {
    case 0: BEGIN(Allreduce, allreduce, c->in, c->out, c->n, c->type, c->op, c->on);
    case 1: BEGIN(Barrier, barrier, c->on);
    case 2: BEGIN(Bcast, bcast, c->out, c->n, c->type, c->root, c->on);
    case 3: BEGIN(Reduce, reduce, c->in, c->out, c->n, c->type, c->op, c->root, c->on);
    case 4: BEGIN(Allgather, allgather, c->in, c->n, c->type, c->out, c->m, c->out_type, c->on);
    case 5:
      BEGIN(Allgatherv, allgatherv, c->in, c->n, c->type, c->out, c->out_counts, c->out_places, c->out_type, c->on);
    case 6: BEGIN(Alltoall, alltoall, c->in, c->n, c->type, c->out, c->m, c->out_type, c->on);
    case 7:
      BEGIN(Alltoallv, alltoallv, c->in, c->counts, c->places, c->type, c->out, c->out_counts, c->out_places,
            c->out_type, c->on);
    case 8: BEGIN(Gather, gather, c->in, c->n, c->type, c->out, c->m, c->out_type, c->root, c->on);
    case 9: BEGIN(Scatter, scatter, c->in, c->n, c->type, c->out, c->m, c->out_type, c->root, c->on);
    case 10: BEGIN(Reduce_scatter, reduce_scatter, c->in, c->out, c->out_counts, c->type, c->op, c->on);
    case 11: BEGIN(Reduce_scatter_block, reduce_scatter_block, c->in, c->out, c->n, c->type, c->op, c->on);
    case 12: BEGIN(Scan, scan, c->in, c->out, c->n, c->type, c->op, c->on);
    case 13: BEGIN(Exscan, exscan, c->in, c->out, c->n, c->type, c->op, c->on);
    case 14:
      BEGIN(Gatherv, gatherv, c->in, c->n, c->type, c->out, c->out_counts, c->out_places, c->out_type, c->root, c->on);
    default:
      BEGIN(Scatterv, scatterv, c->in, c->counts, c->places, c->type, c->out, c->m, c->out_type, c->root, c->on);
  }
}

static void end(enum form form, MPI_Request *request) {
  if (form == BLOCKING) return;
  if (form == PERSISTENT) MPI_Start(request);
  MPI_Wait(request, MPI_STATUS_IGNORE);
  if (form == PERSISTENT) MPI_Request_free(request);
}

/* -- the wrong arguments */

static MPI_Datatype uncommitted;
static int counts_with_one_below_0[RANKS];

static void negative_count(struct call *c) { c->n = -1; }
static void negative_output_count(struct call *c) { c->m = -1; }
static void negative_entry(struct call *c) { c->counts = counts_with_one_below_0; }
static void negative_output_entry(struct call *c) { c->out_counts = counts_with_one_below_0; }
static void no_counts(struct call *c) { c->counts = NULL; }
static void no_places(struct call *c) { c->places = NULL; }
static void no_output_counts(struct call *c) { c->out_counts = NULL; }
static void no_output_places(struct call *c) { c->out_places = NULL; }
static void null_input(struct call *c) { c->in = NULL; }
static void null_output(struct call *c) { c->out = NULL; }
static void in_place_input(struct call *c) { c->in = MPI_IN_PLACE; }
static void in_place_output(struct call *c) { c->out = MPI_IN_PLACE; }
static void same_buffer(struct call *c) { c->in = c->out; }
static void own_block(struct call *c) { c->in = (int *)c->out + ELEMENTS * world_rank; }
static void negative_root(struct call *c) { c->root = -77; }
static void high_root(struct call *c) { c->root = world_size; }
static void null_type(struct call *c) { c->type = MPI_DATATYPE_NULL; }
static void null_output_type(struct call *c) { c->out_type = MPI_DATATYPE_NULL; }
static void uncommitted_type(struct call *c) { c->type = uncommitted; }
static void uncommitted_output_type(struct call *c) { c->out_type = uncommitted; }
static void null_operation(struct call *c) { c->op = MPI_OP_NULL; }
static void bits_of_floats(struct call *c) {
  c->type = MPI_FLOAT;
  c->op = MPI_BAND;
}
static void null_communicator(struct call *c) { c->on = MPI_COMM_NULL; }

static const struct {
  const char *name;
  void (*make)(struct call *);
  int needs;
} faults[] = {
    {"negative_count", negative_count, ELEMENTS_ONLY},
    {"negative_output_count", negative_output_count, OUTPUT_TYPE},
    {"negative_entry", negative_entry, INPUT_LISTS},
    {"negative_output_entry", negative_output_entry, OUTPUT_LISTS | COUNTS},
    {"no_counts", no_counts, INPUT_LISTS},
    {"no_places", no_places, INPUT_LISTS},
    {"no_output_counts", no_output_counts, OUTPUT_LISTS | COUNTS},
    {"no_output_places", no_output_places, OUTPUT_LISTS},
    {"null_input", null_input, INPUT},
    {"null_output", null_output, INPUT | ROOT},
    {"in_place_input", in_place_input, INPUT},
    {"in_place_output", in_place_output, INPUT | ROOT},
    {"same_buffer", same_buffer, INPUT},
    {"own_block", own_block, OUTPUT_TYPE},
    {"negative_root", negative_root, ROOT},
    {"high_root", high_root, ROOT},
    {"null_type", null_type, INPUT | ROOT},
    {"null_output_type", null_output_type, OUTPUT_TYPE},
    {"uncommitted_type", uncommitted_type, INPUT | ROOT},
    {"uncommitted_output_type", uncommitted_output_type, OUTPUT_TYPE},
    {"null_operation", null_operation, OPERATION},
    {"bits_of_floats", bits_of_floats, OPERATION},
    {"null_communicator", null_communicator, 0},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static int applies(int fault, int collective) {
  const int has = collectives[collective].has, needs = faults[fault].needs;
  if (needs == OUTPUT_TYPE && faults[fault].make == negative_output_count && (has & OUTPUT_LISTS)) return 0;
  return needs == 0 || (has & needs) != 0;
}

/* -- right calls */

static int in[ELEMENTS * RANKS], out[ELEMENTS * RANKS];
static int counts[RANKS], places[RANKS];

static struct call right_call(MPI_Comm on) {
  for (int i = 0; i < ELEMENTS * RANKS; ++i) in[i] = out[i] = world_rank + 1;
  return (struct call){.in = in, .out = out, .n = ELEMENTS, .m = ELEMENTS, .root = 0, .counts = counts,
                       .places = places, .out_counts = counts, .out_places = places, .type = MPI_INT,
                       .out_type = MPI_INT, .op = MPI_SUM, .on = on};
}

static int sum_to(int rank) { return rank * (rank + 1) / 2; }

static void check_result(int collective, const char *after) {
  const int is_root = world_rank == 0;
  const char *name = collectives[collective].name;
  const int has_blocks = strstr(name, "gather") != NULL || strstr(name, "alltoall") != NULL;
  int expected = sum_to(world_size); /* allreduce, reduce, reduce_scatter */
  if (strcmp(name, "barrier") == 0 || (strcmp(name, "exscan") == 0 && is_root)) return;
  if ((strcmp(name, "reduce") == 0 || strncmp(name, "gather", 6) == 0) && !is_root) return;
  if (strcmp(name, "bcast") == 0 || strncmp(name, "scatter", 7) == 0) expected = 1;
  if (strcmp(name, "scan") == 0) expected = sum_to(world_rank + 1);
  if (strcmp(name, "exscan") == 0) expected = sum_to(world_rank);
  for (int block = 0; block < (has_blocks ? world_size : 1); ++block)
    for (int i = 0; i < ELEMENTS; ++i) {
      const int found = out[block * ELEMENTS + i], wanted = has_blocks ? block + 1 : expected;
      CHECK(found == wanted, "%s: %s: element %d of block %d is %d, not %d", after, name, i, block, found, wanted);
    }
}

static void good_call(int collective, enum form form, MPI_Comm on, const char *after) {
  MPI_Request request = MPI_REQUEST_NULL;
  const struct call call = right_call(on);
  const int code = begin(collective, form, &call, &request);
  CHECK(code == MPI_SUCCESS, "%s: %s: code %d", after, collectives[collective].name, code);
  end(form, &request);
  check_result(collective, after);
}

/* -- cases */

/* A call that the host rejects must wait for nobody, and leave nothing behind that does. */
static void hear_from(int speaker, MPI_Comm on) {
  MPI_Comm copy;
  char nothing = 0;
  MPI_Comm_dup(on, &copy);
  for (int rank = 0; rank < world_size; ++rank) {
    if (rank == speaker) continue;
    if (world_rank == speaker) MPI_Send(&nothing, 1, MPI_CHAR, rank, 0, copy);
    if (world_rank == rank) MPI_Recv(&nothing, 1, MPI_CHAR, speaker, 0, copy, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&copy);
}

static void try_case(int collective, int fault, enum form form, int is_first, int wrong_rank, const char *text) {
  int class = MPI_SUCCESS, classes[RANKS];
  MPI_Comm on;
  MPI_Request request = MPI_REQUEST_NULL;
  within(20, "%s", text);
  MPI_Type_contiguous(1, MPI_INT, &uncommitted);
  MPI_Comm_dup(MPI_COMM_WORLD, &on);
  MPI_Comm_set_errhandler(on, MPI_ERRORS_RETURN);
  if (!is_first) good_call(collective, BLOCKING, on, text);
  struct call call = right_call(on);
  int is_repeated = 0;
  if (world_rank == wrong_rank) {
    struct call wrong = call;
    faults[fault].make(&wrong);
    MPI_Error_class(begin(collective, form, &wrong, &request), &class);
    is_repeated = class != MPI_SUCCESS;
  }
  if (faults[fault].make == null_operation || faults[fault].make == high_root) hear_from(wrong_rank, on);
  if (world_rank != wrong_rank || is_repeated) {
    if (is_repeated) request = MPI_REQUEST_NULL;
    const int code = begin(collective, form, &call, &request);
    CHECK(code == MPI_SUCCESS, "%s: the right call has code %d", text, code);
  }
  end(form, &request);
  MPI_Bcast(&is_repeated, 1, MPI_INT, wrong_rank, MPI_COMM_WORLD);
  const int is_only_uncommitted = strstr(faults[fault].name, "uncommitted") != NULL;
  if (is_repeated || is_only_uncommitted) check_result(collective, text);
  good_call(0, BLOCKING, on, text);
  good_call(0, NONBLOCKING, on, text);
  good_call(collective, form, on, text);
  good_call(2, BLOCKING, on, text);
  MPI_Gather(&class, 1, MPI_INT, classes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Comm_free(&on);
  MPI_Type_free(&uncommitted);
  if (world_rank != 0) return;
  printf("%s: class", text);
  for (int rank = 0; rank < world_size; ++rank) printf(" %d", classes[rank]);
  printf("\n");
  fflush(stdout);
}

static int is_left_out(int collective, int fault, int argc, char **argv) {
  char name[100];
  snprintf(name, sizeof name, "%s:%s", collectives[collective].name, faults[fault].name);
  for (int k = 4; k < argc; ++k)
    if (strcmp(argv[k], name) == 0 || strcmp(argv[k], faults[fault].name) == 0) return 1;
  return 0;
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const enum form form = strcmp(argv[1], "blocking") == 0      ? BLOCKING
                         : strcmp(argv[1], "nonblocking") == 0 ? NONBLOCKING
                                                               : PERSISTENT;
  const int is_first = strcmp(argv[2], "first") == 0, from = atoi(argv[3]);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int i = 0; i < RANKS; ++i) {
    counts[i] = counts_with_one_below_0[i] = ELEMENTS;
    places[i] = ELEMENTS * i;
  }
  counts_with_one_below_0[world_size - 1] = -1;
  for (int number = 0; number < COLLECTIVES * FAULTS * 2; ++number) {
    const int collective = number / (FAULTS * 2), fault = number / 2 % FAULTS;
    const int wrong_rank = number % 2 * (world_size - 1);
    if (number < from || !applies(fault, collective) || is_left_out(collective, fault, argc, argv)) continue;
    char text[150];
    snprintf(text, sizeof text, "%d: %s %s, rank %d wrong", number, collectives[collective].name, faults[fault].name,
             wrong_rank);
    try_case(collective, fault, form, is_first, wrong_rank, text);
  }
  alarm(0);
  return check_finish();
}
