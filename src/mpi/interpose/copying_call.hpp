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
  using Base::JudgedCall;
  using typename Base::KeptBuffers;

  // Serves the call. The process must be started.
  Outcome run() {
    if (!find_rank_and_size()) return {};
    return copy();
  }

 private:
  using Base::call_, Base::carrier_, Base::communicator_, Base::kept_, Base::process_, Base::rank_,
      Base::size_;
  using Base::carry_out, Base::is_checked, Base::find_rank_and_size, Base::gives,
      Base::find_communicator_and_count, Base::leave_to_host, Base::takes;
  using Base::collective_facts, Base::giver_taker_roles;

  void check_call(const Call& call) {
    CallSignature mine =
        signature_of(process_.host, process_.types(), collective,
                     static_cast<std::int64_t>(call.length(size_)), MPI_BYTE, MPI_OP_NULL, call_.root);
    const auto bytes_of = [&](const auto& blocks, const auto& vector, int block) {
      return static_cast<std::int64_t>(blocks.block_of(vector, block, size_).bytes());
    };
    if constexpr (collective == Collective::allgatherv) {
      for (int rank = 0; rank < size_; ++rank)
        mine.add_block(bytes_of(call.output_blocks, call.output, rank));
    }
    if (collective != Collective::bcast && gives() && takes()) {
      const auto bytes = [](const auto& vector) { return static_cast<std::int64_t>(vector.bytes()); };
      const std::int64_t given = giver_taker_roles.root_gives || giver_taker_roles.is_personalised
                                     ? bytes_of(call.input_blocks, call.input, rank_)
                                     : bytes(call.input);
      const std::int64_t taken = giver_taker_roles.root_gives
                                     ? bytes(call.output)
                                     : bytes_of(call.output_blocks, call.output, rank_);
      mine.set_own_block_bytes(given, taken);
    }
    communicator_->check(mine);
  }

  Outcome copy() {
    constexpr bool is_bcast = collective == Collective::bcast;
    constexpr bool is_scatter = giver_taker_roles.root_gives && !is_bcast;
    const Types& types = process_.types();
    Side& input = kept_.input;
    Side& output = kept_.output;
    bool in_place = false;  // true if the block, or the blocks, that this rank gives itself are in place
    if constexpr (is_scatter) {
      in_place = gives() && call_.output.data == MPI_IN_PLACE;
    } else if constexpr (!is_bcast) {
      in_place = takes() && call_.input.data == MPI_IN_PLACE;
    }
    const bool has_output = takes() && !(in_place && is_scatter);
    const bool has_input = gives() && !is_bcast && !(in_place && !is_scatter);
    if (has_input && !input.read_arguments(types, call_.input, giver_taker_roles.is_personalised ? size_ : 1))
      return {};
    if (has_output && !read_output()) return {};
    const bool has_both = has_input && has_output;
    if (has_both && types.rejects_aliases() && host_rejects_alias(output.layout().size)) return {};
    const bool is_aliased = has_both && is_already_in_place(input, output);
    if (!find_communicator_and_count()) return leave_to_host();

    std::size_t bytes = 0;
    Call call = communicator_->break_on_error(collective, bytes, [&] {
      input.compute_vector_and_blocks(types);
      output.compute_vector_and_blocks(types);
      Call measured = call_from_sides(in_place);
      bytes = measured.length(size_);
      return measured;
    });
    if (is_checked()) [[unlikely]]
      check_call(call);
    Outcome outcome = leave_to_host();
    communicator_->break_on_error(collective, bytes, [&] {
      if (input.needs_packing() || output.needs_packing()) [[unlikely]] {
        const bool may_stay = carrier_.may_have_stand_ins(*communicator_, collective, bytes, 1);
        kept_.give_addresses(types, may_stay, may_stay && !is_aliased, Carrier::may_wait);
        call = call_from_sides(in_place);
      }
      const bool shares =
          (in_place || is_aliased) && giver_taker_roles.is_personalised && !giver_taker_roles.root_gives;
      const bool is_source = is_bcast && gives();
      // A rank may take less than it has room for. A copy of all that room from a device would take long.
      const bool may_take_less = has_output && collectives_with_lists_at_root.contain(collective);
      kept_.packs_output = in_place || is_source || (may_take_less && !output.is_on_device());
      kept_.unpacks_output = has_output && !is_source;
      outcome = carry_out(call, bytes, shares, kept_);
    });
    return outcome;
  }

  // Open MPI does not ask whether these outputs have a committed type, and the program gets its data. Here
  // the type is committed first.
  [[nodiscard]] bool host_accepts_uncommitted_output() const {
    return process_.host.mpi == HostMpi::open_mpi &&
           (collective == Collective::gather || collective == Collective::scatter ||
            collective == Collective::allgather || collective == Collective::allgatherv ||
            collectives_with_lists_at_root.contain(collective));
  }

  // Returns false if the host has to judge the output.
  [[nodiscard]] bool read_output() {
    const auto read = [&] {
      return kept_.output.read_arguments(process_.types(), call_.output,
                                         giver_taker_roles.root_gives ? 1 : size_);
    };
    if (read()) [[likely]]
      return true;
    return host_accepts_uncommitted_output() && call_.output.type != MPI_DATATYPE_NULL &&
           process_.host.Type_commit(&call_.output.type) == MPI_SUCCESS && read();
  }

  [[nodiscard]] Call call_from_sides(bool in_place) const {
    const Side& input = kept_.input;
    const Side& output = kept_.output;
    Call call{
        collective,     input.vector(), output.vector(), nullptr, collective_facts.has_root ? call_.root : 0,
        input.blocks(), output.blocks()};
    if constexpr (collective == Collective::bcast) {
      if (gives()) call.input = call.output;
    } else if (in_place && giver_taker_roles.root_gives) {
      call.output = input.blocks().block_of(input.vector(), rank_, size_);
    } else if (in_place && giver_taker_roles.is_personalised) {
      call.input = call.output;
      call.input_blocks = call.output_blocks;
    } else if (in_place) {
      call.input = output.blocks().block_of(output.vector(), rank_, size_);
    }
    return call;
  }

  // Returns true if a host that rejects aliases does so here. These are MPICH and its family, and this is
  // their rule: only two sides that are described alike are compared, and the block that this rank gives
  // itself is looked for as if the type had no gaps. Where the host accepts the call on this rank, the rank
  // must take part.
  [[nodiscard]] bool host_rejects_alias([[maybe_unused]] std::size_t element_bytes) const {
    if constexpr (collective == Collective::bcast) {
      return false;
    } else if (call_.input.type != call_.output.type) {
      return false;
    } else if constexpr (collective == Collective::alltoallv) {
      return call_.input.counts.is_same_array(call_.output.counts) && call_.input.data == call_.output.data;
    } else {
      std::int64_t own = 0;  // where the block begins, in elements
      if constexpr (collective == Collective::allgatherv || collective == Collective::gatherv) {
        if (call_.input.count == 0 || call_.output.counts[rank_] == 0) return false;
        own = call_.output.displacements[rank_];
      } else if constexpr (collective == Collective::scatterv) {
        if (call_.output.count == 0 || call_.input.counts[rank_] == 0) return false;
        own = call_.input.displacements[rank_];
      } else {
        if (call_.input.count == 0 || call_.input.count != call_.output.count) return false;
        if (collective != Collective::alltoall) own = rank_ * call_.input.count;
      }
      const auto* const given = static_cast<const std::byte*>(call_.input.data);
      const auto* const taken = static_cast<const std::byte*>(call_.output.data);
      const std::int64_t distance = own * static_cast<std::int64_t>(element_bytes);
      return giver_taker_roles.root_gives ? given + distance == taken : taken + distance == given;
    }
  }

  // Returns true if the block that this rank gives itself already is where it has to go. Types of absolute
  // addresses at MPI_BOTTOM and lists of blocks may describe different memory that begins at one address.
  [[nodiscard]] bool is_already_in_place(const Side& input, const Side& output) const {
    if (input.is_empty() || call_.input.data == nullptr || call_.output.data == nullptr) return false;
    if constexpr (collective == Collective::alltoallv) {
      if (!call_.input.counts.is_same_array(call_.output.counts)) return false;
    }
    const auto* given = giver_taker_roles.root_gives ? input.address(rank_, size_) : input.address(0, 1);
    const auto* taken = giver_taker_roles.root_gives || giver_taker_roles.is_personalised
                            ? output.address(0, 1)
                            : output.address(rank_, size_);
    return given == taken;
  }
};

}  // namespace offbeat
