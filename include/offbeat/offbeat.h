/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The C interface of offbeat, for programs and tools that need more than the
 * preload gives: they can choose an algorithm, ask which one ran, reduce the
 * 16-bit floating-point types that MPI lacks, and run collectives without any
 * MPI, in groups of processes of one machine.
 *
 * Each liboffbeat-<family>.so exports every function, and so does liboffbeat.so,
 * which knows no MPI: there, calls need a group. liboffbeat.so may be loaded at
 * any time with dlopen. A program that must also run without offbeat looks the
 * functions up with dlsym, for example dlsym(RTLD_DEFAULT, "offbeat_version").
 * The result is NULL without offbeat.
 *
 * Communicators are passed as Fortran handles (MPI_Comm_c2f, or MPI_Comm_toint
 * in the standard ABI), because that form is the same in every MPI. Counts are
 * in elements, sizes in bytes, times in seconds.
 */
#ifndef OFFBEAT_H
#define OFFBEAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What functions return. offbeat_error_text() says more about the last error. */
typedef enum offbeat_status {
  OFFBEAT_OK = 0,
  OFFBEAT_ERROR_ARGUMENT = 1,    /**< a null pointer, an unknown collective, or a number out of range */
  OFFBEAT_ERROR_EXPRESSION = 2,  /**< not an algorithm expression; the error text names the column */
  OFFBEAT_ERROR_UNSUPPORTED = 3, /**< the operation is not defined on this type */
  OFFBEAT_ERROR_MPI = 4,         /**< the host MPI reported an error, or is not initialised */
  OFFBEAT_ERROR_SET_UP = 5,      /**< a group could not be made; the error text says why */
  OFFBEAT_ERROR_RANK = 6,    /**< a rank has died, has left the group, or has given up; named in the text */
  OFFBEAT_ERROR_TIMEOUT = 7, /**< a call took longer than its time limit; the text names who is missing */
  OFFBEAT_ERROR_MISMATCH = 8 /**< the ranks did not make the same call; the text names two that differ */
} offbeat_status;

/** Element types. Sizes are as in C; complex types are (real, imaginary) pairs. */
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
  OFFBEAT_BFLOAT16, /**< upper half of a binary32, also rounded after every operation */
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

/** Returns the version as text, "major.minor.patch". */
const char* offbeat_version(void);

/** Returns a short English text for a status; never NULL. */
const char* offbeat_status_string(offbeat_status status);

/** Returns the ABI family that this library was built for: "openmpi", "mpich", "mpiabi", or "none" without
 * MPI. */
const char* offbeat_family(void);

/**
 * Chooses the algorithm of all later calls of one collective in this process. This overrides the
 * environment. Every rank must make the same call at the same point between collectives.
 *
 * @param collective  the name of a collective, such as "allreduce"
 * @param expression  an algorithm, such as "pipeline(4, ring)"; "" restores the choice at start-up
 * @param error       receives one line if the status is not OFFBEAT_OK; may be NULL
 * @param error_size  the size of `error` in bytes
 */
offbeat_status offbeat_select(const char* collective, const char* expression, char* error, size_t error_size);

/**
 * Returns the algorithm of this thread's last collective, as an expression. Calls of offbeat_run and
 * offbeat_begin count, and so do intercepted calls, including the start of a persistent collective. Returns
 * "copy" on a communicator of one rank, and NULL if the host MPI ran the call. The text lives as long as the
 * process. A choice always returns the same address for the same algorithm.
 */
const char* offbeat_last_algorithm(void);

/** How many calls of one collective this process made. */
typedef struct offbeat_counters {
  uint64_t intercepted; /**< calls that reached offbeat, including those through this interface */
  uint64_t served;      /**< calls that offbeat ran; the host MPI ran the others */
} offbeat_counters;

/** Reads the counters of `collective`. `size` must be sizeof(offbeat_counters). */
offbeat_status offbeat_count(const char* collective, offbeat_counters* counters, size_t size);

