/* SPDX-License-Identifier: BSD-3-Clause
 *
 * adapting --calls N [--seed S] [--threads T] [--most BYTES] [--select 1] [--requests 1]: a random mixture of
 * collectives on several communicators, between random delays of each rank. All ranks draw the calls from one
 * sequence; the delays and the ways to complete requests they draw from their own. Each result is checked.
 *
 * If offbeat is there, the ranks compare which algorithms their calls ran.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#include "check.h"
#include "persistent.h"

enum { MOST_PENDING = 6, GAP = -7 };

enum kind {
  BCAST,
  ALLGATHER,
  ALLGATHERV,
  ALLTOALL,
  ALLTOALLV,
  GATHER,
  SCATTER,
  ALLREDUCE,
  REDUCE,
  REDUCE_SCATTER_BLOCK,
  SCAN,
  BARRIER,
  KINDS
};

static const char* const names[KINDS] = {"bcast",  "allgather", "allgatherv", "alltoall", "alltoallv",
                                         "gather", "scatter",   "allreduce",  "reduce",   "reduce_scatter_block",
                                         "scan",   "barrier"};

struct random {
  uint64_t state;
};

static unsigned draw(struct random* random, unsigned below) {
  random->state = random->state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(random->state >> 33) % below;
}

struct stream { /* one communicator and its calls */
  MPI_Comm communicator;
  int rank, size;
  struct random calls, own;
  uint64_t ran; /* a hash of the algorithms of all calls */
  struct call* pending[MOST_PENDING];
  int pending_count;
  MPI_Request persistent; /* of a bcast */
  int persistent_data[64];
};

struct call {
  enum kind kind;
  int n, root, in_place, stride, id;
  struct stream* on;
  MPI_Datatype type;
  int *input, *output, *counts, *begins, *input_counts, *input_begins;
  MPI_Request request;
};

static pthread_mutex_t checking = PTHREAD_MUTEX_INITIALIZER;
static MPI_Datatype with_gaps; /* an int and a gap of the same length */
static const char* (*last_algorithm)(void);
static int (*choose)(const char*, const char*, char*, size_t);
static int most_ints, has_requests, selects;

static void delay(struct random* own) {
  const unsigned what = draw(own, 40);
  if (what == 0) usleep(draw(own, 3000));
  if (what > 3) return;
  const double end = MPI_Wtime() + draw(own, 60) * 1e-6;
  while (MPI_Wtime() < end) continue;
}

/* Element i of the block that rank `from` has for rank `to`, or for all ranks. */
static int value(int id, int from, int to, int i) {
  return (int)(((unsigned)id * 1000003u + (unsigned)from * 7919u + (unsigned)to * 104729u + (unsigned)i * 31u) %
               1000003u);
}

/* How many elements an irregular collective moves. */
static int irregular(const struct call* call, int from, int to) {
  return call->n * ((call->id + from + 2 * to) % 3) / 2;
}

static int* blocks(const struct call* call, int count) {
  const size_t ints = (size_t)(call->n + 1) * (size_t)count * (size_t)call->stride;
  int* memory = allocate(ints * sizeof(int));
  for (size_t i = 0; i < ints; ++i) memory[i] = GAP;
  return memory;
}

static void fill(const struct call* call, int* memory, int block, int n, int from, int to) {
  int* at = memory + (size_t)block * (size_t)call->n * (size_t)call->stride;
  for (int i = 0; i < n; ++i) at[i * call->stride] = value(call->id, from, to, i);
}

static long wrong_in(const struct call* call, int block, int n, int from, int to) {
  const int* at = call->output + (size_t)block * (size_t)call->n * (size_t)call->stride;
  long wrong = 0;
  for (int i = 0; i < n; ++i) {
    wrong += at[i * call->stride] != value(call->id, from, to, i);
    if (call->stride > 1) wrong += at[i * call->stride + 1] != GAP;
  }
  return wrong;
}

static int sum_of(const struct call* call, int ranks, int to, int i) {
  int sum = 0;
  for (int from = 0; from < ranks; ++from) sum += value(call->id, from, to, i);
  return sum;
}

