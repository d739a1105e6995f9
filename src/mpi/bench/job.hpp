// SPDX-License-Identifier: BSD-3-Clause
// A benchmark rank's knowledge of the job, and the exchange between rank 0 and the others.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "clock/clock.hpp"
#include "mpi/bench/clock.hpp"
#include "mpi/bench/gate.hpp"
#include "mpi/bench/library.hpp"
#include "mpi/bench/mpi_header.hpp"
#include "mpi/bench/records.hpp"

namespace offbeat::bench {

struct Job {
  int rank = 0;
  int ranks = 1;
  bool yield = false;  // ranks share cores
  Library library;
  std::unique_ptr<Gate> gate;
  clock::Model clock;            // from this host's clock to that of rank 0
  RecordFile records;            // of rank 0
  Nanoseconds alive_ns = 0;      // when rank 0 last wrote that it is alive
  Nanoseconds lead_ns = 50'000;  // from announcing a start to the start; adapts (rank 0)
};

// On rank 0 the values of all ranks, those of rank 0 first; empty elsewhere. All ranks give equally many.
template <class Value>
[[nodiscard]] std::vector<Value> gather(const Job& job, const std::vector<Value>& mine) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> all(job.rank == 0 ? mine.size() * static_cast<std::size_t>(job.ranks) : 0);
  const int bytes = static_cast<int>(mine.size() * sizeof(Value));
  MPI_Gather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  return all;
}

// Every rank gets what rank 0 has.
template <class Value>
void share(std::span<Value> values) {
  static_assert(std::is_trivially_copyable_v<Value>);
  MPI_Bcast(values.data(), static_cast<int>(values.size_bytes()), MPI_BYTE, 0, MPI_COMM_WORLD);
}
template <class Value>
[[nodiscard]] Value of_rank_0(Value value) {
  share(std::span(&value, 1));
  return value;
}

}  // namespace offbeat::bench
