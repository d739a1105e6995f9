// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/types/packed_view.hpp"

#include <cstring>

#include "base/pool.hpp"

namespace offbeat {

// Calls whole(data, count, done) for elements that are all in the range, and part(data, begin, length, done)
// for an element of which only bytes [begin, begin + length) are. `done` bytes of the range are before them.
template <class Whole, class Part>
void PackedView::for_each_element(std::size_t first, std::size_t bytes, Whole&& whole, Part&& part) const {
  const std::size_t size = layout_.size;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t element = (first + done) / size;
    const std::size_t begin = (first + done) % size;
    const std::size_t left = bytes - done;
    std::byte* const data = data_ + static_cast<std::ptrdiff_t>(element) * layout_.extent;
    if (begin == 0 && left >= size) {
      const std::size_t count = left / size;
      whole(data, static_cast<std::int64_t>(count), done);
      done += count * size;
    } else {
      const std::size_t length = std::min(size - begin, left);
      part(data, begin, length, done);
      done += length;
    }
  }
}

void PackedView::read(std::byte* to, std::size_t first, std::size_t bytes) const {
  for_each_element(
      first, bytes,
      [&](const std::byte* data, std::int64_t count, std::size_t done) {
        types_.pack(data, count, type_, layout_, to + done);
      },
      [&](const std::byte* data, std::size_t begin, std::size_t length, std::size_t done) {
        const pool::Block element(layout_.size);
        types_.pack(data, 1, type_, layout_, element.data());
        std::memcpy(to + done, element.data() + begin, length);
      });
}

void PackedView::write(std::size_t first, const std::byte* from, std::size_t bytes) const {
  for_each_element(
      first, bytes,
      [&](std::byte* data, std::int64_t count, std::size_t done) {
        types_.unpack(from + done, data, count, type_, layout_);
      },
      [&](std::byte* data, std::size_t begin, std::size_t length, std::size_t done) {
        const pool::Block element(layout_.size);
        types_.pack(data, 1, type_, layout_, element.data());
        std::memcpy(element.data() + begin, from + done, length);
        types_.unpack(element.data(), data, 1, type_, layout_);
      });
}

}  // namespace offbeat
