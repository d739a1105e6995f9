// SPDX-License-Identifier: BSD-3-Clause
// Job is what one rank of the benchmark knows about the job. The functions below exchange values between rank
// 0 and the others.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
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
  bool yield = false;  // true if ranks share cores
  Library library;
  std::unique_ptr<Gate> gate;
  clock::Model clock;                 // converts this host's clock to that of rank 0
  RecordFile records;                 // rank 0 only
  Nanoseconds reported_alive_ns = 0;  // when rank 0 last reported that it is alive
  Nanoseconds lead_ns = 50'000;       // time between announcing a start and the start; rank 0 adapts it
};

// Returns the values of all ranks on rank 0, in rank order, and nothing on other ranks. All ranks must give
// the same number of values.
template <class Value>
[[nodiscard]] std::vector<Value> gather(const Job& job, const std::vector<Value>& mine) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> all(job.rank == 0 ? mine.size() * static_cast<std::size_t>(job.ranks) : 0);
  const int bytes = static_cast<int>(mine.size() * sizeof(Value));
  MPI_Gather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  return all;
}

// Gives every rank the values of rank 0.
template <class Value>
void broadcast_from_rank_0(std::span<Value> values) {
  static_assert(std::is_trivially_copyable_v<Value>);
  MPI_Bcast(values.data(), static_cast<int>(values.size_bytes()), MPI_BYTE, 0, MPI_COMM_WORLD);
}
// Returns `value` of rank 0 on every rank.
template <class Value>
[[nodiscard]] Value value_on_rank_0(Value value) {
  broadcast_from_rank_0(std::span(&value, 1));
  return value;
}

// On rank 0, returns the texts of all ranks, each cut to 255 bytes. On the others, returns nothing.
[[nodiscard]] std::vector<std::string> gather_texts(const Job& job, const std::string& mine);

[[nodiscard]] std::string host_name();

// Synchronises the clocks. On several hosts this measures for half a second, so that the slope holds for
// minutes. On one host it sends no message.
[[nodiscard]] clock::Model synchronised_clock(const Job& job);

}  // namespace offbeat::bench
