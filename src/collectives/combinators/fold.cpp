// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/combinators/fold.hpp"

namespace offbeat {

Task folded(Endpoint net, Call call, const Expression& self, int core,
            Task (*run)(Endpoint, Call, const Expression&)) {
  const Groups groups{net.size, core};
  const int group = groups.group_of(net.rank);
  const int leader = groups.leader(group);
  if (net.rank != leader) {
    co_await net.send(leader, call.input);
    co_await net.receive(leader, call.output);
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
  for (int member = 1; member < members; ++member) co_await net.send(leader + member, call.output);
}

}  // namespace offbeat
