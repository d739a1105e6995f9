// SPDX-License-Identifier: BSD-3-Clause
// Data in blocks of one length at regular distances: a column of a matrix, the halo of a grid.
//
// This is what vectors and subarrays make of a type without gaps, however they are nested. offbeat packs it
// itself: any part of it, which MPI cannot do, and in any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/pool.hpp"
#include "mpi/host/host.hpp"

namespace offbeat {

class Strided {
 public:
  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { pool::release(memory, bytes); }

  // Describes `count` elements of a type. Returns null if their data are not of this kind, or if that cannot
  // be found out.
  [[nodiscard]] static std::unique_ptr<Strided> of(const Host& host, MPI_Datatype type, std::int64_t count,
                                                   std::ptrdiff_t extent) noexcept;

  // Copies bytes [first, first + bytes) of the packed data from, or to, the elements at `data`.
  void pack(const std::byte* data, std::size_t first, std::size_t bytes, std::byte* to) const;
  void unpack(const std::byte* from, std::byte* data, std::size_t first, std::size_t bytes) const;

 private:
  friend class StridedMaker;
  // Items of one kind, `stride` apart. Those of the innermost level are blocks.
  struct Level {
    std::int64_t count = 1;
    std::ptrdiff_t stride = 0;
    std::size_t bytes = 0;  // of data in an item
  };
  static constexpr int most_levels = 8;

  // Of bytes [first, first + bytes) of a level, calls use(place, length, count, stride) for parts of a block
  // and for runs of whole blocks.
  template <class Byte, class Use>
  void walk(int level, Byte* data, std::size_t first, std::size_t bytes, Use&& use) const;

  std::ptrdiff_t begin_ = 0;  // of the first block
  std::array<Level, most_levels> levels_{};
  int depth_ = 0;
};

}  // namespace offbeat
