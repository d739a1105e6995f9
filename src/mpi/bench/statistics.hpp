// SPDX-License-Identifier: BSD-3-Clause
//
// Order statistics of a set of times: no assumption on how they are distributed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace offbeat::bench {

struct Summary {
  std::size_t count = 0;
  double median = 0, p10 = 0, p90 = 0;
  double ci_low = 0, ci_high = 0;  // 95% confidence interval of the median
};

inline Summary summarize(std::vector<double> values) {
  Summary summary;
  summary.count = values.size();
  if (values.empty()) return summary;
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  const auto at = [&](double position) {
    position = std::clamp(position, 0.0, last);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
  };
  summary.median = at(0.5 * last);
  summary.p10 = at(0.1 * last);
  summary.p90 = at(0.9 * last);
  // The count of values below the median is binomial(n, 1/2); 0.98 = 1.96 / 2.
  const double half_width = 0.98 * std::sqrt(static_cast<double>(values.size()));
  summary.ci_low = at(std::floor(0.5 * last - half_width));
  summary.ci_high = at(std::ceil(0.5 * last + half_width));
  return summary;
}

}  // namespace offbeat::bench
