// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/types/dense_types.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "base/pool.hpp"

namespace offbeat {
namespace {

// offbeat packs types that are nested more deeply.
constexpr int most_levels = 32;

// Whether the program made the types of this combiner. MPI defines the others, such as those of
// MPI_Type_create_f90_real; nobody may look into them or free them.
bool is_made_by_program(int combiner) {
  switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_CONTIGUOUS:
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
    case MPI_COMBINER_STRUCT:
    case MPI_COMBINER_SUBARRAY:
    case MPI_COMBINER_DARRAY:
    case MPI_COMBINER_RESIZED:
      return true;
    default:
      return false;
  }
}

// How many arguments of each kind made a type.
struct Envelope {
  Envelope(const Host& host, MPI_Datatype type) {
    if (host.Type_get_envelope_c) {
      is_known =
          host.Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &combiner) == MPI_SUCCESS;
      return;
    }
    int few_integers = 0;
    int few_addresses = 0;
    int few_types = 0;
    is_known =
        host.Type_get_envelope(type, &few_integers, &few_addresses, &few_types, &combiner) == MPI_SUCCESS;
    integers = few_integers;
    addresses = few_addresses;
    types = few_types;
  }

  MPI_Count integers = 0;
  MPI_Count addresses = 0;
  MPI_Count counts = 0;  // arguments of type MPI_Count, of constructors such as MPI_Type_vector_c
  MPI_Count types = 0;
  int combiner = MPI_UNDEFINED;
  bool is_known = false;
};

