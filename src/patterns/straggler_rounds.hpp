// SPDX-License-Identifier: BSD-3-Clause
// A schedule for p = 2^L ranks of which the last one, the straggler, comes late. The others are its helpers.
//
// All ranks exchange in pairs in each round. In round r the straggler completes block r together with helper
// r, and the helpers spread the blocks that are complete already. After each round a complete block is on
// twice as many helpers.
//
// The schedule is arithmetic in the field of p elements. The straggler is its zero, and helper k is c^k,
// where c is a generator. In round r rank x is paired with x + c^r. So the straggler is paired with helper r,
// which holds the result of the others for block r. Block k is complete on helper k after round k. Before
// round r it is on c^k + span(c^(k+1) ... c^(r-1)). L consecutive powers of c are independent, so after
// another L rounds block k is everywhere. Which block a helper sends in round r follows from x / c^r, written
// as a sum of c^-1 ... c^-L: if c^-j is the last term, it sends block r - j. The straggler also spreads the
// last block, because it has nothing else to do then.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace offbeat {

class StragglerRounds {
 public:
  // `ranks` must be a power of two, at least 2.
  explicit StragglerRounds(int ranks) : helpers_(ranks - 1), height_(std::bit_width(unsigned(ranks)) - 1) {
    // One of the first few polynomials of degree L has a root that generates the field.
    for (unsigned tail = 1; !fill_powers(tail); tail += 2) continue;
    exponents_.resize(powers_of_z_.size() + 1);
    for (std::size_t k = 0; k < powers_of_z_.size(); ++k) exponents_[powers_of_z_[k]] = static_cast<int>(k);
  }

  static constexpr int no_block = -1;
  struct Step {
    int peer;
    int sent;  // the block that is sent, or `no_block`
    int received;
  };

  [[nodiscard]] int rounds() const { return helpers_ + height_ - 1; }

  [[nodiscard]] Step step(int rank, int round) const {
    const unsigned self = rank == helpers_ ? 0 : powers_of_z_[modulo(round - rank)];
    const unsigned other = self ^ powers_of_z_[0];
    const int peer = other == 0 ? helpers_ : static_cast<int>(modulo(round - exponents_[other]));
    return {.peer = peer, .sent = block_sent_by(self, round), .received = block_sent_by(other, round)};
  }

 private:
  // Fills `powers_of_z_` with the powers of z = 1/c. Each power is a sum of some of z^1 to z^L, stored as
  // bits 0 to L-1. `tail` defines z: z^L is the sum of the lower powers z^k whose bit k is set in `tail`.
  // Returns false if z does not generate the field.
  bool fill_powers(unsigned tail) {
    const unsigned beyond = 1U << height_;
    powers_of_z_.assign(1, 0);
    unsigned power = 1;
    do {
      powers_of_z_.push_back(power);
      power <<= 1;
      if (power >= beyond) power ^= beyond | tail;
    } while (power != 1);
    if (powers_of_z_.size() != static_cast<std::size_t>(helpers_) + 1) return false;
    powers_of_z_[0] = powers_of_z_.back();
    powers_of_z_.pop_back();
    return true;
  }
  [[nodiscard]] std::size_t modulo(int number) const {
    return static_cast<std::size_t>((number % helpers_ + helpers_) % helpers_);
  }
  // Returns the block that element x / c^r sends in a round.
  [[nodiscard]] int block_sent_by(unsigned element, int round) const {
    const bool meets =
        element == 0 || element == powers_of_z_[0];  // the straggler, or its helper in this round
    if (meets && round < helpers_) return round;
    if (element == powers_of_z_[0]) return no_block;
    return std::max<int>(no_block, std::min<int>(round - std::bit_width(element), helpers_ - 1));
  }

  int helpers_;
  int height_;                         // L in the description above
  std::vector<unsigned> powers_of_z_;  // element k is z^k
  std::vector<int> exponents_;         // the inverse of power_
};

}  // namespace offbeat
