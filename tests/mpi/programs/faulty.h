/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libmpi_faulty.c offers to the programs that are run under it.
 */
#ifndef FAULTY_H
#define FAULTY_H

enum faulty_kind { NOTHING, MESSAGES, MEMORY, BROADCASTS };

/* Returns how much was left of the count before: 0 or less if it was reached. */
typedef long faulty_arm_function(enum faulty_kind kind, long n, int lasting);

#endif