/**
 * Combines vectors in this process, without communication:
 * destination[i] = ((operands[0][i] op operands[1][i]) op operands[2][i]) op ...
 *
 * The bits are exactly those of combining two at a time, for any number of operands >= 1. Each vector has
 * `count` elements. The destination may be one of the operands; no other overlap is allowed. All buffers must
 * be in host memory.
 */
offbeat_status offbeat_reduce(void* destination, const void* const* operands, size_t operand_count,
                              size_t count, offbeat_type type, offbeat_op op);

/**
 * A group: processes that run collectives together, without MPI. It has the ranks 0 to size - 1. A process
 * may be in any number of groups. The ranks may be on several machines; docs/reference/groups.md says what
 * differs there.
 *
 * All ranks make the same calls in the same order. offbeat_run calls on one group must not overlap, unless
 * they are `as_begun`; threads may overlap all other functions. Calls on different groups are independent.
 *
 * Every error but OFFBEAT_ERROR_ARGUMENT, OFFBEAT_ERROR_EXPRESSION and OFFBEAT_ERROR_UNSUPPORTED ends all use
 * of the group, on every rank. Later calls return the status and the text of the first error, and only
 * offbeat_group_free may follow. A rank that left a call early, such as the root of a broadcast, gets the
 * error at its next call.
 *
 * A group belongs to the process that made it. In a child of fork() every call on it is an error.
 */
typedef struct offbeat_group offbeat_group;

/**
 * A function of the program with which the ranks of a new group tell one another where they are. offbeat
 * calls it several times while it makes a group: equally often, and with equal `bytes` (1 to 4096), on every
 * rank. The function gives `bytes` bytes at `mine` to all ranks, and writes those of rank r to
 * all + r * bytes, for each rank. It returns when it has them all; 0 means success, and any other value ends
 * offbeat_group_make with an error.
 */
typedef int (*offbeat_exchange)(void* state, const void* mine, size_t bytes, void* all);

/**
 * Makes a group. Every rank must call this. It waits for the other ranks, inside `exchange`. It fails on all
 * ranks if it fails on one.
 *
 * @param rank      this process: 0 <= rank < size, each number once
 * @param size      the number of ranks
 * @param exchange  see above; not called after the return, and not called at all if `size` is 1
 * @param state     passed to `exchange`
 * @param group     receives the group, or NULL on error
 */
offbeat_status offbeat_group_make(int rank, int size, offbeat_exchange exchange, void* state,
                                  offbeat_group** group);

/**
 * Frees a group and sets *group to NULL. A NULL group is fine. It waits for no other rank. Requests that are
 * not complete end with an error. A rank that others still wait for is then an error for them.
 */
offbeat_status offbeat_group_free(offbeat_group** group);

/**
 * Ends all use of a group because this rank cannot go on. Every rank that waits, or calls anything on the
 * group later, gets OFFBEAT_ERROR_RANK with a text that has `why` (at most 150 bytes are kept; may be NULL).
 * Another thread may be inside a call on the group.
 */
offbeat_status offbeat_group_give_up(offbeat_group* group, const char* why);

/**
 * One call of a collective with offbeat's own types, including OFFBEAT_FLOAT16 and OFFBEAT_BFLOAT16, which
 * MPI lacks. Members that the collective does not have are ignored. Begin with OFFBEAT_CALL_INIT: then a
 * program that was compiled with an older header still works.
 *
 * With p ranks and n = `count`, the vectors have:
 *
 *     collective             input elements                output elements
 *     allreduce              n                             n
 *     reduce                 n                             n, on the root only
 *     scan, exscan           n                             n (exscan: rank 0's is not written)
 *     bcast                  none                          n: the root's data before, everybody's after
 *     gather                 n                             p * n, on the root only
 *     allgather              n                             p * n
 *     scatter                p * n, on the root only       n
 *     alltoall               p * n                         p * n
 *     reduce_scatter_block   p * n                         n
 *     allgatherv             its own block                 block r from rank r
 *     alltoallv              block r for rank r            block r from rank r
 *     reduce_scatter         block r for rank r            its own block, combined
 *     barrier                none                          none
 *
 * Operands are combined in an order that depends only on the ranks. The result has the same bits on every
 * rank and in every run.
 */
