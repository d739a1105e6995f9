/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     failed_requests all|host|fatal NUMBER
 *
 * Checks the table of failed_requests.h on rank 0 of 2: each row with MPI_ERRORS_RETURN, and again with an error
 * handler, then every other row without statuses, beginning with row NUMBER. `host` leaves out the rows with a
 * failed collective, so the table can be compared with what an MPI does by itself. `fatal` makes the call of one
 * row with MPI_ERRORS_ARE_FATAL where the host looks for the error handler, and does not come back from it.
 *
 * A collective fails because rank 1 has no memory for it.
 */
#include "check.h"
#include "failed_requests.h"
#include "persistent.h"
#include "room.h"

enum { MOST = 8, LONG = 1 << 19, UNTOUCHED = 0x5a5a5a5a, LATE = 100 };
enum place { ELSEWHERE, GOOD, BAD, LATER, MESSAGES, WORLD, SELF, PLACES };
static const char *const place_names[] = {"elsewhere", "good", "bad", "later", "messages", "world", "self"};
static const char *const function_names[] = {"wait",     "test",    "waitany", "testany",    "waitsome", "testsome",
                                             "waitall",  "testall", "get_status", "get_any", "get_some", "get_all"};

static MPI_Comm places[PLACES];
static int mine[MOST][8], result[MOST][8], letters[8], from_all[2 * LONG], to_all[2 * LONG], counts[2] = {LONG, LONG};

/* -- what the error handlers see */

static int handler_calls, handler_code;
static enum place handler_place;

static void note(MPI_Comm *communicator, int *code, ...) {
  ++handler_calls;
  handler_code = *code;
  handler_place = ELSEWHERE;
  for (int k = 1; k < PLACES; ++k)
    if (places[k] == *communicator) handler_place = (enum place)k;
}

static void set_handlers(MPI_Errhandler handler) {
  for (int k = 1; k < PLACES; ++k)
    if (places[k] != MPI_COMM_NULL) MPI_Comm_set_errhandler(places[k], handler);
}

/* -- the requests of a list */

static int is_collective(char letter) { return strchr("afwpqi", letter) != NULL; }
static int is_persistent(char letter) { return strchr("pqiI", letter) != NULL; }
static int is_over(char letter) { return strchr("afpqAT", letter) != NULL; }
static int has_failed_collective(const char *list) { return strpbrk(list, "fq") != NULL; }

static enum place place_of(char letter) {
  if (letter == 'w') return LATER;
  if (letter == 'f' || letter == 'q') return BAD;
  return is_collective(letter) ? GOOD : MESSAGES;
}

/* Rank 1 makes its part of request k of the list, too, which is its last part in what is to be over. */
static void begin(char letter, int k, MPI_Request *request) {
  const MPI_Comm where = places[place_of(letter)];
  MPI_Request other = MPI_REQUEST_NULL;
  MPI_Request *const made = world_rank == 0 ? request : &other;
  if (letter == 'a' || (world_rank == 0 && strchr("wf", letter)))
    MPI_Iallreduce(mine[k], result[k], 8, MPI_INT, MPI_SUM, where, made);
  if (letter == 'p' || letter == 'i')
    MPI_Allreduce_init(mine[k], result[k], 8, MPI_INT, MPI_SUM, where, MPI_INFO_NULL, made);
  if (letter == 'q')
    MPI_Reduce_scatter_init(world_rank == 1 ? MPI_IN_PLACE : from_all, to_all, counts, MPI_INT, MPI_SUM, where,
                            MPI_INFO_NULL, made);
  if (letter == 'p' || (letter == 'q' && world_rank == 0)) MPI_Start(made);
  if (letter == 'q' && world_rank == 1) {
    leave_room(4096);
    const int code = k % 2 == 0 ? MPI_Startall(1, &other) : MPI_Start(&other);
    CHECK(code != MPI_SUCCESS, "there is memory");
    leave_all_room();
  }
  if (world_rank == 0 && strchr("ATW", letter))
    MPI_Irecv(result[k], letter == 'T' ? 1 : 8, MPI_INT, 1, k, where, request);
  if (world_rank == 0 && letter == 'I') MPI_Recv_init(result[k], 8, MPI_INT, 1, k, where, request);
  if (world_rank == 1 && strchr("ap", letter)) MPI_Wait(&other, MPI_STATUS_IGNORE);
  if (other != MPI_REQUEST_NULL) MPI_Request_free(&other);
}

