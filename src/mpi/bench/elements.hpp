// SPDX-License-Identifier: BSD-3-Clause
// The element types and operations that the benchmark can measure, as functions on the bytes of an element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mpi/bench/mpi_header.hpp"

namespace offbeat::bench {

enum class Operation : std::uint8_t { sum, prod, max, min, band, bor, bxor };

struct NamedOperation {
  std::string_view name;  // as in `offbeat bench -o`
  Operation operation;
  MPI_Op (*handle)();
};

struct ElementType {
  std::string_view name;  // as in `offbeat bench -d`
  std::size_t width;      // in bytes
  // No correct result consists of this byte, except by chance if an element has only one or two bytes.
  std::byte poison;
  MPI_Datatype (*handle)();
  void (*from_int)(std::byte* element, int value);
  // Computes `element` = `element` op `other`. Integers wrap around.
  void (*combine)(Operation operation, std::byte* element, const std::byte* other);
  double (*to_double)(const std::byte* element);
};

// Return the type or the operation of that name. Throw std::runtime_error if there is none.
[[nodiscard]] const ElementType& element_type(std::string_view name);
[[nodiscard]] const NamedOperation& operation_named(std::string_view name);

}  // namespace offbeat::bench
