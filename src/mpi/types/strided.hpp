// SPDX-License-Identifier: BSD-3-Clause
// Strided describes data in blocks of one length at regular distances: a column of a matrix, the halo of a
// grid.
//
// Vectors and subarrays of a type without gaps have this form, however they are nested. offbeat packs such
// data itself: any part of them, which MPI cannot do, and in any thread.
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

  // Describes `count` elements of a type. Returns null if their data do not have this form, or if that cannot
  // be found out.
  [[nodiscard]] static std::unique_ptr<Strided> of(const Host& host, MPI_Datatype type, std::int64_t count,
                                                   std::ptrdiff_t extent) noexcept;

  // Copies bytes [first, first + bytes) of the packed data from, or to, the elements at `data`.
  void pack(const std::byte* data, std::size_t first, std::size_t bytes, std::byte* to) const;
  void unpack(const std::byte* from, std::byte* data, std::size_t first, std::size_t bytes) const;

 private:
  friend class StridedMaker;
  // A level has items of one kind, `stride` bytes apart. The items of the innermost level are blocks.
  struct Level {
    std::int64_t count = 1;
    std::ptrdiff_t stride = 0;
    std::size_t bytes = 0;  // how much data an item has
  };
  static constexpr int most_levels = 8;

  // Visits bytes [first, first + bytes) of a level. Calls use(place, length, count, stride) for parts of a
  // block and for runs of whole blocks.
  template <class Byte, class Use>
  void walk(int level, Byte* data, std::size_t first, std::size_t bytes, Use&& use) const;

  std::ptrdiff_t begin_ = 0;  // where the first block begins, in bytes
  std::array<Level, most_levels> levels_{};
  int depth_ = 0;
};

}  // namespace offbeat
