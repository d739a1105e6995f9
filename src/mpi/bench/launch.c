/* SPDX-License-Identifier: BSD-3-Clause
 *
 * offbeat-launch LIBMPI
 *
 * Prints the version of the MPI library LIBMPI.
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

/* Finds a function. ISO C has no conversion from an object pointer to a function pointer. */
static void find(void* library, const char* name, void* function) {
  void* symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
}

static int print_version(void* libmpi) {
  static char text[8192]; /* as in the standard ABI; others need less */
  int length = 0;
  int (*get_version)(char*, int*) = NULL;
  find(libmpi, "MPI_Get_library_version", &get_version);
  if (get_version == NULL || get_version(text, &length) != 0) return 2;
  puts(text);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: offbeat-launch LIBMPI [BENCH ARGS...]\n");
    return 2;
  }
  /* libmpi goes into the global scope before the benchmark is relocated against it. */
  void* libmpi = load(argv[1]);
  if (libmpi == NULL) return 2;
  if (argc == 2) return print_version(libmpi);
  void* bench = load(argv[2]);
  if (bench == NULL) return 2;
  int (*bench_main)(int, char**) = NULL;
  find(bench, "offbeat_bench_main", &bench_main);
  if (bench_main == NULL) {
    fprintf(stderr, "offbeat-launch: %s is not an offbeat benchmark\n", argv[2]);
    return 2;
  }
  return bench_main(argc - 2, argv + 2);
}
