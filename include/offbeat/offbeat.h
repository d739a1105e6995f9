/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The C interface of offbeat, for programs and tools that want more than the
 * preload gives: to choose an algorithm, to ask which one ran, to reduce the
 * 16-bit floating types that MPI lacks.
 *
 * Every function is exported by each liboffbeat-<family>.so. A program that
 * must also run without offbeat looks the symbol up with
 * dlsym(RTLD_DEFAULT, "offbeat_version"), and does without offbeat if that is
 * NULL.
 *
 * Communicators travel as Fortran handles (MPI_Comm_c2f; MPI_Comm_toint in the
 * standard ABI), the one form that is the same in every MPI. Counts are in
 * elements, sizes in bytes.
 */
#ifndef OFFBEAT_H
#define OFFBEAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The status that functions return. */
typedef enum offbeat_status {
  OFFBEAT_OK = 0,
  OFFBEAT_ERROR_ARGUMENT = 1,    /**< null pointer, unknown collective, bad number */
  OFFBEAT_ERROR_EXPRESSION = 2,  /**< not an algorithm expression; the text says which column */
  OFFBEAT_ERROR_UNSUPPORTED = 3, /**< this type does not know this operation */
  OFFBEAT_ERROR_MPI = 4          /**< the host MPI reported an error, or is not initialised */
} offbeat_status;

/** Element types, sizes as in C; complex types are (real, imaginary) pairs. */
typedef enum offbeat_type {
  OFFBEAT_INT8,
  OFFBEAT_INT16,
  OFFBEAT_INT32,
  OFFBEAT_INT64,
  OFFBEAT_UINT8,
  OFFBEAT_UINT16,
  OFFBEAT_UINT32,
  OFFBEAT_UINT64,
  OFFBEAT_FLOAT16,  /**< IEEE 754 binary16, rounded to nearest even after every operation */
  OFFBEAT_BFLOAT16, /**< upper half of a binary32, rounded likewise */
  OFFBEAT_FLOAT32,
  OFFBEAT_FLOAT64,
  OFFBEAT_LONG_DOUBLE,
  OFFBEAT_COMPLEX64,  /**< 2 x binary32 */
  OFFBEAT_COMPLEX128, /**< 2 x binary64 */
  OFFBEAT_COMPLEX_LONG_DOUBLE,
  OFFBEAT_BOOL /**< C _Bool */
} offbeat_type;

typedef enum offbeat_op {
  OFFBEAT_SUM,
  OFFBEAT_PROD,
  OFFBEAT_MIN,
  OFFBEAT_MAX,
  OFFBEAT_LOGICAL_AND,
  OFFBEAT_LOGICAL_OR,
  OFFBEAT_LOGICAL_XOR,
  OFFBEAT_BITWISE_AND,
  OFFBEAT_BITWISE_OR,
  OFFBEAT_BITWISE_XOR
} offbeat_op;

/** Version as text, "major.minor.patch". */
const char* offbeat_version(void);

/** A short English text for a status; never NULL. */
const char* offbeat_status_string(offbeat_status status);

/** The ABI family this library was built for: "openmpi", "mpich" or "mpiabi". */
const char* offbeat_family(void);

/**
 * Choose the algorithm of all later calls of one collective in this process,
 * overriding the environment's choice. Every rank must make the same call at the same
 * point between collectives. An empty expression restores the start-up choice.
 *
 * @param collective  "allreduce"
 * @param expression  for example "pipeline(4, ring)"
 * @param error       receives one line when the status is not OFFBEAT_OK; may be NULL
 * @param error_size  bytes at `error`
 */
offbeat_status offbeat_select(const char* collective, const char* expression, char* error, size_t error_size);

/**
 * Returns the algorithm of this thread's last collective, as an expression. Calls of offbeat_run and
 * offbeat_begin count, and so do intercepted calls, including the start of a persistent collective. Returns
 * "copy" on a communicator of one rank, and NULL if the host MPI served the call. The text lives as long as
 * the process. Each algorithm of each choice has one address.
 */
