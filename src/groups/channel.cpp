// SPDX-License-Identifier: BSD-3-Clause
#include "groups/channel.hpp"

#include <algorithm>

#include "base/copy.hpp"

namespace offbeat {

void Channel::write_bytes(std::uint64_t at, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t begin = at % capacity();
  const std::size_t first = std::min(bytes, capacity() - begin);
  copy_to_shared(ring_.data() + begin, from, first);
  copy_to_shared(ring_.data(), from + first, bytes - first);
}

void Channel::read_bytes(std::uint64_t at, std::byte* to, std::size_t bytes) const {
  if (bytes == 0) return;
  const std::size_t begin = at % capacity();
  const std::size_t first = std::min(bytes, capacity() - begin);
  offbeat::copy(to, ring_.data() + begin, first);
  offbeat::copy(to + first, ring_.data(), bytes - first);
}

bool Channel::put(const Frame& frame, std::span<const std::byte> data) {
  const std::size_t length = length_with(data.size());
  if (written_ + length - read_ > capacity()) {
    read_ = words_.read.load(std::memory_order_acquire);
    if (written_ + length - read_ > capacity()) return false;
  }
  write_bytes(written_, reinterpret_cast<const std::byte*>(&frame), sizeof frame);
  write_bytes(written_ + sizeof frame, data.data(), data.size());
  written_ += length;
  words_.written.store(written_, std::memory_order_release);
  return true;
}

bool Channel::look(Frame& frame) {
  if (read_ == written_) {
    written_ = words_.written.load(std::memory_order_acquire);
    if (read_ == written_) return false;
  }
  read_bytes(read_, reinterpret_cast<std::byte*>(&frame), sizeof frame);
  return true;
}

void Channel::next(std::size_t bytes) {
  read_ += length_with(bytes);
  words_.read.store(read_, std::memory_order_release);
}

void Channel::received_short(std::size_t bytes) {
  const std::uint64_t before = words_.received.load(std::memory_order_relaxed);
  words_.received.store(before + length_with(bytes), std::memory_order_relaxed);
}

}  // namespace offbeat
