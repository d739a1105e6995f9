// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/types/strided.hpp"

#include <algorithm>
#include <type_traits>

#include "base/copy.hpp"
#include "base/error.hpp"
#include "mpi/types/dense_types.hpp"
#include "mpi/types/type_contents.hpp"

namespace offbeat {

// StridedMaker takes a type apart from the outermost constructor inwards, and builds its description from the
// innermost type outwards.
class StridedMaker {
 public:
  explicit StridedMaker(const Host& host) : host_(host) {}

  [[nodiscard]] bool add(MPI_Datatype type, int levels) {
    MPI_Count bytes = 0;
    if (levels == 0 || host_.Type_size_x(type, &bytes) != MPI_SUCCESS || bytes <= 0) return false;
    if (is_dense(host_, type)) {
      made.levels_[0] = {1, static_cast<std::ptrdiff_t>(bytes), static_cast<std::size_t>(bytes)};
      made.depth_ = 1;
      return true;
    }
    const TypeEnvelope envelope(host_, type);
    if (!envelope.is_known || !is_made_by_program(envelope.combiner)) return false;
    const TypeArguments arguments(host_, type, envelope);
    const bool has_one_part = arguments.types() == 1 && add(arguments.type(0), levels - 1);
    if (!has_one_part) return false;
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    if (host_.Type_get_extent(arguments.type(0), &lower, &extent) != MPI_SUCCESS) return false;
    switch (envelope.combiner) {
      case MPI_COMBINER_DUP:
      case MPI_COMBINER_RESIZED:
        return true;
      case MPI_COMBINER_CONTIGUOUS:
        return arguments.have_counts(1, 1) && repeat(arguments[0], extent);
      case MPI_COMBINER_VECTOR:
        return arguments.have_counts(3, 1) && repeat(arguments[1], extent) &&
               repeat(arguments[0], arguments[2] * extent);
      case MPI_COMBINER_HVECTOR:
        return arguments.have_counts(3, 1) && repeat(arguments[1], extent) &&
               repeat(arguments[0], arguments[2]);
      case MPI_COMBINER_SUBARRAY:
        return !arguments.has_counts() && add_subarray(arguments, extent);
      default:
        return false;
    }
  }

  // Repeats the description so far `count` times.
  [[nodiscard]] bool repeat(std::int64_t count, std::ptrdiff_t stride) {
    if (count <= 0) return false;
    if (count == 1) return true;
    Strided::Level& last = made.levels_[static_cast<std::size_t>(made.depth_ - 1)];
    const std::size_t bytes = static_cast<std::size_t>(last.count) * last.bytes;
    if (made.depth_ == 1 && last.count == 1 && stride == static_cast<std::ptrdiff_t>(last.bytes)) {
      last.bytes *= static_cast<std::size_t>(count);  // longer blocks
      last.stride = static_cast<std::ptrdiff_t>(last.bytes);
    } else if (last.count == 1 || stride == last.count * last.stride) {
      if (last.count == 1) last.stride = stride;
      last.count *= count;
    } else if (made.depth_ < Strided::most_levels) {
      made.levels_[static_cast<std::size_t>(made.depth_++)] = {count, stride, bytes};
    } else {
      return false;
    }
    return true;
  }

  Strided made;

 private:
  // The arguments of a subarray are the number of dimensions, the sizes of the array, the sizes of the
  // subarray, where it begins, and the order.
  [[nodiscard]] bool add_subarray(const TypeArguments& arguments, std::ptrdiff_t extent) {
    const std::int64_t dimensions = arguments.first_number();
    if (!arguments.have_counts(3 * dimensions + 2, 1)) return false;
    const bool first_is_innermost = arguments[3 * dimensions + 1] == MPI_ORDER_FORTRAN;
    std::ptrdiff_t stride = extent;
    for (std::int64_t k = 0; k < dimensions; ++k) {
      const std::int64_t dimension = 1 + (first_is_innermost ? k : dimensions - 1 - k);
      if (!repeat(arguments[dimension + dimensions], stride)) return false;
      made.begin_ += arguments[dimension + 2 * dimensions] * stride;
      stride *= arguments[dimension];
    }
    return true;
  }

  const Host& host_;
};

std::unique_ptr<Strided> Strided::of(const Host& host, MPI_Datatype type, std::int64_t count,
                                     std::ptrdiff_t extent) noexcept {
  std::unique_ptr<Strided> found;
  run_ignoring_exceptions([&] {
    StridedMaker maker(host);
    if (maker.add(type, most_levels) && maker.repeat(count, extent))
      found = std::make_unique<Strided>(maker.made);
  });
  return found;
}

template <class Byte, class Use>
void Strided::walk(int level, Byte* data, std::size_t first, std::size_t bytes, Use&& use) const {
  const Level& items = levels_[static_cast<std::size_t>(level)];
  while (bytes > 0) {
    const std::size_t item = first / items.bytes;
    const std::size_t begin = first % items.bytes;
    Byte* const place = data + static_cast<std::ptrdiff_t>(item) * items.stride;
    std::size_t length = std::min(items.bytes - begin, bytes);
    if (level > 0) {
      walk(level - 1, place, begin, length, use);
    } else if (length < items.bytes) {
      use(place + begin, length, std::size_t{1}, items.stride);
    } else {
      const std::size_t count = bytes / items.bytes;
      use(place, items.bytes, count, items.stride);
      length = count * items.bytes;
    }
    first += length;
    bytes -= length;
  }
}

namespace {

template <std::size_t length>
using Known = std::integral_constant<std::size_t, length>;

void copy_blocks(std::byte* to, std::ptrdiff_t to_stride, const std::byte* from, std::ptrdiff_t from_stride,
                 std::size_t length, std::size_t count) {
  const auto each = [&](auto known) {
    for (std::size_t k = 0; k < count; ++k) {
      offbeat::copy(to, from, known);
      to += to_stride;
      from += from_stride;
    }
  };
  // If the compiler knows the length, a block is a load and a store.
  switch (length) {
    case 4:
      return each(Known<4>());
    case 8:
      return each(Known<8>());
    case 16:
      return each(Known<16>());
    case 24:
      return each(Known<24>());
    case 32:
      return each(Known<32>());
    case 64:
      return each(Known<64>());
    default:
      return each(length);
  }
}

}  // namespace

void Strided::pack(const std::byte* data, std::size_t first, std::size_t bytes, std::byte* to) const {
  walk(depth_ - 1, data + begin_, first, bytes,
       [&](const std::byte* blocks, std::size_t length, std::size_t count, std::ptrdiff_t stride) {
         copy_blocks(to, static_cast<std::ptrdiff_t>(length), blocks, stride, length, count);
         to += length * count;
       });
}

void Strided::unpack(const std::byte* from, std::byte* data, std::size_t first, std::size_t bytes) const {
  walk(depth_ - 1, data + begin_, first, bytes,
       [&](std::byte* blocks, std::size_t length, std::size_t count, std::ptrdiff_t stride) {
         copy_blocks(blocks, stride, from, static_cast<std::ptrdiff_t>(length), length, count);
         from += length * count;
       });
}

}  // namespace offbeat
