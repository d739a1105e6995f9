// SPDX-License-Identifier: BSD-3-Clause
#include "trace/header.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/own_process.hpp"
#include "clock/clock.hpp"

namespace offbeat::trace {
namespace {

template <std::size_t Size>
void store_text(char (&field)[Size], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), Size - 1));
}

}  // namespace

Contention contention_so_far() {
  const offbeat::Contention found = contention();
  return {found.waited_ns, found.preemptions};
}

std::string rank_file_path(const std::string& folder, int rank) {
  const std::string number = std::to_string(rank);
  return folder + "/rank-" + std::string(6 - std::min<std::size_t>(6, number.size()), '0') + number +
         ".trace";
}

void fill_header(Header& header, const TracedRank& rank, const Settings& settings) {
  header.version = 1;
  header.header_size = header_bytes;
  header.slot_size = slot_bytes;
  header.flags = (rank.records ? 0U : static_cast<std::uint32_t>(does_not_record)) |
                 (rank.is_partial ? static_cast<std::uint32_t>(is_partial) : 0U);
  header.rank = static_cast<std::uint32_t>(rank.rank);
  header.ranks = static_cast<std::uint32_t>(rank.ranks);
  header.every_call = static_cast<std::uint32_t>(settings.trace_every);
  header.every_rank = static_cast<std::uint32_t>(settings.trace_ranks_every);
  header.run = rank.run;
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  header.realtime = static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  header.monotonic = clock::now();
  char host[sizeof header.host] = "";
  gethostname(host, sizeof host - 1);
  store_text(header.host, host);
  store_text(header.mpi, rank.mpi);
  store_text(header.offbeat, OFFBEAT_VERSION);
  store_text(header.program, program_line());
  header.begin = rank.clock;
  header.contention_at_begin = contention_so_far();
  std::memcpy(header.magic, "OFFBEAT\n", sizeof header.magic);
}

}  // namespace offbeat::trace
