// SPDX-License-Identifier: BSD-3-Clause
// How `pipeline` cuts a message.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/algorithm.hpp"
#include "patterns/blocks.hpp"

namespace offbeat::combinators {

// Of a fixed size, so many segments are in flight; more would only cost matching and memory.
inline constexpr int most_in_flight = 16;

[[nodiscard]] inline int in_flight(const Expression& pipeline) {
  return pipeline.segments > 0 ? pipeline.segments : most_in_flight;
}

// Every rank computes the same.
class Segments {
 public:
  // Of `elements` elements of `width` bytes, as the expression says.
  Segments(std::size_t elements, std::size_t width, const Expression& pipeline) : elements_(elements) {
    if (pipeline.segments > 0) {
      count_ = static_cast<std::size_t>(pipeline.segments);
    } else {
      length_ = std::max<std::size_t>(1, pipeline.bytes / width);
      count_ = (elements + length_ - 1) / length_;
    }
  }
  // So many nearly equal parts.
  Segments(std::size_t elements, std::size_t count) : elements_(elements), count_(count) {}

  [[nodiscard]] std::size_t count() const { return count_; }
  // Segment k. The last one takes the remainder.
  [[nodiscard]] Stripe operator[](std::size_t k) const {
    if (length_ > 0) return {k * length_, length_};
    const auto begin = [this](std::size_t index) {
      return block_begin(elements_, static_cast<int>(count_), static_cast<int>(index));
    };
    return {begin(k), begin(k + 1) - begin(k)};
  }

 private:
  std::size_t elements_;
  std::size_t count_ = 0;
  std::size_t length_ = 0;  // of each but the last; 0: equal parts
};

}  // namespace offbeat::combinators
