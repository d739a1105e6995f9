// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/adaptation.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>

namespace offbeat {
namespace {

// Several non-blocking calls may be under way at once, and their waits overlap. So calls of one alternative
// follow one another.
constexpr std::size_t calls_in_a_row(CallForm form) { return form == CallForm::blocking ? 1 : 4; }

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
      trial_(row.alternatives.size(), combine_times(collective), calls_in_a_row(form)),
      combined_(trial_.times().size()) {}

std::uint64_t RowTrial::now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(since).count());
}

const Alternative& RowTrial::next() {
  const std::lock_guard lock(lock_);
  if (trial_.measures()) begun_ = now();
  return row_->alternatives[trial_.next()];
}

MeasuredCall RowTrial::count_call() {
  const std::lock_guard lock(lock_);
  MeasuredCall call;
  call.opening_ = trial_.opening();
  call.slot_ = trial_.count_call();
  call.begun_ = begun_;
  if (call.slot_ != Trial::no_slot) call.trial_ = shared_from_this();
  return call;
}

void RowTrial::copy(std::span<const std::uint64_t> times, std::vector<std::uint64_t>& to) {
  const std::lock_guard lock(lock_);
  std::ranges::copy(times, to.begin());
}

// The ranks have already decided if the call is of an earlier opening.
void MeasuredCall::end() {
  const std::lock_guard lock(trial_->lock_);
  if (trial_->trial_.opening() == opening_) trial_->trial_.set_time(slot_, spent_);
}

RowTrial& Adaptation::trial(Communicator& communicator, Collective collective, const PlanRow& row,
                            CallForm form, std::size_t bytes) {
  for (const auto& each : trials_)
    if (each->is_for(row, form, bytes)) return *each;
  return *trials_.emplace_back(std::make_shared<RowTrial>(communicator, collective, row, form, bytes));
}

}  // namespace offbeat