// The arguments that made a type. The destructor frees the types among them, which the host has given to us.
class Arguments {
 public:
  Arguments(const Host& host, MPI_Datatype type, const Envelope& envelope)
      : host_(host), has_counts_(envelope.counts > 0) {
    // The host wants an address even for an empty array.
    const auto room = [](MPI_Count items) { return static_cast<std::size_t>(items) + 1; };
    pool::List<int> integers(room(envelope.integers));
    pool::List<MPI_Count> counts(room(envelope.counts));
    pool::List<MPI_Aint> addresses(room(envelope.addresses));
    types_.resize(room(envelope.types));
    numbers_.reserve(integers.size() + counts.size() + addresses.size());
    const int code =
        host.Type_get_contents_c
            ? host.Type_get_contents_c(type, envelope.integers, envelope.addresses, envelope.counts,
                                       envelope.types, integers.data(), addresses.data(), counts.data(),
                                       types_.data())
            : host.Type_get_contents(type, static_cast<int>(envelope.integers),
                                     static_cast<int>(envelope.addresses), static_cast<int>(envelope.types),
                                     integers.data(), addresses.data(), types_.data());
    types_.resize(code == MPI_SUCCESS ? static_cast<std::size_t>(envelope.types) : 0);
    numbers_.insert(numbers_.end(), integers.begin(), integers.end() - 1);
    numbers_.insert(numbers_.end(), counts.begin(), counts.end() - 1);
    numbers_.insert(numbers_.end(), addresses.begin(), addresses.end() - 1);
  }
  ~Arguments() {
    for (MPI_Datatype& type : types_) {
      if (is_made_by_program(Envelope(host_, type).combiner)) host_.Type_free(&type);
    }
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Whether there are as many numbers and types as the constructor has.
  [[nodiscard]] bool are(std::int64_t numbers, std::int64_t types) const {
    return std::ssize(numbers_) == numbers && std::ssize(types_) == types;
  }
  // Returns number `i` in the order of the constructor's arguments. A subarray with counts of MPI_Count has
  // another order.
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const {
    return numbers_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::int64_t first_number() const { return numbers_.empty() ? 0 : numbers_.front(); }
  [[nodiscard]] bool has_counts() const { return has_counts_; }
  [[nodiscard]] MPI_Datatype type(std::int64_t i) const { return types_[static_cast<std::size_t>(i)]; }

 private:
  const Host& host_;
  const bool has_counts_;
  pool::List<std::int64_t> numbers_;
  pool::List<MPI_Datatype> types_;
};

// A stretch of data without gaps, in the order in which they are sent.
class Run {
 public:
  void append(std::int64_t begin, std::int64_t bytes) {
    if (bytes == 0) return;
    if (begin_ == end_) begin_ = end_ = begin;
    if (begin != end_) is_broken_ = true;
    end_ += bytes;
  }
  void break_off() { is_broken_ = true; }
  [[nodiscard]] bool is_broken() const { return is_broken_; }
  [[nodiscard]] std::int64_t begin() const { return begin_; }
  [[nodiscard]] std::int64_t bytes() const { return end_ - begin_; }

 private:
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  bool is_broken_ = false;
};

// One element of a type.
struct Element {
  Element(const Host& host, MPI_Datatype type, int levels);

  // Appends `count` of these elements to a run, the first one at `place`.
  void append_to(Run& whole, std::int64_t place, std::int64_t count) const {
    if (count == 0 || data.bytes() == 0) return;
    if (data.is_broken() || (count > 1 && extent != data.bytes())) return whole.break_off();
    whole.append(place + data.begin(), count * data.bytes());
  }

  Run data;
  MPI_Aint extent = 0;
};

// Appends blocks of one type, or of a type each. Places are in bytes, or in extents of the type.
void append_blocks(Run& whole, const Host& host, const Arguments& arguments, int combiner, int levels) {
  const std::int64_t blocks = arguments.first_number();
  const bool have_length = combiner == MPI_COMBINER_INDEXED_BLOCK || combiner == MPI_COMBINER_HINDEXED_BLOCK;
  const bool have_type = combiner == MPI_COMBINER_STRUCT;
  const bool in_extents = combiner == MPI_COMBINER_INDEXED || combiner == MPI_COMBINER_INDEXED_BLOCK;
  const std::int64_t places = 1 + (have_length ? 1 : blocks);
  if (!arguments.are(places + blocks, have_type ? blocks : 1)) return whole.break_off();
  const auto append = [&](const Element& element, std::int64_t block) {
    const std::int64_t place = arguments[places + block] * (in_extents ? element.extent : 1);
    element.append_to(whole, place, arguments[have_length ? 1 : 1 + block]);
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
void append_subarray(Run& whole, const Element& element, const Arguments& arguments) {
  const std::int64_t dimensions = arguments.first_number();
  if (!arguments.are(3 * dimensions + 2, 1)) return whole.break_off();
  const std::int64_t sizes = arguments.has_counts() ? 2 : 1;
  std::int64_t elements = 1;
  for (std::int64_t k = sizes; k < sizes + dimensions; ++k) {
    if (arguments[k] != arguments[k + dimensions]) return whole.break_off();
    elements *= arguments[k];
  }
  element.append_to(whole, 0, elements);
}

Run data_of(const Host& host, MPI_Datatype type, int levels) {
  Run whole;
  const Envelope envelope(host, type);
  if (!envelope.is_known || levels == 0) {
    whole.break_off();
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
      whole.break_off();
    }
    return whole;
  }
  const Arguments arguments(host, type, envelope);
  const auto element = [&] { return Element(host, arguments.type(0), levels - 1); };
  switch (envelope.combiner) {
    case MPI_COMBINER_DUP:
      if (arguments.are(0, 1)) return element().data;
      break;
    case MPI_COMBINER_RESIZED:
      if (arguments.are(2, 1)) return element().data;
      break;
    case MPI_COMBINER_CONTIGUOUS:
      if (!arguments.are(1, 1)) break;
      element().append_to(whole, 0, arguments[0]);
      return whole;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR: {
      if (!arguments.are(3, 1)) break;
      const Element one = element();
      const std::int64_t stride = arguments[2] * (envelope.combiner == MPI_COMBINER_VECTOR ? one.extent : 1);
      if (arguments[0] > 1 && stride != arguments[1] * one.extent) break;
      one.append_to(whole, 0, arguments[0] * arguments[1]);
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
  whole.break_off();
  return whole;
}

Element::Element(const Host& host, MPI_Datatype type, int levels) : data(data_of(host, type, levels)) {
  MPI_Aint lower = 0;
  if (host.Type_get_extent(type, &lower, &extent) != MPI_SUCCESS) data.break_off();
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
  if_possible([&] {
    const Run data = data_of(host, type, most_levels);
    is_one_run = !data.is_broken() && data.begin() == 0 && data.bytes() == bytes;
  });
  return is_one_run;
}

}  // namespace offbeat
