// SPDX-License-Identifier: BSD-3-Clause
// The arguments of a call through the C interface, and the Call that they describe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/pool.hpp"
#include "collectives/call.hpp"
#include "collectives/staged_call.hpp"

namespace offbeat {

// Members that the collective does not have are ignored.
struct CallArguments {
  Collective collective{};
  int root = 0;
  const void* input = nullptr;  // null, or equal to `output`: in place
  void* output = nullptr;
  std::size_t count = 0;
  ElementType type{};
  ReduceOp op{};
  int op_label = 0;     // tells operations apart that the program makes of `op`
  Reduction reduction;  // of `type` and `op`; empty if the collective combines nothing
  // Lists with an element for each rank, in elements. If begins are null, the blocks follow one another.
  const std::size_t* input_counts = nullptr;
  const std::size_t* input_begins = nullptr;
  const std::size_t* output_counts = nullptr;
  const std::size_t* output_begins = nullptr;
};

// Returns the collective of this name. Throws UsageError if offbeat does not serve it.
[[nodiscard]] Collective served_collective(std::string_view name);

// A Call with all that it refers to, apart from the program's vectors.
class PreparedCall {
 public:
  // Makes the call of this rank. Throws UsageError.
  PreparedCall(const CallArguments& arguments, int rank, int ranks);
  PreparedCall(const PreparedCall&) = delete;
  PreparedCall& operator=(const PreparedCall&) = delete;

  [[nodiscard]] const Call& call() const { return call_; }
  // Replaces device memory by host memory. If `may_stay`, long vectors stay (StagedCall). Throws UsageError.
  void stage(bool may_stay);
  // Call fetch_input() before a collective that runs at once, and deliver_output() after it. An operation
  // begins with begin_fetch(), and delivers its output by itself. All three throw CommunicationError.
  void fetch_input() const { staged_ ? staged_->fetch_input() : void(); }
  void deliver_output() const { staged_ ? staged_->deliver_output() : void(); }
  void begin_fetch() { staged_ ? staged_->begin_fetch() : void(); }
  [[nodiscard]] const StandInCopies* stand_ins() const { return staged_ ? staged_->stand_ins() : nullptr; }

 private:
  // A list of blocks in elements of the call.
  struct Lists {
    pool::List<std::size_t> counts;
    pool::List<std::ptrdiff_t> begins;
    std::size_t total = 0;

    void read(const std::size_t* counts, const std::size_t* begins, int ranks, std::size_t scale);
    [[nodiscard]] BlockList blocks() const { return {counts.data(), begins.data()}; }
  };

  Reduction reduction_;
  Lists input_lists_;
  Lists output_lists_;
  bool has_gaps_ = false;  // the program says where blocks begin
  Call call_;
  std::optional<StagedCall> staged_;
};

}  // namespace offbeat
