/* SPDX-License-Identifier: BSD-3-Clause
 *
 * own_types CASE: collectives with types that the program made.
 *
 *     layouts   types of many kinds, nested, with and without gaps, in and out of order; what arrives is compared
 *               with what MPI_Pack makes of them
 *     long      the same in long calls, which are packed bit by bit, and single elements that are as long
 *     alone     types with gaps on a communicator of one rank, in every form of a call
 *     threads   two threads with types that begin at MPI_BOTTOM
 *     memory    a long vector of a nested type without gaps must not be packed, nor all of one with gaps at once
 *     huge      one element of more than 2^31 bytes, with gaps
 */
#include <pthread.h>
#include <sys/resource.h>

#include "check.h"

/* -- layouts */

enum { ELEMENTS = 3 };

static unsigned char pattern(size_t i) { return (unsigned char)(i * 7 + i / 251 + 1); }

/* Sends elements of one type that arrive as bytes, and bytes that arrive as elements of that type. */
static void exchange(const char *name, MPI_Datatype type, int count) {
  int bytes, position = 0;
  MPI_Aint lower, extent;
  MPI_Type_commit(&type);
  MPI_Type_size(type, &bytes);
  MPI_Type_get_true_extent(type, &lower, &extent);
  const size_t element = (size_t)(labs(lower) + extent);
  MPI_Type_get_extent(type, &lower, &extent);
  const size_t begin = element + (size_t)labs(extent) * (size_t)count, room = 2 * begin;
  bytes *= count;
  unsigned char *sent = allocate(room), *received = allocate(room), *expected = allocate((size_t)bytes),
                *packed = allocate((size_t)bytes);
  for (size_t i = 0; i < room; ++i) sent[i] = pattern(i);
  MPI_Pack(sent + begin, count, type, expected, bytes, &position, MPI_COMM_SELF);
  for (int root = 0; root < world_size; ++root) {
    within(20, "%s of %d", name, count);
    memset(received, 0, room);
    if (world_rank == root) MPI_Bcast(sent + begin, count, type, root, MPI_COMM_WORLD);
    else MPI_Bcast(received, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    CHECK(world_rank == root || memcmp(received, expected, (size_t)bytes) == 0, "%s: sent wrong bytes", name);
    memset(received, 0xee, room);
    if (world_rank == root) MPI_Bcast(expected, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    else MPI_Bcast(received + begin, count, type, root, MPI_COMM_WORLD);
    if (world_rank == root) continue;
    position = 0;
    MPI_Pack(received + begin, count, type, packed, bytes, &position, MPI_COMM_SELF);
    CHECK(memcmp(packed, expected, (size_t)bytes) == 0, "%s: received wrong bytes", name);
    long written = 0;
    for (size_t i = 0; i < room; ++i) written += received[i] != 0xee && received[i] != sent[i];
    CHECK(written == 0, "%s: %ld bytes that are not of the type were written", name, written);
  }
  free(sent);
  free(received);
  free(expected);
  free(packed);
}

static MPI_Datatype contiguous(int count, MPI_Datatype of) {
  MPI_Datatype made;
  MPI_Type_contiguous(count, of, &made);
  return made;
}
static MPI_Datatype resized(MPI_Datatype of, MPI_Aint lower, MPI_Aint extent) {
  MPI_Datatype made;
  MPI_Type_create_resized(of, lower, extent, &made);
  return made;
}
static MPI_Datatype vector(int count, int length, int stride, MPI_Datatype of) {
  MPI_Datatype made;
  MPI_Type_vector(count, length, stride, of, &made);
  return made;
}
static MPI_Datatype blocks(int length, const int *places, MPI_Datatype of) {
  MPI_Datatype made;
  MPI_Type_create_indexed_block(3, length, places, of, &made);
  return made;
}
static MPI_Datatype structure(const MPI_Aint *places, const MPI_Datatype *types) {
  const int lengths[] = {2, 1, 3};
  MPI_Datatype made;
  MPI_Type_create_struct(3, lengths, places, types, &made);
  return made;
}
static MPI_Datatype subarray(int columns, int first) {
  const int sizes[] = {4, 6}, part[] = {4, columns}, begins[] = {0, first};
  MPI_Datatype made;
  MPI_Type_create_subarray(2, sizes, part, begins, MPI_ORDER_C, MPI_INT, &made);
  return made;
}
static MPI_Datatype box(const int *sizes, const int *part, const int *begins, int order, MPI_Datatype of) {
  MPI_Datatype made;
  MPI_Type_create_subarray(3, sizes, part, begins, order, of, &made);
  return made;
}

/* Counts around some lengths: from the first one on a vector is long, the second one is a window of the board. */
static void exchange_long(const char *name, MPI_Datatype type) {
  const int lengths[] = {256 << 10, 2048 << 10};
  int bytes;
  MPI_Type_size(type, &bytes);
  for (int k = 0; k < 2; ++k)
    for (int more = -1; more <= 1; ++more) exchange(name, type, lengths[k] / bytes + more);
}

static void layouts(int is_long) {
  const int in_order[] = {0, 2, 4}, reversed[] = {4, 2, 0}, apart[] = {0, 3, 6}, later[] = {2, 4, 6};
  const MPI_Datatype mixed[] = {MPI_DOUBLE, MPI_INT, MPI_FLOAT}, shorts[] = {MPI_INT, MPI_INT, MPI_SHORT_INT};
  const MPI_Aint packed[] = {0, 16, 20}, gapped[] = {0, 16, 24}, turned[] = {16, 12, 0};
  MPI_Datatype copy, real, integer, pair = contiguous(2, MPI_INT), gaps = vector(3, 1, 2, MPI_INT);
  MPI_Type_dup(pair, &copy);
  MPI_Type_create_f90_real(15, 307, &real);
  MPI_Type_create_f90_integer(9, &integer);
  const struct {
    const char *name;
    MPI_Datatype type;
  } types[] = {
      {"nested", contiguous(3, contiguous(4, pair))},
      {"dup of contiguous", copy},
      {"rows without gaps", vector(3, 4, 4, pair)},
      {"one row of a vector", vector(1, 4, 9, pair)},
      {"rows with gaps", gaps},
      {"nested rows with gaps", contiguous(2, gaps)},
      {"closed gaps", resized(gaps, 0, 12)},
      {"rows that overlap", resized(pair, 0, 4)},
      {"wide", resized(pair, 0, 24)},
      {"as wide as it is", resized(pair, 0, 8)},
      {"begins before", resized(pair, -4, 8)},
      {"backwards", resized(pair, 0, -8)},
      {"blocks in order", blocks(2, in_order, MPI_INT)},
      {"blocks reversed", blocks(2, reversed, MPI_INT)},
      {"blocks apart", blocks(2, apart, MPI_INT)},
      {"blocks later", blocks(2, later, MPI_INT)},
      {"blocks of nested", blocks(2, in_order, pair)},
      {"struct", structure(packed, mixed)},
      {"struct with gaps", structure(gapped, mixed)},
      {"struct turned round", structure(turned, (const MPI_Datatype[]){MPI_DOUBLE, MPI_INT, MPI_INT})},
      {"struct of pairs with gaps", structure((const MPI_Aint[]){0, 8, 12}, shorts)},
      {"struct of nested", structure((const MPI_Aint[]){0, 16, 24}, (const MPI_Datatype[]){pair, copy, pair})},
      {"all of an array", subarray(6, 0)},
      {"columns of an array", subarray(2, 1)},
      {"real", real},
      {"two reals", contiguous(2, real)},
      {"struct of Fortran's", structure((const MPI_Aint[]){0, 16, 20}, (const MPI_Datatype[]){real, integer, integer})},
      {"value and index", contiguous(2, MPI_DOUBLE_INT)},
  };
  for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
    if (is_long) exchange_long(types[k].name, types[k].type);
    else for (int count = 1; count <= ELEMENTS; ++count) exchange(types[k].name, types[k].type, count);
#if MPI_VERSION >= 4 && !defined(OPEN_MPI)
  MPI_Datatype large, rows, structured;
  const MPI_Count lengths[] = {1, 2}, places[] = {0, 8};
  const MPI_Datatype two[] = {pair, MPI_INT};
  MPI_Type_contiguous_c(4, pair, &large);
  MPI_Type_vector_c(3, 1, 2, large, &rows);
  MPI_Type_create_struct_c(2, lengths, places, two, &structured);
  exchange("large counts", large, 2);
  exchange("rows of large counts", rows, 2);
  exchange("nested large counts", contiguous(2, large), 2);
  exchange("struct of large counts", structured, 3);
#endif
}

static void short_ones(void) { layouts(0); }

static void long_ones(void) {
  const int sizes[] = {70, 80, 90}, part[] = {50, 60, 41}, begins[] = {7, 20, 30}, whole[] = {50, 80, 90};
  const int pieces[] = {0, 40000, 90000};
  MPI_Datatype pair = contiguous(2, MPI_INT), column = vector(100000, 1, 3, MPI_INT), spread;
  MPI_Type_create_hvector(500, 3, 1000, resized(pair, 0, 20), &spread);
  layouts(1);
  const struct {
    const char *name;
    MPI_Datatype type;
  } types[] = {
      {"column", column},
      {"column of pairs", vector(70000, 1, 2, pair)},
      {"columns beside each other", resized(column, 0, sizeof(int))},
      {"rows of threes", vector(40001, 3, 5, MPI_INT)},
      {"long rows", vector(3, 100001, 100003, MPI_INT)},
      {"vector of vectors", contiguous(100, vector(1000, 1, 2, vector(2, 1, 2, MPI_INT)))},
      {"rows backwards", vector(60000, 2, -3, MPI_INT)},
      {"spread", contiguous(30, spread)},
      {"box", box(sizes, part, begins, MPI_ORDER_C, MPI_INT)},
      {"box in Fortran's order", box(sizes, part, begins, MPI_ORDER_FORTRAN, MPI_DOUBLE)},
      {"box of pairs", box(sizes, whole, (const int[]){20, 0, 0}, MPI_ORDER_C, pair)},
      {"long pieces", blocks(39999, pieces, MPI_INT)},
  };
  for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
    for (int count = 1; count <= 2; ++count) exchange(types[k].name, types[k].type, count);
}

/* -- alone */

enum { STRIDE = 3, LENGTH = 8 };
static int alone_input[LENGTH], alone_output[LENGTH * STRIDE];

static void clear(void) {
  for (int i = 0; i < LENGTH * STRIDE; ++i) alone_output[i] = -9;
}
static void look(const char *form, const char *name) {
  int wrong = 0;
  for (int i = 0; i < LENGTH * STRIDE; ++i)
    wrong += alone_output[i] != (i % STRIDE == 0 ? alone_input[i / STRIDE] : -9);
  CHECK(wrong == 0, "%s %s: %d of %d wrong", form, name, wrong, LENGTH * STRIDE);
}
#define NONBLOCKING(name, ...)           \
  do {                                   \
    MPI_Request request;                 \
    clear();                             \
    MPI_I##name(__VA_ARGS__, &request);  \
    MPI_Wait(&request, MPI_STATUS_IGNORE); \
    look("non-blocking", #name);         \
  } while (0)
#define PERSISTENT(Name, ...)                           \
  do {                                                  \
    MPI_Request request;                                \
    MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request); \
    for (int start = 0; start < 2; ++start) {           \
      clear();                                          \
      MPI_Start(&request);                              \
      MPI_Wait(&request, MPI_STATUS_IGNORE);            \
      look("persistent", #Name);                        \
    }                                                   \
    MPI_Request_free(&request);                         \
  } while (0)

static void alone(void) {
  int counts[] = {LENGTH}, zeros[] = {0};
  int *in = alone_input, *out = alone_output;
  MPI_Comm self = MPI_COMM_SELF;
  MPI_Datatype wide = resized(MPI_INT, 0, STRIDE * (MPI_Aint)sizeof(int));
  MPI_Type_commit(&wide);
  for (int i = 0; i < LENGTH; ++i) in[i] = 100 + i;
  NONBLOCKING(allgather, in, LENGTH, MPI_INT, out, LENGTH, wide, self);
  NONBLOCKING(allgatherv, in, LENGTH, MPI_INT, out, counts, zeros, wide, self);
  NONBLOCKING(alltoall, in, LENGTH, MPI_INT, out, LENGTH, wide, self);
  NONBLOCKING(alltoallv, in, counts, zeros, MPI_INT, out, counts, zeros, wide, self);
  NONBLOCKING(gather, in, LENGTH, MPI_INT, out, LENGTH, wide, 0, self);
  NONBLOCKING(scatter, in, LENGTH, MPI_INT, out, LENGTH, wide, 0, self);
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
  PERSISTENT(Allgather, in, LENGTH, MPI_INT, out, LENGTH, wide, self);
  PERSISTENT(Allgatherv, in, LENGTH, MPI_INT, out, counts, zeros, wide, self);
  PERSISTENT(Alltoall, in, LENGTH, MPI_INT, out, LENGTH, wide, self);
  PERSISTENT(Alltoallv, in, counts, zeros, MPI_INT, out, counts, zeros, wide, self);
  PERSISTENT(Gather, in, LENGTH, MPI_INT, out, LENGTH, wide, 0, self);
  PERSISTENT(Scatter, in, LENGTH, MPI_INT, out, LENGTH, wide, 0, self);
#endif
  clear();
  MPI_Allgather(in, LENGTH, MPI_INT, out, LENGTH, wide, self);
  look("blocking", "allgather");
  NONBLOCKING(gather, in, LENGTH, MPI_INT, out, LENGTH, wide, 0, self);
  MPI_Type_free(&wide);
}

/* -- threads */

enum { ROUNDS = 1500, PART = 128 };
static MPI_Comm of_thread[2];
static long wrong_in_thread[2];

static void *broadcast_from_bottom(void *number) {
  const int me = *(const int *)number;
  static int data[2][2 * PART + 2];
  int *mine = data[me];
  MPI_Aint places[2];
  const int lengths[] = {PART, PART};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  MPI_Datatype type;
  MPI_Get_address(mine, &places[0]);
  MPI_Get_address(mine + PART + 2, &places[1]);
  MPI_Type_create_struct(2, lengths, places, types, &type);
  MPI_Type_commit(&type);
  for (int k = 0; k < ROUNDS; ++k) {
    const int value = 10000 * (me + 1) + k;
    for (int i = 0; i < 2 * PART + 2; ++i) mine[i] = world_rank == 0 ? value : -1;
    MPI_Bcast(MPI_BOTTOM, 1, type, 0, of_thread[me]);
    wrong_in_thread[me] += mine[0] != value || mine[2 * PART + 1] != value;
    wrong_in_thread[me] += mine[PART] != (world_rank == 0 ? value : -1);
  }
  MPI_Type_free(&type);
  return NULL;
}

static void threads(void) {
  pthread_t thread[2];
  const int numbers[] = {0, 1};
  for (int k = 0; k < 2; ++k) {
    MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[k]);
    MPI_Barrier(of_thread[k]);
  }
  for (int k = 0; k < 2; ++k) pthread_create(&thread[k], NULL, broadcast_from_bottom, (void *)&numbers[k]);
  for (int k = 0; k < 2; ++k) {
    pthread_join(thread[k], NULL);
    CHECK(wrong_in_thread[k] == 0, "thread %d: %ld of %d wrong", k, wrong_in_thread[k], ROUNDS);
  }
}

/* -- memory, huge */

static long peak_mib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

static void memory(void) {
  enum { MIB = 96 };
  MPI_Datatype mib = contiguous(1024, contiguous(128, MPI_DOUBLE));
  MPI_Type_commit(&mib);
  const size_t bytes = (size_t)MIB << 20;
  unsigned char *data = allocate(bytes);
  memset(data, world_rank + 1, bytes);
  MPI_Bcast(data, 4, mib, 0, MPI_COMM_WORLD); /* the board is there */
  const long before = peak_mib();
  MPI_Bcast(data, MIB, mib, 0, MPI_COMM_WORLD);
  const long more = peak_mib() - before;
  CHECK(data[bytes - 1] == 1, "the last byte is %d", data[bytes - 1]);
  CHECK(more < MIB / 2, "a broadcast of %d MiB took %ld MiB of memory", MIB, more);

  /* Half of the memory is gaps. */
  const int halves[] = {1, 1};
  const MPI_Aint places[] = {0, 8};
  const MPI_Datatype two[] = {MPI_INT, MPI_INT};
  MPI_Datatype odd;
  MPI_Type_create_struct(2, halves, places, two, &odd);
  const struct {
    const char *name;
    MPI_Datatype type;
    int count;
  } gapped[] = {{"elements with gaps", resized(MPI_INT, 0, 8), MIB << 17},
                {"one column", vector(MIB << 17, 1, 2, MPI_INT), 1},
                {"a struct with gaps", resized(odd, 0, 16), MIB << 16}};
  for (size_t k = 0; k < sizeof gapped / sizeof *gapped; ++k) {
    MPI_Datatype type = gapped[k].type;
    MPI_Type_commit(&type);
    for (int form = 0; form < 2; ++form) {
      /* A struct is packed by the host, which nobody may call while the program computes. */
      if (form == 1 && k == 2) continue;
      memset(data, world_rank + 1, bytes);
      const long at_first = peak_mib();
      if (form == 0) {
        MPI_Bcast(data, gapped[k].count, type, 0, MPI_COMM_WORLD);
      } else {
        MPI_Request request;
        MPI_Ibcast(data, gapped[k].count, type, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      const long grown = peak_mib() - at_first;
      CHECK(data[bytes - 8] == 1 && data[bytes - 1] == world_rank + 1, "%s: %d, %d in the end", gapped[k].name,
            data[bytes - 8], data[bytes - 1]);
      CHECK(grown < 8, "%s: a broadcast of %d MiB took %ld MiB of memory", gapped[k].name, MIB / 2, grown);
    }
    MPI_Type_free(&type);
  }
  free(data);
}

static void huge(void) {
  enum { ROWS = 2100, ROW = 1 << 20, GAP = 16 };
  MPI_Datatype row = contiguous(ROW - GAP, MPI_CHAR), rows, type;
  MPI_Type_create_hvector(ROWS, 1, ROW, row, &rows);
  type = resized(rows, 0, (MPI_Aint)ROWS * ROW);
  MPI_Type_commit(&type);
  const size_t bytes = (size_t)ROWS * ROW;
  unsigned char *data = allocate(bytes);
  memset(data, world_rank == 0 ? 7 : 1, bytes);
  MPI_Bcast(data, 1, type, 0, MPI_COMM_WORLD);
  long wrong = 0;
  for (size_t i = 0; i < bytes; i += 4093)
    wrong += data[i] != (world_rank == 0 || i % ROW < ROW - GAP ? 7 : 1);
  CHECK(wrong == 0, "%ld bytes wrong", wrong);
  free(data);
}

int main(int argc, char **argv) {
  int provided;
  const char *name = argc > 1 ? argv[1] : "";
  const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"layouts", short_ones}, {"long", long_ones}, {"alone", alone}, {"threads", threads}, {"memory", memory}, {"huge", huge}};
  MPI_Init_thread(&argc, &argv, strcmp(name, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k)
    if (strcmp(name, cases[k].name) == 0) cases[k].run();
  return check_finish();
}
