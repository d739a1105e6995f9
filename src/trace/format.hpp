// SPDX-License-Identifier: BSD-3-Clause
// The layout of a trace file, which docs/reference/trace-format.md describes field by field.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "base/collective.hpp"
#include "base/own_floating_point.hpp"
#include "clock/clock.hpp"

namespace offbeat::trace {

static_assert(std::endian::native == std::endian::little, "trace files are little-endian");

inline constexpr std::size_t header_bytes = 4096;
inline constexpr std::size_t slot_bytes = 64;

struct Clock {
  std::uint32_t kind;
  std::uint32_t bound;
  std::int64_t at;
  std::int64_t offset;
  double slope;
  double residual;
};

// How much a process had to share its cores (base/own_process.hpp).
struct Contention {
  std::int64_t waited_ns;
  std::int64_t preemptions;
};

[[nodiscard]] inline Clock to_stored_clock(const clock::Model& model) {
  const OwnFloatingPoint own;
  constexpr double most = std::numeric_limits<std::uint32_t>::max();
  return {static_cast<std::uint32_t>(model.source),
          static_cast<std::uint32_t>(std::min(most, std::ceil(model.bound_ns))),
          model.at,
          model.offset,
          model.slope,
          model.residual_ns};
}

enum HeaderFlag : std::uint32_t {
  ended_in_order = 1,
  does_not_record = 2,  // sampling of ranks
  is_partial = 4        // some calls were left out by a filter, or while the trace was paused
};

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_size;
  std::uint32_t slot_size;
  std::uint32_t flags;
  std::uint32_t rank;
  std::uint32_t ranks;
  std::uint64_t slots;
  std::uint64_t calls;
  std::uint64_t lost;
  std::uint32_t every_call;
  std::uint32_t every_rank;
  std::uint64_t run;
  std::int64_t realtime;
  std::int64_t monotonic;
  Clock begin;
  Clock end;
  char host[64];
  char mpi[64];
  char offbeat[32];
  char program[512];
  Contention contention_at_begin;
  Contention contention_at_end;
};
static_assert(std::is_trivial_v<Header> && sizeof(Header) <= header_bytes);
static_assert(offsetof(Header, slots) == 32 && offsetof(Header, begin) == 88 && offsetof(Header, end) == 128);
static_assert(offsetof(Header, host) == 168 && offsetof(Header, program) == 328 &&
              offsetof(Header, contention_at_begin) == 840);

enum class RecordKind : std::uint8_t { call = 1, communicator = 2, name = 3 };

enum CallFlag : std::uint8_t { in_place = 1, nonblocking = 2, persistent = 4, incomplete = 8, has_bits = 16 };

// These stand instead of a root on the root's side of an inter-communicator. A call without a root has -1.
inline constexpr std::int32_t this_is_root = -2;
inline constexpr std::int32_t in_root_group_but_not_root = -3;

// The vector of a bitwise and: how many of this rank's bits were set, and how many of them the call cleared.
struct Bits {
  std::uint16_t set;
  std::uint16_t cleared;
};

struct CallRecord {
  RecordKind kind;
  std::uint8_t flags;
  Collective collective;
  std::uint8_t zero;
  std::uint32_t communicator;
  std::int64_t arrival;
  std::int64_t exit;
  std::int64_t completion;
  std::uint64_t number;
  std::int64_t bytes;
  std::int64_t count;
  union {
    std::int32_t root;
    Bits bits;  // with CallFlag::has_bits
  };
  std::uint8_t operation;
  std::uint8_t algorithm;
  std::uint16_t type;
};
static_assert(std::is_trivial_v<CallRecord> && sizeof(CallRecord) == slot_bytes);
static_assert(offsetof(CallRecord, number) == 32 && offsetof(CallRecord, root) == 56);
static_assert(offsetof(CallRecord, bits) == 56 && offsetof(CallRecord, operation) == 60);

enum CommunicatorFlag : std::uint8_t {
  inter = 1,
  has_first_ranks_of_world = 2,
  ranks_follow = 4,
  of_several_jobs = 8
};

struct CommunicatorRecord {  // followed by the ranks
  RecordKind kind;
  std::uint8_t flags;
  std::uint16_t zero;
  std::uint32_t slots;
  std::uint32_t number;
  std::uint32_t ranks;
  std::uint64_t identity;
  std::uint32_t rank;
};
inline constexpr std::size_t communicator_ranks_offset = 28;
static_assert(offsetof(CommunicatorRecord, rank) == 24);

enum class Named : std::uint8_t { type = 1, operation = 2, algorithm = 3, communicator = 4 };

struct NameRecord {  // followed by the text
  RecordKind kind;
  Named what;
  std::uint16_t length;
  std::uint32_t slots;
  std::uint32_t number;
  std::uint32_t size;
};
static_assert(sizeof(NameRecord) == 16);

}  // namespace offbeat::trace
