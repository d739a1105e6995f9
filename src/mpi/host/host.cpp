// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/host.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/line_of_node.hpp"

namespace offbeat {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Returns the ABI family of the library `handle`. The standard ABI is known by the name of the library,
// because that of Open MPI 6 needs libopen_mpi, which has Open MPI's own symbols.
std::string_view family_of(void* handle, void* allreduce) {
  Dl_info info{};
  if (dladdr(allreduce, &info) != 0 && base_name(info.dli_fname).starts_with("libmpi_abi")) return "mpiabi";
  return dlsym(handle, "ompi_mpi_comm_world") != nullptr ? "openmpi" : "mpich";
}

// Returns the paths of loaded MPI libraries. It does not call dlopen yet, because dl_iterate_phdr holds a
// lock of the loader.
std::vector<std::string> loaded_mpi_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        if (base_name(object->dlpi_name).starts_with("libmpi")) {
          static_cast<std::vector<std::string>*>(data)->emplace_back(object->dlpi_name);
        }
        return 0;
      },
      &paths);
  return paths;
}

// Returns the file that this function is in.
std::string own_file() {
  Dl_info own{};
  return dladdr(reinterpret_cast<void*>(&own_file), &own) != 0 ? own.dli_fname : "liboffbeat";
}

// Open MPI 6 has functions with large counts, and Open MPI 5 has none. Programs check for them, so the
// library that exports them does not serve Open MPI 5. These two functions say which of both have them.
constexpr bool is_for_open_mpi = abi::family == "openmpi";
bool host_has_large_counts(void* handle) { return dlsym(handle, "PMPI_Allreduce_c") != nullptr; }
bool offbeat_has_large_counts() {
  void* self = dlopen(own_file().c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (self == nullptr) return false;
  void* function = dlsym(self, "PMPI_Allreduce_c");
  dlclose(self);
  Dl_info of_function{};
  return function != nullptr && dladdr(function, &of_function) != 0 && of_function.dli_fname == own_file();
}

void* find_library() {
  void* other = nullptr;  // an MPI of another family, or an Open MPI with fewer functions
  std::string path_of_other;
  for (const std::string& path : loaded_mpi_libraries()) {
    void* handle = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) continue;
    if (void* allreduce = dlsym(handle, "PMPI_Allreduce")) {
      // The handle stays open, so libmpi stays loaded while offbeat may call it.
      const bool has_too_few =
          is_for_open_mpi && !host_has_large_counts(handle) && offbeat_has_large_counts();
      if (family_of(handle, allreduce) == abi::family && !has_too_few) return handle;
      if (other == nullptr) {
        other = handle;
        path_of_other = path;
        continue;
      }
    }
    dlclose(handle);
  }
  if (other != nullptr)
    throw OtherFamily(path_of_other, family_of(other, dlsym(other, "PMPI_Allreduce")), other);
  if (dlsym(RTLD_NEXT, "PMPI_Allreduce") != nullptr)
    return RTLD_NEXT;  // the MPI is linked statically, or has another name
  throw UsageError("no MPI library is loaded in this program");
}

void* the_library = nullptr;

// Returns true if a function belongs to an MPI library and not to a tool. Whether the library defines PMPI_X
// does not tell: some tools define both MPI_X and PMPI_X.
bool is_of_an_mpi_library(void* function) {
  Dl_info own{};
  if (dladdr(function, &own) == 0) return true;
  void* library = dlopen(own.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return true;
  void* version = dlsym(library, "PMPI_Get_version");  // may come from a library that this one is linked to
  dlclose(library);
  Dl_info other{};
  return version != nullptr && dladdr(version, &other) != 0 && other.dli_fbase == own.dli_fbase;
}

}  // namespace

OtherFamily::OtherFamily(const std::string& path, std::string_view family, void* library)
    : UsageError("this program uses " + path + " (" + std::string(family) + "), but " +
                 std::string(base_name(own_file())) + " is preloaded; `offbeat run` picks the right one"),
      family(family),
      library(library) {}

Host::Host() : library_(the_library = find_library()) {
  if (is_for_open_mpi && host_has_large_counts(library_) && !offbeat_has_large_counts())
    say_once_on_node("this Open MPI has MPI_Allreduce_c and other functions that " +
                     std::string(base_name(own_file())) +
                     " does not see; `offbeat run` picks the library that does");
}

void* Host::find(const char* name) const { return dlsym(library_, name); }

bool Host::is_of_family(void* function) {
  Dl_info own{};
  if (!is_of_an_mpi_library(function) || dladdr(function, &own) == 0) return false;
  void* library = dlopen(own.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return false;
  void* allreduce = dlsym(library, "PMPI_Allreduce");
  const bool is_same = allreduce != nullptr && family_of(library, allreduce) == abi::family;
  dlclose(library);
  return is_same;
}

int Host::thread_level() const {
  const HostFunction<decltype(PMPI_Query_thread)> query(find("PMPI_Query_thread"));
  int level = MPI_THREAD_SINGLE;
  if (query) query(&level);
  return level;
}

bool Host::has_version_text_prefix(std::string_view name) const {
  const HostFunction<decltype(PMPI_Get_library_version)> version(find("PMPI_Get_library_version"));
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  return version && version(text.data(), &length) == MPI_SUCCESS && text.starts_with(name);
}

HostMpi Host::mpi_by_version_text() const {
  if (has_version_text_prefix("Open MPI")) return HostMpi::open_mpi;
  if (has_version_text_prefix("Intel(R) MPI")) return HostMpi::intel;
  return has_version_text_prefix("MPICH") ? HostMpi::mpich : HostMpi::other;
}

void* Host::find_profiled(const char* name) const {
  if (name[0] == 'P') return find(name);
  std::array<char, 64> profiled{'P'};  // not a std::string, because nothing here may throw
  std::strncpy(profiled.data() + 1, name, profiled.size() - 2);
  return find(profiled.data());
}

void* Host::next(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  return function != nullptr && !is_of_an_mpi_library(function) ? function : nullptr;
}

void* Host::find_next(const char* name) const {
  if (void* function = next(name)) return function;
  return find_profiled(name);
}

// Looks first where the dynamic linker looks. A program that is not position independent has its own copy of
// the host's data, and the host uses that copy.
void* abi::host_data(const char* name) {
  void* seen_by_all = dlsym(RTLD_DEFAULT, name);
  return seen_by_all != nullptr ? seen_by_all : dlsym(the_library, name);
}

bool Host::takes_gpu_memory() const {
  constexpr const char* queries[] = {"MPIX_Query_cuda_support", "MPIX_Query_rocm_support",
                                     "MPIX_Query_hip_support"};
  return std::ranges::any_of(queries, [&](const char* name) {
    auto* const query = reinterpret_cast<int (*)()>(find(name));
    return query != nullptr && query() != 0;
  });
}

}  // namespace offbeat
