// SPDX-License-Identifier: BSD-3-Clause
// Segments says how `pipeline` cuts a message.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/algorithm.hpp"
#include "patterns/blocks.hpp"

namespace offbeat::combinators {

// The number of segments in flight if segments have a fixed size. More would only cost matching and memory.
inline constexpr int most_in_flight = 16;

[[nodiscard]] inline int in_flight(const Expression& pipeline) {
  return pipeline.segments > 0 ? pipeline.segments : most_in_flight;
}

// The segments of a message. All ranks compute equal values.
class Segments {
 public:
  // Cuts `elements` elements of `width` bytes as the expression says.
  Segments(std::size_t elements, std::size_t width, const Expression& pipeline) : elements_(elements) {
    if (pipeline.segments > 0) {
      count_ = static_cast<std::size_t>(pipeline.segments);
    } else {
      length_ = std::max<std::size_t>(1, pipeline.bytes / width);
      count_ = (elements + length_ - 1) / length_;
    }
  }
  // Cuts `elements` elements into `count` nearly equal parts.
  Segments(std::size_t elements, std::size_t count) : elements_(elements), count_(count) {}

  [[nodiscard]] std::size_t count() const { return count_; }
  // Returns segment k. The last segment takes the remainder.
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
  std::size_t length_ = 0;  // elements in each segment but the last; 0 if all parts are equal
};

}  // namespace offbeat::combinators
