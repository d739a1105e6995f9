// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/job.hpp"

#include "mpi/host/clock_messenger.hpp"

namespace offbeat::bench {

std::vector<std::string> gather_texts(const Job& job, const std::string& mine) {
  constexpr std::size_t most_bytes = 256;
  std::vector<char> padded(most_bytes);
  mine.copy(padded.data(), most_bytes - 1);
  const std::vector<char> all = gather(job, padded);
  std::vector<std::string> texts;
  for (std::size_t k = 0; k < all.size(); k += most_bytes) texts.emplace_back(&all[k]);
  return texts;
}

std::string host_name() {
  char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
  int length = 0;
  MPI_Get_processor_name(name, &length);
  return name;
}

clock::Model synchronised_clock(const Job& job) {
  const struct {
    decltype(&MPI_Send) Send = MPI_Send;
    decltype(&MPI_Recv) Recv = MPI_Recv;
    decltype(&MPI_Allgather) Allgather = MPI_Allgather;
  } mpi;
  ClockMessenger messenger(mpi, MPI_COMM_WORLD, job.rank, job.ranks);
  return clock::synchronise(messenger, messenger.hosts(), clock::Method::hca3, {.least_ns = 500'000'000});
}

}  // namespace offbeat::bench
