// SPDX-License-Identifier: BSD-3-Clause
// The global clock over a real MPI, where the truth is known: all ranks run under one kernel, so that
// CLOCK_MONOTONIC is the same for all, and each plants an offset and a drift of its own over it.
//
//     clock_check [shared|planted] [hca3|offset] [MILLISECONDS of pings between two hosts] [FORTH [BACK]]
//
// shared: the ranks are found to share a host. planted: each counts as a host. FORTH and BACK: microseconds
// that a message to a higher and to a lower rank takes at least; it is kept where it arrives, so that nothing
// else differs between the directions. Rank 0 prints the largest error, the largest residual that was
// measured and the largest bound, all in ns, the time that it took in ms, how exactly all ranks start
// together, and the shortest ways to the last rank and back.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "mpi/host/clock_messenger.hpp"

using offbeat::clock::Nanoseconds;

namespace {

struct LinkedMpi {
  decltype(&MPI_Send) Send = MPI_Send;
  decltype(&MPI_Recv) Recv = MPI_Recv;
  decltype(&MPI_Allgather) Allgather = MPI_Allgather;
};

class PlantedMessenger final : public offbeat::ClockMessenger<LinkedMpi> {
 public:
  using ClockMessenger::ClockMessenger;
  void send(int peer, std::span<const std::byte> message) override {
    Packet packet{offbeat::clock::now(), {}};
    std::ranges::copy(message, packet.content);
    ClockMessenger::send(peer, std::as_bytes(std::span(&packet, 1)));
  }
  void receive(int peer, std::span<std::byte> message) override {
    Packet packet{};
    ClockMessenger::receive(peer, std::as_writable_bytes(std::span(&packet, 1)));
    const Nanoseconds latency = peer < rank() ? forth : back;
    while (offbeat::clock::now() < packet.sent + latency) continue;
    std::copy_n(packet.content, message.size(), message.begin());
  }
  [[nodiscard]] Nanoseconds now() override { return planted(offbeat::clock::now()); }

  [[nodiscard]] Nanoseconds planted(Nanoseconds truth) const {
    return truth + offset + std::llround(drift * static_cast<double>(truth - begin));
  }
  Nanoseconds begin = 0;  // equal on all ranks
  Nanoseconds offset = 0;
  double drift = 0;
  Nanoseconds forth = 0;
  Nanoseconds back = 0;

 private:
  struct Packet {
    Nanoseconds sent;
    std::byte content[sizeof(offbeat::clock::Model)];
  };
};

Nanoseconds nanoseconds(const char* microseconds) {
  return static_cast<Nanoseconds>(1e3 * std::atof(microseconds));
}

double largest(double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool is_planted = argc > 1 && std::strcmp(argv[1], "planted") == 0;
  const bool is_offset = argc > 2 && std::strcmp(argv[2], "offset") == 0;
  const double least_ms = argc > 3 ? std::atof(argv[3]) : 4;

  const LinkedMpi mpi;
  PlantedMessenger messenger(mpi, MPI_COMM_WORLD, rank, ranks);
  messenger.begin = offbeat::clock::now();
  MPI_Bcast(&messenger.begin, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  if (is_planted) {
    messenger.offset = 1'000'000'007LL * rank;
    messenger.drift = rank % 2 == 0 ? 10e-6 * rank : -10e-6;
  }
  if (argc > 4) messenger.forth = messenger.back = nanoseconds(argv[4]);
  if (argc > 5) messenger.back = nanoseconds(argv[5]);
  std::vector<std::uint64_t> hosts = messenger.hosts();
  for (int i = 0; is_planted && i < ranks; ++i)
    hosts[static_cast<std::size_t>(i)] = static_cast<std::uint64_t>(i);

  MPI_Barrier(MPI_COMM_WORLD);
  const Nanoseconds start = offbeat::clock::now();
  const auto method = is_offset ? offbeat::clock::Method::offset : offbeat::clock::Method::hca3;
  const offbeat::clock::MeasuringEffort effort{.least_ns = static_cast<Nanoseconds>(least_ms * 1e6)};
  const offbeat::clock::Model model = offbeat::clock::synchronise(messenger, hosts, method, effort);
  const Nanoseconds end = offbeat::clock::now();

  // The clock of rank 0 is the truth.
  const double error = largest(std::abs(static_cast<double>(model.to_global(messenger.planted(end)) - end)));
  const double residual = largest(model.residual_ns);
  const double bound = largest(model.bound_ns);
  const double took_ms = largest(static_cast<double>(end - start) * 1e-6);

  // The shortest ways to the last rank and back, by the true clock: half of their difference cannot be known.
  double there = 1e12;
  double back = 1e12;
  for (int i = 0; i < 50 && ranks > 1; ++i) {
    Nanoseconds sent = offbeat::clock::now();
    Nanoseconds answered = 0;
    const int last = ranks - 1;
    if (rank == 0) {
      MPI_Send(&sent, 1, MPI_INT64_T, last, 1, MPI_COMM_WORLD);
      MPI_Recv(&answered, 1, MPI_INT64_T, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      back = std::min(back, static_cast<double>(offbeat::clock::now() - answered));
    } else if (rank == last) {
      MPI_Recv(&sent, 1, MPI_INT64_T, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      answered = offbeat::clock::now();
      there = std::min(there, static_cast<double>(answered - sent));
      MPI_Send(&answered, 1, MPI_INT64_T, 0, 1, MPI_COMM_WORLD);
    }
  }
  there = -largest(-there);
  back = -largest(-back);

  // A start in time: rank 0 announces an instant of global time.
  double skew = 1e12;
  for (int i = 0; i < 20; ++i) {
    Nanoseconds instant = rank == 0 ? model.to_global(messenger.now()) + 20'000'000 : 0;
    MPI_Bcast(&instant, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    const Nanoseconds own = model.to_local(instant);
    while (messenger.now() < own) sched_yield();
    const auto arrival = static_cast<double>(offbeat::clock::now() - messenger.begin);
    skew = std::min(skew, largest(arrival) + largest(-arrival));
  }
  if (rank == 0) {
    std::printf("error %.0f residual %.0f bound %.0f took %.1f skew %.0f there %.0f back %.0f\n", error,
                residual, bound, took_ms, skew, there, back);
  }
  MPI_Finalize();
  return 0;
}
