// SPDX-License-Identifier: BSD-3-Clause
// Stands in for liboffbeat.so below the torch backend. It has one group with one call, which ends when the
// test says so, and a wait does not return before the test says so. It notes if the group is freed in
// between.
#include <offbeat/offbeat.h>
#include <stdatomic.h>
#include <unistd.h>

static char group;
static offbeat_call begun;
static atomic_int waiting, may_leave, freed, freed_too_early;

offbeat_status offbeat_group_make(int rank, int size, offbeat_exchange exchange, void* state,
                                  offbeat_group** made) {
  (void)rank, (void)size, (void)exchange, (void)state;
  *made = (offbeat_group*)&group;
  return OFFBEAT_OK;
}
offbeat_status offbeat_group_free(offbeat_group** of) {
  *of = NULL;
  freed_too_early += waiting > 0;
  ++freed;
  return OFFBEAT_OK;
}
offbeat_status offbeat_group_give_up(offbeat_group* of, const char* why) {
  (void)of, (void)why;
  return OFFBEAT_OK;
}
offbeat_status offbeat_run(const offbeat_call* call) {
  (void)call;
  return OFFBEAT_ERROR_ARGUMENT;
}
offbeat_status offbeat_begin(const offbeat_call* call, offbeat_request** request) {
  (void)request;
  begun = *call;
  return OFFBEAT_OK;
}
offbeat_status offbeat_begin_send(const offbeat_message* message, offbeat_request** request) {
  (void)message, (void)request;
  return OFFBEAT_ERROR_ARGUMENT;
}
offbeat_status offbeat_begin_receive(const offbeat_message* message, offbeat_request** request) {
  (void)message, (void)request;
  return OFFBEAT_ERROR_ARGUMENT;
}
offbeat_status offbeat_wait_until(offbeat_group* of, int (*is_over)(void* state), void* state) {
  (void)of;
  ++waiting;
  while (!is_over(state) || !may_leave) usleep(1000);
  --waiting;
  return OFFBEAT_OK;
}
const char* offbeat_error_text(void) { return "not in this test"; }

// For the test.
int are_waiting(void) { return waiting; }
void end_call(void) { begun.done(begun.done_state, OFFBEAT_OK, ""); }
void let_leave(void) { may_leave = 1; }
int times_freed(void) { return freed; }
int times_freed_too_early(void) { return freed_too_early; }
