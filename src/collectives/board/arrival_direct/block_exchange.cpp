// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/arrival_direct/block_exchange.hpp"

namespace offbeat::direct {

std::size_t BlockExchange::longest() const {
  switch (call_.collective) {
    case Collective::allgatherv:
      return call_.output_blocks.longest(ranks_);
    case Collective::reduce_scatter:
    case Collective::alltoallv:
      return call_.input_blocks.longest(ranks_);
    case Collective::alltoall:
    case Collective::reduce_scatter_block:
      return call_.input.count / static_cast<std::size_t>(ranks_);
    case Collective::gather:
      return call_.output_blocks.counts != nullptr ? call_.output_blocks.longest(ranks_) : call_.input.count;
    case Collective::scatter:
      return call_.input_blocks.counts != nullptr ? call_.input_blocks.longest(ranks_) : call_.output.count;
    case Collective::allgather:
      return call_.input.count;
    default:
      return call_.output.count;
  }
}

}  // namespace offbeat::direct
