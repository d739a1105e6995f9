// SPDX-License-Identifier: BSD-3-Clause
#include "node/counters_of_job.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace offbeat {
namespace {

class Folder {
 public:
  explicit Folder(const std::string& path) : open_(opendir(path.c_str())) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    if (open_ != nullptr) closedir(open_);
  }
  // Returns the next name that is a number, or an empty one at the end.
  [[nodiscard]] std::string next_number() {
    while (const dirent* const entry = open_ != nullptr ? readdir(open_) : nullptr) {
      if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9') return entry->d_name;
    }
    return {};
  }

 private:
  DIR* open_;
};

bool is_counter_file(const std::string& path) {
  char target[64];
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  return length > 0 && std::string_view(target, static_cast<std::size_t>(length))
                           .starts_with(std::string("/memfd:") + counter_file_name);
}

// Returns the counters in an open file of a process, or no memory.
SharedMemory open_counters(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  Refusals refusals;
  if (!file || fstat(file.get(), &status) != 0 ||
      status.st_size < static_cast<off_t>(CounterFile::file_bytes))
    return {};
  SharedMemory memory = SharedMemory::map(file, CounterFile::file_bytes, refusals);
  if (!memory) return {};
  const auto& header = *static_cast<CounterHeader*>(memory.data());
  const bool is_known = std::memcmp(header.magic.data(), "offbeat", header.magic.size()) == 0 &&
                        header.layout == counter_layout;
  return is_known ? std::move(memory) : SharedMemory();
}

// Adds the counters of one process. A child of fork() has the file of its parent open, too.
void add_process(const std::string& pid, std::vector<MappedCounters>& all) {
  const std::string files = "/proc/" + pid + "/fd/";
  struct stat status {};
  if (stat(files.c_str(), &status) != 0 || status.st_uid != geteuid()) return;
  Folder folder(files);
  for (std::string number; !(number = folder.next_number()).empty();) {
    if (!is_counter_file(files + number)) continue;
    SharedMemory memory = open_counters(files + number);
    if (!memory) continue;
    MappedCounters found(std::move(memory));
    if (std::to_string(found.header().pid) == pid) all.push_back(std::move(found));
  }
}

}  // namespace

std::vector<MappedCounters> counters_of_process(pid_t pid) {
  std::vector<MappedCounters> found;
  add_process(std::to_string(pid), found);
  return found;
}

std::vector<MappedCounters> counters_of_job(std::uint64_t job) {
  if (job == 0) return counters_of_process(getpid());
  std::vector<MappedCounters> all;
  Folder processes("/proc");
  for (std::string pid; !(pid = processes.next_number()).empty();) add_process(pid, all);
  std::erase_if(all, [&](const MappedCounters& each) { return each.header().job != job; });
  return all;
}

}  // namespace offbeat
