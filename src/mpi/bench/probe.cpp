// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/probe.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cstdint>

#include "mpi/bench/mpi_header.hpp"

namespace offbeat::bench {
namespace {

struct RankFacts {
  bool is_loaded;
  bool is_intercepted;
  bool has_board;  // the ranks of this host share memory
  bool is_right;   // the sum was right
  std::int64_t shared_bytes;
  std::int64_t free_shared_bytes;
  std::int64_t lockable_bytes;  // -1: no limit
};

// Makes one allreduce, and returns whether its sum is right.
bool allreduce_is_right(MPI_Comm communicator) {
  int ranks = 0;
  MPI_Comm_size(communicator, &ranks);
  const int one = 1;
  int sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, communicator);
  return sum == ranks;
}

RankFacts inspect_rank(const Library& library) {
  RankFacts found{};
  struct statvfs memory {};
  if (statvfs("/dev/shm", &memory) == 0) {
    found.shared_bytes = static_cast<std::int64_t>(memory.f_blocks * memory.f_frsize);
    found.free_shared_bytes = static_cast<std::int64_t>(memory.f_bavail * memory.f_frsize);
  }
  rlimit lockable{};
  getrlimit(RLIMIT_MEMLOCK, &lockable);
  found.lockable_bytes =
      lockable.rlim_cur == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(lockable.rlim_cur);

  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  found.is_loaded = library.is_loaded();
  if (!found.is_loaded) {
    found.is_right = allreduce_is_right(MPI_COMM_WORLD) && allreduce_is_right(node);
  } else {
    const std::uint64_t before = library.counters(Collective::allreduce).intercepted;
    found.is_right = allreduce_is_right(MPI_COMM_WORLD);
    found.is_intercepted = library.counters(Collective::allreduce).intercepted > before;
    // arrival_tree needs the board. Without one the call goes to the host.
    const std::string error = library.select(Collective::allreduce, "arrival_tree");
    const std::uint64_t served = library.counters(Collective::allreduce).served;
    found.is_right = allreduce_is_right(node) && found.is_right;
    found.has_board = error.empty() && library.counters(Collective::allreduce).served > served;
  }
  MPI_Comm_free(&node);
  return found;
}

}  // namespace

void probe(Job& job, const std::vector<std::string>& hosts, const std::vector<std::string>& cpus) {
  const std::vector<RankFacts> all = gather(job, std::vector{inspect_rank(job.library)});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const RankFacts& found = all[rank];
    Record record("probe");
    record.add("rank", static_cast<std::int64_t>(rank)).add("host", hosts[rank]).add("cpus", cpus[rank]);
    record.add("loaded", found.is_loaded).add("intercepted", found.is_intercepted);
    record.add("board", found.has_board).add("right", found.is_right);
    record.add("shared_bytes", found.shared_bytes).add("free_shared_bytes", found.free_shared_bytes);
    record.add("lockable_bytes", found.lockable_bytes);
    job.records.write(record);
  }
}

}  // namespace offbeat::bench
