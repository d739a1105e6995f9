// SPDX-License-Identifier: BSD-3-Clause
// Side hands the program's memory in a call to an algorithm, as bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "collectives/call.hpp"
#include "mpi/host/collective_call.hpp"
#include "mpi/types/types.hpp"
#include "node/device_copies.hpp"
#include "transport/stand_in.hpp"

namespace offbeat {

// A Side is the input or the output of a call that combines nothing: its bytes.
//
// Types with gaps are packed on the way in and unpacked on the way out. So an algorithm sees bytes only, and
// ranks whose types differ see equal bytes. A long side gets a stand-in if the algorithm allows that, and is
// packed part by part as the algorithm copies. Device memory is packed, too, because the algorithm could not
// read it. Packed data and lists of blocks take memory of the pool.
class Side {
 public:
  // Reads the program's arguments, which have `blocks` blocks. Returns false if the host has to judge them.
  template <class Memory>
  [[nodiscard]] bool read_arguments(const Types& types, const Elements<Memory>& from, int blocks) {
    if (from.count < 0 || !is_accepted(types, from.data, from.type)) return false;
    if (from.count > 0 && data_ == nullptr && layout_.is_dense && layout_.size > 0) return false;
    count_ = from.count * blocks;
    return true;
  }
  template <class Memory>
  [[nodiscard]] bool read_arguments(const Types& types, const Blocks<Memory>& from, int blocks) {
    if (from.counts.empty() || from.displacements.empty() || !is_accepted(types, from.data, from.type))
      return false;
    counts_ = from.counts;
    displacements_ = from.displacements;
    block_count_ = blocks;
    for (int block = 0; block < blocks; ++block) {
      if (counts_[block] < 0) return false;
      count_ += counts_[block];
    }
    return is_empty() || data_ != nullptr || !layout_.is_dense;
  }
  [[nodiscard]] bool is_empty() const { return count_ == 0 || layout_.size == 0; }

  [[nodiscard]] const Layout& layout() const { return layout_; }

  // Returns how many bytes of data all blocks have.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(count_) * layout_.size; }

  // Computes vector() and blocks(), except for the address of a vector that needs packing.
  void compute_vector_and_blocks(const Types& types) {
    if (bytes() > 0 && devices::may_have_memory()) [[unlikely]]
      device_ = find_device(types);
    if (block_count_ > 0) make_block_list();
    vector_ = {is_packed() ? nullptr : data_, bytes(), 1};
  }
  [[nodiscard]] bool needs_packing() const { return is_packed() && vector_.count > 0; }
  // Give a vector that needs packing its address. After allocate() it has memory for all its bytes. After
  // stand_in() it has none, and is packed part by part as the algorithm copies (transport/stand_in.hpp).
  void allocate() {
    vector_.data = device_ && layout_.is_dense ? pinned_copy_.emplace(device_, vector_.count).data()
                                               : packed_copy_.emplace(vector_.count).data();
  }
  void stand_in(int vector) { vector_.data = stand_in::address(vector); }
  // Returns true if a stand-in is possible and pays. Shorter vectors stay in the cache when they are packed.
  // An element that is not all in one copy is packed whole by the host. `by_host` is true if the host may
  // pack.
  [[nodiscard]] bool may_stand_in(const Types& types, bool by_host) {
    constexpr std::size_t shortest = std::size_t{256} << 10;
    constexpr std::size_t longest_element = std::size_t{16} << 10;
    if (device_ || data_ == nullptr || vector_.count < shortest) return false;
    strided_ = types.find_strided(count_, type_, layout_);
    return strided_ != nullptr || (by_host && layout_.size <= longest_element);
  }
  // A long vector without gaps may stay on its device.
  [[nodiscard]] bool is_on_device() const { return static_cast<bool>(device_); }
  [[nodiscard]] bool may_stay_on_device() const {
    return device_ && layout_.is_dense && vector_.count >= DeviceCopies::shortest_in_parts;
  }
  void stay_on_device(DeviceCopies& copies) {
    stays_on_device_ = true;
    if (block_count_ > 0) make_block_list();
    vector_.data = data_;
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    for_each_block_in_program([&](std::byte* data, std::size_t bytes) {
      begin = begin == nullptr ? data : std::min(begin, data);
      end = std::max(end, data + bytes);
    });
    copies.use(device_, begin, static_cast<std::size_t>(end - begin));
  }
  [[nodiscard]] const Vector& vector() const { return vector_; }
  [[nodiscard]] const BlockList& blocks() const { return block_list_; }
  // Returns where the program has block `rank` of `ranks`.
  [[nodiscard]] const std::byte* address(int rank, int ranks) const {
    return data_ + (block_count_ > 0 ? displacements_[rank] : count_ / ranks * rank) * layout_.extent;
  }

