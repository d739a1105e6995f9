// SPDX-License-Identifier: BSD-3-Clause
// These classes say how the program made a datatype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/pool.hpp"
#include "mpi/host/host.hpp"

namespace offbeat {

// Returns true if the program made the types of this combiner. MPI defines the others, such as those of
// MPI_Type_create_f90_real; nobody may look into them or free them.
[[nodiscard]] inline bool is_made_by_program(int combiner) {
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

// TypeEnvelope says how many arguments of each kind made a type.
struct TypeEnvelope {
  TypeEnvelope(const Host& host, MPI_Datatype type) {
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

// TypeArguments holds the arguments that made a type. The destructor frees the types among them, because the
// host gave them to offbeat.
class TypeArguments {
 public:
  TypeArguments(const Host& host, MPI_Datatype type, const TypeEnvelope& envelope)
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
  ~TypeArguments() {
    for (MPI_Datatype& type : types_) {
      if (is_made_by_program(TypeEnvelope(host_, type).combiner)) host_.Type_free(&type);
    }
  }
  TypeArguments(const TypeArguments&) = delete;
  TypeArguments& operator=(const TypeArguments&) = delete;

  // Returns true if there are as many numbers and types as the constructor has.
  [[nodiscard]] bool have_counts(std::int64_t numbers, std::int64_t types) const {
    return std::ssize(numbers_) == numbers && std::ssize(types_) == types;
  }
  [[nodiscard]] std::int64_t types() const { return std::ssize(types_); }
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

}  // namespace offbeat
