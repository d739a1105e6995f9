// SPDX-License-Identifier: BSD-3-Clause
#include "node/device_copies.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace offbeat {
namespace {

[[nodiscard]] bool overlap(const std::byte* left, std::size_t left_bytes, const std::byte* right,
                           std::size_t right_bytes) {
  return left < right + right_bytes && right < left + left_bytes;
}

// The last copies are looked at first, because they are complete last.
[[nodiscard]] bool are_over(pool::List<DeviceCopy>& copies) {
  return std::all_of(copies.rbegin(), copies.rend(), [](DeviceCopy& each) { return each.is_over(); });
}

}  // namespace

// -- vectors that are copied whole

void DeviceCopies::begin_read(const DeviceMemory& memory, void* to, const void* from, std::size_t bytes) {
  reads_.push_back(memory.begin_read(to, from, bytes));
}
void DeviceCopies::begin_write(const DeviceMemory& memory, void* to, const void* from, std::size_t bytes) {
  writes_.push_back(memory.begin_write(to, from, bytes));
}

// -- vectors that the algorithm gets as they are

void DeviceCopies::use(const DeviceMemory& memory, const std::byte* begin, std::size_t bytes) {
  parts_[static_cast<std::size_t>(parts_in_use_++)] = {memory, begin, bytes};
}

const DeviceCopies::DevicePart* DeviceCopies::part_of(const void* address) const {
  const auto* const at = static_cast<const std::byte*>(address);
  for (int k = 0; k < parts_in_use_; ++k) {
    const DevicePart& part = parts_[static_cast<std::size_t>(k)];
    if (at >= part.begin && at < part.begin + part.bytes) return &part;
  }
  return nullptr;
}

const DeviceCopies::HostImage* DeviceCopies::find_image(const std::byte* device, std::size_t bytes) const {
  const auto found = std::ranges::find_if(images_, [&](const HostImage& each) {
    return device >= each.device && device + bytes <= each.device + each.bytes;
  });
  return found != images_.end() ? &*found : nullptr;
}

void DeviceCopies::forget_images_of(const std::byte* device, std::size_t bytes) {
  std::erase_if(images_,
                [&](const HostImage& each) { return overlap(each.device, each.bytes, device, bytes); });
}
void DeviceCopies::forget_images_in(const std::byte* host, std::size_t bytes) {
  std::erase_if(images_, [&](const HostImage& each) { return overlap(each.host, each.bytes, host, bytes); });
}

// What is being written must be read after that.
std::size_t DeviceCopies::read(const DevicePart& part, std::byte* to, const std::byte* from,
                               std::size_t bytes) {
  const bool after_writes = from < written_range_.end && written_range_.begin < from + bytes;
  forget_images_in(to, bytes);
  reads_.push_back(part.memory.begin_read(to, from, bytes, after_writes));
  return reads_.size() - 1;
}

std::size_t DeviceCopies::write(const DevicePart& part, std::byte* to, const std::byte* from,
                                std::size_t bytes) {
  note_write(to, bytes);
  writes_.push_back(part.memory.begin_write(to, from, bytes));
  return writes_.size() - 1;
}

void DeviceCopies::note_write(const std::byte* begin, std::size_t bytes) {
  forget_images_of(begin, bytes);
  if (written_range_.begin == nullptr) written_range_ = {begin, begin};
  written_range_ = {std::min(written_range_.begin, begin), std::max(written_range_.end, begin + bytes)};
}

std::byte* DeviceCopies::new_block(const DeviceMemory& memory, std::size_t bytes) {
  return blocks_.emplace_back(memory, bytes).data();
}

// The vector goes in several copies, so that a computation need not wait for all of it.
void DeviceCopies::prefetch(ConstVector source, Vector place, bool for_next_round) {
  constexpr std::size_t longest = std::size_t{128} << 10;
  const DevicePart* const part = part_of(source.data);
  if (part == nullptr || source.count == 0 ||
      find_image(source.data, std::min(source.bytes(), longest)) != nullptr)
    return;
  for (std::size_t begin = 0; begin < source.bytes(); begin += longest) {
    const std::size_t bytes = std::min(longest, source.bytes() - begin);
    const std::size_t copy = read(*part, place.data + begin, source.data + begin, bytes);
    images_.push_back({source.data + begin, bytes, place.data + begin, copy, for_next_round});
  }
}

bool DeviceCopies::uses_device_parts(const Computation& computation) const {
  if (parts_in_use_ == 0) return false;
  if (part_of(computation.destination.data) != nullptr ||
      part_of(computation.second_destination.data) != nullptr)
    return true;
  return std::any_of(computation.operands.begin(), computation.operands.begin() + computation.operand_count,
                     [this](const void* operand) { return part_of(operand) != nullptr; });
}

