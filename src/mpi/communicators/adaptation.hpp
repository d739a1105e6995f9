// SPDX-License-Identifier: BSD-3-Clause
// Adaptation holds the trials (selection/trial.hpp) of one communicator.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/spin_lock.hpp"
#include "collectives/call.hpp"
#include "mpi/communicators/communicator_plans.hpp"
#include "selection/plan.hpp"
#include "selection/trial.hpp"

namespace offbeat {

class MeasuredCall;

// The trial of one row of a plan, for calls of one form whose lengths lie between two powers of two: 16 KiB
// to 32 KiB-1.
//
// A call counts when it begins, so that ranks agree even if an error handler of the program jumps out of it.
// When the ranks have to combine their times, they do so at the beginning of the next blocking call.
//
// Calls of one communicator begin one after another, but any thread may end a non-blocking call. So the trial
// has a lock. A call whose time does not matter needs no lock: only the thread that begins calls reads what
// such a call changes.
class RowTrial : public std::enable_shared_from_this<RowTrial> {
 public:
  RowTrial(Collective collective, const PlanRow& row, CallForm form, std::size_t bytes);

  [[nodiscard]] bool is_for(const PlanRow& row, CallForm form, std::size_t bytes) const {
    return row_ == &row && form_ == form && bytes_.contains(bytes);
  }
  // Returns true if the plan in use has this row for such a call.
  [[nodiscard]] bool takes(Collective collective, CallForm form, std::size_t bytes, std::size_t width) const {
    return collective_ == collective && form_ == form && bytes_.contains(bytes) && width <= widest_;
  }
  [[nodiscard]] Collective collective() const { return collective_; }
  [[nodiscard]] const PlanRow& row() const { return *row_; }
  [[nodiscard]] const Range<std::size_t>& bytes() const { return bytes_; }
  [[nodiscard]] CallForm form() const { return form_; }
  [[nodiscard]] const Trial& trial() const { return trial_; }

  // Returns what the next call runs. It is the same until that call is counted.
  [[nodiscard]] ChosenAlternative next() const {
    if (trial_.measures()) [[unlikely]]
      return ChosenAlternative::from_alternative(row_->alternatives[trial_.next()]);
    return pinned_;
  }
  // Counts a blocking call when it begins, if counting is all that has to be done. Otherwise returns false,
  // and begin_call() must follow.
  [[nodiscard]] bool try_count_call() { return trial_.try_count_call(); }
  // Counts a blocking call as it begins. If it does not fail, end_call() must follow. `call` is what this
  // rank of the communicator does.
  void begin_call(const Call& call, int rank, int ranks);
  void end_call() {
    if (trial_slot_ != Trial::no_slot) [[unlikely]]
      set_time(trial_slot_, now() - begun_);
  }
  // Counts a non-blocking call as it begins. The result takes its time.
  [[nodiscard]] MeasuredCall begin_request(const Call& call, int rank, int ranks);
  [[nodiscard]] bool is_due() const { return trial_.is_due(); }

  // Calls combine(times) to combine the times of all ranks. Returns true if an alternative is pinned now.
  template <class Combine>
  [[nodiscard]] bool decide(Combine&& combine) {
    const std::span<std::uint64_t> combined = std::span(combined_).first(trial_.times().size());
    copy_times(combined);
    combine(combined);
    const std::lock_guard lock(lock_);
    std::ranges::copy(combined, trial_.times().begin());
    const bool is_pinned = trial_.decide();
    pinned_ = ChosenAlternative::from_alternative(row_->alternatives[trial_.pinned()]);
    return is_pinned;
  }

  // Returns the time of this process in nanoseconds.
  [[nodiscard]] static std::uint64_t now();

 private:
  friend class MeasuredCall;
  void set_time(std::size_t slot, std::uint64_t nanoseconds);
  void copy_times(std::span<std::uint64_t> to);

  // These members come first, because every call that runs the pinned alternative reads them.
  const PlanRow* const row_;
  const Range<std::size_t> bytes_;
  const std::uint32_t widest_;  // the most bytes that an element may have
  const CallForm form_;
  const Collective collective_;
  ChosenAlternative pinned_;
  Trial trial_;
  SpinLock lock_;
  std::vector<std::uint64_t> combined_;
  std::size_t trial_slot_ = Trial::no_slot;  // of the present blocking call
  std::uint64_t begun_ = 0;                  // when it began
};

// A non-blocking call whose time belongs into a slot of a trial. It keeps the trial alive, but not its
// communicator.
class MeasuredCall {
 public:
  MeasuredCall() = default;

  // Returns true if a trial needs the time of this call.
  explicit operator bool() const { return trial_ != nullptr; }
  // Adds a time in nanoseconds to that which the program has spent in this call.
  void add(std::uint64_t nanoseconds) { spent_ns_ += nanoseconds; }
  void add_since(std::uint64_t begun) { add(RowTrial::now() - begun); }
  // Returns when the call began.
  [[nodiscard]] std::uint64_t begun() const { return begun_; }
  // Gives the trial the time that was added up.
  void end();

 private:
  friend class RowTrial;
  std::shared_ptr<RowTrial> trial_;
  std::size_t trial_slot_ = Trial::no_slot;
  std::uint32_t opening_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t spent_ns_ = 0;
};

class Adaptation {
 public:
  // Returns the trial of such calls if one was made not long ago, otherwise null.
  [[nodiscard]] RowTrial* recent(Collective collective, CallForm form, std::size_t bytes,
                                 std::size_t width) const {
    RowTrial* const found = recent_[place_of(collective, form, bytes)];
    return found != nullptr && found->takes(collective, form, bytes, width) ? found : nullptr;
  }
  // Returns the trial for such a call of a row that has a choice. The first such call makes it. Throws
  // std::bad_alloc.
  [[nodiscard]] RowTrial& trial(Collective collective, const PlanRow& row, CallForm form, std::size_t bytes) {
    RowTrial*& recent = recent_[place_of(collective, form, bytes)];
    if (recent == nullptr || !recent->is_for(row, form, bytes)) recent = &find(collective, row, form, bytes);
    return *recent;
  }
  // Calls visit(trial) for each trial that is due.
  template <class Visit>
  void for_each_due_trial(Visit&& visit) {
    for (const auto& each : trials_)
      if (each->is_due()) visit(*each);
  }
  [[nodiscard]] bool is_any_due() const {
    return std::ranges::any_of(trials_, [](const auto& each) { return each->is_due(); });
  }
  // Call when `plans` come into use, on all ranks between the same calls. Trials of other plans end.
  void use(const Plans& plans) {
    if (plans_ == &plans) return;
    plans_ = &plans;
    recent_ = {};
    trials_.clear();
  }

 private:
  [[nodiscard]] RowTrial& find(Collective collective, const PlanRow& row, CallForm form, std::size_t bytes);

  // Trials of different calls mostly have different places.
  [[nodiscard]] static std::size_t place_of(Collective collective, CallForm form, std::size_t bytes) {
    const std::size_t calls = 2 * index_of(collective) + (form == CallForm::nonblocking ? 1 : 0);
    return (5 * calls + static_cast<std::size_t>(std::bit_width(bytes))) % recent_places;
  }
  static constexpr std::size_t recent_places = 32;

  const Plans* plans_ = nullptr;
  std::array<RowTrial*, recent_places> recent_{};  // those that were asked for last
  std::vector<std::shared_ptr<RowTrial>> trials_;
};

}  // namespace offbeat
