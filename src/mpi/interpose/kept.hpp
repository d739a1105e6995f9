// SPDX-License-Identifier: BSD-3-Clause
// Objects that a call keeps until its collective is over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/pool.hpp"
#include "collectives/staged_call.hpp"
#include "mpi/interpose/side.hpp"
#include "transport/stand_in.hpp"

namespace offbeat {

// A list of the blocks of a reduce-scatter, which follow one another. `length` says how many elements of the
// program make one element.
class CountList {
 public:
  CountList(Integers counts, int blocks, std::int64_t length)
      : memory_(static_cast<std::size_t>(blocks) * (sizeof(std::size_t) + sizeof(std::ptrdiff_t))) {
    auto* list = reinterpret_cast<std::size_t*>(memory_.data());
    auto* begins = reinterpret_cast<std::ptrdiff_t*>(list + blocks);
    std::ptrdiff_t begin = 0;
    for (int block = 0; block < blocks; ++block) {
      list[block] = static_cast<std::size_t>(counts[block] / length);
      begins[block] = begin;
      begin += counts[block] / length;
    }
    blocks_ = {list, begins};
  }
  [[nodiscard]] const BlockList& blocks() const { return blocks_; }

 private:
  pool::Block memory_;
  BlockList blocks_;
};

// Sides is what a call keeps if its collective only copies.
struct Sides final : StandInCopies {
  // If `packs_output`, the program's data are in the output before the collective. If `unpacks_output`, the
  // program gets the output after it.
  bool packs_output = false;
  bool unpacks_output = false;
  // The constructor is not defaulted, because a constexpr one clears the whole object in each call.
  Sides() noexcept {}
  Side input;
  Side output;

  void pack(const Types& types) {
    input.pack(types);
    if (packs_output) output.pack(types);
  }
  void unpack(const Types& types) {
    if (unpacks_output) output.unpack(types);
  }
  // Packs for an operation, which waits for copies from and to a device.
  void begin_pack(const Types& types) {
    if (!copies) [[likely]]
      return pack(types);
    if (!input.begin_fetch(*copies)) input.pack(types);
    if (packs_output && !output.begin_fetch(*copies)) output.pack(types);
  }
  void begin_delivery() const override {
    if (unpacks_output && copies) output.begin_delivery(*copies);
  }
  void end_unpack(const Types& types) {
    if (unpacks_output && !(copies && output.copies_own_output())) output.unpack(types);
  }

  // Gives addresses to the vectors that need packing. An algorithm runs that only names them in computations,
  // if `may_stay`; then vectors on a device may stay there. If also `may_stand_in`, vectors with gaps may
  // have stand-ins. `by_host` is true if the host may pack during the collective. A driver cannot copy from
  // or to a stand-in, so a call has vectors of one kind only.
  void give_addresses(const Types& types, bool may_stay, bool may_stand_in, bool by_host) {
    Side* const sides[] = {&input, &output};
    if (may_stay && (input.may_stay_on_device() || output.may_stay_on_device())) may_stand_in = false;
    for (int k = 0; k < 2; ++k) {
      Side& side = *sides[k];
      if (!side.needs_packing()) continue;
      if (side.is_on_device() && !copies) copies.emplace();
      if (may_stay && side.may_stay_on_device()) {
        side.stay_on_device(*copies);
      } else if (may_stand_in && side.may_stand_in(types, by_host)) {
        side.stand_in(k);
        types_of_stand_ins = &types;
      } else {
        side.allocate();
      }
    }
  }
  [[nodiscard]] const StandInCopies* stand_ins() const {
    return types_of_stand_ins != nullptr || copies ? this : nullptr;
  }
  [[nodiscard]] DeviceCopies* device_copies() const override { return copies ? &*copies : nullptr; }
  [[nodiscard]] bool copy(std::byte* to, const std::byte* from, std::size_t bytes) const override {
    if (types_of_stand_ins == nullptr) return false;
    const Types& types = *types_of_stand_ins;
    const Side* const source = side_at(from);
    const Side* const destination = side_at(to);
    if (source == nullptr && destination == nullptr) return false;
    if (destination == nullptr) {
      source->read(types, to, offset(*source, from), bytes);
    } else if (source == nullptr) {
      destination->write(types, offset(*destination, to), from, bytes);
    } else {
      constexpr std::size_t at_once = std::size_t{16} << 10;
      const pool::Block packed(at_once);
      for (std::size_t done = 0; done < bytes; done += at_once) {
        const std::size_t length = std::min(at_once, bytes - done);
        source->read(types, packed.data(), offset(*source, from) + done, length);
        destination->write(types, offset(*destination, to) + done, packed.data(), length);
      }
    }
    return true;
  }

 private:
  [[nodiscard]] const Side* side_at(const std::byte* address) const {
    if (stand_in::belongs_to(0, address)) return &input;
    return stand_in::belongs_to(1, address) ? &output : nullptr;
  }
  [[nodiscard]] static std::size_t offset(const Side& side, const std::byte* address) {
    return static_cast<std::size_t>(address - side.vector().data);
  }

  const Types* types_of_stand_ins = nullptr;   // null if there are no stand-ins
  mutable std::optional<DeviceCopies> copies;  // comes last: it waits for copies of the sides' memory
};

// Lists is what a call keeps if its collective combines.
struct Lists {
  Lists() noexcept {}  // not defaulted, for the reason that Sides has
  std::optional<CountList> blocks;

  void pack(const Types&) {}
  void unpack(const Types&) {}
  [[nodiscard]] static const StandInCopies* stand_ins() { return nullptr; }
};

// Staged is what a call keeps if its collective combines vectors in device memory. They have no gaps.
struct Staged {
  StagedCall call;

  void pack(const Types&) const { call.fetch_input(); }
  void unpack(const Types&) const { call.deliver_output(); }
  [[nodiscard]] const StandInCopies* stand_ins() const { return call.stand_ins(); }
};

}  // namespace offbeat