typedef struct offbeat_call {
  size_t size;            /**< sizeof(offbeat_call) */
  const char* collective; /**< one that `offbeat info` lists */
  int communicator;       /**< a Fortran handle; ignored if there is a group */
  int root;
  /**
   * The input. NULL, or equal to `output`, means in place, as in MPI for allreduce, reduce, scan, exscan,
   * allgather, allgatherv and gather. A broadcast uses `output` only.
   */
  const void* input;
  void* output; /**< ignored on a rank that gets no result */
  size_t count; /**< elements in one block; ignored where there are lists of counts */
  offbeat_type type;
  offbeat_op op;

  /* The members below need a group. They came later, so offbeat looks at `size` before it reads them. */

  offbeat_group* group; /**< the group; NULL: `communicator` says who takes part */
  /**
   * Lists with an element for each rank: how many elements each block has, and where it begins in the vector,
   * in elements. A list of begins may be NULL: the blocks then follow one another. allgatherv has the output
   * lists, reduce_scatter the input counts (its blocks follow one another), and alltoallv all of them. In
   * allgatherv and reduce_scatter the counts must be equal on all ranks. The lists may be freed after the
   * return of offbeat_begin.
   */
  const size_t* input_counts;
  const size_t* input_begins;
  const size_t* output_counts;
  const size_t* output_begins;
  double timeout_s; /**< how long this rank waits for others before OFFBEAT_ERROR_TIMEOUT; 0: forever */
  /**
   * Called once when a call of offbeat_begin is over, if it is not NULL. `status` and `text` are those that
   * offbeat_wait would give; `text` is "" after success and lives until the function returns. It runs in any
   * thread that is inside a function of this interface, including offbeat_begin, or in a thread of offbeat.
   * It may begin other calls, but must not wait for one on the same group. offbeat_run ignores it.
   */
  void (*done)(void* state, offbeat_status status, const char* text);
  void* done_state;
  /**
   * Other than 0: offbeat_run takes its turn among the calls of offbeat_begin, so another rank may begin the
   * same call instead. offbeat_begin ignores it.
   */
  int as_begun;
  /**
   * A number from 0 to 127, which ranks compare as they compare `op`. Pass another one if you make another
   * operation of `op`, such as an average of a sum: then ranks that only add are a mismatch.
   */
  int op_label;
} offbeat_call;
#define OFFBEAT_CALL_INIT                                                                               \
  {                                                                                                     \
    sizeof(offbeat_call), NULL, 0, 0, NULL, NULL, 0, OFFBEAT_INT8, OFFBEAT_SUM, NULL, NULL, NULL, NULL, \
        NULL, 0, NULL, NULL, 0, 0                                                                       \
  }

/**
 * Runs a collective. All ranks of the communicator or group must call this. It runs the algorithm that is
 * chosen for this size. The host MPI never runs such a call: if the choice is `native`, offbeat takes another
 * algorithm.
 */
offbeat_status offbeat_run(const offbeat_call* call);

/** A collective that proceeds while the program computes. */
typedef struct offbeat_request offbeat_request;

/**
 * Begins a collective and returns at once. Until it is complete, the buffers must exist and the input must
 * not change. The collective advances in offbeat_test, in offbeat_wait, in every other offbeat collective
 * that waits, in MPI calls that test or wait for requests, and while the program waits inside the MPI
 * library, as docs/explanation/non-blocking.md says. A collective of a group also advances in a thread of
 * offbeat, which looks at it now and then; if it has a `done`, all the time. Any number of collectives may be
 * under way on any communicators and groups, together with blocking ones. All ranks of a communicator or
 * group must begin its collectives in the same order, and may complete them in any order. The communicator
 * may be freed meanwhile. The first call on a communicator sets it up; only that call waits for the other
 * ranks.
 *
 * @param call     is copied and need not exist after the return
 * @param request  receives the request, or NULL on error. If `call` has a `done`, no request is needed: it
 *                 receives NULL, and `request` itself may be NULL
 */
