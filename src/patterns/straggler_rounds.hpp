// SPDX-License-Identifier: BSD-3-Clause
// Rounds in which the last rank, which came late, completes a block with each of the others, its helpers,
// while these spread the blocks that are complete: all ranks are in pairs in each round, and after it a block
// is on twice as many helpers.
//
// The late rank is the zero of the field of p = 2^L elements, and helper k is c^k, c a generator. In round r
// rank x is paired with x + c^r: the late rank with helper r, which has what the others make of block r.
// Block k is complete on helper k after round k; before round r it is on c^k + span(c^(k+1) ... c^(r-1)). L
// powers of c in a row are independent, so after another L rounds it is everywhere. Which block a helper
// sends in round r follows from x / c^r, a sum of c^-1 ... c^-L: if c^-j is the last of them, block r - j.
// The last block is also spread by the late rank, which has nothing else to do then.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace offbeat {

class StragglerRounds {
 public:
  // A power of two, at least 2.
  explicit StragglerRounds(int ranks) : helpers_(ranks - 1), height_(std::bit_width(unsigned(ranks)) - 1) {
    // Of the polynomials of degree L one of the first few has a root that generates the field.
    for (unsigned tail = 1; !has_all_powers(tail); tail += 2) continue;
    number_.resize(power_.size() + 1);
    for (std::size_t k = 0; k < power_.size(); ++k) number_[power_[k]] = static_cast<int>(k);
  }

  static constexpr int none = -1;
  struct Step {
    int peer;
    int sent;  // the block; none
    int received;
  };

  [[nodiscard]] int rounds() const { return helpers_ + height_ - 1; }

  [[nodiscard]] Step step(int rank, int round) const {
    const unsigned self = rank == helpers_ ? 0 : power_[modulo(round - rank)];
    const unsigned other = self ^ power_[0];
    const int peer = other == 0 ? helpers_ : static_cast<int>(modulo(round - number_[other]));
    return {.peer = peer, .sent = sent_by(self, round), .received = sent_by(other, round)};
  }

 private:
  // `power_` becomes the powers of z = 1/c as sums of z^1 ... z^L, which are bits 0 ... L - 1, if z^L is the
  // sum of the lower powers in `tail`, of which bit k is z^k. False: z does not generate the field.
  bool has_all_powers(unsigned tail) {
    const unsigned beyond = 1U << height_;
    power_.assign(1, 0);
    unsigned power = 1;
    do {
      power_.push_back(power);
      power <<= 1;
      if (power >= beyond) power ^= beyond | tail;
    } while (power != 1);
    if (power_.size() != static_cast<std::size_t>(helpers_) + 1) return false;
    power_[0] = power_.back();
    power_.pop_back();
    return true;
  }
  [[nodiscard]] std::size_t modulo(int number) const {
    return static_cast<std::size_t>((number % helpers_ + helpers_) % helpers_);
  }
  // By element x / c^r.
  [[nodiscard]] int sent_by(unsigned element, int round) const {
    const bool meets = element == 0 || element == power_[0];  // the late rank and its helper
    if (meets && round < helpers_) return round;
    if (element == power_[0]) return none;
    return std::max<int>(none, std::min<int>(round - std::bit_width(element), helpers_ - 1));
  }

  int helpers_;
  int height_;                   // L
  std::vector<unsigned> power_;  // z^k
  std::vector<int> number_;      // its inverse
};

}  // namespace offbeat
