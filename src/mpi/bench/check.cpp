// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstdint>

#include "measure.hpp"
#include "mpi_header.hpp"

namespace offbeat::bench {

// One rank's report about a check. Doubles hold all of it exactly.
enum Field : std::size_t { kIntercepted, kServed, kWrong, kIndex, kExpected, kGot, kFields };
using Report = std::array<double, kFields>;

static void merge(Mismatch& into, const Mismatch& other) {
  if (into.wrong_elements == 0) {
    into = other;
  } else {
    into.wrong_elements += other.wrong_elements;
  }
}

Check check(Job& job, const std::string& algorithm, Buffers& buffers) {
  const Runner& runner = buffers.runner();
  Check result;
  result.error = job.library.select(runner.collective, algorithm);
  // Every rank parses the same text, so every rank leaves here or none does.
  if (!result.error.empty()) return result;

  const offbeat_counters before = job.library.counters(runner.collective);
  buffers.poison(0);
  buffers.call(0);
  Mismatch mismatch = buffers.verify(0);
  if (runner.call_in_place != nullptr) {
    const std::size_t other = buffers.sets() - 1;
    buffers.call_in_place(other);
    merge(mismatch, buffers.verify(other));
  }
  const offbeat_counters after = job.library.counters(runner.collective);

  const Report mine = {static_cast<double>(after.intercepted - before.intercepted),
                       static_cast<double>(after.served - before.served),
                       static_cast<double>(mismatch.wrong_elements),
                       static_cast<double>(mismatch.first_index),
                       mismatch.expected,
                       mismatch.got};
  std::vector<Report> reports(job.rank == 0 ? static_cast<std::size_t>(job.ranks) : 0);
  MPI_Gather(mine.data(), kFields, MPI_DOUBLE, reports.data(), kFields, MPI_DOUBLE, 0, MPI_COMM_WORLD);

  const int calls = !served.contain(runner.collective) ? 0 : runner.call_in_place == nullptr ? 1 : 2;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const Report& report = reports[rank];
    if (report[kIntercepted] < calls) {
      result.error = "MPI_" + std::string(facts(runner.collective).function) +
                     " does not reach offbeat on rank " + std::to_string(rank);
    } else if (report[kServed] != reports[0][kServed]) {
      result.error =
          "ranks 0 and " + std::to_string(rank) + " disagree on whether offbeat serves " + algorithm;
    }
    if (report[kWrong] > 0 && result.wrong.rank < 0) {
      result.wrong.rank = static_cast<int>(rank);
      result.wrong.mismatch = {static_cast<std::int64_t>(report[kWrong]),
                               static_cast<std::int64_t>(report[kIndex]), report[kExpected], report[kGot]};
    }
  }
  if (!reports.empty()) result.served = reports[0][kServed] > 0;
  return result;
}

}  // namespace offbeat::bench
