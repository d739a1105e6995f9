// SPDX-License-Identifier: BSD-3-Clause
// Preloaded under ranks that are measured on virtual hosts: an MPI that polls sleeps instead.
//
// On hosts of their own, ranks that poll disturb nobody. Virtual hosts share a few cores, and there eight
// ranks that poll take 3 to 30 ms for what takes them 0.5 ms when each sleeps on its descriptors until a
// message comes. So a rank that has looked in vain PATIENT_AFTER times waits there for up to PATIENT_US.
// Ranks of one host look at shared memory, too, and yield. PATIENT_YIELDS=1 makes
// sched_yield sleep instead of the polls, and 2 makes both sleep.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int (*host_epoll_wait)(int, struct epoll_event*, int, int);
static int (*host_poll)(struct pollfd*, nfds_t, int);
static long after = 1, longest_us = 1000, yields = 0;
static int descriptors = -1;  // of the last epoll_wait
static __thread long in_vain;

static long setting(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void begin(void) {
  host_epoll_wait = dlsym(RTLD_NEXT, "epoll_wait");
  host_poll = dlsym(RTLD_NEXT, "poll");
  after = setting("PATIENT_AFTER", after);
  longest_us = setting("PATIENT_US", longest_us);
  yields = setting("PATIENT_YIELDS", yields);
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

static struct timespec longest(void) { return (struct timespec){0, longest_us * 1000}; }

static int sleep_on(int epoll, struct epoll_event* events, int most) {
  const struct timespec limit = longest();
  const long found = syscall(SYS_epoll_pwait2, epoll, events, most, &limit, NULL, 0);
  if (found > 0) in_vain = 0;
  return found < 0 ? 0 : (int)found;
}

int epoll_wait(int epoll, struct epoll_event* events, int most, int timeout) {
  const int found = host_epoll_wait(epoll, events, most, timeout);
  if (timeout != 0) return found;
  descriptors = epoll;
  if (found > 0) in_vain = 0;
  if (found != 0 || yields == 1 || ++in_vain <= after) return found;
  return sleep_on(epoll, events, most);
}

int poll(struct pollfd* polled, nfds_t count, int timeout) {
  int found = host_poll(polled, count, timeout);
  if (timeout != 0) return found;
  if (found > 0) in_vain = 0;
  if (found != 0 || yields == 1 || ++in_vain <= after) return found;
  const struct timespec limit = longest();
  found = ppoll(polled, count, &limit, NULL);
  if (found > 0) in_vain = 0;
  return found;
}

int sched_yield(void) {
  if (!yields || ++in_vain <= after) return (int)syscall(SYS_sched_yield);
  struct epoll_event event;
  if (descriptors >= 0) {
    sleep_on(descriptors, &event, 1);
  } else {
    const struct timespec limit = longest();
    nanosleep(&limit, NULL);
  }
  return 0;
}
