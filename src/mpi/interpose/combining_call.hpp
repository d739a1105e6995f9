// SPDX-License-Identifier: BSD-3-Clause
// CombiningCall serves a call of a collective with an operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <type_traits>

#include "mpi/interpose/judged_call.hpp"

namespace offbeat {

// These return true if the program passed a wrong count or buffer on one rank.
[[nodiscard]] inline bool is_wrong_input(const void* data, std::int64_t count) {
  return count < 0 || (count > 0 && data == nullptr);
}
[[nodiscard]] inline bool is_wrong_output(const void* data, std::int64_t count) {
  return is_wrong_input(data, count) || data == MPI_IN_PLACE;
}

template <Collective collective, class Arguments, class Carrier>
class CombiningCall : public JudgedCall<collective, Arguments, Carrier> {
 public:
  using Base = JudgedCall<collective, Arguments, Carrier>;
  using Base::JudgedCall;
  using typename Base::KeptBuffers;

  // Serves the call. The process must be started.
  [[gnu::always_inline]] Outcome run() {
    if constexpr (Base::needs_rank_and_size) {
      if (!find_rank_and_size()) return {};
    }
    return combine();
  }

 private:
  using Base::call_, Base::carrier_, Base::communicator_, Base::kept_, Base::process_, Base::rank_,
      Base::size_;
  using Base::carry_out, Base::is_checked, Base::find_rank_and_size, Base::find_communicator_and_count,
      Base::leave_to_host, Base::takes;
  using Base::has_blocks, Base::has_lists, Base::collective_facts;

  void check_call(std::int64_t count) {
    CallSignature mine = signature_of(process_.host, process_.types(), collective, count, call_.output.type,
                                      call_.op, call_.root);
    if constexpr (has_lists) {
      for (int rank = 0; rank < size_; ++rank) mine.add_block(call_.output.counts[rank]);
    }
    communicator_->check(mine);
  }

  [[nodiscard]] std::int64_t count_of_block() const {
    if constexpr (has_lists) {
      return call_.output.counts[rank_];
    } else {
      return call_.output.count;
    }
  }
  // Returns -1 if the program passed a wrong count.
  [[nodiscard]] std::int64_t count_of_input() const {
    if constexpr (has_lists) {
      if (call_.output.counts.empty()) return -1;
      std::int64_t total = 0;
      for (int rank = 0; rank < size_; ++rank) {
        if (call_.output.counts[rank] < 0) return -1;
        total += call_.output.counts[rank];
      }
      return total;
    } else if constexpr (has_blocks) {
      return call_.output.count * size_;
    } else {
      return call_.output.count;
    }
  }

  // Returns true if the host has to judge the call.
  [[nodiscard]] bool must_leave_to_host(std::int64_t count) const {
    if (is_wrong_input(call_.input.data, count)) return true;
    if (!takes()) {
      if (host_checks_unused_output() && call_.output.data == MPI_IN_PLACE) return true;
      // If the host accepts this on all ranks, one rank must not leave the call to the host by itself.
      const bool is_accepted = !collective_facts.has_root || process_.host.accepts_in_place_everywhere();
      return call_.input.data == MPI_IN_PLACE && (!is_accepted || is_wrong_input(call_.output.data, count));
    }
    return is_wrong_output(call_.output.data, count_of_block());
  }
  // Returns true if the host judges the output of rank 0 in an exscan, which gets no result. Rank 0 must not
  // take part alone in a call that the host rejects on all ranks. MPICH and its family also reject a null
  // output there, but MPI allows that, so offbeat serves it.
  [[nodiscard]] bool host_checks_unused_output() const {
    return !collective_facts.has_root && process_.types().host_checks_unused_output();
  }
  // Returns the number of elements that a user's operation must get in one piece. Many programs treat the
  // whole vector, or a block of it, as one object, and do not look at the length.
  [[nodiscard]] std::int64_t length_of_object(std::int64_t count) const {
    std::int64_t length = has_blocks ? count_of_block() : count;
    if constexpr (has_lists) {
      for (int rank = 0; rank < size_; ++rank) length = std::gcd(length, call_.output.counts[rank]);
    }
    return std::max<std::int64_t>(length, 1);
  }