/* Sets up the buffers of a call. */
static void prepare(struct call* call) {
  const int rank = call->on->rank, size = call->on->size, n = call->n;
  const int is_root = rank == call->root;
  call->counts = allocate(4 * (size_t)size * sizeof(int));
  call->begins = call->counts + size;
  call->input_counts = call->counts + 2 * size;
  call->input_begins = call->counts + 3 * size;
  for (int other = 0; other < size; ++other) {
    const int to = call->kind == ALLGATHERV ? 0 : rank;
    call->counts[other] = irregular(call, other, to);
    call->input_counts[other] = irregular(call, rank, other);
    call->begins[other] = call->input_begins[other] = other * n;
  }
  call->input = blocks(call, size);
  call->output = blocks(call, size);
  switch (call->kind) {
    case BCAST:
      if (is_root) fill(call, call->output, 0, n, rank, 0);
      break;
    case ALLGATHER:
      fill(call, call->in_place ? call->output : call->input, call->in_place ? rank : 0, n, rank, 0);
      break;
    case GATHER:
      fill(call, call->in_place && is_root ? call->output : call->input, call->in_place && is_root ? rank : 0, n, rank,
           0);
      break;
    case ALLGATHERV:
      fill(call, call->in_place ? call->output : call->input, call->in_place ? rank : 0, call->counts[rank], rank, 0);
      break;
    case ALLTOALL:
      for (int to = 0; to < size; ++to) fill(call, call->in_place ? call->output : call->input, to, n, rank, to);
      break;
    case ALLTOALLV:
      for (int to = 0; to < size; ++to) fill(call, call->input, to, call->input_counts[to], rank, to);
      break;
    case SCATTER:
      for (int to = 0; to < size && is_root; ++to) {
        fill(call, call->input, to, n, rank, to);
        if (call->in_place && to == rank) fill(call, call->output, 0, n, rank, to);
      }
      break;
    case REDUCE_SCATTER_BLOCK:
      for (int to = 0; to < size; ++to) fill(call, call->in_place ? call->output : call->input, to, n, rank, to);
      break;
    case ALLREDUCE:
    case REDUCE:
    case SCAN:
      fill(call, call->in_place ? call->output : call->input, 0, n, rank, 0);
      break;
    default:
      break;
  }
}

static void check(const struct call* call) {
  const int rank = call->on->rank, size = call->on->size, n = call->n;
  const int is_root = rank == call->root;
  long wrong = 0;
  switch (call->kind) {
    case BCAST:
      wrong = wrong_in(call, 0, n, call->root, 0);
      break;
    case ALLGATHER:
    case ALLGATHERV:
      for (int from = 0; from < size; ++from)
        wrong += wrong_in(call, from, call->kind == ALLGATHER ? n : call->counts[from], from, 0);
      break;
    case GATHER:
      for (int from = 0; from < size && is_root; ++from) wrong += wrong_in(call, from, n, from, 0);
      break;
    case ALLTOALL:
    case ALLTOALLV:
      for (int from = 0; from < size; ++from)
        wrong += wrong_in(call, from, call->kind == ALLTOALL ? n : call->counts[from], from, rank);
      break;
    case SCATTER:
      wrong = wrong_in(call, 0, n, call->root, rank);
      break;
    case ALLREDUCE:
    case REDUCE:
      for (int i = 0; i < n && (is_root || call->kind == ALLREDUCE); ++i)
        wrong += call->output[i] != sum_of(call, size, 0, i);
      break;
    case SCAN:
      for (int i = 0; i < n; ++i) wrong += call->output[i] != sum_of(call, rank + 1, 0, i);
      break;
    case REDUCE_SCATTER_BLOCK:
      for (int i = 0; i < n; ++i) wrong += call->output[i] != sum_of(call, size, rank, i);
      break;
    default:
      break;
  }
  pthread_mutex_lock(&checking);
  CHECK(wrong == 0, "call %d, %s of %d ints, root %d%s%s: %ld wrong", call->id, names[call->kind], n, call->root,
        call->in_place ? ", in place" : "", call->stride > 1 ? ", with gaps" : "", wrong);
  pthread_mutex_unlock(&checking);
}