  // A side without gaps in device memory has a `pinned_copy_`. begin_fetch() and begin_delivery() begin its
  // copies to and from that pinned host memory. For any other side begin_fetch() returns false. Then call
  // pack(), which does nothing if there is nothing to pack.
  [[nodiscard]] bool begin_fetch(DeviceCopies& copies) {
    if (!pinned_copy_) return false;
    for_each_part([&](const std::byte* data, std::int64_t count, std::byte* packed) {
      copies.begin_read(device_, packed, data, static_cast<std::size_t>(count) * layout_.size);
    });
    return true;
  }
  [[nodiscard]] bool copies_own_output() const { return pinned_copy_.has_value(); }
  void begin_delivery(DeviceCopies& copies) const {
    if (!pinned_copy_) return;
    for_each_part([&](std::byte* data, std::int64_t count, const std::byte* packed) {
      copies.begin_write(device_, data, packed, static_cast<std::size_t>(count) * layout_.size);
    });
  }

  void pack(const Types& types) {
    if (packed_copy_ || pinned_copy_)
      for_each_part([&](std::byte* data, std::int64_t count, std::byte* packed) {
        if (device_) [[unlikely]]
          return pack_from_device(types, data, count, packed);
        types.pack(data, count, type_, layout_, packed);
      });
  }
  void unpack(const Types& types) {
    if (packed_copy_ || pinned_copy_)
      for_each_part([&](std::byte* data, std::int64_t count, std::byte* packed) {
        if (device_) [[unlikely]]
          return unpack_to_device(types, packed, data, count);
        types.unpack(packed, data, count, type_, layout_);
      });
  }

  // Read and write bytes [first, first + bytes) of the packed data of a side with a stand-in.
  void read(const Types& types, std::byte* to, std::size_t first, std::size_t bytes) const {
    for_each_block(first, bytes, [&](const std::byte* data, std::size_t begin, std::size_t length) {
      strided_ != nullptr ? strided_->pack(data, begin, length, to)
                          : types.pack_part(data, begin, length, type_, layout_, to);
      to += length;
    });
  }
  void write(const Types& types, std::size_t first, const std::byte* from, std::size_t bytes) const {
    for_each_block(first, bytes, [&](std::byte* data, std::size_t begin, std::size_t length) {
      strided_ != nullptr ? strided_->unpack(from, data, begin, length)
                          : types.unpack_part(from, data, begin, length, type_, layout_);
      from += length;
    });
  }

  // Keeps the type for a call that proceeds while the program computes and may free its type.
  void keep_type(const Host& host) {
    if (!packed_copy_ || layout_.is_dense) return;
    if (host.Type_dup(type_, &type_) != MPI_SUCCESS)
      throw CommunicationError("no datatype is left", MPI_ERR_OTHER);
    has_own_type_ = true;
  }
  void free_type(const Host& host) {
    if (std::exchange(has_own_type_, false)) host.Type_free(&type_);
  }

