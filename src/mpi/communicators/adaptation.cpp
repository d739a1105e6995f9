// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/adaptation.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

namespace offbeat {
namespace {

// Returns the lengths that share a trial with `bytes`.
Range<std::size_t> similar_lengths(const Range<std::size_t>& row, std::size_t bytes) {
  const std::size_t least = std::bit_floor(bytes);
  const std::size_t most = bytes == 0 ? 0 : least + (least - 1);
  return {std::max(row.least, least), std::min(row.most, most)};
}

}  // namespace

RowTrial::RowTrial(Communicator& communicator, Collective collective, const PlanRow& row, CallForm form,
                   std::size_t bytes)
    : communicator_(communicator),
      collective_(collective),
      row_(&row),
      form_(form),
      bytes_(similar_lengths(row.bytes, bytes)),
      trial_(row.alternatives.size(), combine_times(collective), form == CallForm::blocking ? 1 : 4) {}

std::uint64_t RowTrial::now() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

RowTrial& Adaptation::trial(Communicator& communicator, Collective collective, const PlanRow& row,
                            CallForm form, std::size_t bytes) {
  for (const auto& each : trials_)
    if (each->is_for(row, form, bytes)) return *each;
  return *trials_.emplace_back(std::make_unique<RowTrial>(communicator, collective, row, form, bytes));
}

}  // namespace offbeat
