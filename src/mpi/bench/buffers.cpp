// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/buffers.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace offbeat::bench {

namespace {

// The values repeat with this period. It is a prime, so that verify() notices a block in the wrong place if
// its length is a power of two.
constexpr std::size_t period_length = 251;
constexpr std::size_t footprint_bytes = std::size_t{8} << 20;

float value(std::size_t rank, std::size_t set, std::size_t index) {
  const std::size_t mixed = (rank + 1) * 31 + (set + 1) * 17 + (index % period_length) * (2 * rank + 7);
  return static_cast<float>(static_cast<int>(mixed % 127) - 63);
}

}  // namespace

Buffers::Buffers(const Runner& runner, std::size_t count, int rank, int ranks, bool only_one_set)
    : runner_(runner), count_(count), shape_(runner.shape(count, rank, ranks)) {
  const std::size_t set_bytes = 2 * sizeof(float) * std::max<std::size_t>(shape_.longest, 1);
  sets_.resize(only_one_set ? 1 : std::clamp<std::size_t>(footprint_bytes / set_bytes, 2, 8));
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    Set& set = sets_[s];
    set.sum.resize(period_length);
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
      Period& given = set.given.emplace_back(period_length);
      for (std::size_t i = 0; i < period_length; ++i) {
        given[i] = value(r, s, i);
        if (static_cast<int>(r) < shape_.givers) set.sum[i] += given[i];
      }
    }
    const Period& mine = set.given[static_cast<std::size_t>(rank)];
    set.send.resize(shape_.send_count);
    for (std::size_t i = 0; i < set.send.size(); i += period_length)
      std::copy_n(mine.begin(), std::min(period_length, set.send.size() - i),
                  set.send.begin() + static_cast<std::ptrdiff_t>(i));
    set.receive.resize(shape_.receive_count);
    poison(s);
  }
}

void Buffers::call_in_place(std::size_t set) {
  Set& s = sets_[set];
  s.receive = s.send;
  runner_.call_in_place(count_, s.receive.data());
}

void Buffers::poison(std::size_t set) {
  std::fill(sets_[set].receive.begin(), sets_[set].receive.end(), std::numeric_limits<float>::quiet_NaN());
}

Mismatch Buffers::verify(std::size_t set) const {
  const Set& s = sets_[set];
  Mismatch mismatch;
  std::size_t index = 0;
  for (const Piece& piece : shape_.result) {
    const Period& period = piece.rank == Piece::sum ? s.sum : s.given[static_cast<std::size_t>(piece.rank)];
    compare(s.receive.data() + index, piece, period, index, mismatch);
    index += piece.count;
  }
  return mismatch;
}

void Buffers::compare(const float* got, const Piece& piece, const Period& period, std::size_t index,
                      Mismatch& mismatch) {
  for (std::size_t done = 0; done < piece.count;) {
    const std::size_t phase = (piece.begin + done) % period_length;
    const std::size_t length = std::min(period_length - phase, piece.count - done);
    const float* expected = &period[phase];
    const bool equal = std::memcmp(got + done, expected, length * sizeof(float)) == 0;
    for (std::size_t i = 0; i < length && !equal; ++i) {
      if (std::memcmp(&got[done + i], &expected[i], sizeof(float)) == 0) continue;
      if (mismatch.wrong_elements++ > 0) continue;
      mismatch.first_index = static_cast<std::int64_t>(index + done + i);
      mismatch.expected = expected[i];
      mismatch.got = got[done + i];
    }
    done += length;
  }
}

}  // namespace offbeat::bench
