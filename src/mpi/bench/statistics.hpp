// SPDX-License-Identifier: BSD-3-Clause
//
// Order statistics of a series of times: no assumption on how they are distributed.
// python/offbeat/bench/samples.py computes the same for the file of a benchmark.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace offbeat::bench {

constexpr std::size_t kBatches = 10;
constexpr std::size_t kEnoughForBatches = 50;
constexpr double kStudentT = 2.262;  // two-sided 95%, 9 degrees of freedom

struct Summary {
  std::size_t count = 0;
  double median = 0, p90 = 0;
  double ci_low = 0, ci_high = 0;  // 95% confidence interval of the median
};

inline double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Half the 95% interval of the median by the medians of consecutive batches: unlike order statistics, these
// see noise that lasts longer than a call.
inline double half_width_of_batches(const std::vector<double>& values) {
  const std::size_t length = values.size() / kBatches;
  double sum = 0, squares = 0;
  for (std::size_t b = 0; b < kBatches; ++b) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(b * length);
    const double median = median_of({begin, begin + static_cast<std::ptrdiff_t>(length)});
    sum += median;
    squares += median * median;
  }
  const double variance = (squares - sum * sum / kBatches) / (kBatches - 1);
  return kStudentT * std::sqrt(std::max(variance, 0.0) / kBatches);
}

// `values` in the order of measuring.
inline Summary summarize(std::vector<double> values) {
  Summary summary;
  summary.count = values.size();
  if (values.empty()) return summary;
  const double batches = values.size() < kEnoughForBatches ? 0 : half_width_of_batches(values);
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  const auto at = [&](double position) {
    position = std::clamp(position, 0.0, last);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
  };
  summary.median = at(0.5 * last);
  summary.p90 = at(0.9 * last);
  // The count of values below the median is binomial(n, 1/2); 0.98 = 1.96 / 2.
  const double half_width = 0.98 * std::sqrt(static_cast<double>(values.size()));
  summary.ci_low = std::min(at(std::floor(0.5 * last - half_width)), summary.median - batches);
  summary.ci_high = std::max(at(std::ceil(0.5 * last + half_width)), summary.median + batches);
  return summary;
}

}  // namespace offbeat::bench
