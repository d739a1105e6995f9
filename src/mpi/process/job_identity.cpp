// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/process/job_identity.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "base/launcher.hpp"
#include "mpi/host/abi.hpp"

namespace offbeat {
namespace {

// Reads a file in /proc/PID. The result is empty if that fails.
std::string read_of_process(pid_t pid, const char* name) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
  std::string text(4096, '\0');
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t length = read(file, text.data(), text.size());
  close(file);
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return text;
}

pid_t parent_of(pid_t pid) {
  const std::string status = read_of_process(pid, "status");
  constexpr std::string_view label = "\nPPid:";
  const std::size_t at = status.find(label);
  return at == std::string::npos ? 0 : std::atoi(status.c_str() + at + label.size());
}

// Returns the value of an option in a command line, whose words end with zero bytes.
std::string_view value_of(std::string_view option, std::string_view command_line) {
  const std::string words = std::string(1, '\0') + std::string(option) + '\0';
  const std::size_t at = command_line.find(words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = command_line.substr(at + words.size());
  return rest.substr(0, rest.find('\0'));
}

// Hydra, the launcher of MPICH, tells the ranks nothing that names the job. But they descend from a proxy
// whose command line has the port of mpiexec, and the number of the process group.
std::string job_of_hydra() {
  constexpr int most_generations = 16;
  pid_t pid = getppid();
  for (int k = 0; k < most_generations && pid > 1; ++k, pid = parent_of(pid)) {
    const std::string command_line = read_of_process(pid, "cmdline");
    const std::string_view port = value_of("--control-port", command_line);
    if (command_line.find("hydra_pmi_proxy") == std::string::npos || port.empty()) continue;
    return std::string(port) + " " + std::string(value_of("--pgid", command_line));
  }
  return {};
}

}  // namespace

std::uint64_t job_identity() {
  std::string job = abi::family == "openmpi" ? std::string() : job_of_hydra();
  if (job.empty()) job = launcher_job(abi::family);
  return job.empty() ? 0 : fnv1a(job) | 1;
}

}  // namespace offbeat
