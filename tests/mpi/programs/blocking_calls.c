/* SPDX-License-Identifier: BSD-3-Clause
 *
 * blocking_calls COUNT CALL...: rank 0 begins a collective of COUNT ints and waits inside CALL, which cannot
 * end before rank 1 has completed the collective. MPI promises that this ends: a rank that blocks lets the
 * collective advance.
 *
 * blocking_calls child: what "spawn" starts.
 */
#include "check.h"

static MPI_Comm other;  /* of the same ranks */
static MPI_Comm across; /* an inter-communicator: one rank on each side */
static MPI_Win window;
static int* memory;
static char *file_name, *program;

enum { TAG = 7 };

static void letter_to_rank_0(void) { MPI_Send(&world_rank, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD); }

/* What rank 1 does when it has completed the collective. */
static void on_rank_1(const char* call) {
  int any = 0;
  if (strcmp(call, "ssend") == 0) {
    MPI_Recv(&any, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (strcmp(call, "sendrecv") == 0) {
    MPI_Sendrecv(&world_rank, 1, MPI_INT, 0, TAG, &any, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  } else if (strcmp(call, "win_unlock") == 0 || strcmp(call, "win_flush") == 0) {
    MPI_Win_unlock(0, window);
    letter_to_rank_0();
  } else if (strcmp(call, "recv") == 0 || strcmp(call, "probe") == 0 || strcmp(call, "mprobe") == 0 ||
             strcmp(call, "wait") == 0 || strcmp(call, "waitany") == 0 || strcmp(call, "persistent") == 0) {
    letter_to_rank_0();
  }
}

/* Rank 0's call, and what both call in the same order. */
static void make(const char* call) {
  int any = 0, flag = 0, sum = 0;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Message message;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_File file;
  const int from = 1, is_first = world_rank == 0;
  if (strcmp(call, "recv") == 0) {
    if (is_first) MPI_Recv(&any, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (strcmp(call, "ssend") == 0) {
    if (is_first) MPI_Ssend(&any, 1, MPI_INT, from, TAG, MPI_COMM_WORLD);
  } else if (strcmp(call, "sendrecv") == 0) {
    if (is_first)
      MPI_Sendrecv(&flag, 1, MPI_INT, from, TAG, &any, 1, MPI_INT, from, TAG, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
  } else if (strcmp(call, "probe") == 0) {
    if (is_first) {
      MPI_Probe(from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Recv(&any, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else if (strcmp(call, "mprobe") == 0) {
    if (is_first) {
      MPI_Mprobe(from, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
      MPI_Mrecv(&any, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    }
  } else if (strcmp(call, "wait") == 0) {
    if (is_first) {
      MPI_Irecv(&any, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, &requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
  } else if (strcmp(call, "waitany") == 0) {
    if (is_first) {
      MPI_Irecv(&any, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, &requests[1]);
      MPI_Waitany(2, requests, &flag, MPI_STATUS_IGNORE);
    }
  } else if (strcmp(call, "persistent") == 0) {
    if (is_first) {
      MPI_Recv_init(&any, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, &requests[0]);
      MPI_Start(&requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      MPI_Request_free(&requests[0]);
    }
  } else if (strcmp(call, "barrier") == 0) {
    MPI_Barrier(other);
  } else if (strcmp(call, "allreduce") == 0) {
    MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, other);
  } else if (strcmp(call, "gatherv") == 0) { /* the host's own */
    int gathered[2] = {0, 0};
    const int counts[] = {1, 1}, places[] = {0, 1};
    if (!is_first) MPI_Send(&any, 1, MPI_INT, 0, TAG, other);
    if (is_first) MPI_Recv(&any, 1, MPI_INT, 1, TAG, other, MPI_STATUS_IGNORE);
    MPI_Gatherv(&world_rank, 1, MPI_INT, gathered, counts, places, MPI_INT, 1, other);
  } else if (strcmp(call, "barrier_across") == 0) {
    MPI_Barrier(across);
  } else if (strcmp(call, "win_fence") == 0) {
    MPI_Win_fence(0, window);
  } else if (strcmp(call, "win_unlock") == 0 || strcmp(call, "win_flush") == 0) {
    /* Rank 1 has the lock until the collective is complete. */
    if (is_first) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
      MPI_Put(&any, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
      if (strcmp(call, "win_flush") == 0) MPI_Win_flush(0, window);
      MPI_Win_unlock(0, window);
      MPI_Recv(&any, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else if (strcmp(call, "file_write_all") == 0) {
    MPI_File_open(other, file_name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &file);
    MPI_File_write_at_all(file, (MPI_Offset)(world_rank * 4), &world_rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
  } else if (strcmp(call, "comm_dup") == 0) {
    MPI_Comm_dup(other, &made);
    MPI_Comm_free(&made);
  } else if (strcmp(call, "comm_split") == 0) {
    MPI_Comm_split(other, 0, 0, &made);
    MPI_Comm_free(&made);
  } else if (strcmp(call, "spawn") == 0) {
    char* arguments[] = {(char*)"child", NULL};
    MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, other, &made, MPI_ERRCODES_IGNORE);
    MPI_Barrier(made);
    MPI_Comm_disconnect(&made);
  } else if (strcmp(call, "win_create") == 0) {
    MPI_Win win;
    MPI_Win_create(memory, sizeof *memory, sizeof *memory, MPI_INFO_NULL, other, &win);
    MPI_Win_free(&win);
  } else {
    CHECK(0, "no such call: %s", call);
  }
}

/* Rank 0, the root, may be in MPI_Finalize before rank 1 begins. */
static int finalize_early(int* data, int count) {
  MPI_Request request;
  within(20, "finalize");
  if (world_rank == 1) usleep(100000);
  for (int i = 0; i < count; ++i) data[i] = world_rank == 0 ? i : -1;
  MPI_Ibcast(data, count, MPI_INT, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < count; ++i) CHECK(data[i] == i, "finalize: %d", data[i]);
  if (world_rank == 0 && check_failures == 0) printf("ok: %ld cases, %ld calls\n", check_cases, check_calls);
  fflush(NULL);
  MPI_Finalize();
  return check_failures != 0;
}

int main(int argc, char** argv) {
  program = argv[0];
  check_start(&argc, &argv);
  if (strcmp(argv[1], "child") == 0) {
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    MPI_Barrier(parent); /* MPICH's MPI_Comm_spawn fails if the child ends before both parents have connected */
    MPI_Comm_disconnect(&parent);
    return MPI_Finalize();
  }
  const int count = atoi(argv[1]);
  int *input = malloc((size_t)count * sizeof *input), *output = malloc((size_t)count * sizeof *output);
  file_name = getenv("BLOCKING_CALLS_FILE");
  MPI_Comm own;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  MPI_Comm_split(MPI_COMM_WORLD, world_rank, 0, &own);
  MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, !world_rank, 1, &across);
  MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, other, &memory, &window);
  /* From here on no rank has to ask another one before a call is served. */
  int ranks;
  allreduce(&(int){1}, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(other);
  int finalizes_early = 0;
  for (int k = 2; k < argc; ++k) {
    const char* call = argv[k];
    finalizes_early = strcmp(call, "finalize") == 0;
    if (finalizes_early) break;
    const int has_lock = strcmp(call, "win_unlock") == 0 || strcmp(call, "win_flush") == 0;
    within(20, "%s", call);
    if (has_lock && world_rank == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Barrier(other);
    for (int i = 0; i < count; ++i) input[i] = world_rank + i;
    MPI_Request request;
    MPI_Iallreduce(input, output, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    ++check_calls;
    if (world_rank == 1) {
      usleep(20000); /* rank 0 is inside its call */
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      on_rank_1(call);
    }
    make(call);
    if (world_rank == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    int wrong = 0;
    for (int i = 0; i < count; ++i) wrong += output[i] != 1 + 2 * i;
    CHECK(wrong == 0, "%s: %d wrong", call, wrong);
  }
  within(20, "the end");
  MPI_Win_free(&window);
  MPI_Comm_free(&across);
  MPI_Comm_free(&own);
  MPI_Comm_free(&other);
  return finalizes_early ? finalize_early(input, count) : check_finish();
}
