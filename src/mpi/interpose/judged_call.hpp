// SPDX-License-Identifier: BSD-3-Clause
// JudgedCall is the common part of all calls of the program that offbeat tries to serve.
#pragma once

#include <cstdint>
#include <type_traits>

#include "mpi/host/collective_call.hpp"
#include "mpi/interpose/kept.hpp"
#include "mpi/interpose/outcome.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {

// JudgedCall is one call. Every function here may throw what Communicator::run throws.
//
// It decides by values that MPI guarantees equal on all ranks: operation, root, communicator, type and count.
// If ranks may describe equal data by different types, it uses the bytes instead of type and count. So all
// ranks take equal decisions.
//
// An error may exist on one rank only, and the host reports it without asking another rank. So the arguments
// are judged before anything collective is done, and before the call is counted: this rank is then left out
// of the call until it calls again, as it is without offbeat.
//
// carrier.find_known(...) returns the communicator if it has been found before, otherwise null.
// carrier.find(...) returns the communicator and counts the call there, or returns null if the host has to
// serve it. A call that may be served ends in carrier.carry_out<collective>(communicator, call, bytes,
// shares, kept), whose outcome is that of the whole. The collective is known to the compiler there, so that a
// short call computes no address from it.
//     bytes    Call::length.
//     shares   The input and the output share memory, and an algorithm may write a block of the output
//              before it has read another block of the input.
//     kept     This object, of type KeptBuffers, must live as long as the collective. Its pack() comes
//              before the collective, its unpack() after it.
// carrier.keep(here) returns `kept` for vectors in device memory; `here` lives until the carrier returns.
// carrier.may_have_stand_ins(...) returns true if long vectors with gaps may have stand-ins, and long vectors
// on a device may stay there.
template <Collective collective, class Arguments, class Carrier>
class JudgedCall {
 public:
  using KeptBuffers =
      std::conditional_t<facts_of(collective).has_operation || !moves_data(collective), Lists, Sides>;
  JudgedCall(Runtime& process, const Arguments& call, Carrier& carrier, KeptBuffers& kept)
      : process_(process), call_(call), carrier_(carrier), kept_(kept) {}

 protected:
  static constexpr CollectiveFacts collective_facts = facts_of(collective);
  static constexpr Roles giver_taker_roles = roles_of(collective);
  static constexpr bool has_data = moves_data(collective);
  static constexpr bool has_lists = collective == Collective::reduce_scatter;
  static constexpr bool has_listed_blocks =
      collective == Collective::allgatherv || has_unknown_length(collective);
  static constexpr bool has_blocks = has_lists || collective == Collective::reduce_scatter_block;
  static constexpr bool needs_rank_and_size = collective_facts.has_root || has_blocks ||
                                              !giver_taker_roles.rank_0_takes ||
                                              (has_data && !collective_facts.has_operation);

  // Finds this rank and the number of ranks. Returns false if the root is not a rank of the communicator, or
  // the lists of an inter-communicator are not to be read: they have an entry for each rank of the other
  // group.
  [[nodiscard]] bool find_rank_and_size() {
    if (const Communicator* mine = carrier_.find_known(process_, call_.communicator)) {
      if (has_listed_blocks && !mine->serves() && mine->is_inter()) return false;
      rank_ = mine->rank();
      size_ = mine->size();
    } else if (call_.communicator == MPI_COMM_NULL) {
      return false;
    } else {
      int is_inter = 0;
      if (has_listed_blocks) process_.host.Comm_test_inter(call_.communicator, &is_inter);
      if (is_inter != 0) return false;
      rank_ = process_.host.rank_in(call_.communicator);
      size_ = process_.host.size_of(call_.communicator);
    }
    return call_.root >= 0 && call_.root < size_;
  }
  [[nodiscard]] bool gives() const { return giver_taker_roles.gives(rank_, call_.root); }
  [[nodiscard]] bool takes() const { return giver_taker_roles.takes(rank_, call_.root); }

  // Finds the communicator, once, and counts the call there. Returns false if the host has to serve the call.
  [[nodiscard]] bool find_communicator_and_count() {
    if (communicator_ != nullptr) return true;
    communicator_ = carrier_.find(process_, call_.communicator, collective);
    return communicator_ != nullptr;
  }
  [[nodiscard]] Outcome leave_to_host() const { return {.is_counted = communicator_ != nullptr}; }

  // Returns true if OFFBEAT_CHECK applies to this call. Call it after the communicator has been found, and
  // not inside break_on_error(): a mismatch is no failure, and later calls are served.
  [[nodiscard]] bool is_checked() const { return Carrier::may_wait && process_.settings.check; }

  template <class Keeping>
  Outcome carry_out(const Call& call, std::size_t bytes, bool shares, Keeping& kept) {
    return carrier_.template carry_out<collective>(*communicator_, call, bytes, shares, kept);
  }

  Runtime& process_;
  Arguments call_;
  Carrier& carrier_;
  KeptBuffers& kept_;
  Communicator* communicator_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace offbeat
