// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/other_family.hpp"

#include <dlfcn.h>

#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"

namespace offbeat {

std::atomic<void*> other_family{nullptr};

void pass_on_to(const OtherFamily& found) {
  other_family.store(found.library, std::memory_order_release);
  if (launcher_rank(found.family) == 0) say(std::string(found.what()) + "; all calls go to that MPI");
}

void* behind_in_other_family(const char* name) {
  if (void* next = Host::next(name)) return next;
  const std::string profiled = name[0] == 'P' ? name : 'P' + std::string(name);
  return dlsym(other_family.load(std::memory_order_acquire), profiled.c_str());
}

void* narrow_in_other_family(const char* name) {
  const std::string_view large(name);
  if (!large.ends_with("_c")) return nullptr;
  return behind_in_other_family(std::string(large.substr(0, large.size() - 2)).c_str());
}

namespace {

bool is_int(std::int64_t value) {
  return value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max();
}

const std::vector<int>& kept(const std::vector<int>& array) {
  static std::mutex mutex;
  static auto* arrays = new std::set<std::vector<int>>;
  const std::lock_guard lock(mutex);
  return *arrays->insert(array).first;
}

}  // namespace

Word NarrowCounts::one(Word count) {
  fit_ = fit_ && is_int(static_cast<std::int64_t>(count));
  return count;
}

Word NarrowCounts::array(Word wide) {
  if (wide == 0) return wide;
  if (!has_arrays_ || count_ == most) {
    fit_ = false;
    return 0;
  }
  std::vector<int>& narrow = arrays_[count_++];
  const int* narrowed = nullptr;
  const bool has_memory = try_to([&] {
    const auto* values = reinterpret_cast<const std::int64_t*>(wide);
    for (const std::size_t end = length(); narrow.size() < end; ++values) {
      fit_ = fit_ && is_int(*values);
      narrow.push_back(static_cast<int>(*values));
    }
    narrowed = are_kept_ ? kept(narrow).data() : narrow.data();
  });
  fit_ = fit_ && has_memory;
  return reinterpret_cast<Word>(narrowed);
}

// Returns the number of ranks of the communicator, or of the remote group of an inter-communicator.
std::size_t NarrowCounts::length() const {
  const auto ask = [&](const char* name) {
    int answer = 0;
    void* function = dlsym(other_family.load(std::memory_order_acquire), name);
    if (function != nullptr) reinterpret_cast<int (*)(Word, int*)>(function)(communicator_, &answer);
    return answer;
  };
  const int ranks = ask(ask("PMPI_Comm_test_inter") != 0 ? "PMPI_Comm_remote_size" : "PMPI_Comm_size");
  return static_cast<std::size_t>(ranks);
}

}  // namespace offbeat
