// SPDX-License-Identifier: BSD-3-Clause
#include "base/launcher.hpp"

#include <cstdlib>
#include <initializer_list>

namespace offbeat {
namespace {

int first_number_in_environment(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return otherwise;
}

int rank_or(int otherwise, std::string_view family) {
  if (family == "openmpi")
    return first_number_in_environment({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"},
                                       otherwise);
  return first_number_in_environment({"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"},
                                     otherwise);
}

}  // namespace

int launcher_rank(std::string_view family) { return rank_or(0, family); }

// SLURM comes last, because a launcher may start each node in a SLURM step of its own.
std::string launcher_job(std::string_view family) {
  // Returns the values of these variables, or "" if the first one is not set.
  const auto values = [](std::initializer_list<const char*> names) {
    std::string text;
    for (const char* name : names) {
      const char* const value = std::getenv(name);
      if (value == nullptr && text.empty()) return text;
      text += " " + std::string(value != nullptr ? value : "");
    }
    return text;
  };
  const std::string hydra = values({"I_MPI_HYDRA_UUID", "HYDRA_BSTRAP_PGID"});
  const std::string pmix = values({"PMIX_NAMESPACE"});
  const bool is_open_mpi = family == "openmpi";
  for (const std::string& job : {is_open_mpi ? pmix : hydra, values({"PMI_JOBID"}), values({"PALS_APID"}),
                                 values({"FLUX_JOB_ID"}), is_open_mpi ? hydra : pmix})
    if (!job.empty()) return job;
  return values({"SLURM_JOB_ID", "SLURM_STEP_ID"});
}

bool has_launcher() {
  constexpr int none = -1;
  return rank_or(none, {}) != none || !launcher_job().empty();
}

std::string meeting_host() {
  const char* const host = std::getenv("MASTER_ADDR");
  return host != nullptr ? host : "";
}

int launcher_ranks_on_node() {
  return first_number_in_environment(
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}, 1);
}

}  // namespace offbeat
