/* SPDX-License-Identifier: BSD-3-Clause
 * Loads liboffbeat.so when a program has used up the room for initial-exec thread-local memory, as programs
 * with many libraries do. Each library of this test that takes such room is loaded with dlopen, until there
 * is none left.
 *
 *     late_test LIBOFFBEAT GREEDY...     GREEDY: libraries with initial-exec memory
 */
#include <dlfcn.h>
#include <offbeat/offbeat.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  int refused = 0;
  for (int k = 2; k < argc; ++k) {
    if (dlopen(argv[k], RTLD_NOW | RTLD_LOCAL) == NULL) refused = 1;
  }
  if (!refused) {
    fprintf(stderr, "there is still room: this test shows nothing\n");
    return 1;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  offbeat_status (*make)(int, int, offbeat_exchange, void*, offbeat_group**);
  offbeat_status (*run)(const offbeat_call*);
  *(void**)&make = dlsym(library, "offbeat_group_make");
  *(void**)&run = dlsym(library, "offbeat_run");
  offbeat_group* group = NULL;
  if (make(0, 1, NULL, NULL, &group) != OFFBEAT_OK) return 1;
  const int input = 7;
  int output = 0;
  offbeat_call call = OFFBEAT_CALL_INIT;
  call.group = group;
  call.collective = "allreduce";
  call.input = &input;
  call.output = &output;
  call.count = 1;
  call.type = OFFBEAT_INT32;
  return run(&call) == OFFBEAT_OK && output == 7 ? 0 : 1;
}