static void begin(struct call* call, int is_blocking) {
  const MPI_Comm on = call->on->communicator;
  const MPI_Datatype type = call->type;
  const int n = call->n, root = call->root, rank = call->on->rank, is_root = rank == root;
  const int *counts = call->counts, *begins = call->begins;
  const void* input = call->in_place ? MPI_IN_PLACE : call->input;
  const void* at_root = call->in_place && is_root ? MPI_IN_PLACE : call->input;
  void* output = call->output;
  MPI_Request* request = &call->request;
  switch (call->kind) {
    case BCAST:
      is_blocking ? MPI_Bcast(output, n, type, root, on) : MPI_Ibcast(output, n, type, root, on, request);
      break;
    case ALLGATHER:
      is_blocking ? MPI_Allgather(input, n, type, output, n, type, on)
                  : MPI_Iallgather(input, n, type, output, n, type, on, request);
      break;
    case ALLGATHERV:
      is_blocking ? MPI_Allgatherv(input, counts[rank], type, output, counts, begins, type, on)
                  : MPI_Iallgatherv(input, counts[rank], type, output, counts, begins, type, on, request);
      break;
    case ALLTOALL:
      is_blocking ? MPI_Alltoall(input, n, type, output, n, type, on)
                  : MPI_Ialltoall(input, n, type, output, n, type, on, request);
      break;
    case ALLTOALLV:
      is_blocking
          ? MPI_Alltoallv(call->input, call->input_counts, call->input_begins, type, output, counts, begins, type, on)
          : MPI_Ialltoallv(call->input, call->input_counts, call->input_begins, type, output, counts, begins, type, on,
                           request);
      break;
    case GATHER:
      is_blocking ? MPI_Gather(at_root, n, type, output, n, type, root, on)
                  : MPI_Igather(at_root, n, type, output, n, type, root, on, request);
      break;
    case SCATTER: {
      void* mine = call->in_place && is_root ? MPI_IN_PLACE : output;
      is_blocking ? MPI_Scatter(call->input, n, type, mine, n, type, root, on)
                  : MPI_Iscatter(call->input, n, type, mine, n, type, root, on, request);
      break;
    }
    case ALLREDUCE:
      is_blocking ? MPI_Allreduce(input, output, n, type, MPI_SUM, on)
                  : MPI_Iallreduce(input, output, n, type, MPI_SUM, on, request);
      break;
    case REDUCE: {
      const void* from = is_root ? at_root : call->in_place ? call->output : call->input;
      is_blocking ? MPI_Reduce(from, is_root ? output : NULL, n, type, MPI_SUM, root, on)
                  : MPI_Ireduce(from, is_root ? output : NULL, n, type, MPI_SUM, root, on, request);
      break;
    }
    case REDUCE_SCATTER_BLOCK:
      is_blocking ? MPI_Reduce_scatter_block(input, output, n, type, MPI_SUM, on)
                  : MPI_Ireduce_scatter_block(input, output, n, type, MPI_SUM, on, request);
      break;
    case SCAN:
      is_blocking ? MPI_Scan(input, output, n, type, MPI_SUM, on)
                  : MPI_Iscan(input, output, n, type, MPI_SUM, on, request);
      break;
    default:
      is_blocking ? MPI_Barrier(on) : MPI_Ibarrier(on, request);
  }
  const char* ran = last_algorithm != NULL ? last_algorithm() : NULL;
  for (const char* letter = ran != NULL ? ran : "native"; *letter; ++letter)
    call->on->ran = (call->on->ran ^ (unsigned char)*letter) * 1099511628211u;
}

static void finish(struct call* call) {
  check(call);
  free(call->input);
  free(call->output);
  free(call->counts);
  free(call);
}

/* Checks and removes the pending calls whose requests are complete. */
static void collect(struct stream* stream) {
  int kept = 0;
  for (int k = 0; k < stream->pending_count; ++k) {
    struct call* call = stream->pending[k];
    if (call->request == MPI_REQUEST_NULL) {
      finish(call);
    } else {
      stream->pending[kept++] = call;
    }
  }
  stream->pending_count = kept;
}

