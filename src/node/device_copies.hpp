// SPDX-License-Identifier: BSD-3-Clause
// DeviceCopies makes the copies of one collective whose vectors are in device memory.
//
// A short vector is copied whole: to a block in host memory before the collective, and back after it. A long
// one stays where it is, if the algorithm runs on the board of one node. The algorithm then gets the device's
// addresses. It may slice these vectors, and name them in Computations. The transport hands each such
// computation to this class. It copies what the computation needs to host memory, carries it out, and copies
// the result to the device. If the data go to or from a window of the board, they are copied straight there.
//
//     input on the device  ->  window of this rank           put(), or ahead of it: prefetch()
//     window of any rank   ->  output on the device          copy(); goes on until the round ends
//     input on the device  ->  pinned block  ->  combined    if the input is not in a window
//
// All copies go on while the rank does something else. A computation is complete when its result is in host
// memory. Only then may the algorithm announce it. What it copies to the device may take longer: until the
// round ends, in which no rank changes a window that was announced. Computation::source_changes says
// otherwise.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <list>

#include "base/pool.hpp"
#include "node/device_memory.hpp"
#include "node/pinned_block.hpp"
#include "transport/transport.hpp"

namespace offbeat {

class DeviceCopies {
 public:
  DeviceCopies() = default;
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;
  // Waits for all copies under way, because they use memory that ends with the call.
  ~DeviceCopies() { abandon(); }

  // Shorter vectors are copied whole: each copy of a part takes some microseconds to begin. Not measured yet
  // on a GPU.
  static constexpr std::size_t shortest_in_parts = std::size_t{256} << 10;

  // -- vectors that are copied whole

  // begin_read() begins a copy from the device, and begin_write() one to it. are_copies_complete() says
  // whether they are complete.
  void begin_read(const DeviceMemory& memory, void* to, const void* from, std::size_t bytes);
  void begin_write(const DeviceMemory& memory, void* to, const void* from, std::size_t bytes);

  // -- vectors that the algorithm gets as they are

  // Lets computations use a part of the memory of a device.
  void use(const DeviceMemory& memory, const std::byte* begin, std::size_t bytes);
  // Returns the device of the first part in use, or null if there is none.
  [[nodiscard]] const DeviceMemory* device_in_use() const {
    return parts_in_use_ > 0 ? &parts_[0].memory : nullptr;
  }

  // Begins to copy `source` to `place`, for computations that will need it. Nobody may write to either before
  // that computation, which belongs to this round or to the next one. Does nothing if `source` is not on a
  // device, or on its way.
  void prefetch(ConstVector source, Vector place, bool for_next_round = false);
  // Returns true if the computation reads or writes a part that use() has named.
  [[nodiscard]] bool uses_device_parts(const Computation& computation) const;
  // Begins such a computation. Returns true if it is complete. Otherwise advance() resumes its waiter then.
  [[nodiscard]] bool begin(Computation& computation);
  // Looks at all computations once. Returns true if one is complete.
  bool advance();
  [[nodiscard]] bool is_working() const { return !pending_.empty() || waiter_for_round_end_; }

  // Returns true if all copies of this round are complete, and ends it. What was brought for the next round
  // stays.
  [[nodiscard]] bool try_to_end_round();
  // advance() resumes `waiter` when the round has ended.
  void resume_when_round_ends(std::coroutine_handle<> waiter) { waiter_for_round_end_ = waiter; }

  // Returns true if all copies are complete, and forgets them.
  [[nodiscard]] bool are_copies_complete();
  // Returns when all copies are complete. Throws CommunicationError.
  void wait_for_copies();
  // Forgets all computations after a failure, and waits for what is under way.
  void abandon() noexcept;

 private:
  struct DevicePart {
    DeviceMemory memory;
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
  };
  // Where a range of the device's memory is, or will be, in host memory.
  struct HostImage {
    const std::byte* device;
    std::size_t bytes;
    std::byte* host;
    std::size_t copy;  // its index in reads_
    bool is_for_next_round;
  };

  struct PendingComputation {
    Computation* requested;
    Computation on_host;                                          // the same, with addresses in host memory
    std::array<std::size_t, Computation::most_operands> reads{};  // copies that it waits for
    std::size_t read_count = 0;
    bool is_carried_out = false;
    bool awaits_write = false;  // the copy to the device, too, must be complete
    std::size_t write = 0;
  };
  // The smallest range that has all that is being written to a device.
  struct Range {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };

  [[nodiscard]] const DevicePart* part_of(const void* address) const;
  [[nodiscard]] const HostImage* find_image(const std::byte* device, std::size_t bytes) const;
  // Forgets the images whose range of the device, or of host memory, changes.
  void forget_images_of(const std::byte* device, std::size_t bytes);
  void forget_images_in(const std::byte* host, std::size_t bytes);
  // Copy to host memory, and to the device. Return the index of the copy in reads_ or writes_.
  std::size_t read(const DevicePart& part, std::byte* to, const std::byte* from, std::size_t bytes);
  std::size_t write(const DevicePart& part, std::byte* to, const std::byte* from, std::size_t bytes);
  void note_write(const std::byte* begin, std::size_t bytes);
  [[nodiscard]] std::byte* new_block(const DeviceMemory& memory, std::size_t bytes);

  // Begins all that a computation needs.
  void prepare(PendingComputation& work);
  // Begins to copy an operand from the device, unless an `HostImage` already has it. Returns its address in
  // host memory: in that image, at `place`, or in a new block if `place` is null. The data are there when the
  // reads of `work` are complete.
  [[nodiscard]] const std::byte* fetch_operand(PendingComputation& work, const DevicePart& part,
                                               const std::byte* operand, std::byte* place);
  // Returns true if the computation is complete.
  [[nodiscard]] bool advance(PendingComputation& work);
  void carry_out(PendingComputation& work);

  std::array<DevicePart, 2> parts_;
  int parts_in_use_ = 0;
  pool::List<DeviceCopy> reads_;
  pool::List<DeviceCopy> writes_;
  pool::List<HostImage> images_;
  Range written_range_;
  std::list<PinnedBlock, pool::Allocator<PinnedBlock>> blocks_;  // kept until the round ends
  std::list<PendingComputation, pool::Allocator<PendingComputation>> pending_;
  std::coroutine_handle<> waiter_for_round_end_;
};

}  // namespace offbeat
