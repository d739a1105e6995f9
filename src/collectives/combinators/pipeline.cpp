// SPDX-License-Identifier: BSD-3-Clause
// Idea: the message is cut into segments. Each segment is a call of its own, and several are in flight. While
// one segment waits for a slow link or a late rank, others combine and send. If every rank has a block, a
// segment is a stripe of each block.
//
//   pipeline(4, A)       4 segments, all in flight (fixed concurrency)
//   pipeline(32MiB, A)   segments of 32 MiB, up to 16 in flight (fixed segment size); the last one is shorter
//   pipeline(4, native)  each segment is a non-blocking collective of the host MPI
//                        (mpi/operations/host_pipeline.hpp)
//
// Source: Castelló et al. 2021, section 4. Their listings pass a wrong count for the last segment; this code
// follows their text.
#include <algorithm>

#include "collectives/combinators/combinators.hpp"
#include "collectives/combinators/segments.hpp"

namespace offbeat::combinators {
namespace {

constexpr Parameter parameters[] = {Parameter::segments_or_bytes, Parameter::algorithm_or_native};

std::size_t longest(const BlockList& blocks, const ConstVector& all, int ranks) {
  std::size_t found = 0;
  for (int rank = 0; rank < ranks; ++rank) found = std::max(found, blocks.block_of(all, rank, ranks).count);
  return found;
}

// Returns the number of elements that are cut: those of the vector, or of the longest block.
std::size_t length_to_cut(const Call& call, int ranks) {
  switch (call.collective) {
    case Collective::allgather:
      return call.input.count;
    case Collective::allgatherv:  // among the leaders of a hierarchy
      return longest(call.output_blocks, call.output, ranks);
    case Collective::reduce_scatter:
      return longest(call.input_blocks, call.input, ranks);
    default:
      return call.output.count;
  }
}

// Returns the call for a part of the message.
Call call_of_stripe(const Call& call, const Stripe& stripe) {
  Call part = call;
  switch (call.collective) {
    case Collective::allgather:
    case Collective::allgatherv:
      part.input = stripe.part_of(call.input);
      part.output_blocks.stripe = call.output_blocks.stripe.part_of(stripe);
      return part;
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_block:
      part.input_blocks.stripe = call.input_blocks.stripe.part_of(stripe);
      part.output = stripe.part_of(call.output);
      return part;
    default:
      return call.with_input_and_output(stripe.part_of(call.input), stripe.part_of(call.output));
  }
}

// Runs the segments `first`, `first` + stride and so on, one after the other. This is one of the streams in
// flight.
Task run_stream(Endpoint net, Call call, const Expression& part, Segments segments, std::size_t first,
                std::size_t stride) {
  for (std::size_t k = first; k < segments.count(); k += stride) {
    co_await carry_out(net, call_of_stripe(call, segments[k]), part);
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const Segments segments(length_to_cut(call, net.size), call.output.width, self);
  const int streams = in_flight(self);
  co_await net.concurrently(streams, [&](const Endpoint& lane, int k) {
    return run_stream(lane, call, self.parts[0], segments, static_cast<std::size_t>(k),
                      static_cast<std::size_t>(streams));
  });
}

constexpr Collective collectives_with_blocks[] = {Collective::allgather, Collective::reduce_scatter,
                                                  Collective::reduce_scatter_block};

std::string why_unsuitable(const Expression& self, const Placement& placement) {
  const Expression& part = self.parts[0];
  if (part.is_native()) return {};
  const auto serves = [&](Collective collective) { return part.algorithm->serves.contain(collective); };
  if (!part.algorithm->takes_stripes && std::ranges::any_of(collectives_with_blocks, serves))
    return "cannot cut blocks for " + std::string(part.algorithm->name);
  return part.why_unsuitable(placement);
}

}  // namespace

const Algorithm pipeline{
    .name = "pipeline",
    .summary = "several segments of the message are in flight, each by ALGORITHM",
    .cost = "(1 - 1/k) max(ceil(s/f) t, su) + (t + (s-1) u)/k, t = T(p, n/s), u = U(p, n/s), k = N(p, n/s)",
    .serves = {Collective::allreduce, Collective::bcast, Collective::reduce, Collective::allgather,
               Collective::reduce_scatter, Collective::reduce_scatter_block, Collective::scan,
               Collective::exscan},
    .source = "Castelló et al. 2021",
    .parameters = parameters,
    .order = Algorithm::order_of_part,
    .takes_stripes = true,
    .run = run,
    .lanes = [](const Expression& self) { return lanes_product(in_flight(self), self.parts[0].lanes()); },
    .why_unsuitable = why_unsuitable,
};

}  // namespace offbeat::combinators
