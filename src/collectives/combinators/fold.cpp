// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/combinators/fold.hpp"

namespace offbeat {

Task folded(Endpoint net, Allreduce args, const Expression& self, int core,
            Task (*run)(Endpoint, Allreduce, const Expression&)) {
  const Groups groups{net.size, core};
  const int group = groups.group_of(net.rank);
  const int leader = groups.leader(group);
  if (net.rank != leader) {
    co_await net.send(leader, args.input);
    co_await net.receive(leader, args.output);
    co_return;
  }
  const int members = groups.members(group);
  Allreduce inner = args;
  if (members > 1) {
    const Scratch theirs = net.scratch(args.input.count, args.input.width);
    for (int member = 1; member < members; ++member) {
      co_await net.receive(leader + member, theirs.vector());
      co_await net.reduce(*args.op, args.output, inner.input, theirs.vector());
      inner.input = args.output;
    }
  }
  co_await run(net.part(groups.leaders(), group, core), inner, self);
  for (int member = 1; member < members; ++member) co_await net.send(leader + member, args.output);
}

}  // namespace offbeat