/* Rank 1 begins this without the memory for a copy of its input, which is in place. */
static void begin_in_vain(MPI_Comm communicator, MPI_Request *request) {
  void *const input = world_rank == 1 ? MPI_IN_PLACE : from_all;
  if (world_rank == 1) leave_room(4096);
  const int code = MPI_Ireduce_scatter(input, to_all, counts, MPI_INT, MPI_SUM, communicator, request);
  if (world_rank == 1) leave_all_room();
  CHECK((code == MPI_SUCCESS) == (world_rank == 0), "rank %d gets the code %d", world_rank, code);
}

/* Begins all requests of a list. A failure ends all use of a communicator, so it has a new one. */
static void begin_all(const char *list, MPI_Request requests[MOST]) {
  MPI_Request in_vain = MPI_REQUEST_NULL;
  for (int k = 0; k < MOST; ++k) requests[k] = MPI_REQUEST_NULL;
  if (has_failed_collective(list)) {
    MPI_Comm_dup(MPI_COMM_WORLD, &places[BAD]);
    MPI_Comm_set_errhandler(places[BAD], MPI_ERRORS_RETURN);
    allreduce(mine[0], result[0], 1, MPI_INT, MPI_SUM, places[BAD]);
    if (world_rank == 0) begin_in_vain(places[BAD], &in_vain);
  }
  for (int k = 0; list[k]; ++k) begin(list[k], k, &requests[k]);
  MPI_Barrier(places[ELSEWHERE]);
  if (has_failed_collective(list) && world_rank == 1) begin_in_vain(places[BAD], &in_vain);
  if (world_rank == 0) MPI_Wait(&in_vain, MPI_STATUS_IGNORE);
  MPI_Barrier(places[ELSEWHERE]);
  for (int k = 0; list[k] && world_rank == 1; ++k)
    if (strchr("AT", list[k])) MPI_Send(letters, list[k] == 'T' ? 8 : 1, MPI_INT, 0, k, places[MESSAGES]);
  MPI_Barrier(places[ELSEWHERE]);
  for (int k = 0; list[k] && world_rank == 0; ++k)
    for (int flag = !is_over(list[k]); !flag;) MPI_Request_get_status(requests[k], &flag, MPI_STATUS_IGNORE);
}

/* Completes what a function has left. */
static void end_all(const char *list, MPI_Request requests[MOST]) {
  MPI_Barrier(places[ELSEWHERE]);
  for (int k = 0; list[k]; ++k) {
    MPI_Request other = MPI_REQUEST_NULL;
    if (world_rank == 1 && list[k] == 'W') MPI_Send(letters, 1, MPI_INT, 0, k, places[MESSAGES]);
    if (world_rank == 1 && list[k] == 'w')
      MPI_Iallreduce(mine[k], result[k], 8, MPI_INT, MPI_SUM, places[LATER], &other);
    if (world_rank == 1) MPI_Wait(&other, MPI_STATUS_IGNORE);
    if (world_rank == 0 && requests[k] != MPI_REQUEST_NULL) {
      MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
      if (is_persistent(list[k])) MPI_Request_free(&requests[k]);
    }
  }
  MPI_Barrier(places[ELSEWHERE]);
  if (has_failed_collective(list)) MPI_Comm_free(&places[BAD]);
  places[BAD] = MPI_COMM_NULL;
}

/* -- the call of a row */

struct call {
  int code, flag, index, done, indices[MOST];
  MPI_Status statuses[MOST];
};

