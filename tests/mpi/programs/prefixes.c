/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What MPI_Scan and MPI_Exscan have to themselves: no rank waits for a higher one, the result buffer of rank 0 of an
 * exscan is not looked at, and operands stay in the order of the ranks. Also the two in the C interface.
 *
 * prefixes [by-messages]    whose sender may wait for the receiver
 */
#define _GNU_SOURCE
#include "interface.h"

enum { LONGEST = 200000 };
static int in[LONGEST], out[LONGEST];

/* Of what ranks 0 to last have. */
static int sum_up_to(int last, int k) { return (last + 1) * k + last * (last + 1) / 2; }

static void fill(int *vector, int count) {
  for (int k = 0; k < count; ++k) vector[k] = k + world_rank;
}

static void expect(const char *what, int count, int last) {
  int wrong = -1;
  for (int k = 0; k < count; ++k)
    if (out[k] != sum_up_to(last, k)) wrong = k;
  CHECK(wrong < 0, "%s of %d: element %d is %d", what, count, wrong, wrong < 0 ? 0 : out[wrong]);
}

/* A rank calls when the rank below it is done. It would hang if that one waited for it. */
static void in_turn(int count) {
  for (int is_exclusive = 0; is_exclusive < 2; ++is_exclusive) {
    const char *const what = is_exclusive ? "exscan in turn" : "scan in turn";
    within(60, "%s of %d", what, count);
    fill(in, count);
    if (world_rank > 0) MPI_Recv(NULL, 0, MPI_INT, world_rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is_exclusive)
      MPI_Exscan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else
      MPI_Scan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (world_rank + 1 < world_size) MPI_Send(NULL, 0, MPI_INT, world_rank + 1, 0, MPI_COMM_WORLD);
    if (world_rank > 0 || !is_exclusive) expect(what, count, world_rank - is_exclusive);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void rank_0_has_no_result(int count) {
  within(60, "an exscan of %d without a result on rank 0", count);
  fill(in, count);
  MPI_Exscan(in, world_rank == 0 ? NULL : out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (world_rank > 0) expect("exscan", count, world_rank - 1);
  fill(out, count);
  MPI_Exscan(MPI_IN_PLACE, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect("exscan in place", count, world_rank == 0 ? 0 : world_rank - 1); /* rank 0 keeps its own */
  int alone = 7, kept = 8;
  MPI_Exscan(&alone, &kept, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  MPI_Exscan(&alone, NULL, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  CHECK(kept == 8, "an exscan on one rank wrote %d", kept);
  MPI_Scan(&alone, &kept, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  CHECK(kept == 7, "a scan on one rank gave %d", kept);
}

/* Maps x -> ax + b modulo 2^16; a in the upper half. Composition is associative, and not commutative. */
static unsigned composed(unsigned left, unsigned right) {
  const unsigned a = right >> 16;
  return (a * (left >> 16)) << 16 | ((a * (left & 0xffff) + right) & 0xffff);
}
static void compose(void *from, void *to, int *count, MPI_Datatype *type) {
  (void)type;
  for (int k = 0; k < *count; ++k) ((unsigned *)to)[k] = composed(((unsigned *)from)[k], ((unsigned *)to)[k]);
}
static void add(void *from, void *to, int *count, MPI_Datatype *type) {
  (void)type;
  for (int k = 0; k < *count; ++k) ((int *)to)[k] += ((int *)from)[k];
}
static unsigned map_of(int rank, int k) { return ((unsigned)(2 * rank + 3) << 16) | (unsigned)((rank + k) & 0xff); }

static void user_operations(int count) {
  MPI_Op composes, adds;
  MPI_Op_create(compose, 0, &composes);
  MPI_Op_create(add, 1, &adds);
  within(60, "operations of the program on %d", count);
  for (int k = 0; k < count; ++k) ((unsigned *)in)[k] = map_of(world_rank, k);
  for (int is_exclusive = 0; is_exclusive < 2; ++is_exclusive) {
    (is_exclusive ? MPI_Exscan : MPI_Scan)(in, out, count, MPI_UNSIGNED, composes, MPI_COMM_WORLD);
    for (int k = 0; k < count && world_rank >= is_exclusive; ++k) {
      unsigned expected = map_of(0, k);
      for (int rank = 1; rank <= world_rank - is_exclusive; ++rank) expected = composed(expected, map_of(rank, k));
      CHECK(((unsigned *)out)[k] == expected, "composition %d of %d", k, count);
    }
  }
  fill(in, count);
  MPI_Scan(in, out, count, MPI_INT, adds, MPI_COMM_WORLD);
  expect("scan by the program's sum", count, world_rank);
  MPI_Exscan(in, out, count, MPI_INT, adds, MPI_COMM_WORLD);
  if (world_rank > 0) expect("exscan by the program's sum", count, world_rank - 1);
  MPI_Op_free(&composes);
  MPI_Op_free(&adds);
}

static void in_the_interface(int count) {
  __typeof__(&offbeat_run) run = function("offbeat_run");
  __typeof__(&offbeat_begin) begin = function("offbeat_begin");
  __typeof__(&offbeat_wait) wait = function("offbeat_wait");
  for (int in_place = 0; in_place < 2; ++in_place) {
    for (int is_exclusive = 0; is_exclusive < 2; ++is_exclusive) {
      within(60, "the C interface, %d elements, in place %d, exclusive %d", count, in_place, is_exclusive);
      const int last = is_exclusive && world_rank > 0 ? world_rank - 1 : world_rank;
      offbeat_call call =
          sum_call(in_place ? NULL : in, out, (size_t)count, OFFBEAT_INT32, OFFBEAT_SUM, FORTRAN_HANDLE(MPI_COMM_WORLD));
      call.collective = is_exclusive ? "exscan" : "scan";
      if (is_exclusive && world_rank == 0 && !in_place) call.output = NULL;
      fill(in, count);
      fill(out, count); /* what rank 0 keeps */
      CHECK(run(&call) == OFFBEAT_OK, "offbeat_run of %s", call.collective);
      expect(call.collective, count, last);
      offbeat_request *request = NULL;
      fill(out, count);
      CHECK(begin(&call, &request) == OFFBEAT_OK && wait(&request) == OFFBEAT_OK, "begun %s", call.collective);
      expect(call.collective, count, last);
    }
  }
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  const int counts[] = {1, 40, 900, 3000, LONGEST};
  MPI_Barrier(MPI_COMM_WORLD);
  for (int k = 0; k < (int)(sizeof counts / sizeof *counts); ++k) {
    const int count = counts[k];
    if (argc == 1) in_turn(count);
    rank_0_has_no_result(count);
    if (count < LONGEST) user_operations(count);
    in_the_interface(count);
  }
  return check_finish();
}
