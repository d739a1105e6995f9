// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/other_family.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/line_of_node.hpp"

namespace offbeat {

std::atomic<void*> other_family{nullptr};

void pass_on_to(const OtherFamily& found) {
  other_family.store(found.library, std::memory_order_release);
  say_once_on_node(std::string(found.what()) + "; all calls go to that MPI");
}

namespace {

void* find_next_in_other_family(const std::string& name) {
  if (void* next = Host::next(name.c_str())) return next;
  const std::string profiled = name[0] == 'P' ? name : 'P' + name;
  return dlsym(other_family.load(std::memory_order_acquire), profiled.c_str());
}

bool is_int(std::int64_t value) {
  return value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max();
}

bool has_count_for_each_rank(std::string_view name) {
  constexpr std::string_view with_counts[] = {
      "_Allgatherv",        "_Iallgatherv",           "_Alltoallv", "_Ialltoallv", "_Reduce_scatter_c",
      "_Ireduce_scatter_c", "_Reduce_scatter_init_c", "_Gatherv",   "_Igatherv",   "_Scatterv",
      "_Iscatterv"};
  return std::ranges::any_of(with_counts,
                             [&](std::string_view part) { return name.find(part) != name.npos; });
}

// Returns true if this is MPI_IN_PLACE in any family: a small number, or -1. 0 is MPI_BOTTOM in every family.
bool is_in_place(Word buffer) { return buffer != 0 && buffer + 1 < 4096; }

const std::vector<int>& keep_forever(const std::vector<int>& array) {
  static std::mutex mutex;
  static auto* arrays = new std::set<std::vector<int>>;
  const std::lock_guard lock(mutex);
  return *arrays->insert(array).first;
}

// Returns what a function of the other MPI, such as PMPI_Comm_size, says of a communicator.
int ask(Word communicator, const char* name) {
  int answer = 0;
  void* function = dlsym(other_family.load(std::memory_order_acquire), name);
  if (function != nullptr) reinterpret_cast<int (*)(Word, int*)>(function)(communicator, &answer);
  return answer;
}

bool is_inter(Word communicator) { return ask(communicator, "PMPI_Comm_test_inter") != 0; }

// Returns the number of ranks of the communicator, or of the remote group of an inter-communicator.
std::size_t ranks_of(Word communicator) {
  return static_cast<std::size_t>(
      ask(communicator, is_inter(communicator) ? "PMPI_Comm_remote_size" : "PMPI_Comm_size"));
}

// Returns true if only the root has lists of counts, and this rank is not the root. MPI_ROOT is -3 or -4.
bool has_no_lists(std::string_view name, int root, Word communicator) {
  const bool has_root = name.find("catterv") != name.npos || name.find("Gatherv") != name.npos ||
                        name.find("Igatherv") != name.npos;
  if (!has_root) return false;
  return is_inter(communicator) ? root > -3 : root != ask(communicator, "PMPI_Comm_rank");
}

}  // namespace

void* ForwardedFunction::function() {
  void* function = function_.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = find_next_in_other_family(name_);
    function_.store(function, std::memory_order_relaxed);
  }
  return function;
}

void* ForwardedFunction::narrow_function() {
  void* function = narrow_function_.load(std::memory_order_relaxed);
  if (function == nullptr && name().ends_with("_c")) {
    function = find_next_in_other_family(std::string(name().substr(0, name().size() - 2)));
    narrow_function_.store(function, std::memory_order_relaxed);
  }
  return function;
}

NarrowedCall::NarrowedCall(const ForwardedFunction& function, std::span<Word> arguments)
    : has_count_for_each_rank_(has_count_for_each_rank(function.name())) {
  const std::string_view name = function.name();
  // The arguments after the communicator are an info and a request, or only a request.
  const bool is_persistent = name.ends_with("_init_c");
  const bool is_nonblocking = !is_persistent && name[name.find('_') + 1] == 'I';
  are_kept_ = is_persistent || is_nonblocking;
  const Word communicator = arguments[arguments.size() - (is_persistent ? 3 : is_nonblocking ? 2 : 1)];
  // MPI_Alltoallv_c: with MPI_IN_PLACE the send side has no counts.
  const std::size_t idle = arguments.size() >= 9 && is_in_place(arguments[0]) ? 4 : 0;
  const auto root = static_cast<int>(arguments[arguments.size() - (is_persistent    ? 4
                                                                   : is_nonblocking ? 3
                                                                                    : 2)]);
  const bool has_lists = !has_no_lists(name, root, communicator);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const CountArgument kind = function.arguments()[i];
    if (kind == CountArgument::one) fits_ = fits_ && is_int(static_cast<std::int64_t>(arguments[i]));
    if (kind == CountArgument::array && i >= idle && has_lists)
      arguments[i] = narrowed(arguments[i], communicator);
  }
}

Word NarrowedCall::narrowed(Word array, Word communicator) {
  if (array == 0) return array;
  if (!has_count_for_each_rank_) {
    fits_ = false;
    return 0;
  }
  const int* narrow = nullptr;
  const bool has_memory = run_unless_out_of_memory([&] {
    const std::span wide(reinterpret_cast<const std::int64_t*>(array), ranks_of(communicator));
    fits_ = fits_ && std::ranges::all_of(wide, is_int);
    const std::vector<int>& ints = arrays_.emplace_back(wide.begin(), wide.end());
    narrow = are_kept_ ? keep_forever(ints).data() : ints.data();
  });
  fits_ = fits_ && has_memory;
  return reinterpret_cast<Word>(narrow);
}

}  // namespace offbeat
