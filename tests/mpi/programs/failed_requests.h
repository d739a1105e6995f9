/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What functions that complete requests do with lists in which some have failed: the table of failed_requests.c.
 */
#ifndef FAILED_REQUESTS_H
#define FAILED_REQUESTS_H

/* Functions of MPI 4.1. */
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
enum { has_list_status = 1 };
#else
enum { has_list_status = 0 };
#define MPI_Request_get_status_any(count, requests, index, flag, status) MPI_SUCCESS
#define MPI_Request_get_status_some(count, requests, done, indices, statuses) MPI_SUCCESS
#define MPI_Request_get_status_all(count, requests, flag, statuses) MPI_SUCCESS
#endif

#if defined(MPICH_NUMVERSION) && !defined(I_MPI_NUMVERSION) && MPICH_NUMVERSION < 50000000
#define IS_MPICH_4 1
#else
#define IS_MPICH_4 0
#endif

enum function { WAIT, TEST, WAITANY, TESTANY, WAITSOME, TESTSOME, WAITALL, TESTALL, GET_STATUS, GET_ANY, GET_SOME, GET_ALL };

/* A list has one letter for each request. Collectives:
 *
 *   a  complete    f  failed    w  under way    p  persistent, complete    q  persistent, failed    i  inactive
 *
 * Receives: A complete, T truncated, W under way, I inactive. 0 is MPI_REQUEST_NULL.
 *
 * An outcome has the code (S success, I MPI_ERR_IN_STATUS, F that of the collective, T MPI_ERR_TRUNCATE) with
 * the flag of a test, then what the function says of each request (s complete, F, T, P MPI_ERR_PENDING, .
 * nothing), and then whether each request is left (=) or null (0).
 *
 * The standard (MPI 4.1, 3.7.5) leaves open how far MPI_Waitall goes after a failure, whether MPI_Testall tells
 * of one before all are complete, and which of several requests MPI_Waitany takes. There several outcomes
 * are right. */
struct row {
  enum function function;
  const char *list;
  const char *outcomes[2];
};