bool DeviceCopies::begin(Computation& computation) {
  PendingComputation& work =
      pending_.emplace_back(PendingComputation{.requested = &computation, .on_host = computation});
  try {
    prepare(work);
    if (!advance(work)) return false;
  } catch (...) {
    pending_.pop_back();
    throw;
  }
  pending_.pop_back();
  return true;
}

void DeviceCopies::prepare(PendingComputation& work) {
  const Computation& requested = *work.requested;
  const std::size_t bytes = requested.destination.bytes();
  const DevicePart* const to = part_of(requested.destination.data);
  const bool is_copy = requested.operand_count == 1 && requested.second_destination.data == nullptr;
  const DevicePart* const source = is_copy ? part_of(requested.operands[0]) : nullptr;
  if (source != nullptr && to != nullptr && source->memory.can_copy_to(to->memory)) {
    note_write(requested.destination.data, bytes);
    writes_.push_back(to->memory.begin_move(requested.destination.data, requested.operands[0], bytes));
    work.is_carried_out = true;
    return;
  }
  std::byte* const place = is_copy && to == nullptr ? requested.destination.data : nullptr;
  for (std::size_t k = 0; k < requested.operand_count; ++k) {
    const DevicePart* const part = part_of(requested.operands[k]);
    if (part == nullptr) continue;
    work.on_host.operands[k] =
        fetch_operand(work, *part, static_cast<const std::byte*>(requested.operands[k]), place);
  }
  if (part_of(requested.second_destination.data) != nullptr) work.on_host.second_destination = {};
  if (to == nullptr) return;
  // The result of a copy from host memory is there already.
  work.on_host.destination.data = is_copy && source == nullptr
                                      ? static_cast<std::byte*>(const_cast<void*>(requested.operands[0]))
                                      : new_block(to->memory, bytes);
}

const std::byte* DeviceCopies::fetch_operand(PendingComputation& work, const DevicePart& part,
                                             const std::byte* operand, std::byte* place) {
  const std::size_t bytes = work.requested->destination.bytes();
  if (const HostImage* const image = find_image(operand, bytes)) {
    work.reads[work.read_count++] = image->copy;
    return image->host + (operand - image->device);
  }
  if (place == nullptr) place = new_block(part.memory, bytes);
  work.reads[work.read_count++] = read(part, place, operand, bytes);
  return place;
}

bool DeviceCopies::advance(PendingComputation& work) {
  for (; work.read_count > 0; --work.read_count) {
    if (!reads_[work.reads[work.read_count - 1]].is_over()) return false;
  }
  if (!work.is_carried_out) carry_out(work);
  return !work.awaits_write || writes_[work.write].is_over();
}

void DeviceCopies::carry_out(PendingComputation& work) {
  work.is_carried_out = true;
  const Computation& requested = *work.requested;
  const Computation& on_host = work.on_host;
  const std::size_t bytes = requested.destination.bytes();
  const bool is_there = on_host.operand_count == 1 && on_host.operands[0] == on_host.destination.data;
  if (!is_there || on_host.second_destination.data != nullptr) on_host.perform();
  if (const DevicePart* const to = part_of(requested.destination.data)) {
    work.write = write(*to, requested.destination.data, on_host.destination.data, bytes);
    work.awaits_write = requested.source_changes;
  }
  if (const DevicePart* const second = part_of(requested.second_destination.data))
    write(*second, requested.second_destination.data, on_host.destination.data, bytes);
}

bool DeviceCopies::advance() {
  bool got_further = false;
  for (auto each = pending_.begin(); each != pending_.end();) {
    if (!advance(*each)) {
      ++each;
      continue;
    }
    const std::coroutine_handle<> waiter = each->requested->waiter;
    pending_.erase(each);
    got_further = true;
    if (!waiter) break;
    waiter.resume();
    each = pending_.begin();  // the waiter may have begun others
  }
  if (waiter_for_round_end_ && try_to_end_round()) {
    std::exchange(waiter_for_round_end_, nullptr).resume();
    got_further = true;
  }
  return got_further;
}

bool DeviceCopies::try_to_end_round() {
  if (!pending_.empty() || !are_over(writes_)) return false;
  writes_.clear();
  blocks_.clear();
  written_range_ = {};
  std::erase_if(images_, [](HostImage& each) { return !std::exchange(each.is_for_next_round, false); });
  return true;
}

bool DeviceCopies::are_copies_complete() {
  if (!are_over(reads_) || !try_to_end_round()) return false;
  reads_.clear();
  images_.clear();
  return true;
}

void DeviceCopies::wait_for_copies() {
  while (!are_copies_complete()) sched_yield();
}

void DeviceCopies::abandon() noexcept {
  pending_.clear();
  waiter_for_round_end_ = nullptr;
  for (DeviceCopy& each : reads_) each.wait();
  for (DeviceCopy& each : writes_) each.wait();
  reads_.clear();
  writes_.clear();
  images_.clear();
  blocks_.clear();
  written_range_ = {};
}

}  // namespace offbeat
