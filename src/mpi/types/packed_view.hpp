// SPDX-License-Identifier: BSD-3-Clause
// Elements with gaps as the bytes that they are when packed, of which any part can be read and written.
#pragma once

#include <cstddef>

#include "mpi/types/types.hpp"

namespace offbeat {

// Some elements of a type, one after the other.
class PackedView {
 public:
  PackedView(const Types& types, MPI_Datatype type, const Layout& layout, std::byte* data)
      : types_(types), type_(type), layout_(layout), data_(data) {}

  // Bytes [first, first + bytes) of the packed elements. Throw CommunicationError. Of an element that is not
  // all in there, the host packs and unpacks the whole.
  void read(std::byte* to, std::size_t first, std::size_t bytes) const;
  void write(std::size_t first, const std::byte* from, std::size_t bytes) const;

 private:
  template <class Whole, class Part>
  void for_each_element(std::size_t first, std::size_t bytes, Whole&& whole, Part&& part) const;

  const Types& types_;
  const MPI_Datatype type_;
  const Layout layout_;
  std::byte* const data_;
};

}  // namespace offbeat