 private:
  template <class Memory>
  [[nodiscard]] bool is_accepted(const Types& types, Memory* data, MPI_Datatype type) {
    if (data == MPI_IN_PLACE) return false;
    data_ = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(data)));
    type_ = type;
    return types.find_layout(type, layout_);
  }

  void make_block_list() {
    const auto blocks = static_cast<std::size_t>(block_count_);
    block_list_memory_.emplace(blocks * (sizeof(std::size_t) + sizeof(std::ptrdiff_t)));
    auto* counts = reinterpret_cast<std::size_t*>(block_list_memory_->data());
    auto* begins = reinterpret_cast<std::ptrdiff_t*>(counts + blocks);
    std::size_t bytes = 0;
    for (int block = 0; block < block_count_; ++block) {
      counts[block] = static_cast<std::size_t>(counts_[block]) * layout_.size;
      begins[block] =
          is_packed() ? static_cast<std::ptrdiff_t>(bytes) : displacements_[block] * layout_.extent;
      bytes += counts[block];
    }
    block_list_ = {counts, begins};
  }

  [[nodiscard]] bool is_packed() const { return !layout_.is_dense || (device_ && !stays_on_device_); }

  // Calls use(data, bytes) for each block of the program that has data. The blocks have no gaps.
  template <class Use>
  void for_each_block_in_program(Use&& use) const {
    if (block_count_ == 0) return use(data_, bytes());
    for (int block = 0; block < block_count_; ++block) {
      const std::size_t bytes = block_list_.counts[block];
      if (bytes > 0) use(data_ + displacements_[block] * layout_.extent, bytes);
    }
  }

  // Calls use(data, count, packed) once, or for all blocks that follow one another.
  template <class Use>
  void for_each_part(Use&& use) const {
    std::byte* const packed = packed_copy_ ? packed_copy_->data() : pinned_copy_->data();
    if (block_count_ == 0) return use(data_, count_, packed);
    for (int block = 0; block < block_count_;) {
      const int first = block;
      std::int64_t count = 0;
      do {
        count += counts_[block++];
      } while (block < block_count_ && displacements_[block] == displacements_[first] + count);
      if (count > 0)
        use(data_ + displacements_[first] * layout_.extent, count, packed + block_list_.begins[first]);
    }
  }

  // Calls use(data, begin, length) for the part of each block in packed bytes [first, first + bytes).
  template <class Use>
  void for_each_block(std::size_t first, std::size_t bytes, Use&& use) const {
    if (block_count_ == 0) return use(data_, first, bytes);
    const auto* begins = block_list_.begins;
    const auto* after = std::upper_bound(begins, begins + block_count_, static_cast<std::ptrdiff_t>(first));
    for (auto block = after - begins - 1; bytes > 0; ++block) {
      const std::size_t begin = first - static_cast<std::size_t>(begins[block]);
      const std::size_t length = std::min(block_list_.counts[block] - begin, bytes);
      std::byte* const data = data_ + displacements_[static_cast<int>(block)] * layout_.extent;
      if (length > 0) use(data, begin, length);
      first += length;
      bytes -= length;
    }
  }

  // Finds the device of the first element, which decides for all. Call this only if there are elements.
  [[gnu::noinline]] [[nodiscard]] DeviceMemory find_device(const Types& types) const {
    std::int64_t first = 0;
    if (block_count_ > 0) {
      int block = 0;
      while (counts_[block] == 0) ++block;
      first = displacements_[block];
    }
    return DeviceMemory::at(data_ + first * layout_.extent + types.span_of(1, type_, layout_).begin);
  }

  // The host packs in host memory, into which the device memory is copied together with its gaps. The gaps
  // belong to the program, which may write to them while the collective lasts. So they are read just before
  // they are written back.
  [[gnu::noinline]] void pack_from_device(const Types& types, const std::byte* data, std::int64_t count,
                                          std::byte* packed) const {
    const TypeSpan span = types.span_of(count, type_, layout_);
    if (layout_.is_dense) return device_.read(packed, data, span.bytes);
    const pool::Block copy(span.bytes);
    device_.read(copy.data(), data + span.begin, span.bytes);
    types.pack(copy.data() - span.begin, count, type_, layout_, packed);
  }
  [[gnu::noinline]] void unpack_to_device(const Types& types, const std::byte* packed, std::byte* data,
                                          std::int64_t count) const {
    const TypeSpan span = types.span_of(count, type_, layout_);
    if (layout_.is_dense) return device_.write(data, packed, span.bytes);
    const pool::Block copy(span.bytes);
    device_.read(copy.data(), data + span.begin, span.bytes);
    types.unpack(packed, copy.data() - span.begin, count, type_, layout_);
    device_.write(data + span.begin, copy.data(), span.bytes);
  }

  std::byte* data_ = nullptr;
  MPI_Datatype type_{};
  Layout layout_;
  std::int64_t count_ = 0;  // elements of all blocks
  Integers counts_;
  Integers displacements_;
  int block_count_ = 0;  // how many blocks the lists have; 0 without lists
  DeviceMemory device_;  // empty for host memory
  Vector vector_;
  BlockList block_list_;
  std::optional<pool::Block> packed_copy_;
  std::optional<PinnedBlock> pinned_copy_;  // instead, for device memory without gaps
  bool stays_on_device_ = false;            // true if the vector stays on its device
  std::unique_ptr<Strided> strided_;        // packs a side that has a stand-in; null if the host packs it
  std::optional<pool::Block> block_list_memory_;
  bool has_own_type_ = false;
};

}  // namespace offbeat