offbeat_status offbeat_begin(const offbeat_call* call, offbeat_request** request);

/**
 * Advances a collective without waiting. Sets *complete to 1 if it is complete, and to 0 otherwise. A
 * complete request is freed and *request becomes NULL. A NULL request is complete.
 */
offbeat_status offbeat_test(offbeat_request** request, int* complete);

/** Waits until a collective is complete, frees the request and sets *request to NULL. */
offbeat_status offbeat_wait(offbeat_request** request);

/** As a peer: a receive takes a message from any rank. */
#define OFFBEAT_ANY_RANK (-1)

/** What a receive has found. It is written before the receive is over. */
typedef struct offbeat_arrival {
  int rank; /**< who sent the message */
  int tag;
  size_t bytes; /**< the length of the message, also if the receive expected another one */
} offbeat_arrival;

/**
 * A message from one rank of a group to another one. Begin with OFFBEAT_MESSAGE_INIT.
 *
 * Messages from one rank to another one with equal tags arrive in the order in which they were begun. A
 * receive must ask for exactly as many bytes as the message has; otherwise both get OFFBEAT_ERROR_MISMATCH. A
 * rank cannot send to itself.
 *
 * A send is over when its data may change. That is at once if the message has at most 16000 bytes, and few
 * others wait for the same receiver: 64 KiB together. In a group of more than 32 ranks both numbers are
 * smaller; between machines the network decides. A longer message is over when the receiver has taken
 * its data. So two ranks that both send a long message and then receive must begin their sends with
 * offbeat_begin_send, as in MPI.
 *
 * Messages and collectives may come in any order.
 */
typedef struct offbeat_message {
  size_t size;              /**< sizeof(offbeat_message) */
  offbeat_group* group;     /**< must not be NULL */
  int peer;                 /**< the other rank; for a receive it may be OFFBEAT_ANY_RANK */
  int tag;                  /**< 0 or more */
  void* data;               /**< a send only reads them */
  size_t bytes;             /**< the length of the data */
  double timeout_s;         /**< how long this rank waits before OFFBEAT_ERROR_TIMEOUT; 0: forever */
  offbeat_arrival* arrival; /**< for a receive; may be NULL; must exist until the receive is over */
  /** As in offbeat_call, for offbeat_begin_send and offbeat_begin_receive. */
  void (*done)(void* state, offbeat_status status, const char* text);
  void* done_state;
} offbeat_message;
#define OFFBEAT_MESSAGE_INIT \
  { sizeof(offbeat_message), NULL, OFFBEAT_ANY_RANK, 0, NULL, 0, 0, NULL, NULL, NULL }

/** Sends a message. Returns when its data may change. */
offbeat_status offbeat_send(const offbeat_message* message);

/** Receives a message. */
offbeat_status offbeat_receive(const offbeat_message* message);

/**
 * These begin to send or to receive a message, and return at once. offbeat_test and offbeat_wait complete the
 * request. Everything that offbeat_begin says about requests, progress and `done` holds here, too.
 */
offbeat_status offbeat_begin_send(const offbeat_message* message, offbeat_request** request);
offbeat_status offbeat_begin_receive(const offbeat_message* message, offbeat_request** request);

/**
 * Waits inside offbeat until is_over(state) returns other than 0. Meanwhile the calls under way advance, on
 * all groups, and `done` functions run in this thread, which may call this function again. A program that
 * waits for a `done` uses this. Any thread may call it. `group` says how to wait.
 */
offbeat_status offbeat_wait_until(offbeat_group* group, int (*is_over)(void* state), void* state);

/** Returns one line about this thread's last call that failed, or "" if none has. */
const char* offbeat_error_text(void);

/** Returns the host MPI's error code for that call, or 0 if the error did not come from the host MPI. */
int offbeat_error_code(void);

#ifdef __cplusplus
}
#endif
#endif