/* Completes some pending calls, or all, in a way that each rank draws by itself. */
static void complete(struct stream* stream, int all) {
  do {
    MPI_Request requests[MOST_PENDING];
    const int count = stream->pending_count;
    int flag = 0, index, done, indices[MOST_PENDING];
    for (int k = 0; k < count; ++k) requests[k] = stream->pending[k]->request;
    switch (count == 0 ? KINDS : draw(&stream->own, 8)) {
      case 0:
        MPI_Wait(&requests[draw(&stream->own, (unsigned)count)], MPI_STATUS_IGNORE);
        break;
      case 1:
        MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE);
        break;
      case 2:
        MPI_Waitsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
        break;
      case 3:
        while (!flag) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        break;
      case 4:
        MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE);
        break;
      case 5:
        MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE);
        break;
      case 6:
        MPI_Testsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
        break;
      case 7:
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        break;
      default:
        break;
    }
    for (int k = 0; k < count; ++k) stream->pending[k]->request = requests[k];
    collect(stream);
  } while (all && stream->pending_count > 0);
}

static void start_persistent(struct stream* stream, int id) {
  MPI_Request request = stream->persistent;
  for (int i = 0; i < 64; ++i) stream->persistent_data[i] = stream->rank == 0 ? id + i : GAP;
  MPI_Start(&request);
  delay(&stream->own);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  long wrong = 0;
  for (int i = 0; i < 64; ++i) wrong += stream->persistent_data[i] != id + i;
  pthread_mutex_lock(&checking);
  CHECK(wrong == 0, "persistent call %d: %ld wrong", id, wrong);
  pthread_mutex_unlock(&checking);
}

static void open_stream(struct stream* stream, MPI_Comm communicator, unsigned seed) {
  memset(stream, 0, sizeof *stream);
  stream->communicator = communicator;
  MPI_Comm_rank(communicator, &stream->rank);
  MPI_Comm_size(communicator, &stream->size);
  stream->calls.state = seed;
  stream->own.state = seed * 77u + (unsigned)world_rank * 1013u;
  stream->persistent = MPI_REQUEST_NULL;
  if (has_persistent && has_requests)
    MPI_Bcast_init(stream->persistent_data, 64, MPI_INT, 0, communicator, MPI_INFO_NULL, &stream->persistent);
}

/* MPICH 4.0 reads from address MPI_IN_PLACE in an MPI_Reduce of more than 2 KiB whose root is not rank 0. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000 && !defined(I_MPI_NUMVERSION)
enum { crashes_in_place = 1 };
#else
enum { crashes_in_place = 0 };
#endif

/* Makes one call. Few sizes and kinds come often, so that trials end. */
static void step(struct stream* stream, int id) {
  static const enum kind often[] = {BCAST, ALLGATHER, ALLREDUCE};
  struct random* calls = &stream->calls;
  struct call* call = allocate(sizeof *call);
  memset(call, 0, sizeof *call);
  call->on = stream;
  call->id = id;
  call->kind = draw(calls, 4) != 0 ? often[draw(calls, 3)] : (enum kind)draw(calls, KINDS);
  call->n = draw(calls, 4) != 0 ? (draw(calls, 3) != 0 ? 2 : most_ints / 2) : (int)draw(calls, (unsigned)most_ints) + 1;
  call->root = (int)draw(calls, (unsigned)stream->size);
  call->in_place = draw(calls, 4) == 0 && !(crashes_in_place && call->kind == REDUCE && call->root != 0);
  const int reduces = call->kind >= ALLREDUCE;
  call->stride = !reduces && draw(calls, 4) == 0 ? 2 : 1;
  call->type = call->stride > 1 ? with_gaps : MPI_INT;
  call->request = MPI_REQUEST_NULL;
  const int is_blocking = !has_requests || draw(calls, 3) != 0;
  const int completes = draw(calls, 40) == 0;
  const int starts = draw(calls, 50) == 0;
  prepare(call);
  delay(&stream->own);
  begin(call, is_blocking);
  if (is_blocking) {
    finish(call);
  } else {
    stream->pending[stream->pending_count++] = call;
  }
  if (stream->pending_count == MOST_PENDING || draw(&stream->own, 3) == 0) complete(stream, 0);
  while (stream->pending_count == MOST_PENDING) complete(stream, 0);
  if (completes) complete(stream, 1);
  if (starts && stream->persistent != MPI_REQUEST_NULL) start_persistent(stream, id);
}