static void make_call(enum function function, int count, MPI_Request requests[MOST], int ignores, struct call *call) {
  MPI_Status *const all = ignores ? MPI_STATUSES_IGNORE : call->statuses;
  MPI_Status *const one = ignores ? MPI_STATUS_IGNORE : call->statuses;
  memset(call, 0, sizeof *call);
  call->index = call->done = MPI_UNDEFINED;
  for (int k = 0; k < MOST; ++k) call->statuses[k].MPI_ERROR = UNTOUCHED;
  switch (function) {
    case WAIT: call->code = MPI_Wait(requests, one); break;
    case TEST: call->code = MPI_Test(requests, &call->flag, one); break;
    case WAITANY: call->code = MPI_Waitany(count, requests, &call->index, one); break;
    case TESTANY: call->code = MPI_Testany(count, requests, &call->index, &call->flag, one); break;
    case WAITSOME: call->code = MPI_Waitsome(count, requests, &call->done, call->indices, all); break;
    case TESTSOME: call->code = MPI_Testsome(count, requests, &call->done, call->indices, all); break;
    case WAITALL: call->code = MPI_Waitall(count, requests, all); break;
    case TESTALL: call->code = MPI_Testall(count, requests, &call->flag, all); break;
    case GET_STATUS: call->code = MPI_Request_get_status(requests[0], &call->flag, one); break;
    case GET_ANY: call->code = MPI_Request_get_status_any(count, requests, &call->index, &call->flag, one); break;
    case GET_SOME: call->code = MPI_Request_get_status_some(count, requests, &call->done, call->indices, all); break;
    case GET_ALL: call->code = MPI_Request_get_status_all(count, requests, &call->flag, all); break;
  }
}

static char letter_of(int code) {
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  if (class == MPI_SUCCESS) return 's';
  return class == MPI_ERR_IN_STATUS ? 'I' : class == MPI_ERR_TRUNCATE ? 'T' : class == MPI_ERR_PENDING ? 'P' : 'F';
}

static int has_flag(enum function function) {
  return function == TEST || function == TESTANY || function == TESTALL || function == GET_STATUS ||
         function == GET_ANY || function == GET_ALL;
}
static int is_any(enum function function) {
  return function == WAITANY || function == TESTANY || function == GET_ANY;
}
static int is_all(enum function function) {
  return function == WAITALL || function == TESTALL || function == GET_ALL;
}
static int is_many(enum function function) {
  return is_all(function) || function == WAITSOME || function == TESTSOME || function == GET_SOME;
}

/* What the call says of request k, whose status is number `place`. On success MPI_ERROR may be left alone, and for
 * a null request Intel MPI always does so; offbeat's inactive ones are null to it. */
static char state_of(const struct row *row, const struct call *call, int k, int place) {
  const int error = call->statuses[place].MPI_ERROR;
  if (error != UNTOUCHED) return letter_of(error);
  return call->code == MPI_SUCCESS || strchr("0i", row->list[k]) ? 's' : '?';
}

static void describe(const struct row *row, const struct call *call, const MPI_Request *requests, int ignores,
                     char text[3 * MOST]) {
  const int count = (int)strlen(row->list);
  char states[MOST + 1] = "", left[MOST + 1] = "", flag[2] = "";
  memset(states, '.', (size_t)count);
  for (int k = 0; k < count; ++k) left[k] = requests[k] == MPI_REQUEST_NULL ? '0' : '=';
  if (has_flag(row->function)) flag[0] = call->flag ? '1' : '0';
  const char code = letter_of(call->code);
  if (is_any(row->function)) {
    if (call->index != MPI_UNDEFINED) states[call->index] = code;
  } else if (!is_many(row->function)) {
    if (flag[0] != '0') states[0] = code;
  } else if (is_all(row->function)) {
    for (int k = 0; k < count && (code == 'I' || flag[0] != '0'); ++k) states[k] = state_of(row, call, k, k);
  } else {
    for (int i = 0; i < call->done; ++i) states[call->indices[i]] = state_of(row, call, call->indices[i], i);
  }
  if (ignores) memset(states, '.', (size_t)count);
  snprintf(text, 3 * MOST, "%c%s %s %s", code == 's' ? 'S' : code, flag, states, left);
}

