// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/spawn_infos.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "base/settings.hpp"

namespace offbeat {
namespace {

template <class Signature>
Signature* find(const Host& host, const char* name) {
  return reinterpret_cast<Signature*>(host.find(name));
}

std::string value_of(const Host& host, MPI_Info info, const char* key) {
  int length = 0;
  int is_there = 0;
  find<decltype(PMPI_Info_get_valuelen)>(host, "PMPI_Info_get_valuelen")(info, key, &length, &is_there);
  if (is_there == 0) return {};
  std::string value(static_cast<std::size_t>(length), '\0');
  find<decltype(PMPI_Info_get)>(host, "PMPI_Info_get")(info, key, length, value.data(), &is_there);
  return value;
}

}  // namespace

SpawnInfos::SpawnInfos(const Host& host, int count, const MPI_Info* infos, int root, MPI_Comm communicator)
    : host_(host), infos_(infos) {
  // This is the function behind MPI_Info_set, without the limit of 255 characters.
  auto* const set = find<int(MPI_Info, const char*, const char*)>(host, "ompi_info_set");
  if (set == nullptr || infos == nullptr || count < 1 || communicator == MPI_COMM_NULL) return;
  int rank = MPI_PROC_NULL;
  host.Comm_rank(communicator, &rank);
  if (rank != root) return;
  // This is an error of the program, which the host reports.
  if (std::find(infos, infos + count, MPI_Info{}) != infos + count) return;
  try {
    const std::string ours = preload_environment();
    if (ours.empty()) return;
    for (int i = 0; i < count; ++i) {
      MPI_Info& info = changed_infos_.emplace_back(MPI_INFO_NULL);
      std::string variables;  // the program's own variables come first, because the first value counts
      if (infos[i] == MPI_INFO_NULL) {
        find<decltype(PMPI_Info_create)>(host, "PMPI_Info_create")(&info);
      } else {
        find<decltype(PMPI_Info_dup)>(host, "PMPI_Info_dup")(infos[i], &info);
        variables = value_of(host, info, "PMIX_ENVAR") + '\n';
      }
      set(info, "PMIX_ENVAR", (variables + ours).c_str());
    }
  } catch (const std::bad_alloc&) {  // the processes are started without the preload
    release();
  }
}

void SpawnInfos::release() {
  for (MPI_Info& info : changed_infos_) {
    if (info != MPI_INFO_NULL) find<decltype(PMPI_Info_free)>(host_, "PMPI_Info_free")(&info);
  }
  changed_infos_.clear();
}

}  // namespace offbeat
