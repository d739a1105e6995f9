// SPDX-License-Identifier: BSD-3-Clause
// Runs the host's own algorithms by name, native(NAME), and prints for each whether its results were right
// and a signature of what it did. Two algorithms that differ have different signatures in nearly all cases:
//
//   with an operation   the bits of a sum of doubles that depend on the order of the additions
//   without             which parts of the result a rank has, and whether it has returned, while one rank is
//                       late; each rank is late once. LATE_MS 0: nothing, and all signatures are equal
//
//     host_algorithms LATE_MS COLLECTIVE NAME [COLLECTIVE NAME ...]
//
// A collective that begins with i is a non-blocking one. NAME - lets the host choose. =NAME chooses nothing,
// because OFFBEAT_<COLLECTIVE> has chosen NAME for the whole run. Rank 0 prints a line
// `COLLECTIVE NAME: ran ALGORITHM, right|WRONG, signature HEX` for each.
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { most_ranks = 16, longest = 1 << 15 };

static int rank, size;
static int (*select_algorithm)(const char*, const char*, char*, size_t);
static const char* (*last_algorithm)(void);

static uint64_t hash(uint64_t h, const void* data, size_t bytes) {
  const unsigned char* at = data;
  for (size_t i = 0; i < bytes; ++i) h = (h ^ at[i]) * 1099511628211ull;
  return h;
}

