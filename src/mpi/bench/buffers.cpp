// SPDX-License-Identifier: BSD-3-Clause
#include "buffers.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace offbeat::bench {

// Values repeat along the buffer with this period; a prime, so that blocks of any
// power-of-two size that end up in the wrong place are seen.
constexpr std::size_t kPeriod = 251;
constexpr std::size_t kFootprintBytes = std::size_t{8} << 20;

static float value(std::size_t rank, std::size_t set, std::size_t index) {
  const std::size_t mixed = (rank + 1) * 31 + (set + 1) * 17 + (index % kPeriod) * (2 * rank + 7);
  return static_cast<float>(static_cast<int>(mixed % 127) - 63);
}

Buffers::Buffers(std::size_t count, int rank, int ranks) : count_(count) {
  const std::size_t set_bytes = 2 * sizeof(float) * std::max<std::size_t>(count, 1);
  sets_.resize(std::clamp<std::size_t>(kFootprintBytes / set_bytes, 2, 8));
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    Set& set = sets_[s];
    set.send.resize(count);
    set.receive.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      set.send[i] = i < kPeriod ? value(static_cast<std::size_t>(rank), s, i) : set.send[i - kPeriod];
    }
    for (std::size_t i = 0; i < kPeriod; ++i) {
      float sum = 0;
      for (int r = 0; r < ranks; ++r) sum += value(static_cast<std::size_t>(r), s, i);
      set.expected.push_back(sum);
    }
    poison(s);
  }
}

void Buffers::poison(std::size_t set) {
  std::fill(sets_[set].receive.begin(), sets_[set].receive.end(), std::numeric_limits<float>::quiet_NaN());
}

Mismatch Buffers::verify(std::size_t set) const {
  const Set& s = sets_[set];
  Mismatch mismatch;
  for (std::size_t begin = 0; begin < count_; begin += kPeriod) {
    const float* got = s.receive.data() + begin;
    const std::size_t length = std::min(kPeriod, count_ - begin);
    if (std::memcmp(got, s.expected.data(), length * sizeof(float)) == 0) continue;
    for (std::size_t i = 0; i < length; ++i) {
      if (std::memcmp(&got[i], &s.expected[i], sizeof(float)) == 0) continue;
      if (mismatch.wrong_elements++ > 0) continue;
      mismatch.first_index = static_cast<std::int64_t>(begin + i);
      mismatch.expected = s.expected[i];
      mismatch.got = got[i];
    }
  }
  return mismatch;
}

}  // namespace offbeat::bench