const char* offbeat_last_algorithm(void);

/** How the calls of one collective in this process were served. */
typedef struct offbeat_counters {
  uint64_t intercepted; /**< calls that reached offbeat from the program, including those of this interface */
  uint64_t served;      /**< of these, run by an offbeat algorithm; the others went to the host MPI */
} offbeat_counters;

/** Read the counters of `collective`; `size` is sizeof(offbeat_counters). */
offbeat_status offbeat_count(const char* collective, offbeat_counters* counters, size_t size);

/**
 * destination[i] = ((operands[0][i] op operands[1][i]) op operands[2][i]) op ...
 *
 * Gives exactly the bits of combining two at a time, for any number of operands >= 1.
 * The destination may be one of the operands; no other overlap is allowed. All buffers must be in host
 * memory.
 */
offbeat_status offbeat_reduce(void* destination, const void* const* operands, size_t operand_count,
                              size_t count, offbeat_type type, offbeat_op op);

/**
 * One call of a collective, over offbeat's own types, including OFFBEAT_FLOAT16 and OFFBEAT_BFLOAT16, which
 * MPI lacks. Members that a collective does not have are ignored. Start from OFFBEAT_CALL_INIT, so that a
 * program compiled with an older header goes on working.
 */
typedef struct offbeat_call {
  size_t size;            /**< sizeof(offbeat_call) */
  const char* collective; /**< one that `offbeat info` lists, but for those with lists of counts */
  int communicator;       /**< a Fortran handle */
  int root;
  /**
   * NULL, or equal to output: in place, as MPI has it for allreduce, reduce, allgather and gather. A
   * broadcast has an output only.
   */
  const void* input;
  void* output; /**< not looked at on a rank that takes nothing */
  size_t count; /**< elements of one block; allgather, gather, scatter, alltoall and reduce_scatter_block have
                     vectors with a block for each rank */
  offbeat_type type;
  offbeat_op op;
} offbeat_call;
#define OFFBEAT_CALL_INIT \
  { sizeof(offbeat_call), NULL, 0, 0, NULL, NULL, 0, OFFBEAT_INT8, OFFBEAT_SUM }

/**
 * Run a collective; all ranks of the communicator must call this. Runs the algorithm that is chosen for this
 * size. These calls never go to the host, so where the choice is `native` another algorithm is taken.
 */
offbeat_status offbeat_run(const offbeat_call* call);

/** A collective that proceeds while the program computes. */
typedef struct offbeat_request offbeat_request;

/**
 * Begin a collective and return at once. Until it is complete, the buffers must stay and the input must not
 * change. The collective advances in offbeat_test, in offbeat_wait, in every other offbeat collective that
 * waits, in tests and waits of MPI for requests, and while the program waits inside the MPI library, as
 * docs/non-blocking.md says. Any number may be under way, on any communicators, beside blocking ones. All
 * ranks of a communicator must begin its collectives in the same order, and may complete them in any order.
 * The communicator may be freed meanwhile. The first call on a communicator sets it up, which is collective
 * and waits for the other ranks.
 *
 * @param request  receives the request; NULL on error
 */
offbeat_status offbeat_begin(const offbeat_call* call, offbeat_request** request);

/**
 * Advance. *complete is 1 at the end; the request is then freed and *request is NULL. A NULL request is
 * complete.
 */
offbeat_status offbeat_test(offbeat_request** request, int* complete);

/** Advance to the end, then free the request and set *request to NULL. */
offbeat_status offbeat_wait(offbeat_request** request);

/** One line about this thread's last call that failed; "" if none has. */
const char* offbeat_error_text(void);

/** The error code of the host MPI for that call; 0 if MPI had no part in it. */
int offbeat_error_code(void);

#ifdef __cplusplus
}
#endif
#endif