// No collective of the MPI, because these are under test.
static void meet(void) {
  if (rank == 0) {
    for (int r = 1; r < size; ++r) MPI_Recv(NULL, 0, MPI_INT, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int r = 1; r < size; ++r) MPI_Send(NULL, 0, MPI_INT, r, 2, MPI_COMM_WORLD);
  } else {
    MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static uint64_t from_all(uint64_t mine) {
  if (rank != 0) {
    MPI_Send(&mine, 1, MPI_UINT64_T, 0, 3, MPI_COMM_WORLD);
    return 0;
  }
  uint64_t all = hash(14695981039346656037ull, &mine, sizeof mine);
  for (int r = 1; r < size; ++r) {
    MPI_Recv(&mine, 1, MPI_UINT64_T, r, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    all = hash(all, &mine, sizeof mine);
  }
  return all;
}

// The arguments of one call: `count` elements in each block.
static void *input, *output;
static int counts[most_ranks], begins[most_ranks];
static int is_in_place;  // an allreduce finds its input in `output`

#define CALL(Name, iname, ...)                             \
  if (strcmp(collective, #iname) == 0) {                   \
    if (is_nonblocking) {                                  \
      MPI_Request request;                                 \
      MPI_I##iname(__VA_ARGS__, MPI_COMM_WORLD, &request); \
      ran = last_algorithm();                              \
      MPI_Wait(&request, MPI_STATUS_IGNORE);               \
    } else {                                               \
      MPI_##Name(__VA_ARGS__, MPI_COMM_WORLD);             \
      ran = last_algorithm();                              \
    }                                                      \
    return ran;                                            \
  }

static const char* call(const char* collective, int count, MPI_Datatype type, int root) {
  const int is_nonblocking = collective[0] == 'i';
  if (is_nonblocking) ++collective;
  const char* ran = NULL;
  for (int r = 0; r < size; ++r) {
    counts[r] = count;
    begins[r] = r * count;
  }
  CALL(Allreduce, allreduce, is_in_place ? MPI_IN_PLACE : input, output, count, type, MPI_SUM)
  CALL(Reduce, reduce, input, output, count, type, MPI_SUM, root)
  CALL(Scan, scan, input, output, count, type, MPI_SUM)
  CALL(Exscan, exscan, input, output, count, type, MPI_SUM)
  CALL(Reduce_scatter, reduce_scatter, input, output, counts, type, MPI_SUM)
  CALL(Reduce_scatter_block, reduce_scatter_block, input, output, count, type, MPI_SUM)
  CALL(Bcast, bcast, output, count, type, root)
  CALL(Allgather, allgather, input, count, type, output, count, type)
  CALL(Allgatherv, allgatherv, input, count, type, output, counts, begins, type)
  CALL(Alltoall, alltoall, input, count, type, output, count, type)
  CALL(Alltoallv, alltoallv, input, counts, begins, type, output, counts, begins, type)
  CALL(Gather, gather, input, count, type, output, count, type, root)
  CALL(Scatter, scatter, input, count, type, output, count, type, root)
  if (strcmp(collective, "barrier") == 0) {
    MPI_Request request;
    if (is_nonblocking)
      MPI_Ibarrier(MPI_COMM_WORLD, &request);
    else
      MPI_Barrier(MPI_COMM_WORLD);
    ran = last_algorithm();
    if (is_nonblocking) MPI_Wait(&request, MPI_STATUS_IGNORE);
    return ran;
  }
  fprintf(stderr, "unknown collective %s\n", collective);
  MPI_Abort(MPI_COMM_WORLD, 2);
  return NULL;
}

static int combines(const char* collective) {
  return strstr(collective, "reduce") != NULL || strstr(collective, "scan") != NULL;
}
static int is(const char* collective, const char* name) {
  return strcmp(collective + (collective[0] == 'i'), name) == 0;
}
static int64_t given(int from, int64_t index) { return (from + 1) * 1000003 + index; }

// Returns element `index` of the result on this rank, or -1 if MPI leaves it open.
static int64_t expected(const char* collective, int count, int root, int64_t index) {
  const int block = (int)(index / count);
  const int64_t within = index % count;
  if (is(collective, "bcast")) return given(root, index);
  if (is(collective, "allgather") || is(collective, "allgatherv")) return given(block, within);
  if (is(collective, "gather")) return rank == root ? given(block, within) : -1;
  if (is(collective, "scatter")) return given(root, (int64_t)rank * count + index);
  if (is(collective, "alltoall") || is(collective, "alltoallv"))
    return given(block, (int64_t)rank * count + within);
  if (is(collective, "reduce") && rank != root) return -1;
  if (is(collective, "exscan") && rank == 0) return -1;
  const int is_prefix = is(collective, "scan") || is(collective, "exscan");
  const int last = is(collective, "scan") ? rank : is(collective, "exscan") ? rank - 1 : size - 1;
  const int is_cut = is(collective, "reduce_scatter") || is(collective, "reduce_scatter_block");
  int64_t sum = 0;
  for (int r = 0; r <= (is_prefix ? last : size - 1); ++r)
    sum += given(r, is_cut ? (int64_t)rank * count + index : index);
  return sum;
}

static int result_length(const char* collective, int count) {
  const int all = is(collective, "allgather") || is(collective, "allgatherv") || is(collective, "gather") ||
                  is(collective, "alltoall") || is(collective, "alltoallv");
  return is(collective, "barrier") ? 0 : all ? count * size : count;
}

static int is_right(const char* collective, const char** ran) {
  static const int lengths[] = {1, 3, 1000, longest};
  int right = 1;
  for (int k = 0; k < (is(collective, "allreduce") ? 8 : 4); ++k) {
    const int root = k % size;
    const int count = lengths[k % 4];
    is_in_place = k >= 4;
    int64_t* in = input;
    int64_t* out = output;
    for (int i = 0; i < count * size; ++i) in[i] = given(rank, i);
    for (int i = 0; i < count * size; ++i) out[i] = -7;
    if ((is(collective, "bcast") && rank == root) || is_in_place) memcpy(out, in, (size_t)count * sizeof *in);
    *ran = call(collective, count, MPI_INT64_T, root);
    for (int i = 0; i < result_length(collective, count); ++i) {
      const int64_t want = expected(collective, count, root, i);
      if (want >= 0 && out[i] != want) {
        if (right)
          fprintf(stderr, "rank %d, %s of %d: element %d is %lld, not %lld\n", rank, collective, count, i,
                  (long long)out[i], (long long)want);
        right = 0;
      }
    }
  }
  is_in_place = 0;
  return right;
}

static uint64_t bits(const char* collective) {
  uint64_t found = 14695981039346656037ull;
  static const int lengths[] = {37, 5000};
  for (int k = 0; k < 2; ++k) {
    double* in = input;
    srand(17 + rank);
    for (int i = 0; i < lengths[k] * size; ++i) in[i] = (rand() - RAND_MAX / 2) * (1 + 1e9 * (rand() % 7));
    memset(output, 0, (size_t)longest * 8);
    call(collective, lengths[k], MPI_DOUBLE, 0);
    const int is_open = (is(collective, "reduce") && rank != 0) || (is(collective, "exscan") && rank == 0);
    if (!is_open) found = hash(found, output, (size_t)lengths[k] * 8);
  }
  return found;
}

// What a rank has while another one is late.
static double late_s;
static volatile int has_returned;
static int parts;
static size_t part_bytes;
static uint64_t seen;
static int has_left_early;
static void* look(void* unused) {
  (void)unused;
  usleep((useconds_t)(late_s * 0.6e6));
  has_left_early |= has_returned;
  seen = hash(14695981039346656037ull, (const void*)&has_returned, sizeof has_returned);
  for (int k = 0; k < parts; ++k) {
    const int has_come = ((volatile unsigned char*)output)[(size_t)k * part_bytes] != 0xA5;
    seen = hash(seen, &has_come, sizeof has_come);
  }
  return NULL;
}

static uint64_t view(const char* collective) {
  uint64_t found = 14695981039346656037ull;
  static const int lengths[] = {512, longest};
  for (int k = 0; k < 2; ++k) {
    for (int late = 0; late < size; ++late) {
      const int root = late == 0 ? 1 : 0;
      memset(output, 0xA5, (size_t)longest * 8 * (size_t)size);
      memset(input, rank, (size_t)longest * 8 * (size_t)size);
      if (is(collective, "bcast") && rank == root) memset(output, 1, (size_t)lengths[k] * 8);
      // Blocks have eight parts each.
      parts = 8 * result_length(collective, lengths[k]) / lengths[k];
      part_bytes = (size_t)lengths[k];
      meet();
      pthread_t looker;
      has_returned = 0;
      if (rank == late) {
        usleep((useconds_t)(late_s * 1e6));
        seen = 0;
      } else {
        pthread_create(&looker, NULL, look, NULL);
      }
      call(collective, lengths[k], MPI_INT64_T, root);
      has_returned = 1;
      if (rank != late) pthread_join(looker, NULL);
      found = hash(found, &seen, sizeof seen);
    }
  }
  return found;
}

static void come_and_go(int how_many) {
  const char* ran = "nothing";
  for (int k = 0; k < how_many; ++k) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    double mine = rank + k;
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, copy);
    ran = last_algorithm();
    if (ran == NULL || all != size * (size - 1) / 2 + (double)k * size) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Comm_free(&copy);
  }
  if (rank == 0) printf("%d communicators: %s\n", how_many, ran);
}

// Calls that measure alternatives.
static void many_allgathers(int how_many) {
  for (int k = 0; k < how_many; ++k) {
    const char* ran = NULL;
    for (int i = 0; i < 1000; ++i) ((int64_t*)input)[i] = given(rank, i + k);
    ran = call("allgather", 1000, MPI_INT64_T, 0);
    for (int i = 0; i < 1000 * size; ++i) {
      if (((int64_t*)output)[i] == given(i / 1000, i % 1000 + k)) continue;
      fprintf(stderr, "call %d by %s: element %d is wrong\n", k, ran == NULL ? "native" : ran, i);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
  }
  if (rank == 0) printf("%d allgathers are right\n", how_many);
}

int main(int argc, char** argv) {
  // The variables of the environment are for the cases in which a name may not hold, or must not leak.
  int provided;
  MPI_Init_thread(&argc, &argv, getenv("HOST_ALGORITHMS_THREADS") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                  &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  *(void**)&select_algorithm = dlsym(RTLD_DEFAULT, "offbeat_select");
  *(void**)&last_algorithm = dlsym(RTLD_DEFAULT, "offbeat_last_algorithm");
  if (select_algorithm == NULL || last_algorithm == NULL || size > most_ranks || argc < 2) {
    fprintf(stderr, "offbeat is not preloaded, or the arguments are wrong\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  late_s = atof(argv[1]) / 1e3;
  input = calloc((size_t)longest * (size_t)size, 8);
  output = calloc((size_t)longest * (size_t)size, 8);
  if (getenv("HOST_ALGORITHMS_IDUP") != NULL) {
    MPI_Comm copy;
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
  }
  if (getenv("HOST_ALGORITHMS_COMMUNICATORS") != NULL)
    come_and_go(atoi(getenv("HOST_ALGORITHMS_COMMUNICATORS")));
  if (getenv("HOST_ALGORITHMS_CALLS") != NULL) many_allgathers(atoi(getenv("HOST_ALGORITHMS_CALLS")));
  for (int k = 2; k + 1 < argc; k += 2) {
    const char* collective = argv[k];
    const char* name = argv[k + 1];
    char expression[128];
    snprintf(expression, sizeof expression, strcmp(name, "-") == 0 ? "native" : "native(%s)", name);
    const int chooses = name[0] != '=';
    if (!chooses) ++name;
    if (chooses && select_algorithm(collective + (collective[0] == 'i'), expression, NULL, 0) != 0) {
      fprintf(stderr, "offbeat_select(%s, %s) failed\n", collective, expression);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    // A blocking call lets the ranks agree, without which a non-blocking one may not be served.
    call(collective + (collective[0] == 'i'), 1, MPI_INT64_T, 0);
    const char* ran = NULL;
    meet();
    int right = is_right(collective, &ran);
    has_left_early = 0;
    const uint64_t signature = combines(collective) ? bits(collective) : late_s > 0 ? view(collective) : 0;
    if (is(collective, "barrier") && has_left_early) right = 0;
    const uint64_t rights = from_all(right ? 1 : 0);
    const uint64_t alright = from_all(1);  // what it is if every rank says so
    const uint64_t all = from_all(signature);
    if (rank == 0) {
      printf("%s %s: ran %s, %s, signature %016llx\n", collective, name, ran == NULL ? "native" : ran,
             rights == alright ? "right" : "WRONG", (unsigned long long)all);
      fflush(stdout);
    }
    if (chooses) select_algorithm(collective + (collective[0] == 'i'), "", NULL, 0);
    meet();
  }
  MPI_Finalize();
}
