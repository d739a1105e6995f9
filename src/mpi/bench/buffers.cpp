// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/buffers.hpp"

#include <algorithm>
#include <cstring>

namespace offbeat::bench {

namespace {

// The values repeat with this period. It is a prime, so that verify() notices a block in the wrong place if
// its length is a power of two.
constexpr std::size_t period_length = 251;
constexpr std::size_t footprint_bytes = std::size_t{8} << 20;

// Returns a number between -63 and 63. If all are multiplied, it is 1 or -1, so that no product overflows.
int test_value(Operation operation, std::size_t rank, std::size_t set, std::size_t index) {
  const std::size_t mixed = (rank + 1) * 31 + (set + 1) * 17 + (index % period_length) * (2 * rank + 7);
  if (operation == Operation::prod) return mixed % 127 % 2 == 0 ? 1 : -1;
  return static_cast<int>(mixed % 127) - 63;
}

}  // namespace

Buffers::Buffers(const CallRequest& request, int rank, int ranks, bool only_one_set)
    : runner_(runner_of(request.collective)),
      element_(element_type(request.type)),
      position_{request.size_bytes / element_.width, rank, ranks, request.root},
      shape_(runner_.shape(position_)),
      in_place_(request.in_place) {
  const std::size_t set_bytes = 2 * element_.width * std::max<std::size_t>(shape_.longest, 1);
  sets_.resize(only_one_set ? 1 : std::clamp<std::size_t>(footprint_bytes / set_bytes, 2, 8));
  for (std::size_t set = 0; set < sets_.size(); ++set) fill(set, operation_named(request.operation));
}

void Buffers::fill(std::size_t set, const NamedOperation& operation) {
  BufferSet& s = sets_[set];
  const std::size_t width = element_.width;
  for (int r = 0; r < position_.ranks; ++r) {
    Bytes& given = s.input_periods.emplace_back(period_length * width);
    for (std::size_t i = 0; i < period_length; ++i)
      element_.from_int(&given[i * width],
                        test_value(operation.operation, static_cast<std::size_t>(r), set, i));
    if (r >= shape_.combined_ranks) continue;
    if (r == 0) {
      s.combined_period = given;
    } else {
      for (std::size_t at = 0; at < given.size(); at += width)
        element_.combine(operation.operation, &s.combined_period[at], &given[at]);
    }
  }
  const Bytes& mine = s.input_periods[static_cast<std::size_t>(position_.rank)];
  s.send.resize(shape_.send_count * width);
  for (std::size_t at = 0; at < s.send.size(); at += mine.size())
    std::memcpy(&s.send[at], mine.data(), std::min(mine.size(), s.send.size() - at));
  const std::size_t own_end = shape_.input_in_output ? *shape_.input_in_output + shape_.send_count : 0;
  s.receive.resize(std::max(shape_.receive_count, own_end) * width);
  fill_with_wrong_values(set);

  s.out_of_place = {s.send.data(),     s.receive.data(),   static_cast<int>(position_.count),
                    element_.handle(), operation.handle(), position_.root};
  s.in_place = s.out_of_place;
  if (shape_.input_in_output) s.in_place.send = MPI_IN_PLACE;
  if (shape_.keeps_own_part) s.in_place.receive = MPI_IN_PLACE;
}

void Buffers::put_input(std::size_t set) {
  BufferSet& s = sets_[set];
  if (shape_.input_in_output && !s.send.empty())
    std::memcpy(&s.receive[*shape_.input_in_output * element_.width], s.send.data(), s.send.size());
}

Mismatch Buffers::check_in_place(std::size_t set) {
  fill_with_wrong_values(set);
  put_input(set);
  runner_.call(shape_, sets_[set].in_place, nullptr);
  return verify(set, true);
}

void Buffers::fill_with_wrong_values(std::size_t set) {
  std::fill(sets_[set].receive.begin(), sets_[set].receive.end(), element_.poison);
}

Mismatch Buffers::verify(std::size_t set, bool in_place) const {
  const BufferSet& s = sets_[set];
  Mismatch mismatch;
  if (in_place && shape_.keeps_own_part) return mismatch;
  std::size_t index = 0;
  for (const ResultPiece& piece : shape_.result) {
    const Bytes& period = piece.rank == ResultPiece::combined
                              ? s.combined_period
                              : s.input_periods[static_cast<std::size_t>(piece.rank)];
    compare(s.receive.data() + index * element_.width, piece, period, index, mismatch);
    index += piece.count;
  }
  return mismatch;
}

void Buffers::compare(const std::byte* got, const ResultPiece& piece, const Bytes& period, std::size_t index,
                      Mismatch& mismatch) const {
  const std::size_t width = element_.width;
  for (std::size_t done = 0; done < piece.count;) {
    const std::size_t phase = (piece.begin + done) % period_length;
    const std::size_t length = std::min(period_length - phase, piece.count - done);
    const std::byte* expected = &period[phase * width];
    const bool equal = std::memcmp(got + done * width, expected, length * width) == 0;
    for (std::size_t i = 0; i < length && !equal; ++i) {
      const std::byte* here = got + (done + i) * width;
      if (std::memcmp(here, expected + i * width, width) == 0) continue;
      if (mismatch.wrong_elements++ > 0) continue;
      mismatch.first_index = static_cast<std::int64_t>(index + done + i);
      mismatch.expected_value = element_.to_double(expected + i * width);
      mismatch.found_value = element_.to_double(here);
    }
    done += length;
  }
}

}  // namespace offbeat::bench
