/* SPDX-License-Identifier: BSD-3-Clause
 *
 * offbeat-launch LIBMPI BENCH ARGS...
 *
 * Loads the MPI library LIBMPI, then the benchmark BENCH
 * (offbeat-bench-<family>.so), which has undefined MPI symbols and no libmpi
 * among its needs, and calls its main with ARGS. So one benchmark binary serves
 * every installation of an ABI family, whatever the library's SONAME.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void* load(const char* path) {
  void* library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
  if (library == NULL) fprintf(stderr, "offbeat-launch: %s\n", dlerror());
  return library;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: offbeat-launch LIBMPI BENCH ARGS...\n");
    return 2;
  }
  /* libmpi goes into the global scope before the benchmark is relocated against it. */
  if (load(argv[1]) == NULL) return 2;
  void* bench = load(argv[2]);
  if (bench == NULL) return 2;
  int (*bench_main)(int, char**) = NULL;
  /* ISO C has no conversion from an object pointer to a function pointer. */
  void* symbol = dlsym(bench, "offbeat_bench_main");
  memcpy(&bench_main, &symbol, sizeof symbol);
  if (bench_main == NULL) {
    fprintf(stderr, "offbeat-launch: %s is not an offbeat benchmark\n", argv[2]);
    return 2;
  }
  return bench_main(argc - 2, argv + 2);
}
