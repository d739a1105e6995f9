// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/bench/measure.hpp"
#include "mpi/bench/mpi_header.hpp"

namespace offbeat::bench {
namespace {

// How many calls of one rank were intercepted and served in a check, by liboffbeat's counters.
struct CallCounts {
  std::uint64_t intercepted;
  std::uint64_t served;
};

// Merges two results of one call. The first mismatch is the one that is reported.
void merge_mismatches(Mismatch& mismatch, const Mismatch& second) {
  const std::int64_t wrong_elements = mismatch.wrong_elements + second.wrong_elements;
  if (mismatch.wrong_elements == 0) mismatch = second;
  mismatch.wrong_elements = wrong_elements;
}

}  // namespace

std::vector<WrongResult> first_wrong_results(const Job& job, const std::vector<Mismatch>& mine) {
  const std::vector<Mismatch> all = gather(job, mine);
  std::vector<WrongResult> found(job.rank == 0 ? mine.size() : 0);
  for (std::size_t k = 0; k < all.size(); ++k) {
    WrongResult& wrong = found[k % mine.size()];
    if (all[k].wrong_elements == 0 || wrong.rank >= 0) continue;
    wrong = {all[k], static_cast<int>(k / mine.size())};
  }
  return found;
}

CorrectnessCheck check(Job& job, const MeasuredVariant& variant, Buffers& buffers) {
  const Runner& runner = buffers.runner();
  CorrectnessCheck result;
  result.error = job.library.select(runner.collective, variant.algorithm);
  // Every rank parses the same text, so either every rank returns here or none does.
  if (!result.error.empty()) return result;

  const bool is_blocking = variant.mode == Mode::blocking;
  if (!is_blocking) buffers.call(0);  // lets the ranks agree on the algorithm
  const offbeat_counters before = job.library.counters(runner.collective);
  buffers.fill_with_wrong_values(0);
  buffers.prepare(0);
  if (is_blocking) {
    buffers.call(0);
  } else {
    MPI_Request request;
    buffers.call(0, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  Mismatch mismatch = buffers.verify(0);
  std::uint64_t calls = 1;
  if (is_blocking && !buffers.is_in_place() && has_in_place_form(runner.collective)) {
    merge_mismatches(mismatch, buffers.check_in_place(buffers.sets() - 1));
    ++calls;
  }
  const offbeat_counters after = job.library.counters(runner.collective);

  const std::vector<WrongResult> wrong = first_wrong_results(job, {mismatch});
  const std::vector<CallCounts> counted = gather(
      job, std::vector{CallCounts{after.intercepted - before.intercepted, after.served - before.served}});
  if (job.rank != 0) return result;
  result.wrong = wrong.front();
  result.served = counted.front().served > 0;
  for (std::size_t rank = 0; rank < counted.size(); ++rank) {
    if (counted[rank].intercepted < calls) {
      result.error = "MPI_" + std::string(facts_of(runner.collective).function) +
                     " does not reach offbeat on rank " + std::to_string(rank);
    } else if (counted[rank].served != counted.front().served) {
      result.error =
          "ranks 0 and " + std::to_string(rank) + " disagree on whether offbeat serves " + variant.algorithm;
    }
  }
  return result;
}

}  // namespace offbeat::bench
