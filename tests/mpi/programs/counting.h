/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libmpi_counting.c offers to the programs that are run under it.
 */
#ifndef COUNTING_H
#define COUNTING_H

/* Since the process began. */
struct host_calls {
  long allreduces;
  long other_collectives;
  long communicators; /* calls that make some */
  long completed;     /* generalised requests */
};

typedef struct host_calls host_calls_function(void);

#endif
