// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/elements.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace offbeat::bench {
namespace {

template <class T>
T load(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

template <class T>
void from_int(std::byte* element, int value) {
  const T converted = static_cast<T>(value);
  std::memcpy(element, &converted, sizeof converted);
}

template <class T>
double to_double(const std::byte* element) {
  return static_cast<double>(load<T>(element));
}

// Integers are combined as unsigned 64-bit numbers, so that an overflow wraps around.
template <class T>
T combined(Operation operation, T a, T b) {
  if (operation == Operation::max) return std::max(a, b);
  if (operation == Operation::min) return std::min(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    return operation == Operation::prod ? a * b : a + b;
  } else {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    switch (operation) {
      case Operation::prod:
        return static_cast<T>(x * y);
      case Operation::band:
        return static_cast<T>(x & y);
      case Operation::bor:
        return static_cast<T>(x | y);
      case Operation::bxor:
        return static_cast<T>(x ^ y);
      default:
        return static_cast<T>(x + y);
    }
  }
}

template <class T>
void combine(Operation operation, std::byte* element, const std::byte* other) {
  const T result = combined(operation, load<T>(element), load<T>(other));
  std::memcpy(element, &result, sizeof result);
}

template <class T>
constexpr ElementType element(std::string_view name, MPI_Datatype (*handle)()) {
  // A float of bytes 0xff is not a number. Integers of bytes 0x80 are far below the sums of small numbers.
  const auto poison = static_cast<std::byte>(std::is_floating_point_v<T> ? 0xff : 0x80);
  return {name, sizeof(T), poison, handle, from_int<T>, combine<T>, to_double<T>};
}

// The handles are looked up by functions, because Open MPI's are no constants.
constexpr std::array types = {
    element<float>("float", [] { return MPI_FLOAT; }),
    element<double>("double", [] { return MPI_DOUBLE; }),
    element<std::int8_t>("int8", [] { return MPI_INT8_T; }),
    element<std::uint8_t>("uint8", [] { return MPI_UINT8_T; }),
    element<std::int16_t>("int16", [] { return MPI_INT16_T; }),
    element<std::uint16_t>("uint16", [] { return MPI_UINT16_T; }),
    element<std::int32_t>("int32", [] { return MPI_INT32_T; }),
    element<std::uint32_t>("uint32", [] { return MPI_UINT32_T; }),
    element<std::int64_t>("int64", [] { return MPI_INT64_T; }),
    element<std::uint64_t>("uint64", [] { return MPI_UINT64_T; }),
};

constexpr std::array operations = {
    NamedOperation{"sum", Operation::sum, [] { return MPI_SUM; }},
    NamedOperation{"prod", Operation::prod, [] { return MPI_PROD; }},
    NamedOperation{"max", Operation::max, [] { return MPI_MAX; }},
    NamedOperation{"min", Operation::min, [] { return MPI_MIN; }},
    NamedOperation{"band", Operation::band, [] { return MPI_BAND; }},
    NamedOperation{"bor", Operation::bor, [] { return MPI_BOR; }},
    NamedOperation{"bxor", Operation::bxor, [] { return MPI_BXOR; }},
};

template <class Known>
const auto& named(const Known& known, std::string_view name) {
  for (const auto& each : known) {
    if (each.name == name) return each;
  }
  throw std::runtime_error("the benchmark does not know " + std::string(name));
}

}  // namespace

const ElementType& element_type(std::string_view name) { return named(types, name); }
const NamedOperation& operation_named(std::string_view name) { return named(operations, name); }

}  // namespace offbeat::bench