/* Whether an outcome of the table is what happened. Open MPI 4 frees inactive requests of its own if others fail. */
static int matches(const struct row *row, const char *outcome, const char *happened, int ignores) {
  const size_t count = strlen(row->list), states = strlen(outcome) - 2 * count - 1, left = states + count + 1;
  if (strlen(outcome) != strlen(happened)) return 0;
  for (size_t k = 0; outcome[k]; ++k) {
    if (ignores && k >= states && k < states + count) continue;
    if (k >= left && row->list[k - left] == 'I') continue;
    if (outcome[k] != happened[k]) return 0;
  }
  return 1;
}

/* -- the error handler of a row */

static enum place default_place(void) { return default_is_self ? SELF : WORLD; }
static enum choice choice_of(enum function function) {
  return function == WAIT || function == TEST ? (enum choice)handler_of_one : (enum choice)handler_of_list;
}

/* `outcome` has the states of the requests; see describe(). */
static void check_handler(const struct row *row, const char *outcome) {
  const char *const states = strchr(outcome, ' ') + 1;
  const enum choice choice = choice_of(row->function);
  if (outcome[0] == 'S') {
    CHECK(handler_calls == 0, "%s %s: an error handler is called, of %s", function_names[row->function], row->list,
          place_names[handler_place]);
    return;
  }
  const char class = letter_of(handler_code);
  int is_right = choice != BY_REQUEST && handler_place == default_place() && class == outcome[0];
  for (int k = 0; row->list[k] && choice != BY_DEFAULT; ++k)
    is_right |= strchr("FT", states[k]) && handler_place == place_of(row->list[k]) && class == states[k];
  /* Such a host does not say that it has called one. */
  const int most = forgets_the_code && strchr(states, 'F') && strchr(states, 'T') ? 2 : 1;
  CHECK(handler_calls >= 1 && handler_calls <= most && is_right, "%s %s: %d error handlers are called, the last of %s with %c",
        function_names[row->function], row->list, handler_calls, place_names[handler_place], class);
}

/* -- a row */

static MPI_Errhandler noting;

static void check_row(const struct row *row, int has_handler, int ignores) {
  MPI_Request requests[MOST];
  struct call call;
  char happened[3 * MOST];
  const char *outcome = NULL;
  within(20, "%s %s", function_names[row->function], row->list);
  begin_all(row->list, requests);
  if (world_rank == 0) {
    if (has_handler) set_handlers(noting);
    handler_calls = 0;
    make_call(row->function, (int)strlen(row->list), requests, ignores, &call);
    set_handlers(MPI_ERRORS_RETURN);
    if (forgets_the_code && handler_calls > 0 && call.code == MPI_SUCCESS) call.code = handler_code;
    describe(row, &call, requests, ignores, happened);
    int k = 0;
    do {
      if (matches(row, row->outcomes[k], happened, ignores)) outcome = row->outcomes[k];
    } while (!outcome && ++k < 2 && row->outcomes[k]);
    CHECK(outcome != NULL, "%s %s%s: %s, not %s", function_names[row->function], row->list,
          ignores ? " without statuses" : "", happened, row->outcomes[0]);
    if (has_handler && outcome) check_handler(row, outcome);
    const int error = call.statuses[0].MPI_ERROR;
    if (!is_many(row->function))
      CHECK(error == UNTOUCHED || error == MPI_SUCCESS, "%s %s: MPI_ERROR is %d", function_names[row->function],
            row->list, error);
  }
  end_all(row->list, requests);
}

/* Rank 1 makes its part of a collective when rank 0 has received a long message, which the MPI of rank 0 moves only if it
 * gets turns. Rank 0 tests that collective together with one that has failed. */
