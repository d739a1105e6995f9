/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that uses offbeat's C interface where it is preloaded: the one kind that knows about offbeat.
 */
#define _GNU_SOURCE
#include <stdint.h>

#include "interface.h"

/* bfloat16 is the upper half of a float; exact for the small integers used here. */
static uint16_t to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

/* Small positive integers as binary16: exponent bias 15, 10 bits of fraction. */
static uint16_t to_float16(int value) {
  int exponent = 0;
  while ((value >> (exponent + 1)) != 0) ++exponent;
  return (uint16_t)(((exponent + 15) << 10) | (((value << 10) >> exponent) & 0x3ff));
}

static void check_selection(void) {
  __typeof__(&offbeat_select) select_algorithm = function("offbeat_select");
  __typeof__(&offbeat_count) count = function("offbeat_count");
  char error[200] = "";
  CHECK(select_algorithm("allreduce", "rng", error, sizeof error) == OFFBEAT_ERROR_EXPRESSION, "rng was accepted");
  CHECK(strstr(error, "column 1") != NULL && strstr(error, "'ring'") != NULL, "the error says '%s'", error);
  CHECK(select_algorithm("allreduce", "rng", error, 4) == OFFBEAT_ERROR_EXPRESSION && strlen(error) == 3, "cut error");
  CHECK(select_algorithm("alreduce", "ring", NULL, 0) == OFFBEAT_ERROR_ARGUMENT, "alreduce was accepted");
  CHECK(select_algorithm(NULL, "ring", NULL, 0) == OFFBEAT_ERROR_ARGUMENT, "NULL was accepted");

  const char *choices[] = {"ring", "native", "pipeline(4, ring)", ""};
  for (int k = 0; k < 4; ++k) {
    offbeat_counters before, after;
    CHECK(select_algorithm("allreduce", choices[k], error, sizeof error) == OFFBEAT_OK, "'%s': %s", choices[k], error);
    CHECK(count("allreduce", &before, sizeof before) == OFFBEAT_OK, "offbeat_count");
    int one = 1, sum = 0;
    allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == world_size, "%s gave %d", choices[k], sum);
    CHECK(count("allreduce", &after, sizeof after) == OFFBEAT_OK, "offbeat_count");
    const char *start = getenv("OFFBEAT_ALLREDUCE");
    const char *choice = choices[k][0] == '\0' && start != NULL ? start : choices[k];
    const uint64_t served = strcmp(choice, "native") != 0 ? 1 : 0;
    CHECK(after.intercepted - before.intercepted == 1, "%s: not intercepted", choices[k]);
    CHECK(after.served - before.served == served, "%s: served %lld", choices[k],
          (long long)(after.served - before.served));
  }
  offbeat_counters counters;
  CHECK(count("allreduce", &counters, 1) == OFFBEAT_ERROR_ARGUMENT, "a small struct was accepted");
  CHECK(count("gossip", &counters, sizeof counters) == OFFBEAT_ERROR_ARGUMENT, "gossip was accepted");
}

static void check_reduce(void) {
  __typeof__(&offbeat_reduce) reduce = function("offbeat_reduce");
  uint16_t a[3], b[3], c[3], result[3];
  for (int k = 0; k < 3; ++k) {
    a[k] = to_float16(k + 1);
    b[k] = to_float16(10);
    c[k] = to_float16(2 * k + 1);
  }
  const void *operands[] = {a, b, c};
  CHECK(reduce(result, operands, 3, 3, OFFBEAT_FLOAT16, OFFBEAT_SUM) == OFFBEAT_OK, "reduce of float16");
  for (int k = 0; k < 3; ++k) CHECK(result[k] == to_float16(12 + 3 * k), "float16 %d: %x", k, result[k]);
  CHECK(reduce(result, operands, 3, 3, OFFBEAT_FLOAT16, OFFBEAT_BITWISE_AND) == OFFBEAT_ERROR_UNSUPPORTED, "float & float");
  CHECK(reduce(result, operands, 0, 3, OFFBEAT_FLOAT16, OFFBEAT_SUM) == OFFBEAT_ERROR_ARGUMENT, "no operands");
  CHECK(reduce(result, operands, 2, 3, (offbeat_type)99, OFFBEAT_SUM) == OFFBEAT_ERROR_ARGUMENT, "type 99");
}

