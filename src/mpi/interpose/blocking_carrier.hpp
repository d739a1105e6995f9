// SPDX-License-Identifier: BSD-3-Clause
// BlockingCarrier is the carrier (JudgedCall) of a blocking call, which it runs to its end.
#pragma once

#include <cstddef>
#include <optional>

#include "base/copy.hpp"
#include "mpi/interpose/kept.hpp"
#include "mpi/interpose/outcome.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {

// Returns true if an algorithm needs a copy of an input that shares its memory with the output. On the board
// no copy is needed if all blocks are equal.
[[nodiscard]] inline bool needs_copy_of_input(const Expression& chosen, Collective collective) {
  return chosen.algorithm->needs.board != OnBoard::one_node || collective == Collective::reduce_scatter;
}
// Copies such an input to `copy`, and lets `call` read the copy.
inline void copy_input_if_needed(const Expression& chosen, int ranks, Call& call,
                                 std::optional<pool::Block>& copy) {
  if (!needs_copy_of_input(chosen, call.collective) || call.input.bytes() == 0) return;
  const ConstVector all = call.input_blocks.span_of_blocks(call.input, ranks);
  copy.emplace(all.bytes());
  offbeat::copy(copy->data(), all.data, all.bytes());
  call.input.data = copy->data() + (call.input.data - all.data);
}

// Leaves a call to the host, which may have to serve it by the name that was chosen.
inline Outcome leave_to_host(const ChosenAlternative& chosen) {
  if (chosen.named_host_algorithm == nullptr) [[likely]]
    return {.is_counted = true};
  last_algorithm = chosen.named_host_algorithm;
  return {.kind = Outcome::Kind::by_name, .is_counted = true};
}

struct BlockingCarrier {
  static constexpr bool may_wait = true;  // for the agreement of other ranks, so it may call the host
  const Types& types;

  [[nodiscard]] static const Communicator* find_known(const Runtime& process, MPI_Comm handle) {
    return process.find_in_cache(handle);
  }
  [[nodiscard]] static Communicator* find(Runtime& process, MPI_Comm handle, Collective collective) {
    Communicator* communicator = process.communicator(handle, collective);
    if (communicator == nullptr) return nullptr;
    communicator->begin_blocking(collective);
    return communicator_of_call = communicator;
  }

  static Staged& keep(std::optional<Staged>& here) { return here.emplace(); }

  [[nodiscard]] static bool may_have_stand_ins(Communicator& communicator, Collective collective,
                                               std::size_t bytes, std::size_t width) {
    return Communicator::may_have_stand_ins(communicator.choose(collective, bytes, width), collective);
  }

  template <Collective collective, class Kept>
  Outcome carry_out(Communicator& communicator, const Call& call, std::size_t bytes, bool shares,
                    Kept& kept) const {
    communicator.count_bytes(collective, bytes);
    const Choice choice = communicator.choose(collective, bytes, call.output.width);
    communicator.announce(collective, bytes);
    if (choice.trial != nullptr && !choice.trial->try_count_call()) [[unlikely]]
      return carry_out_measured<collective>(communicator, *choice.trial, choice, call, bytes, shares, kept);
    return carry_out<collective>(communicator, choice, call, bytes, shares, kept);
  }

 private:
  template <Collective collective, class Kept>
  [[gnu::always_inline]] Outcome carry_out(Communicator& communicator, ChosenAlternative chosen,
                                           const Call& call, std::size_t bytes, bool shares,
                                           Kept& kept) const {
    const bool is_alone = !chosen && communicator.copies_alone(call);
    if (!chosen && !is_alone) return leave_to_host(chosen);
    if (communicator.life().is_revoked()) return {.is_counted = true};
    communicator.life().require_intact();
    kept.pack(types);
    if (is_alone) [[unlikely]] {
      Communicator::copy_alone(call);
      chosen = {&copy_on_single_rank, nullptr};
    } else if (shares) [[unlikely]] {
      carry_out_on_temporary(communicator, chosen, call, bytes, kept.stand_ins());
    } else {
      communicator.run(chosen, call, bytes, kept.stand_ins());
    }
    kept.unpack(types);
    communicator.count_served(collective);
    communicator.end_blocking(collective, chosen.expression);
    last_algorithm = chosen.expression;
    return {.kind = Outcome::Kind::served};
  }

  // Out of line, because other calls need no room for a trial.
  template <Collective collective, class Kept>
  [[gnu::noinline]] Outcome carry_out_measured(Communicator& communicator, RowTrial& trial,
                                               ChosenAlternative chosen, const Call& call, std::size_t bytes,
                                               bool shares, Kept& kept) const {
    communicator.begin_measured(trial, call);
    Outcome outcome = carry_out<collective>(communicator, chosen, call, bytes, shares, kept);
    if (outcome.kind == Outcome::Kind::served) {
      trial.end_call();
    } else if (!chosen) {
      trial_of_host = &trial;
      outcome.measured_where = Outcome::in_trial;
    }
    return outcome;
  }

  [[gnu::noinline]] static void carry_out_on_temporary(Communicator& communicator, ChosenAlternative chosen,
                                                       Call call, std::size_t bytes,
                                                       const StandInCopies* stand_ins) {
    std::optional<pool::Block> copy;
    communicator.break_on_error(
        [&] { copy_input_if_needed(*chosen.expression, communicator.size(), call, copy); });
    communicator.run(chosen, call, bytes, stand_ins);
  }
};

}  // namespace offbeat
