// SPDX-License-Identifier: BSD-3-Clause
// offbeat's own algorithms under SMPI, SimGrid's simulation of MPI programs.
//
//     allreduce RANKS_PER_NODE BYTES EXPRESSION...
//
// Prints a line for each expression: the seconds from the common start to the last exit. For expressions that
// have one message under way at a time.
#include <mpi.h>
#include <time.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "collectives/algorithm.hpp"
#include "node/membership.hpp"
#include "transport/transport.hpp"

namespace {

using namespace offbeat;

// Blocking, so a coroutine never suspends. SMPI charges nothing for computations.
class SmpiTransport final : public Transport {
 public:
  bool start(Transfer& transfer) override {
    const bool sends = transfer.to != Transfer::nobody;
    const bool receives = transfer.from != Transfer::nobody;
    MPI_Sendrecv(transfer.outgoing.data, sends ? static_cast<int>(transfer.outgoing.bytes()) : 0, MPI_BYTE,
                 sends ? transfer.to : MPI_PROC_NULL, 0, transfer.incoming.data,
                 receives ? static_cast<int>(transfer.incoming.bytes()) : 0, MPI_BYTE,
                 receives ? transfer.from : MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return true;
  }
  bool start(Computation& computation) override {
    computation.perform();
    return true;
  }
};

void wait_until(double time) {
  const double seconds = time - MPI_Wtime();
  const timespec length{static_cast<time_t>(seconds),
                        static_cast<long>(std::lround((seconds - std::floor(seconds)) * 1e9))};
  nanosleep(&length, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int ranks_per_node = std::atoi(argv[1]);
  const std::size_t count = std::strtoul(argv[2], nullptr, 10) / sizeof(float);

  Membership membership(size);
  membership.group_by([&](int each) { return each / ranks_per_node; });
  const Locality locality(membership, rank);
  SmpiTransport transport;
  transport.locality = &locality;
  const Reduction sum(ElementType::float32, ReduceOp::sum);
  std::vector<float> input(count, 1);
  std::vector<float> output(count);
  const Call call{Collective::allreduce,
                  {reinterpret_cast<const std::byte*>(input.data()), count, sizeof(float)},
                  {reinterpret_cast<std::byte*>(output.data()), count, sizeof(float)},
                  &sum};

  for (int k = 3; k < argc; ++k) {
    const double begin = k;  // seconds; long after the one before has ended
    wait_until(begin);
    const Expression expression = parse_expression(Collective::allreduce, argv[k]);
    Task task = carry_out(Endpoint(transport, rank, size), call, expression);
    task.start();
    task.rethrow_if_failed();
    double seconds = MPI_Wtime() - begin;
    if (output.back() != static_cast<float>(size)) seconds = -1;
    double least = seconds;
    double most = seconds;
    MPI_Reduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&seconds, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    if (rank == 0) std::printf("%.12g\n", least < 0 ? -1 : most);
  }
  MPI_Finalize();
  return 0;
}