static const struct row rows[] = {
/* First: after many errors MPICH 4.0 no longer tells the class of one here. */
#if defined(OPEN_MPI)
    {GET_STATUS, "f", {"S1 s ="}},
    {GET_STATUS, "T", {"S1 s ="}},
#else
    {GET_STATUS, "f", {"F1 F ="}},
    {GET_STATUS, "T", {"T1 T ="}},
#endif
    {GET_STATUS, "w", {"S0 . ="}},

    {WAIT, "a", {"S s 0"}},
    {WAIT, "f", {"F F 0"}},
    {WAIT, "p", {"S s ="}},
    {WAIT, "q", {"F F ="}},
    {WAIT, "i", {"S s ="}},
    {WAIT, "T", {"T T 0"}},
    {WAIT, "0", {"S s 0"}},

    {TEST, "a", {"S1 s 0"}},
    {TEST, "f", {"F1 F 0"}},
    {TEST, "w", {"S0 . ="}},
    {TEST, "q", {"F1 F ="}},
    {TEST, "i", {"S1 s ="}},
    {TEST, "T", {"T1 T 0"}},

    {WAITANY, "aT", {"S s. 0=", "T .T =0"}},
    {WAITANY, "Ta", {"T T. 0=", "S .s =0"}},
    {WAITANY, "fA", {"F F. 0=", "S .s =0"}},
    {WAITANY, "Wf", {"F .F =0"}},
    {WAITANY, "wT", {"T .T =0"}},
    {WAITANY, "0iq", {"F ..F 0=="}},
    {WAITANY, "0iI", {"S ... 0=="}},

    {TESTANY, "aT", {"S1 s. 0=", "T1 .T =0"}},
    {TESTANY, "Af", {"S1 s. 0=", "F1 .F =0"}},
    {TESTANY, "wf", {"F1 .F =0"}},
    {TESTANY, "wT", {"T1 .T =0"}},
    {TESTANY, "qw", {"F1 F. =="}},
    {TESTANY, "wW", {"S0 .. =="}},
    {TESTANY, "0iI", {"S1 ... 0=="}},

    {WAITSOME, "aA", {"S ss 00"}},
    {WAITSOME, "aT", {"I sT 00"}},
    {WAITSOME, "Tpa", {"I Tss 0=0"}},
    {WAITSOME, "afA", {"I sFs 000"}},
    {WAITSOME, "fT", {"I FT 00"}},
    {WAITSOME, "qf", {"I FF =0"}},
    {WAITSOME, "wWf", {"I ..F ==0"}},
    {WAITSOME, "wTi", {"I .T. =0="}},
    {WAITSOME, "0iI", {"S ... 0=="}},

    {TESTSOME, "aA", {"S ss 00"}},
    {TESTSOME, "aT", {"I sT 00"}},
    {TESTSOME, "Tpa", {"I Tss 0=0"}},
    {TESTSOME, "Afa", {"I sFs 000"}},
    {TESTSOME, "fT", {"I FT 00"}},
    {TESTSOME, "qW", {"I F. =="}},
    {TESTSOME, "wf0", {"I .F. =00"}},
    {TESTSOME, "wW", {"S .. =="}},

    {WAITALL, "aA", {"S ss 00"}},
    {WAITALL, "aT", {"I sT 00"}},
    {WAITALL, "Ta", {"I Ts 00", "I TP 0="}},
    {WAITALL, "piT", {"I ssT ==0"}},
#if defined(OPEN_MPI) /* the others wait for all */
    {WAITALL, "aTW", {"I sTP 00="}},
#endif
    {WAITALL, "f", {"I F 0"}},
    {WAITALL, "af", {"I sF 00"}},
    {WAITALL, "pfa", {"I sFs =00"}},
    {WAITALL, "0fiA", {"I sFss 00=0", "I sFsP 00=="}},
    {WAITALL, "fT", {"I FT 00"}},
    {WAITALL, "aqw", {"I sFP 0=="}},
    {WAITALL, "ffW", {"I FFP 00="}},

    {TESTALL, "aA", {"S1 ss 00"}},
    {TESTALL, "aT", {"I1 sT 00"}},
    {TESTALL, "Tpi", {"I1 Tss 0=="}},
    {TESTALL, "aW", {"S0 .. =="}},
#if IS_MPICH_4 /* completes what it can */
    {TESTALL, "aTW", {"I0 sTP 00=", "I0 sTP =0="}},
    {TESTALL, "wT", {"I0 PT =0", "S0 .. =="}},
#else
    {TESTALL, "aTW", {"S0 ... ===", "I0 sTP ==="}},
    {TESTALL, "wT", {"S0 .. ==", "I0 PT =="}},
#endif
    {TESTALL, "f", {"I1 F 0"}},
    {TESTALL, "af0A", {"I1 sFss 0000"}},
    {TESTALL, "qif", {"I1 FsF ==0"}},
    {TESTALL, "fT", {"I1 FT 00"}},
    {TESTALL, "aqw", {"I0 sFP ==="}},
    {TESTALL, "fW", {"I0 FP =="}},

#if defined(OPEN_MPI) /* reports no error in these functions */
    {GET_ANY, "wT", {"S1 .s =="}},
    {GET_ANY, "wf", {"S1 .s =="}},
    {GET_SOME, "aTW", {"S ss. ==="}},
    {GET_SOME, "afW", {"S ss. ==="}},
    {GET_ALL, "aT", {"S1 ss =="}},
    {GET_ALL, "af", {"S1 ss =="}},
#else
    {GET_ANY, "wT", {"T1 .T =="}},
    {GET_ANY, "wf", {"F1 .F =="}},
    {GET_SOME, "aTW", {"I sT. ==="}},
    {GET_SOME, "afW", {"I sF. ==="}},
    {GET_ALL, "aT", {"I1 sT =="}},
    {GET_ALL, "af", {"I1 sF =="}},
#endif
    {GET_ANY, "wa", {"S1 .s =="}},
    {GET_SOME, "wap", {"S .ss ==="}},
    {GET_ALL, "wa", {"S0 .. =="}},
    {GET_ALL, "ap", {"S1 ss =="}},
};

/* Whose error handler the hosts call. Open MPI calls that of the communicator of a request that has failed, with its
 * code. MPICH does so in MPI_Wait and MPI_Test, and 4.0 and Intel MPI do if they still know the communicator. In the
 * other functions they call that of MPI_COMM_SELF or MPI_COMM_WORLD, for a list with MPI_ERR_IN_STATUS. */
enum choice { BY_REQUEST, BY_DEFAULT, BY_EITHER };
#if defined(OPEN_MPI)
enum { handler_of_one = BY_REQUEST, handler_of_list = BY_REQUEST, default_is_self = 0 };
#elif defined(I_MPI_NUMVERSION) || IS_MPICH_4
enum { handler_of_one = BY_EITHER, handler_of_list = BY_DEFAULT, default_is_self = 0 };
#else
enum { handler_of_one = BY_REQUEST, handler_of_list = BY_DEFAULT, default_is_self = 1 };
#endif

/* MPICH and Intel MPI wait forever for an inactive collective of their own. */
#if defined(OPEN_MPI)
enum { waits_for_inactive = 0 };
#else
enum { waits_for_inactive = 1 };
#endif

/* MPICH 5.0 returns MPI_SUCCESS after an error handler of the program. */
enum { forgets_the_code = default_is_self };

/* Open MPI 5.0 returns MPI_SUCCESS from MPI_Waitall without statuses if a receive has failed, and leaves its request. */
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
enum { needs_statuses = 1 };
#else
enum { needs_statuses = 0 };
#endif

#endif
