/* SPDX-License-Identifier: BSD-3-Clause
 * A library that takes BYTES of initial-exec thread-local memory. */
static __thread char room[BYTES] __attribute__((tls_model("initial-exec")));

char* greedy_room(void) { return room; }
