// SPDX-License-Identifier: BSD-3-Clause
// CopyingCall serves a call of a collective that moves data and combines nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/interpose/judged_call.hpp"

namespace offbeat {

template <Collective collective, class Arguments, class Carrier>
class CopyingCall : public JudgedCall<collective, Arguments, Carrier> {
 public:
  using Base = JudgedCall<collective, Arguments, Carrier>;
  using Base::JudgedCall, Base::root_judges;
  using typename Base::Kept;

  // Serves the call. The process must be started.
  Outcome run() {
    if (!find_place()) return {};
    return copy();
  }

 private:
  using Base::call_, Base::carrier_, Base::communicator_, Base::is_rejected_, Base::kept_, Base::process_,
      Base::rank_, Base::size_;
  using Base::carry_out, Base::checks, Base::find_place, Base::gives, Base::is_counted, Base::leave_to_host,
      Base::takes;
  using Base::known, Base::who;

  void check_copied(const Call& call) {
    CallSignature mine{
        process_.host, process_.types(), collective, static_cast<std::int64_t>(call.length(size_)),
        MPI_BYTE,      MPI_OP_NULL,      call_.root};
    const auto bytes_of = [&](const auto& blocks, const auto& vector, int block) {
      return static_cast<std::int64_t>(blocks.of(vector, block, size_).bytes());
    };
    if constexpr (collective == Collective::allgatherv) {
      for (int rank = 0; rank < size_; ++rank)
        mine.add_block(bytes_of(call.output_blocks, call.output, rank));
    }
    if (collective != Collective::bcast && gives() && takes()) {
      const auto bytes = [](const auto& vector) { return static_cast<std::int64_t>(vector.bytes()); };
      const std::int64_t given = who.root_gives || who.is_personal
                                     ? bytes_of(call.input_blocks, call.input, rank_)
                                     : bytes(call.input);
      const std::int64_t taken =
          who.root_gives ? bytes(call.output) : bytes_of(call.output_blocks, call.output, rank_);
      mine.gives_itself(given, taken);
    }
    communicator_->check(mine);
  }

  Outcome copy() {
    constexpr bool is_bcast = collective == Collective::bcast;
    const Types& types = process_.types();
    Side& input = kept_.input;
    Side& output = kept_.output;
    bool in_place = false;  // true if the block, or the blocks, that this rank gives itself are in place
    if constexpr (collective == Collective::scatter) {
      in_place = gives() && call_.output.data == MPI_IN_PLACE;
    } else if constexpr (!is_bcast) {
      in_place = takes() && call_.input.data == MPI_IN_PLACE;
    }
    const bool has_output = takes() && !(in_place && collective == Collective::scatter);
    const bool has_input = gives() && !is_bcast && !(in_place && collective != Collective::scatter);
    if (has_input && !input.read(types, call_.input, who.is_personal ? size_ : 1)) return {};
    const bool is_right = !has_output || output.read(types, call_.output, who.root_gives ? 1 : size_);
    // The other ranks of a gather do not know that the root's output is wrong. They all give as much as the
    // root does.
    if (!is_right && (collective != Collective::gather || !has_input)) return {};
    const bool is_aliased = is_right && has_input && has_output && is_alias(input, output);
    const bool is_rejected = !is_right || (is_aliased && types.rejects_aliases());
    if (is_rejected && !root_judges) return {};
    is_rejected_ = root_judges && is_rejected;
    if (!is_counted()) return leave_to_host();
    if (root_judges && !is_right) {
      output.replace(input.bytes() * static_cast<std::size_t>(size_));
    } else if (root_judges && is_rejected_) {
      output.keep_apart();
    }

    std::size_t bytes = 0;
    Call call = communicator_->break_on_error(collective, bytes, [&] {
      input.measure(types);
      output.measure(types);
      Call measured = call_on_sides(in_place);
      bytes = measured.length(size_);
      return measured;
    });
    if (checks()) [[unlikely]]
      check_copied(call);
    Outcome outcome = leave_to_host();
    communicator_->break_on_error(collective, bytes, [&] {
      if (input.needs_packing() || output.needs_packing()) [[unlikely]] {
        const bool may_stay = carrier_.may_have_stand_ins(*communicator_, collective, bytes, 1);
        kept_.provide(types, may_stay, may_stay && !is_aliased, Carrier::may_wait);
        call = call_on_sides(in_place);
      }
      const bool shares = (in_place || is_aliased) && who.is_personal && !who.root_gives;
      const bool is_source = is_bcast && gives();
      kept_.packs_output = in_place || is_source;
      kept_.unpacks_output = has_output && !is_source && !(root_judges && is_rejected_);
      outcome = carry_out(call, bytes, shares, kept_);
    });
    return outcome;
  }

  [[nodiscard]] Call call_on_sides(bool in_place) const {
    const Side& input = kept_.input;
    const Side& output = kept_.output;
    Call call{collective,     input.vector(), output.vector(), nullptr, known.has_root ? call_.root : 0,
              input.blocks(), output.blocks()};
    if constexpr (collective == Collective::bcast) {
      if (gives()) call.input = call.output;
    } else if (in_place && collective == Collective::scatter) {
      call.output = input.blocks().of(input.vector(), rank_, size_);
    } else if (in_place && who.is_personal) {
      call.input = call.output;
      call.input_blocks = call.output_blocks;
    } else if (in_place) {
      call.input = output.blocks().of(output.vector(), rank_, size_);
    }
    return call;
  }

  // Returns true if the block that this rank gives itself already is where it has to go. Types of absolute
  // addresses at MPI_BOTTOM and lists of blocks may describe different memory that begins at one address.
  [[nodiscard]] bool is_alias(const Side& input, const Side& output) const {
    if (input.is_empty() || call_.input.data == nullptr || call_.output.data == nullptr) return false;
    if constexpr (collective == Collective::alltoallv) {
      if (!call_.input.counts.is_same_array(call_.output.counts)) return false;
    }
    const auto* given = who.root_gives ? input.address(rank_, size_) : input.address(0, 1);
    const auto* taken =
        who.root_gives || who.is_personal ? output.address(0, 1) : output.address(rank_, size_);
    return given == taken;
  }
};

}  // namespace offbeat
