// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/types/dense_types.hpp"

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "mpi/types/type_contents.hpp"

namespace offbeat {
namespace {

// The deepest nesting that is examined. Types that are nested more deeply are packed.
constexpr int most_levels = 32;

// A Run is data without gaps, in the order in which they are sent.
class GaplessRun {
 public:
  void append(std::int64_t begin, std::int64_t bytes) {
    if (bytes == 0) return;
    if (begin_ == end_) begin_ = end_ = begin;
    if (begin != end_) is_broken_ = true;
    end_ += bytes;
  }
  void mark_broken() { is_broken_ = true; }
  [[nodiscard]] bool is_broken() const { return is_broken_; }
  [[nodiscard]] std::int64_t begin() const { return begin_; }
  [[nodiscard]] std::int64_t bytes() const { return end_ - begin_; }

 private:
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  bool is_broken_ = false;
};

// Element describes one element of a type.
struct Element {
  Element(const Host& host, MPI_Datatype type, int levels);

  // Appends `count` of these elements to a run, the first one at `place`.
  void append_elements(GaplessRun& whole, std::int64_t place, std::int64_t count) const {
    if (count == 0 || data.bytes() == 0) return;
    if (data.is_broken() || (count > 1 && extent != data.bytes())) return whole.mark_broken();
    whole.append(place + data.begin(), count * data.bytes());
  }

  GaplessRun data;
  MPI_Aint extent = 0;
};

// Appends blocks of one type, or of one type each. Places are in bytes, or in extents of the type.
void append_blocks(GaplessRun& whole, const Host& host, const TypeArguments& arguments, int combiner,
                   int levels) {
  const std::int64_t blocks = arguments.first_number();
  const bool have_length = combiner == MPI_COMBINER_INDEXED_BLOCK || combiner == MPI_COMBINER_HINDEXED_BLOCK;
  const bool have_type = combiner == MPI_COMBINER_STRUCT;
  const bool in_extents = combiner == MPI_COMBINER_INDEXED || combiner == MPI_COMBINER_INDEXED_BLOCK;
  const std::int64_t places = 1 + (have_length ? 1 : blocks);
  if (!arguments.have_counts(places + blocks, have_type ? blocks : 1)) return whole.mark_broken();
  const auto append = [&](const Element& element, std::int64_t block) {
    const std::int64_t place = arguments[places + block] * (in_extents ? element.extent : 1);
    element.append_elements(whole, place, arguments[have_length ? 1 : 1 + block]);
  };
  if (have_type) {
    for (std::int64_t block = 0; block < blocks && !whole.is_broken(); ++block)
      append(Element(host, arguments.type(block), levels), block);
  } else {
    const Element element(host, arguments.type(0), levels);
    for (std::int64_t block = 0; block < blocks && !whole.is_broken(); ++block) append(element, block);
  }
}

// A subarray is dense if it is all of the array.
void append_subarray(GaplessRun& whole, const Element& element, const TypeArguments& arguments) {
  const std::int64_t dimensions = arguments.first_number();
  if (!arguments.have_counts(3 * dimensions + 2, 1)) return whole.mark_broken();
  const std::int64_t sizes = arguments.has_counts() ? 2 : 1;
  std::int64_t elements = 1;
  for (std::int64_t k = sizes; k < sizes + dimensions; ++k) {
    if (arguments[k] != arguments[k + dimensions]) return whole.mark_broken();
    elements *= arguments[k];
  }
  element.append_elements(whole, 0, elements);
}

GaplessRun run_of_type(const Host& host, MPI_Datatype type, int levels) {
  GaplessRun whole;
  const TypeEnvelope envelope(host, type);
  if (!envelope.is_known || levels == 0) {
    whole.mark_broken();
    return whole;
  }
  if (!is_made_by_program(envelope.combiner)) {
    MPI_Count bytes = 0;
    MPI_Aint begin = 0;
    MPI_Aint extent = 0;
    const bool is_found = host.Type_size_x(type, &bytes) == MPI_SUCCESS &&
                          host.Type_get_true_extent(type, &begin, &extent) == MPI_SUCCESS;
    if (is_found && extent == bytes) {
      whole.append(begin, bytes);
    } else {
      whole.mark_broken();
    }
    return whole;
  }
  const TypeArguments arguments(host, type, envelope);
  const auto element = [&] { return Element(host, arguments.type(0), levels - 1); };
  switch (envelope.combiner) {
    case MPI_COMBINER_DUP:
      if (arguments.have_counts(0, 1)) return element().data;
      break;
    case MPI_COMBINER_RESIZED:
      if (arguments.have_counts(2, 1)) return element().data;
      break;
    case MPI_COMBINER_CONTIGUOUS:
      if (!arguments.have_counts(1, 1)) break;
      element().append_elements(whole, 0, arguments[0]);
      return whole;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR: {
      if (!arguments.have_counts(3, 1)) break;
      const Element one = element();
      const std::int64_t stride = arguments[2] * (envelope.combiner == MPI_COMBINER_VECTOR ? one.extent : 1);
      if (arguments[0] > 1 && stride != arguments[1] * one.extent) break;
      one.append_elements(whole, 0, arguments[0] * arguments[1]);
      return whole;
    }
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
    case MPI_COMBINER_STRUCT:
      append_blocks(whole, host, arguments, envelope.combiner, levels - 1);
      return whole;
    case MPI_COMBINER_SUBARRAY:
      append_subarray(whole, element(), arguments);
      return whole;
    default:
      break;
  }
  whole.mark_broken();
  return whole;
}

Element::Element(const Host& host, MPI_Datatype type, int levels) : data(run_of_type(host, type, levels)) {
  MPI_Aint lower = 0;
  if (host.Type_get_extent(type, &lower, &extent) != MPI_SUCCESS) data.mark_broken();
}

}  // namespace

bool is_dense(const Host& host, MPI_Datatype type) noexcept {
  MPI_Count bytes = 0;
  MPI_Aint begin = 0;
  MPI_Aint extent = 0;
  MPI_Aint true_begin = 0;
  MPI_Aint true_extent = 0;
  if (host.Type_size_x(type, &bytes) != MPI_SUCCESS ||
      host.Type_get_extent(type, &begin, &extent) != MPI_SUCCESS ||
      host.Type_get_true_extent(type, &true_begin, &true_extent) != MPI_SUCCESS)
    return false;
  // This cheap test finds most types with gaps.
  if (extent != bytes || true_begin != 0 || true_extent != bytes) return false;
  bool is_one_run = false;
  run_ignoring_exceptions([&] {
    const GaplessRun data = run_of_type(host, type, most_levels);
    is_one_run = !data.is_broken() && data.begin() == 0 && data.bytes() == bytes;
  });
  return is_one_run;
}

}  // namespace offbeat
