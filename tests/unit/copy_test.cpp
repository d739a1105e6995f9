// SPDX-License-Identifier: BSD-3-Clause
// Copies between all kinds of places: the vector loops begin at a line, and string moves avoid some
// distances.
#include "base/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace offbeat {
namespace {

constexpr std::size_t page = 4096;
constexpr std::byte untouched{0xee};

class Copy : public testing::TestWithParam<void (*)(void*, const void*, std::size_t)> {};

TEST_P(Copy, MovesAllBytesAndNoOthers) {
  const std::vector<std::size_t> lengths = {0, 1, 63, 64, 65, 2047, 2048, 4096 + 129, 16384 + 65};
  const std::vector<std::size_t> offsets = {0, 1, 4, 8, 15, 16, 17, 31, 48, 60, 63, 64, page - 8, page - 1};
  std::vector<std::byte> from(6 * page);
  for (std::size_t k = 0; k < from.size(); ++k) from[k] = static_cast<std::byte>(k % 251);
  std::vector<std::byte> to(6 * page);
  for (const std::size_t length : lengths) {
    for (const std::size_t source : offsets) {
      for (const std::size_t destination : offsets) {
        std::ranges::fill(to, untouched);
        GetParam()(to.data() + destination, from.data() + source, length);
        const auto begin = to.begin() + static_cast<std::ptrdiff_t>(destination);
        const auto end = begin + static_cast<std::ptrdiff_t>(length);
        const bool is_right =
            std::equal(begin, end, from.begin() + static_cast<std::ptrdiff_t>(source)) &&
            std::all_of(to.begin(), begin, [](std::byte each) { return each == untouched; }) &&
            std::all_of(end, to.end(), [](std::byte each) { return each == untouched; });
        ASSERT_TRUE(is_right) << length << " bytes from " << source << " to " << destination;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Copy,
                         testing::Values(copy, copy_stable_source, copy_to_shared, copy_past_cache));

}  // namespace
}  // namespace offbeat
