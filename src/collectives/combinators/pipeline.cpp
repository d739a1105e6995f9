// SPDX-License-Identifier: BSD-3-Clause
// Pipeline: the message in segments, each a call of its own, several in flight.
//
//   pipeline(4, A)       4 segments, all in flight (fixed concurrency)
//   pipeline(32MiB, A)   segments of 32 MiB, up to 16 in flight (fixed segment size); the last one is shorter
//
// While one segment waits for a slow link or a late rank, others combine and send.
// Source: Castello et al. 2021, section 4; their listings pass a wrong count for the last segment, their text
// is followed.
#include <algorithm>

#include "collectives/combinators/combinators.hpp"

namespace offbeat::combinators {
namespace {

constexpr int most_in_flight = 16;  // of fixed size; more only cost matching and memory
constexpr Parameter parameters[] = {Parameter::segments_or_bytes, Parameter::algorithm};

int in_flight(const Expression& self) { return self.segments > 0 ? self.segments : most_in_flight; }

// How the message is cut; every rank computes the same.
struct Cut {
  std::size_t count;  // elements in all
  std::size_t segments;
  std::size_t segment;  // elements in each but the last, when cut by bytes; 0: equal parts

  Cut(const Call& call, const Expression& self) : count(call.input.count) {
    segment = self.segments > 0 ? 0 : std::max<std::size_t>(1, self.bytes / call.input.width);
    segments = self.segments > 0 ? static_cast<std::size_t>(self.segments) : (count + segment - 1) / segment;
  }
  template <class AnyVector>
  [[nodiscard]] AnyVector of(const AnyVector& vector, std::size_t k) const {
    if (segment == 0) return vector.block(static_cast<int>(segments), static_cast<int>(k));
    return vector.slice(k * segment, std::min(segment, count - k * segment));
  }
};

// Segments `first`, `first` + stride, ... one after the other: one of the streams in flight.
Task stream(Endpoint net, Call call, const Expression& part, Cut cut, std::size_t first, std::size_t stride) {
  for (std::size_t k = first; k < cut.segments; k += stride) {
    co_await carry_out(net, call.with(cut.of(call.input, k), cut.of(call.output, k)), part);
  }
}

Task run(Endpoint net, Call call, const Expression& self) {
  const Cut cut(call, self);
  const int streams = in_flight(self);
  co_await net.concurrently(streams, [&](const Endpoint& lane, int k) {
    return stream(lane, call, self.parts[0], cut, static_cast<std::size_t>(k),
                  static_cast<std::size_t>(streams));
  });
}

}  // namespace

const Algorithm pipeline{
    .name = "pipeline",
    .summary = "segments of the message in flight together, each by ALGORITHM",
    .cost = "the slowest resource of ALGORITHM instead of the sum of all",
    .serves = {Collective::allreduce},
    .source = "Castello et al. 2021",
    .parameters = parameters,
    .run = run,
    .lanes = [](const Expression& self) { return lanes_product(in_flight(self), self.parts[0].lanes()); },
};

}  // namespace offbeat::combinators
