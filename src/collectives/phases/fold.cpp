// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/phases/fold.hpp"

#include <bit>

namespace offbeat {

Task run_folded(Endpoint net, Call call, const Expression& self, int core,
                Task (*run)(Endpoint, Call, const Expression&)) {
  const Groups groups{net.size, core};
  const int group = groups.group_of(net.rank);
  const int leader = groups.leader(group);
  const bool all_want_it = call.collective == Collective::allreduce;
  if (net.rank != leader) {
    co_await net.send(leader, call.input);
    if (all_want_it) co_await net.receive(leader, call.output);
    co_return;
  }
  const int members = groups.members(group);
  Call inner = call;
  if (members > 1) {
    const Scratch theirs = net.scratch(call.input.count, call.input.width);
    for (int member = 1; member < members; ++member) {
      co_await net.receive(leader + member, theirs.vector());
      co_await net.reduce(*call.op, call.output, inner.input, theirs.vector());
      inner.input = call.output;
    }
  }
  co_await run(net.part(groups.leaders(), group, core), inner, self);
  if (!all_want_it) co_return;
  for (int member = 1; member < members; ++member) co_await net.send(leader + member, call.output);
}

Task run_folded_to_power_of_two(Endpoint net, Call call, const Expression& self,
                                Task (*run)(Endpoint, Call, const Expression&)) {
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(net.size)));
  return core == net.size ? run(net, call, self) : run_folded(net, call, self, core, run);
}

}  // namespace offbeat
