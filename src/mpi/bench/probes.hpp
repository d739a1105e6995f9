// SPDX-License-Identifier: BSD-3-Clause
// A probe is one measurement of `offbeat calibrate`, in which the named ranks take part. Its kinds:
//
//   round_trip  a b [c d ...]   pairs exchange a message at once; a sample is half of a round trip
//   exchange    a b             both send and receive a message at once
//   fan_out     a b c ...       a sends to the others at once; until the last of them has its message
//   fan_in      a b c ...       the others send to a at once; until a has all messages
//   late        a b             a sends, b receives when the message is there; the times of both calls
//   eager       a b             the longest message whose send does not wait until b receives, by bisection
//   combine     a [b ...]       each rank combines two vectors into a third
//   copy        a [b ...]       each rank copies a vector
//   line        a b             a cache line goes from a to b, through memory that the ranks of a node share
//   window      a b             both write a vector into that memory, and read that of the other; two times
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/bench/clock.hpp"

namespace offbeat::bench {

enum class ProbeKind : std::uint8_t {
  round_trip,
  exchange,
  fan_out,
  fan_in,
  late,
  eager,
  combine,
  copy,
  line,
  window
};

// One line of the file: "KIND ROUND BYTES LEAD_US RANK ...".
struct Probe {
  ProbeKind kind = ProbeKind::round_trip;
  std::int64_t round = 0;  // only copied into the record of the result
  std::size_t bytes = 0;   // of a message or vector; of the longest one in `eager`
  Nanoseconds lead_ns = 0;
  std::vector<int> ranks;
};

[[nodiscard]] std::string_view name_of(ProbeKind kind);

// Reads the probes of a job of `ranks` ranks. Throws std::runtime_error, whose text is one line.
[[nodiscard]] std::vector<Probe> parse_probes(const std::string& text, int ranks);

}  // namespace offbeat::bench