  [[gnu::always_inline]] Outcome combine() {
    const Types& types = process_.types();
    const Reduction* reduction = types.find_predefined(call_.output.type, call_.op);
    const std::int64_t count = count_of_input();
    if (must_leave_to_host(count)) return {};
    const bool has_output = takes() || host_checks_unused_output();
    const bool is_already_in_place = has_output && call_.input.data == call_.output.data &&
                                     count >= types.least_rejected_alias(collective);
    if (is_already_in_place) return {};
    if constexpr (Carrier::may_wait) {
      if (reduction == nullptr && !types.host_accepts(call_.output.type, call_.op)) return {};
      if (is_checked() && find_communicator_and_count()) [[unlikely]]
        check_call(count);
      return reduction != nullptr ? combine(reduction, count) : combine_by_user(*this, count);
    } else {
      // No thread may call the host, or the program's function, while the operation advances.
      const bool is_own = reduction != nullptr && reduction->host == nullptr;
      return is_own ? combine(reduction, count) : leave_to_host();
    }
  }

  // This is out of line, because other calls need no room for a reduction of their own. It takes a copy, so
  // that the caller's call stays in registers.
  [[gnu::noinline]] static Outcome combine_by_user(CombiningCall self, std::int64_t count) {
    std::optional<UserReduction> own;
    const std::int64_t length = self.length_of_object(count);
    const bool is_known =
        self.process_.types().find_user_defined(self.call_.output.type, self.call_.op, length, own);
    return is_known ? self.combine(&own->reduction, count, length) : self.leave_to_host();
  }

  // Serves the call. `length` says how many of the `count` elements make one element of the reduction.
  template <class Length = std::integral_constant<std::int64_t, 1>>
  [[gnu::always_inline]] Outcome combine(const Reduction* reduction, std::int64_t count, Length length = {}) {
    if (!find_communicator_and_count()) return leave_to_host();
    const bool in_place = call_.input.data == MPI_IN_PLACE;
    const void* input = in_place ? call_.output.data : call_.input.data;
    void* const output = takes() ? call_.output.data : nullptr;
    count /= length;
    const std::int64_t block = has_blocks ? count_of_block() / length : count;
    Call call{collective,
              {static_cast<const std::byte*>(input), static_cast<std::size_t>(count), reduction->width},
              {static_cast<std::byte*>(output), static_cast<std::size_t>(block), reduction->width},
              reduction,
              collective_facts.has_root ? call_.root : 0};
    if constexpr (has_lists) {
      communicator_->break_on_error([&] { kept_.blocks.emplace(call_.output.counts, size_, length); });
      call.input_blocks = kept_.blocks->blocks();
    }
    const std::size_t bytes = call.length(communicator_->size());
    const bool shares = has_blocks && (in_place || call_.input.data == call_.output.data);
    if (devices::may_have_memory()) [[unlikely]]
      return carry_out_staged(*this, call, bytes, shares);
    return carry_out(call, bytes, shares, kept_);
  }

  // Takes a copy of the call, like combine_by_user.
  [[gnu::noinline]] static Outcome carry_out_staged(CombiningCall self, Call call, std::size_t bytes,
                                                    bool shares) {
    Outcome outcome;
    self.communicator_->break_on_error(collective, bytes, [&] {
      std::optional<Staged> here;
      Staged& staged = self.carrier_.keep(here);
      // An input that must be copied first, as it shares memory with the output, is copied by the CPU.
      const bool may_stay =
          !(shares && has_lists) &&
          self.carrier_.may_have_stand_ins(*self.communicator_, collective, bytes, call.output.width);
      staged.call.stage_vectors(call, may_stay, shares);
      outcome = self.carry_out(call, bytes, shares && !staged.call.has_input_apart(), staged);
    });
    return outcome;
  }
};

}  // namespace offbeat
