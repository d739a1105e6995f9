// SPDX-License-Identifier: BSD-3-Clause
// Order statistics of a series of times, which assume nothing about their distribution.
// python/offbeat/bench/samples.py computes the same for the file of a benchmark.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace offbeat::bench {

inline constexpr std::size_t batch_count = 10;
inline constexpr std::size_t enough_for_batches = 50;
inline constexpr double student_t = 2.262;  // two-sided 95 % with 9 degrees of freedom

struct Summary {
  std::size_t count = 0;
  double median = 0;
  double percentile_90 = 0;
  // The 95% confidence interval of the median.
  double low = 0;
  double high = 0;
};

[[nodiscard]] inline double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns half of the 95% interval of the median, from the medians of consecutive batches. Unlike order
// statistics, these see noise that lasts longer than a call.
[[nodiscard]] inline double half_width_of_batches(const std::vector<double>& values) {
  const std::size_t length = values.size() / batch_count;
  double sum = 0;
  double squares = 0;
  for (std::size_t b = 0; b < batch_count; ++b) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(b * length);
    const double median = median_of({begin, begin + static_cast<std::ptrdiff_t>(length)});
    sum += median;
    squares += median * median;
  }
  const double variance = (squares - sum * sum / batch_count) / (batch_count - 1);
  return student_t * std::sqrt(std::max(variance, 0.0) / batch_count);
}

// Summarises the values, which must be in the order in which they were measured.
[[nodiscard]] inline Summary summarize(std::vector<double> values) {
  Summary summary;
  summary.count = values.size();
  if (values.empty()) return summary;
  const double of_batches = values.size() < enough_for_batches ? 0 : half_width_of_batches(values);
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  const auto at = [&](double position) {
    position = std::clamp(position, 0.0, last);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
  };
  summary.median = at(0.5 * last);
  summary.percentile_90 = at(0.9 * last);
  // The count of values below the median is binomial(n, 1/2); 0.98 = 1.96 / 2.
  const double half_width = 0.98 * std::sqrt(static_cast<double>(values.size()));
  summary.low = std::min(at(std::floor(0.5 * last - half_width)), summary.median - of_batches);
  summary.high = std::max(at(std::ceil(0.5 * last + half_width)), summary.median + of_batches);
  return summary;
}

}  // namespace offbeat::bench
