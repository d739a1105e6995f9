// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/adaptation.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>

#include "node/board_shape.hpp"

namespace offbeat {
namespace {

// Calls of one alternative follow one another. The first of them finds the buffers of another alternative in
// the caches; its time is among the longest, which do not count. And several non-blocking calls may be under
// way at once, and their waits overlap.
constexpr std::size_t calls_in_a_row = 4;
// The first calls touch memory for the first time: both halves of a window, and of non-blocking calls eight
// parts of a board.
constexpr std::size_t warm_ups(CallForm form) { return form == CallForm::blocking ? 2 : 8; }

// Returns true if this rank gets data of every other rank. It then cannot leave before all have arrived.
bool needs_every_rank(const Call& call, int rank, int ranks) {
  if (facts_of(call.collective).has_operation) return call.output.count > 0;
  for (int other = 0; other < ranks; ++other)
    if (other != rank && call.output_blocks.block_of(call.output, other, ranks).count == 0) return false;
  return true;
}

// Returns false if this rank may leave the collective early, although the shortest time of all ranks counts.
bool time_reflects_algorithm(const Call& call, int rank, int ranks) {
  return combine_times(call.collective) == CombineTimes::longest || call.collective == Collective::barrier ||
         needs_every_rank(call, rank, ranks);
}

// Returns the lengths that share a trial with `bytes`.
Range<std::size_t> similar_lengths(const Range<std::size_t>& row, std::size_t bytes) {
  const std::size_t least = std::bit_floor(bytes);
  const std::size_t most = bytes == 0 ? 0 : least + (least - 1);
  return {std::max(row.least, least), std::min(row.most, most)};
}

}  // namespace

RowTrial::RowTrial(Collective collective, const PlanRow& row, CallForm form, std::size_t bytes)
    : row_(&row),
      bytes_(similar_lengths(row.bytes, bytes)),
      widest_(
          static_cast<std::uint32_t>(std::min(row.elements.most_narrow_bytes, BoardShape::smallest_chunk))),
      form_(form),
      collective_(collective),
      pinned_(ChosenAlternative::from_alternative(row.alternatives.front())),
      trial_(row.alternatives.size(), combine_times(collective), calls_in_a_row, warm_ups(form)),
      combined_(trial_.most_times()) {}

std::uint64_t RowTrial::now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(since).count());
}

void RowTrial::begin_call(const Call& call, int rank, int ranks) {
  {
    const std::lock_guard lock(lock_);
    trial_slot_ = trial_.count_call();
  }
  if (trial_slot_ == Trial::no_slot) return;
  if (!time_reflects_algorithm(call, rank, ranks)) trial_slot_ = Trial::no_slot;
  begun_ = now();
}

MeasuredCall RowTrial::begin_request(const Call& call, int rank, int ranks) {
  MeasuredCall measured;
  if (trial_.try_count_call()) return measured;
  const std::lock_guard lock(lock_);
  measured.opening_ = trial_.opening();
  measured.trial_slot_ = trial_.count_call();
  if (measured.trial_slot_ == Trial::no_slot || !time_reflects_algorithm(call, rank, ranks)) return measured;
  measured.trial_ = shared_from_this();
  measured.begun_ = now();
  return measured;
}

void RowTrial::set_time(std::size_t slot, std::uint64_t nanoseconds) {
  const std::lock_guard lock(lock_);
  trial_.set_time(slot, nanoseconds);
}

void RowTrial::copy_times(std::span<std::uint64_t> to) {
  const std::lock_guard lock(lock_);
  std::ranges::copy(trial_.times(), to.begin());
}

// If the call began in an earlier opening of the trial, its time comes too late and is dropped: the ranks
// have already decided.
void MeasuredCall::end() {
  const std::lock_guard lock(trial_->lock_);
  if (trial_->trial_.opening() == opening_) trial_->trial_.set_time(trial_slot_, spent_ns_);
}

RowTrial& Adaptation::find(Collective collective, const PlanRow& row, CallForm form, std::size_t bytes) {
  for (const auto& each : trials_)
    if (each->is_for(row, form, bytes)) return *each;
  return *trials_.emplace_back(std::make_shared<RowTrial>(collective, row, form, bytes));
}

}  // namespace offbeat
