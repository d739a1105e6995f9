// SPDX-License-Identifier: BSD-3-Clause
// Radices splits a number of ranks into the steps of recursive multiplying. In a step of radix r, groups of r
// ranks exchange with one another.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace offbeat {

// One step, in which groups of `radix` ranks that are `distance` apart exchange with one another.
struct RadixStep {
  int radix;
  int distance;

  // member() returns the number of a rank in its group. rank_of() returns the rank of another member of that
  // group.
  [[nodiscard]] constexpr int member(int rank) const { return rank / distance % radix; }
  [[nodiscard]] constexpr int rank_of(int member, int rank) const {
    return rank + (member - this->member(rank)) * distance;
  }
};

// These functions number the members of a group other than `mine` from 0. member_among_others() returns the
// member with index `k`, and index_among_others() returns the index of a member.
[[nodiscard]] constexpr int member_among_others(int mine, int k) { return k < mine ? k : k + 1; }
[[nodiscard]] constexpr int index_among_others(int mine, int member) {
  return member < mine ? member : member - 1;
}

// The radices are at most `largest`. Their product is the number of ranks that take part: the largest number
// up to `ranks` without a prime factor above `largest`. ranks >= 1, largest >= 2.
class Radices {
 public:
  Radices(int ranks, int largest) {
    product_ = largest == 2 ? static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))) : ranks;
    for (; !factorise(largest); --product_) steps_ = 0;
  }
  [[nodiscard]] int product() const { return product_; }
  [[nodiscard]] int steps() const { return steps_; }
  [[nodiscard]] RadixStep operator[](int step) const {
    int distance = 1;
    for (int k = 0; k < step; ++k) distance *= radix_of_step_[static_cast<std::size_t>(k)];
    return {radix_of_step_[static_cast<std::size_t>(step)], distance};
  }
  // Returns how many others a rank has in the largest group; 0 if there are no steps.
  [[nodiscard]] std::size_t max_others_in_group() const {
    const auto end = radix_of_step_.begin() + steps_;
    return steps_ == 0 ? 0 : static_cast<std::size_t>(*std::max_element(radix_of_step_.begin(), end)) - 1;
  }

 private:
  // Returns false if a prime factor of the product is above `largest`.
  bool factorise(int largest) {
    int left = product_;
    for (int prime = 2; left > 1; ++prime) {
      if (prime * prime > left) prime = left;
      if (prime > largest) return false;
      for (; left % prime == 0; left /= prime) add(prime, largest);
    }
    return true;
  }
  // Multiplies `prime` into the first step that stays within `largest`.
  void add(int prime, int largest) {
    for (int k = 0; k < steps_; ++k) {
      int& radix = radix_of_step_[static_cast<std::size_t>(k)];
      if (radix * prime > largest) continue;
      radix *= prime;
      return;
    }
    radix_of_step_[static_cast<std::size_t>(steps_++)] = prime;
  }

  int product_;
  int steps_ = 0;
  std::array<int, 31> radix_of_step_{};
};

}  // namespace offbeat
