// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct/block_exchange.hpp"

namespace offbeat::direct {

std::size_t BlockExchange::longest() const {
  switch (call_.collective) {
    case Collective::allgatherv:
    case Collective::gatherv:
      return call_.output_blocks.longest(ranks_);
    case Collective::reduce_scatter:
    case Collective::alltoallv:
    case Collective::scatterv:
      return call_.input_blocks.longest(ranks_);
    case Collective::alltoall:
    case Collective::reduce_scatter_block:
      return call_.input.count / static_cast<std::size_t>(ranks_);
    case Collective::gather:
    case Collective::allgather:
      return call_.input.count;
    default:
      return call_.output.count;
  }
}

}  // namespace offbeat::direct