static void check_allreduce(void) {
  enum { most = 10000 };
  static uint16_t input[most], output[most];
  const int communicator = FORTRAN_HANDLE(MPI_COMM_WORLD);
  const int expected = world_size * (world_size + 1) / 2;
  for (int count = 0; count <= most; count = count == 0 ? 1 : count * 10) {
    for (int in_place = 0; in_place < 2; ++in_place) {
      uint16_t *const source = in_place ? output : input;
      for (int k = 0; k < count; ++k) source[k] = to_float16(world_rank + 1);
      CHECK(offbeat_allreduce(in_place ? NULL : input, output, (size_t)count, OFFBEAT_FLOAT16, OFFBEAT_SUM, communicator) == OFFBEAT_OK,
            "float16 allreduce of %d", count);
      for (int k = 0; k < count; ++k) CHECK(output[k] == to_float16(expected), "float16 of %d: %x", count, output[k]);
      for (int k = 0; k < count; ++k) source[k] = to_bfloat16((float)(world_rank + 1));
      CHECK(offbeat_allreduce(in_place ? output : input, output, (size_t)count, OFFBEAT_BFLOAT16, OFFBEAT_MAX, communicator) == OFFBEAT_OK,
            "bfloat16 allreduce of %d", count);
      for (int k = 0; k < count; ++k) CHECK(output[k] == to_bfloat16((float)world_size), "bfloat16 of %d: %x", count, output[k]);
    }
  }
  const int self = FORTRAN_HANDLE(MPI_COMM_SELF);
  CHECK(offbeat_allreduce(input, output, 5, OFFBEAT_FLOAT16, OFFBEAT_SUM, self) == OFFBEAT_OK && memcmp(input, output, 10) == 0, "alone");
  CHECK(offbeat_allreduce(NULL, NULL, 5, OFFBEAT_FLOAT16, OFFBEAT_SUM, communicator) == OFFBEAT_ERROR_ARGUMENT, "no output");
  __typeof__(&offbeat_run) run = function("offbeat_run");
  __typeof__(&offbeat_error_text) error_text = function("offbeat_error_text");
  __typeof__(&offbeat_error_code) error_code = function("offbeat_error_code");
  offbeat_call call = sum_call(input, output, 1, OFFBEAT_FLOAT16, OFFBEAT_SUM, communicator);
  call.collective = "gatherv";
  CHECK(run(&call) == OFFBEAT_ERROR_ARGUMENT && strstr(error_text(), "'gatherv'") != NULL, "gatherv: %s", error_text());
  call.collective = "allreduce";
  call.op = OFFBEAT_BITWISE_OR;
  CHECK(run(&call) == OFFBEAT_ERROR_UNSUPPORTED && error_code() == 0, "or of float16: %s", error_text());
  call.size = 8;
  CHECK(run(&call) == OFFBEAT_ERROR_ARGUMENT && run(NULL) == OFFBEAT_ERROR_ARGUMENT, "no call");
}

