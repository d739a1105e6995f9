// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/allgather/allgather.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/alltoall/alltoall.hpp"
#include "collectives/barrier/barrier.hpp"
#include "collectives/bcast/bcast.hpp"
#include "collectives/gather/gather.hpp"
#include "collectives/reduce/reduce.hpp"
#include "collectives/reduce_scatter/reduce_scatter.hpp"
#include "collectives/repertoire.hpp"
#include "collectives/scan/scan.hpp"
#include "collectives/scatter/scatter.hpp"

namespace offbeat {
namespace {

Task copy_on_single_rank(Endpoint net, Call call) {
  co_await net.copy(call.output_blocks.block_of(call.output, 0, 1),
                    call.input_blocks.block_of(call.input, 0, 1));
}

}  // namespace

const Repertoire& repertoire(Collective collective) {
  static constexpr Repertoire nothing;
  switch (collective) {
    case Collective::allreduce:
      return allreduce;
    case Collective::barrier:
      return barrier;
    case Collective::allgather:
      return allgather;
    case Collective::allgatherv:
      return allgatherv;
    case Collective::alltoall:
      return alltoall;
    case Collective::alltoallv:
      return alltoallv;
    case Collective::reduce_scatter:
      return reduce_scatter;
    case Collective::reduce_scatter_block:
      return reduce_scatter_block;
    case Collective::bcast:
      return bcast;
    case Collective::gather:
      return gather;
    case Collective::gatherv:
      return gatherv;
    case Collective::reduce:
      return reduce;
    case Collective::scatter:
      return scatter;
    case Collective::scatterv:
      return scatterv;
    case Collective::scan:
      return scan;
    case Collective::exscan:
      return exscan;
    default:
      return nothing;
  }
}

Task carry_out(Endpoint net, Call call, const Expression& expression) {
  if (net.size == 1) return copy_on_single_rank(net, call);
  const Immediate* form = net.board() == nullptr
                              ? nullptr
                              : immediate_form(*expression.algorithm, net.size, call.length(net.size));
  if (form != nullptr && (form->takes_lists || !call.has_lists()))
    return form->run_in_steps(net, call, expression);
  return expression.algorithm->run(net, call, expression);
}

}  // namespace offbeat