static void test_until_a_message_has_moved(void) {
  MPI_Request requests[MOST], receive = MPI_REQUEST_NULL;
  MPI_Status statuses[2];
  int flag = 0;
  within(20, "testall gives turns after a failure");
  begin_all("f", requests);
  if (world_rank == 0) MPI_Irecv(to_all, 2 * LONG, MPI_INT, 1, LATE, places[MESSAGES], &receive);
  if (world_rank == 1) MPI_Send(from_all, 2 * LONG, MPI_INT, 0, LATE, places[MESSAGES]);
  MPI_Iallreduce(mine[1], result[1], 8, MPI_INT, MPI_SUM, places[LATER], &requests[1]);
  while (world_rank == 0 && !flag) MPI_Testall(2, requests, &flag, statuses);
  if (world_rank == 0) CHECK(letter_of(statuses[0].MPI_ERROR) == 'F', "testall forgets a failure");
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  end_all("f", requests);
}

static void fail_fatally(const struct row *row) {
  MPI_Request requests[MOST];
  struct call call;
  within(20, "%s %s is fatal", function_names[row->function], row->list);
  begin_all(row->list, requests);
  const enum place place = choice_of(row->function) == BY_DEFAULT ? default_place() : BAD;
  MPI_Comm_set_errhandler(places[place], MPI_ERRORS_ARE_FATAL);
  printf("now fatal\n");
  fflush(stdout);
  if (world_rank == 0) make_call(row->function, (int)strlen(row->list), requests, 1, &call);
  if (world_rank == 0) printf("not fatal\n");
  end_all(row->list, requests);
}

static int can_be_made(const struct row *row, int only_host) {
  if (only_host && (has_failed_collective(row->list) || (waits_for_inactive && strpbrk(row->list, "pi")))) return 0;
  return (has_persistent || !strpbrk(row->list, "pqi")) && (has_list_status || row->function <= GET_STATUS);
}

int main(int argc, char **argv) {
  enum { ROWS = sizeof rows / sizeof *rows };
  check_start(&argc, &argv);
  const int only_host = strcmp(argv[1], "host") == 0, number = atoi(argv[2]);
  places[WORLD] = MPI_COMM_WORLD;
  places[SELF] = MPI_COMM_SELF;
  places[BAD] = MPI_COMM_NULL;
  for (int k = ELSEWHERE; k < WORLD; ++k)
    if (k != BAD) MPI_Comm_dup(MPI_COMM_WORLD, &places[k]);
  for (int k = ELSEWHERE; k < WORLD; ++k)
    if (k != BAD) allreduce(mine[0], result[0], 1, MPI_INT, MPI_SUM, places[k]);
  set_handlers(MPI_ERRORS_RETURN);
  MPI_Comm_create_errhandler(note, &noting);
  if (strcmp(argv[1], "fatal") == 0) {
    int left = number;
    for (int k = 0; k < 2 * ROWS; ++k) {
      const struct row *row = &rows[k % ROWS];
      if (!can_be_made(row, 0) || !strchr(row->list, 'f') || strpbrk(row->list, "ATW") || row->outcomes[0][0] == 'S')
        continue;
      if (left-- == 0) fail_fatally(row);
    }
    return check_finish();
  }
  for (int k = 0; k < ROWS; ++k) {
    if (!can_be_made(&rows[k], only_host)) continue;
    const int must_have_statuses = needs_statuses && rows[k].function == WAITALL && strchr(rows[k].list, 'T');
    check_row(&rows[k], 0, 0);
    check_row(&rows[k], 1, !must_have_statuses && (k + number) % 2 == 0);
  }
  if (!only_host) test_until_a_message_has_moved();
  within(20, "the end");
  MPI_Errhandler_free(&noting);
  for (int k = GOOD; k < WORLD; ++k)
    if (k != BAD) MPI_Comm_free(&places[k]);
  return check_finish();
}
