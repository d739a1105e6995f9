// SPDX-License-Identifier: BSD-3-Clause
// Cutting a number of ranks into steps of recursive multiplying: so many exchange with one another in each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace offbeat {

// One step: groups of `radix` ranks, `distance` apart, exchange with one another.
struct RadixStep {
  int radix;
  int distance;

  // Which member of its group a rank is, and which rank another member is.
  [[nodiscard]] constexpr int member(int rank) const { return rank / distance % radix; }
  [[nodiscard]] constexpr int rank_of(int member, int rank) const {
    return rank + (member - this->member(rank)) * distance;
  }
};

// Number k of the members of a group without `mine`, and the number of `member` among them.
[[nodiscard]] constexpr int other_member(int mine, int k) { return k < mine ? k : k + 1; }
[[nodiscard]] constexpr int number_of_other(int mine, int member) {
  return member < mine ? member : member - 1;
}

// Factors up to `largest`. Their product is the largest number up to `ranks` that has no prime factor above
// it, so that many ranks can take part. ranks >= 1, largest >= 2.
class Radices {
 public:
  Radices(int ranks, int largest) {
    for (product_ = ranks; !factorise(largest); --product_) steps_ = 0;
  }
  [[nodiscard]] int product() const { return product_; }
  [[nodiscard]] int steps() const { return steps_; }
  [[nodiscard]] RadixStep operator[](int step) const {
    int distance = 1;
    for (int k = 0; k < step; ++k) distance *= of_step_[static_cast<std::size_t>(k)];
    return {of_step_[static_cast<std::size_t>(step)], distance};
  }
  // In the largest group, beside one rank; 0: there are no steps.
  [[nodiscard]] std::size_t most_others() const {
    const auto end = of_step_.begin() + steps_;
    return steps_ == 0 ? 0 : static_cast<std::size_t>(*std::max_element(of_step_.begin(), end)) - 1;
  }

 private:
  // False: a prime factor is too large.
  bool factorise(int largest) {
    int left = product_;
    for (int prime = 2; left > 1; ++prime) {
      if (prime * prime > left) prime = left;
      if (prime > largest) return false;
      for (; left % prime == 0; left /= prime) add(prime, largest);
    }
    return true;
  }
  // To the first step that has room for it.
  void add(int prime, int largest) {
    for (int k = 0; k < steps_; ++k) {
      int& radix = of_step_[static_cast<std::size_t>(k)];
      if (radix * prime > largest) continue;
      radix *= prime;
      return;
    }
    of_step_[static_cast<std::size_t>(steps_++)] = prime;
  }

  int product_;
  int steps_ = 0;
  std::array<int, 31> of_step_{};
};

}  // namespace offbeat
