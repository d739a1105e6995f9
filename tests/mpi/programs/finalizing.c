/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives in MPI_Finalize, in a delete function of an attribute of MPI_COMM_SELF:
 *  - what was begun before is completed there;
 *  - others are begun, on communicators that are old, new, or not used before;
 *  - half of the ranks make calls there that the others make before their MPI_Finalize.
 */
#include "check.h"
#include "persistent.h"

enum { SHORT = 1000, LONG = 100000, LATE = 3 };

static MPI_Comm unused, used;
static MPI_Request late[LATE], lasting = MPI_REQUEST_NULL;
static int input[LONG], output[LATE][LONG], found[LONG], sums[SHORT];
static int callbacks;

static void expect(const int *values, int count, const char *what) {
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += values[i] != world_size * input[i];
  CHECK(wrong == 0, "%s: %d of %d sums wrong", what, wrong, count);
}

static void sum(MPI_Comm communicator, int count, const char *what) {
  within(20, "%s", what);
  allreduce(input, found, count, MPI_INT, MPI_SUM, communicator);
  expect(found, count, what);
}

static void begin(MPI_Comm communicator, int count, int *values, MPI_Request *request) {
  ++check_calls;
  MPI_Iallreduce(input, values, count, MPI_INT, MPI_SUM, communicator, request);
}

static void sum_later(MPI_Comm communicator, int count, const char *what) {
  MPI_Request request;
  within(20, "%s", what);
  begin(communicator, count, found, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(found, count, what);
}

static void sum_everywhere(void) {
  sum(MPI_COMM_WORLD, SHORT, "in callbacks and before");
  sum(unused, SHORT, "in callbacks and before, on a communicator that is not used yet");
  sum_later(used, SHORT, "begun in callbacks and before");
}

static void complete_persistent(void) {
  within(20, "a persistent request");
  for (int k = 0; k < 2; ++k) {
    if (k > 0) MPI_Start(&lasting);
    check_calls += k;
    MPI_Wait(&lasting, MPI_STATUS_IGNORE);
    expect(sums, SHORT, "persistent");
    memset(sums, 0, sizeof sums);
  }
  MPI_Request_free(&lasting);
}

static int on_delete(MPI_Comm self, int key, void *value, void *state) {
  (void)key, (void)value, (void)state;
  ++callbacks;
  if (world_rank % 2 == 0) sum_everywhere();
  for (int k = 0; k < LATE; ++k) {
    within(20, "begun before MPI_Finalize, number %d", k);
    MPI_Wait(&late[k], MPI_STATUS_IGNORE);
    expect(output[k], k == LATE - 1 ? LONG : SHORT, "begun before MPI_Finalize");
  }
  if (has_persistent) complete_persistent();
  sum(MPI_COMM_WORLD, LONG, "on MPI_COMM_WORLD");
  sum_later(MPI_COMM_WORLD, SHORT, "begun on MPI_COMM_WORLD");
  MPI_Comm made;
  within(20, "a new communicator");
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  sum(made, SHORT, "on a new communicator");
  sum_later(made, SHORT, "begun on a new communicator");
  MPI_Comm_free(&made);
  MPI_Comm_free(&unused);
  int mine = 7, alone = 0;
  within(20, "alone");
  allreduce(&mine, &alone, 1, MPI_INT, MPI_SUM, self);
  CHECK(alone == 7, "%d alone", alone);
  within(20, "the rest of MPI_Finalize");
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  int key;
  check_start(&argc, &argv);
  for (int i = 0; i < LONG; ++i) input[i] = i;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &unused);
  MPI_Comm_dup(MPI_COMM_WORLD, &used);
  for (int k = 0; k < 2; ++k) {
    sum_later(k ? used : MPI_COMM_WORLD, SHORT, "begun first");
    sum(k ? used : MPI_COMM_WORLD, SHORT, "first");
  }
  for (int k = 0; k < LATE; ++k) begin(MPI_COMM_WORLD, k == LATE - 1 ? LONG : SHORT, output[k], &late[k]);
  if (has_persistent) {
    (void)MPI_Allreduce_init(input, sums, SHORT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &lasting);
    MPI_Start(&lasting);
    ++check_calls;
  }
  if (world_rank % 2) sum_everywhere();
  within(20, "MPI_Finalize");
  MPI_Finalize();
  CHECK(callbacks == 1, "%d callbacks", callbacks);
  if (world_rank == 0 && check_failures == 0) printf("ok: %ld cases, %ld calls\n", check_cases, check_calls);
  return check_failures != 0;
}
