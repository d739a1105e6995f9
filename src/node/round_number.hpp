// SPDX-License-Identifier: BSD-3-Clause
// The number of a round on the board, its tag, and the signs by which a rank shows how far it is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/collective.hpp"
#include "node/board_shape.hpp"

namespace offbeat {

using BoardWord = std::atomic<std::uint64_t>;

// Signs say how far a rank has come on a stage. Only that rank writes its signs.
struct alignas(BoardShape::line) RoundSigns {
  BoardWord contributed_round;  // the last round in which the rank has done all that others need from it
  BoardWord round;              // the last round that it began in which not all ranks meet
  BoardWord sequence;           // as `round`, for immediate collectives
};

// The number of the present round, or of the present immediate collective. It is equal on all ranks. If not
// all ranks meet in a round, each rank announces the round in `sign`. Memory that round R used serves again
// in round R + turns. It is free if all ranks have begun round R + 1 (is_free()).
struct RoundNumber {
  BoardWord RoundSigns::*sign;
  std::uint64_t present = 0;
  // A hash of the collectives of all rounds so far. Calls that proceed while the program computes use several
  // stages in turn. Each of them sets this to the hash of all such calls before it (take_history()).
  std::uint64_t history = 0;
  // The words of the present round begin with this tag. It has low bits of the number and, above them, low
  // bits of the history. If one rank is left out of a call, because the host rejects it there, it is a round
  // behind until it makes that call again. If it makes another call instead, its tags differ from then on,
  // and no rank takes the data of one collective for another's. A thread of this rank that waits on another
  // stage may read both tags.
  std::uint64_t tag = 0;
  std::uint64_t previous_tag = 0;
  std::uint64_t last_partial_round = none;    // the last round in which not all ranks meet
  std::uint64_t partial_round_before = none;  // the one before that in which not all ranks meet
  // All ranks have begun this round. They may be further.
  std::uint64_t begun_by_all = 0;

  void next(Collective collective, bool all_meet) {
    ++present;
    set(previous_tag, tag);
    history = next_history(history, collective);
    set(tag, (history & hashes) << number_bits | (present & numbers));
    if (all_meet) return;
    partial_round_before = last_partial_round;
    last_partial_round = present;
    if (!previous_was_partial()) begun_by_all = present - 1;
  }
  [[nodiscard]] bool is_partial() const { return last_partial_round == present; }
  [[nodiscard]] bool previous_was_partial() const {
    return (is_partial() ? partial_round_before : last_partial_round) + 1 == present;
  }

  // Returns the round after the one that used the memory last.
  [[nodiscard]] std::uint64_t first_after_last_use(std::uint64_t turns) const {
    return present < turns ? 0 : present - turns + 1;
  }
  // Returns true if a rank has written this tag in the present round or the one before, and its calls until
  // then were not this rank's.
  [[nodiscard]] bool contradicts(std::uint64_t other) const {
    const auto differs = [&](std::uint64_t own) {
      return own != other && (own & numbers) == (other & numbers);
    };
    return other != 0 && (differs(seen(tag)) || differs(seen(previous_tag)));
  }
  // Returns both tags. Any thread may call this; the tags may then not be those of two consecutive rounds.
  [[nodiscard]] std::array<std::uint64_t, 2> last_tags() const { return {seen(tag), seen(previous_tag)}; }

  // The factor is odd, so two ranks whose histories differ have different ones after further equal calls,
  // too. With this one, tags also differ after any two calls of which the second one was the first for a
  // rank.
  [[nodiscard]] static std::uint64_t next_history(std::uint64_t history, Collective next) {
    return history * 727 + static_cast<std::uint64_t>(next);
  }

 private:
  static void set(std::uint64_t& word, std::uint64_t value) {
    std::atomic_ref(word).store(value, std::memory_order_relaxed);
  }
  // An atomic_ref to a constant comes with C++26.
  [[nodiscard]] static std::uint64_t seen(const std::uint64_t& word) {
    return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_relaxed);
  }
  static constexpr std::uint64_t none = ~std::uint64_t{1};
  // A Mark leaves 48 bits for a tag. After 2^38 rounds a number comes again; a word that old is hardly ever
  // found.
  static constexpr int number_bits = 38;
  static constexpr std::uint64_t numbers = (std::uint64_t{1} << number_bits) - 1;
  static constexpr std::uint64_t hashes = (std::uint64_t{1} << (48 - number_bits)) - 1;
};

}  // namespace offbeat