static void close_stream(struct stream* stream) {
  complete(stream, 1);
  if (stream->persistent != MPI_REQUEST_NULL) MPI_Request_free(&stream->persistent);
  uint64_t least = 0, most = 0;
  MPI_Reduce(&stream->ran, &least, 1, MPI_UINT64_T, MPI_MIN, 0, stream->communicator);
  MPI_Reduce(&stream->ran, &most, 1, MPI_UINT64_T, MPI_MAX, 0, stream->communicator);
  pthread_mutex_lock(&checking);
  CHECK(stream->rank != 0 || least == most, "ranks ran different algorithms");
  pthread_mutex_unlock(&checking);
}

struct thread {
  struct stream stream;
  int calls;
};

static void* run_thread(void* argument) {
  struct thread* mine = argument;
  for (int id = 0; id < mine->calls; ++id) step(&mine->stream, id);
  close_stream(&mine->stream);
  return NULL;
}

int main(int argc, char** argv) {
  const int threads = (int)option(argc, argv, "--threads", 0);
  if (threads > 0) {
    check_start_with_threads(&argc, &argv);
  } else {
    check_start(&argc, &argv);
  }
  const int calls = (int)option(argc, argv, "--calls", 2000);
  const unsigned seed = (unsigned)option(argc, argv, "--seed", 1);
  most_ints = (int)option(argc, argv, "--most", 32768) / (int)sizeof(int);
  has_requests = (int)option(argc, argv, "--requests", 1);
  selects = (int)option(argc, argv, "--select", 0);
  last_algorithm = (const char* (*)(void))dlsym(RTLD_DEFAULT, "offbeat_last_algorithm");
  choose = (int (*)(const char*, const char*, char*, size_t))dlsym(RTLD_DEFAULT, "offbeat_select");
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &with_gaps);
  MPI_Type_commit(&with_gaps);
  within((unsigned)option(argc, argv, "--seconds", 100), "calls");

  if (threads > 0) {
    pthread_t ids[16];
    struct thread all[16];
    MPI_Comm communicators[16];
    for (int k = 0; k < threads; ++k) {
      MPI_Comm_dup(MPI_COMM_WORLD, &communicators[k]);
      open_stream(&all[k].stream, communicators[k], seed + (unsigned)k);
      all[k].calls = calls;
    }
    for (int k = 0; k < threads; ++k) pthread_create(&ids[k], NULL, run_thread, &all[k]);
    for (int k = 0; k < threads; ++k) pthread_join(ids[k], NULL);
    for (int k = 0; k < threads; ++k) MPI_Comm_free(&communicators[k]);
  } else {
    MPI_Comm dup, part;
    struct stream streams[3];
    struct random which = {seed};
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < 2, -world_rank, &part);
    open_stream(&streams[0], MPI_COMM_WORLD, seed);
    open_stream(&streams[1], dup, seed + 1);
    open_stream(&streams[2], part, seed + 2);
    for (int id = 0; id < calls; ++id) {
      const unsigned stream = draw(&which, 5);
      step(&streams[stream < 3 ? stream : 0], id);
      if (!selects || choose == NULL || id % 300 != 299) continue;
      for (int k = 0; k < 3; ++k) complete(&streams[k], 1);
      choose("bcast", id % 600 == 299 ? "binomial" : "", NULL, 0);
    }
    for (int k = 0; k < 3; ++k) close_stream(&streams[k]);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&part);
  }
  MPI_Type_free(&with_gaps);
  return check_finish();
}
