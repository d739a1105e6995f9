// SPDX-License-Identifier: BSD-3-Clause
// Adaptation holds the trials (selection/trial.hpp) of one communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "selection/plan.hpp"
#include "selection/trial.hpp"

namespace offbeat {

class Communicator;

// Which calls share a trial: blocking and non-blocking calls do not.
enum class CallForm : std::uint8_t { blocking, nonblocking };

// The trial of one row of a plan, for calls whose lengths lie between two powers of two: 16 KiB to 32 KiB-1.
class RowTrial {
 public:
  RowTrial(Communicator& communicator, Collective collective, const PlanRow& row, CallForm form,
           std::size_t bytes);

  [[nodiscard]] bool is_for(const PlanRow& row, CallForm form, std::size_t bytes) const {
    return row_ == &row && form_ == form && bytes_.contains(bytes);
  }
  // Returns the communicator on which the calls are.
  [[nodiscard]] Communicator& communicator() const { return communicator_; }
  [[nodiscard]] Collective collective() const { return collective_; }
  [[nodiscard]] const PlanRow& row() const { return *row_; }
  [[nodiscard]] const Range<std::size_t>& bytes() const { return bytes_; }
  [[nodiscard]] CallForm form() const { return form_; }
  [[nodiscard]] const Trial& trial() const { return trial_; }
  [[nodiscard]] const Alternative& next() const { return row_->alternatives[trial_.next()]; }

  // Call at the begin of a blocking call; at its end, Communicator::end_measured follows.
  void begin() {
    if (begun_ == 0 && trial_.measures()) begun_ = now();
  }

  // Returns the time of this process in nanoseconds.
  [[nodiscard]] static std::uint64_t now();

 private:
  friend class Communicator;

  Communicator& communicator_;
  const Collective collective_;
  const PlanRow* const row_;
  const CallForm form_;
  const Range<std::size_t> bytes_;
  Trial trial_;
  std::uint64_t begun_ = 0;  // when the call began; 0 if it is not measured
};

class Adaptation {
 public:
  // Returns the trial for such a call of a row that has a choice. The first such call makes it. Throws
  // std::bad_alloc.
  [[nodiscard]] RowTrial& trial(Communicator& communicator, Collective collective, const PlanRow& row,
                                CallForm form, std::size_t bytes);
  // Call when other plans come into use, on all ranks between the same calls.
  void forget() { trials_.clear(); }

 private:
  std::vector<std::unique_ptr<RowTrial>> trials_;
};

}  // namespace offbeat
