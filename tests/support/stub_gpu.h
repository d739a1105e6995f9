/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A driver of a GPU that does not exist (stub_gpu.cpp), and the questions that a test asks it. A program
 * loads it by stub_load as a framework loads the real one: late and privately.
 */
#ifndef STUB_GPU_H
#define STUB_GPU_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum stub_kind {
  STUB_DEVICE,     /* any access of the CPU faults */
  STUB_POOL,       /* the same, of no context */
  STUB_MANAGED,    /* the CPU may use it, but the driver calls it device memory that it manages */
  STUB_REGISTERED, /* host memory that the driver knows */
};

enum stub_call {
  STUB_QUERY,    /* of an address */
  STUB_READ,     /* copies from the device */
  STUB_WRITE,    /* copies to the device, and from one place there to another */
  STUB_RECORD,   /* events put behind a copy */
  STUB_EVENT,    /* questions whether a copy is complete; they fail instead of the copy */
  STUB_REGISTER, /* of host memory; a failure refuses it */
  STUB_FORGET,   /* of registered memory */
  STUB_BLOCKING, /* copies that kept the program waiting: every copy that is no asynchronous one between the
                    device and registered memory */
  STUB_AT_ONCE,  /* the largest number of copies that were under way at once */
  STUB_CALLS
};

struct stub_gpu {
  void *(*allocate)(size_t bytes, enum stub_kind kind);
  void (*release)(void *memory);
  /* The test itself uses these. */
  void (*read)(void *to, const void *from, size_t bytes);
  void (*write)(void *to, const void *from, size_t bytes);
  /* Returns how many calls of a kind there were. */
  long (*calls)(enum stub_call call);
  /* Makes calls of a kind fail with this code from now on; 0: they do not fail. */
  void (*fail)(enum stub_call call, int code);
  /* Returns how many contexts this thread has pushed and not popped. */
  int (*depth)(void);
  /* Makes each copy take this time from now on, and STUB_GPU_US_PER_MIB from the environment for its length. The
     copies of a stream are made one after the other. */
  void (*delay)(double microseconds);
  /* From now on only this many copies are made unless the driver waits for them; negative: all. */
  void (*allow)(long copies);
};

/* Loads the driver. Ends the process if there is no such file. */
static inline struct stub_gpu stub_load(const char *file) {
  struct stub_gpu stub;
  void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  void *address = library != NULL ? dlsym(library, "stub_gpu_functions") : NULL;
  if (address == NULL) {
    fprintf(stderr, "no stub driver: %s\n", dlerror());
    exit(2);
  }
  stub = *(const struct stub_gpu *)address;
  return stub;
}

#endif
