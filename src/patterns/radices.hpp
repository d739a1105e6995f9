// SPDX-License-Identifier: BSD-3-Clause
// Cutting a number of ranks into steps of recursive multiplying: so many exchange with one another in each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

namespace offbeat {

// Factors up to `largest`. Their product is the largest number up to `ranks` that has no prime factor above
// it, so that many ranks can take part. ranks >= 1, largest >= 2.
class Radices {
 public:
  Radices(int ranks, int largest) {
    for (product_ = ranks; !factorise(largest); --product_) steps_ = 0;
  }
  [[nodiscard]] int product() const { return product_; }
  [[nodiscard]] std::size_t most_others() const {
    return steps_ == 0 ? 0 : static_cast<std::size_t>(*std::max_element(begin(), end())) - 1;
  }
  [[nodiscard]] const int* begin() const { return of_step_.data(); }
  [[nodiscard]] const int* end() const { return begin() + steps_; }

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
