// SPDX-License-Identifier: BSD-3-Clause
#include "base/launcher.hpp"

#include <array>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <span>

namespace offbeat {
namespace {

using Names = std::span<const char* const>;

// The variables in which launchers give the rank, and below, the ranks of a node.
constexpr std::array ranks_of_openmpi{
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",  // PRRTE, Fujitsu MPI
};
constexpr std::array ranks_of_mpich{
    "PMI_RANK",             // Hydra, Cray
    "MV2_COMM_WORLD_RANK",  // MVAPICH2's mpirun_rsh
    "PALS_RANKID",          // Cray PALS
};
// SLURM comes last, because a launcher may start each node in a SLURM step of its own.
constexpr std::array ranks_of_any{
    "FLUX_TASK_RANK",      // Flux
    "JSM_NAMESPACE_RANK",  // IBM's jsrun
    "SLURM_PROCID",
};
constexpr std::array local_sizes{
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "SLURM_NTASKS_PER_NODE",
};

std::optional<int> first_number(std::initializer_list<Names> lists) {
  for (const Names names : lists) {
    for (const char* name : names) {
      if (const char* value = std::getenv(name)) return std::atoi(value);
    }
  }
  return {};
}

std::optional<int> rank_of_launcher(std::string_view family) {
  if (family == "openmpi") return first_number({ranks_of_openmpi, ranks_of_mpich, ranks_of_any});
  return first_number({ranks_of_mpich, ranks_of_openmpi, ranks_of_any});
}

}  // namespace

int launcher_rank(std::string_view family) { return rank_of_launcher(family).value_or(0); }

// Its variables come last for the reason above.
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

bool has_launcher() { return rank_of_launcher({}).has_value() || !launcher_job().empty(); }

std::string meeting_host() {
  const char* const host = std::getenv("MASTER_ADDR");
  return host != nullptr ? host : "";
}

int launcher_ranks_on_node() { return first_number({local_sizes}).value_or(1); }

}  // namespace offbeat