/* The sum 1 + 2 + ... + ranks in float32, while the program looks at it from time to time. */
static void check_nonblocking(const char *algorithm) {
  __typeof__(&offbeat_select) select_algorithm = function("offbeat_select");
  __typeof__(&offbeat_test) test = function("offbeat_test");
  __typeof__(&offbeat_wait) wait = function("offbeat_wait");
  enum { most = 100000 };
  static float input[most], output[most], second[most];
  const int communicator = FORTRAN_HANDLE(MPI_COMM_WORLD);
  const float expected = (float)(world_size * (world_size + 1) / 2);
  CHECK(select_algorithm("allreduce", algorithm, NULL, 0) == OFFBEAT_OK, "%s", algorithm);
  for (int count = 0; count <= most; count = count == 0 ? 1 : count * 10) {
    for (int k = 0; k < count; ++k) input[k] = (float)(world_rank + 1);
    offbeat_request *request = NULL;
    CHECK(offbeat_iallreduce(input, output, (size_t)count, OFFBEAT_FLOAT32, OFFBEAT_SUM, communicator, &request) == OFFBEAT_OK,
          "%s: begin %d", algorithm, count);
    int complete = 0;
    long looks = 0;
    for (; complete == 0; ++looks) CHECK(test(&request, &complete) == OFFBEAT_OK, "%s: test of %d", algorithm, count);
    CHECK(request == NULL && looks > 0, "%s: not freed", algorithm);
    for (int k = 0; k < count; ++k) CHECK(output[k] == expected, "%s of %d: %f", algorithm, count, (double)output[k]);

    /* A blocking call in between, which does not wait for it. */
    CHECK(offbeat_iallreduce(input, output, (size_t)count, OFFBEAT_FLOAT32, OFFBEAT_SUM, communicator, &request) == OFFBEAT_OK,
          "%s: begin %d", algorithm, count);
    allreduce(input, second, count, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(wait(&request) == OFFBEAT_OK && request == NULL, "%s: wait for %d", algorithm, count);
    for (int k = 0; k < count; ++k)
      CHECK(output[k] == expected && second[k] == (float)world_size, "%s of %d, with another", algorithm, count);
  }
  offbeat_request *none = NULL;
  int complete = 0;
  CHECK(test(&none, &complete) == OFFBEAT_OK && complete == 1, "no request");
  CHECK(offbeat_iallreduce(input, output, 1, OFFBEAT_FLOAT32, OFFBEAT_BITWISE_OR, communicator, &none) == OFFBEAT_ERROR_UNSUPPORTED, "or");
  CHECK(select_algorithm("allreduce", "", NULL, 0) == OFFBEAT_OK, "back");
}

/* Element k of what `giver` has for `taker`. */
static int32_t gift(int giver, int taker, int k) { return giver * 1000003 + taker * 10007 + k; }

/* The blocks of a call: how many this rank puts in, gets out, and for whom the first one is. */
static const struct {
  const char *name;
  int rooted_in, rooted_out, many_in, many_out, sums, in_place;
} block_calls[] = {
    {"bcast", 1, 0, 0, 0, 0, 0},   {"reduce", 0, 1, 0, 0, 1, 1},   {"allgather", 0, 0, 0, 1, 0, 1},
    {"gather", 0, 1, 0, 1, 0, 1},  {"scatter", 1, 0, 1, 0, 0, 0},  {"alltoall", 0, 0, 1, 1, 0, 0},
    {"reduce_scatter_block", 0, 0, 1, 0, 1, 0},
};

static void check_block_call(int what, int count, int root, int in_place, int begins) {
  __typeof__(&offbeat_run) run = function("offbeat_run");
  __typeof__(&offbeat_begin) begin = function("offbeat_begin");
  __typeof__(&offbeat_wait) wait = function("offbeat_wait");
  __typeof__(&offbeat_error_text) error_text = function("offbeat_error_text");
  const char *const name = block_calls[what].name;
  const int is_bcast = strcmp(name, "bcast") == 0, is_root = world_rank == root;
  const int gives = !block_calls[what].rooted_in || is_root, takes = !block_calls[what].rooted_out || is_root;
  const int ins = block_calls[what].many_in ? world_size : 1, outs = block_calls[what].many_out ? world_size : 1;
  const size_t bytes = sizeof(int32_t) * (size_t)count;
  int32_t *const input = allocate(bytes * (size_t)ins + 4), *const output = allocate(bytes * (size_t)outs + 4);
  input[count * ins] = output[count * outs] = -7; /* behind the end */
  for (int k = 0; k < count * outs; ++k) output[k] = -1;
  int32_t *given = input;
  if (is_bcast) given = output;
  if (in_place && takes) given = output + (block_calls[what].many_out ? world_rank * count : 0);
  for (int block = 0; gives && block < ins; ++block)
    for (int k = 0; k < count; ++k) given[block * count + k] = gift(world_rank, block_calls[what].many_in ? block : 0, k);

  offbeat_call call = sum_call(in_place && takes ? NULL : input, output, (size_t)count, OFFBEAT_INT32, OFFBEAT_SUM,
                               FORTRAN_HANDLE(MPI_COMM_WORLD));
  call.collective = name;
  call.root = root;
  if (!gives && !is_bcast) call.input = NULL;
  if (!takes) call.output = NULL;
  offbeat_request *request = NULL;
  const offbeat_status status = begins ? begin(&call, &request) : run(&call);
  CHECK(status == OFFBEAT_OK && wait(&request) == OFFBEAT_OK, "%s of %d: %s", name, count, error_text());

  int wrong = 0;
  for (int block = 0; takes && block < outs; ++block) {
    const int taker = block_calls[what].many_in ? world_rank : 0;
    for (int k = 0; k < count; ++k) {
      int32_t expected = 0;
      if (block_calls[what].sums) {
        for (int rank = 0; rank < world_size; ++rank) expected += gift(rank, taker, k);
      } else {
        expected = gift(block_calls[what].many_out ? block : root, taker, k);
      }
      wrong += output[block * count + k] != expected;
    }
  }
  wrong += input[count * ins] != -7 || output[count * outs] != -7;
  CHECK(wrong == 0, "%s of %d, root %d, in place %d, begun %d: %d wrong", name, count, root, in_place, begins, wrong);
  free(input);
  free(output);
}

static void check_blocks(void) {
  __typeof__(&offbeat_run) run = function("offbeat_run");
  __typeof__(&offbeat_error_text) error_text = function("offbeat_error_text");
  const int counts[] = {0, 1, 100, 30000};
  for (int what = 0; what < (int)(sizeof block_calls / sizeof *block_calls); ++what)
    for (int c = 0; c < 4; ++c)
      for (int kind = 0; kind < 4; ++kind) {
        const int in_place = kind % 2;
        if (in_place && !block_calls[what].in_place) continue;
        check_block_call(what, counts[c], (what + c) % world_size, in_place, kind / 2);
      }
  int32_t data[2] = {0};
  offbeat_call call = sum_call(data, data, 1, OFFBEAT_INT32, OFFBEAT_SUM, FORTRAN_HANDLE(MPI_COMM_WORLD));
  call.collective = "alltoall";
  CHECK(run(&call) == OFFBEAT_ERROR_ARGUMENT && strstr(error_text(), "no separate input") != NULL, "in place: %s", error_text());
  call.collective = "alltoallv";
  CHECK(run(&call) == OFFBEAT_ERROR_ARGUMENT && strstr(error_text(), "lists") != NULL, "lists: %s", error_text());
  call.collective = "bcast";
  call.root = world_size;
  CHECK(run(&call) == OFFBEAT_ERROR_ARGUMENT && strstr(error_text(), "root") != NULL, "root: %s", error_text());
}

int main(int argc, char **argv) {
  check_start(&argc, &argv);
  __typeof__(&offbeat_version) version = function("offbeat_version");
  __typeof__(&offbeat_family) family = function("offbeat_family");
  CHECK(strchr(version(), '.') != NULL, "version '%s'", version());
  CHECK(strlen(family()) > 4, "family '%s'", family());
  check_selection();
  check_reduce();
  check_allreduce();
  check_blocks();
  check_nonblocking("");
  check_nonblocking("ring");
  check_nonblocking("pipeline(4, rabenseifner)");
  check_nonblocking("recursive_doubling");
  return check_finish();
}
