// SPDX-License-Identifier: BSD-3-Clause
// Makes calls that take handles, pointers and more arguments than there are registers, and checks the
// results. With the argument "large" it also calls functions for large counts, if some library in the process
// has them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                         \
  do {                                                                      \
    if (!(what)) {                                                          \
      fprintf(stderr, "rank %d, line %d: not %s\n", rank, __LINE__, #what); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                         \
    }                                                                       \
  } while (0)

typedef int AllreduceLarge(const void*, void*, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int AlltoallvLarge(const void*, const MPI_Count[], const MPI_Aint[], MPI_Datatype, void*,
                           const MPI_Count[], const MPI_Aint[], MPI_Datatype, MPI_Comm);
typedef int IallgathervLarge(const void*, MPI_Count, MPI_Datatype, void*, const MPI_Count[], const MPI_Aint[],
                             MPI_Datatype, MPI_Comm, MPI_Request*);

static void product(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) ((int*)inout)[i] *= ((int*)in)[i];
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 1, provided = 0;
  CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  MPI_Comm copy, half;
  CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &copy) == MPI_SUCCESS);
  CHECK(MPI_Comm_split(copy, rank % 2, rank, &half) == MPI_SUCCESS);
  int sum = 0, of_half = 0, mine = rank + 1, one = 1;
  CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, copy) == MPI_SUCCESS);
  CHECK(sum == ranks * (ranks + 1) / 2);
  CHECK(MPI_Allreduce(&one, &of_half, 1, MPI_INT, MPI_SUM, half) == MPI_SUCCESS);
  CHECK(of_half == (ranks + 1 - rank % 2) / 2);

  int* counts = calloc((size_t)(4 * ranks), sizeof *counts);
  int *displacements = counts + ranks, *sent = counts + 2 * ranks, *received = counts + 3 * ranks;
  for (int i = 0; i < ranks; ++i) {
    counts[i] = 1;
    displacements[i] = i;
    sent[i] = 100 * rank + i;
  }
  CHECK(MPI_Alltoallv(sent, counts, displacements, MPI_INT, received, counts, displacements, MPI_INT, copy) ==
        MPI_SUCCESS);
  for (int i = 0; i < ranks; ++i) CHECK(received[i] == 100 * i + rank);

  MPI_Request requests[2];
  CHECK(MPI_Iallgather(&mine, 1, MPI_INT, received, 1, MPI_INT, copy, &requests[0]) == MPI_SUCCESS);
  CHECK(MPI_Ibarrier(half, &requests[1]) == MPI_SUCCESS);
  MPI_Status statuses[2];
  CHECK(MPI_Waitall(2, requests, statuses) == MPI_SUCCESS);
  for (int i = 0; i < ranks; ++i) CHECK(received[i] == i + 1);

  MPI_Datatype pair;
  MPI_Op op;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(product, 1, &op);
  int two[2] = {rank == ranks - 1 ? 7 : 0, rank == ranks - 1 ? 8 : 0};
  CHECK(MPI_Bcast(two, 1, pair, ranks - 1, copy) == MPI_SUCCESS);
  CHECK(two[0] == 7 && two[1] == 8);
  int factor = rank + 1, all = 0, expected = 1;
  for (int i = 0; i < ranks; ++i) expected *= i + 1;
  CHECK(MPI_Reduce(&factor, &all, 1, MPI_INT, op, 0, copy) == MPI_SUCCESS);
  CHECK(rank != 0 || all == expected);
  CHECK(MPI_Type_free(&pair) == MPI_SUCCESS && pair == MPI_DATATYPE_NULL);
  CHECK(MPI_Op_free(&op) == MPI_SUCCESS && op == MPI_OP_NULL);

  if (argc > 1 && strcmp(argv[1], "large") == 0) {
    union {
      void* address;
      AllreduceLarge* function;
    } large = {dlsym(RTLD_DEFAULT, "MPI_Allreduce_c")};
    CHECK(large.address != NULL);
    sum = 0;
    CHECK(large.function(&mine, &sum, 1, MPI_INT, MPI_SUM, copy) == MPI_SUCCESS);
    CHECK(sum == ranks * (ranks + 1) / 2);
#if !defined(OMPI_MAJOR_VERSION) || OMPI_MAJOR_VERSION < 6  // Open MPI 6 accepts this count
    CHECK(large.function(&mine, &sum, (MPI_Count)1 << 31, MPI_INT, MPI_SUM, copy) != MPI_SUCCESS);
#endif

    union {
      void* address;
      AlltoallvLarge* function;
    } alltoallv = {dlsym(RTLD_DEFAULT, "MPI_Alltoallv_c")};
    union {
      void* address;
      IallgathervLarge* function;
    } iallgatherv = {dlsym(RTLD_DEFAULT, "MPI_Iallgatherv_c")};
    CHECK(alltoallv.address != NULL && iallgatherv.address != NULL);
    MPI_Count* ones = calloc((size_t)ranks, sizeof *ones);
    MPI_Aint* places = calloc((size_t)ranks, sizeof *places);
    for (int i = 0; i < ranks; ++i) {
      ones[i] = 1;
      places[i] = i;
      received[i] = -1;
    }
    CHECK(alltoallv.function(sent, ones, places, MPI_INT, received, ones, places, MPI_INT, copy) ==
          MPI_SUCCESS);
    for (int i = 0; i < ranks; ++i) CHECK(received[i] == 100 * i + rank);
    CHECK(alltoallv.function(MPI_IN_PLACE, (void*)1, (void*)1, MPI_INT, received, ones, places, MPI_INT,
                             copy) == MPI_SUCCESS);
    for (int i = 0; i < ranks; ++i) CHECK(received[i] == 100 * rank + i);
    CHECK(iallgatherv.function(&mine, 1, MPI_INT, received, ones, places, MPI_INT, copy, &requests[0]) ==
          MPI_SUCCESS);
    free(ones);
    free(places);
    CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int i = 0; i < ranks; ++i) CHECK(received[i] == i + 1);
  }

  CHECK(MPI_Barrier(copy) == MPI_SUCCESS);
  CHECK(MPI_Comm_free(&half) == MPI_SUCCESS && half == MPI_COMM_NULL);
  CHECK(MPI_Comm_free(&copy) == MPI_SUCCESS && copy == MPI_COMM_NULL);
  free(counts);
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  if (rank == 0) printf("ok: 1 cases, 0 calls\n");
  return 0;
}
