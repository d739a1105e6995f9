// SPDX-License-Identifier: BSD-3-Clause
// What MPI_Allreduce of one float costs beyond the board: two ranks, under the preload, on a communicator of
// the MPI; and in turn with it the same on a board that this program has made itself, with nothing around it.
// Each call waits for the other rank's, so what a rank does before and after it is in the time of each call.
//
//     offbeat run -n 2 -- ./entry
#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "collectives/allreduce/allreduce.hpp"
#include "node/board.hpp"
#include "processes.hpp"

using namespace offbeat;

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Dl_info where{};
  dladdr(reinterpret_cast<void*>(&MPI_Allreduce), &where);
  if (size != 2 || where.dli_fname == nullptr || std::strstr(where.dli_fname, "liboffbeat") == nullptr) {
    std::fprintf(stderr, "entry: needs two ranks, and offbeat preloaded\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  const BoardShape shape{.ranks = 2, .window_bytes = 4096};
  const auto bytes = static_cast<MPI_Aint>(shape.total_bytes() + 4096);
  void* memory = nullptr;
  MPI_Win window;
  MPI_Win_allocate_shared(rank == 0 ? bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  MPI_Aint length = 0;
  int unit = 0;
  MPI_Win_shared_query(window, 0, &length, &unit, &memory);
  const auto address = (reinterpret_cast<std::uintptr_t>(memory) + 4095) / 4096 * 4096;
  if (rank == 0) std::memset(memory, 0, static_cast<std::size_t>(bytes));
  MPI_Barrier(MPI_COMM_WORLD);
  Board board(reinterpret_cast<void*>(address), shape, rank, Patience{});
  const Reduction sum(ElementType::float32, ReduceOp::sum);
  float input = 1;
  float output = 0;
  const Call args = allreduce_of(&input, &output, 1, sum);

  constexpr int calls = 1000;
  constexpr int batches = 301;
  std::vector<double> through_mpi;
  std::vector<double> on_board;
  std::vector<double> between;
  for (int batch = 0; batch < batches; ++batch) {
    const double start = now_us();
    for (int call = 0; call < calls; ++call)
      MPI_Allreduce(&input, &output, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const double middle = now_us();
    for (int call = 0; call < calls; ++call) allreduce_algorithms::arrival_tree.immediate->run(board, args);
    const double end = now_us();
    through_mpi.push_back((middle - start) / calls * 1e3);
    on_board.push_back((end - middle) / calls * 1e3);
    between.push_back(through_mpi.back() - on_board.back());
  }
  if (rank == 0) {
    std::printf(
        "MPI_Allreduce %.0f ns, board %.0f ns, difference %.0f ns: medians of %d batches of %d calls\n",
        median(through_mpi), median(on_board), median(between), batches, calls);
  }
  MPI_Win_free(&window);
  MPI_Finalize();
  return output == 2 ? 0 : 1;
}
