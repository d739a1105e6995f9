/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What soak.cpp reduces: a type with an operation, operands that every rank can work out for all ranks, and
 * the buffers of one call.
 */
#ifndef SOAK_REDUCTIONS_H
#define SOAK_REDUCTIONS_H

#include <array>
#include <complex>
#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "soak_common.h"

namespace soak {

constexpr unsigned char filler = 0xa5;

struct Part {  // bytes of an element that are part of its value
  std::size_t offset, bytes;
};

using Put = void (*)(unsigned char* element, std::uint64_t bits, int member);  // an operand of a rank
using Combine = void (*)(const unsigned char* left, unsigned char* right);     // right = left op right

struct Case {
  std::string name;
  MPI_Datatype type;
  MPI_Op op;
  std::size_t extent;
  std::vector<Part> parts;
  bool keeps_gaps;  // bytes of the result that are not in the parts stay as they are
  Put put;
  Combine combine;
};

template <class T>
T load(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(unsigned char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// -- Predefined operations

inline std::vector<Case> predefined;

// Operands that are exact in any order, and with eight ranks do not overflow.
struct Small {
  template <class T>
  static T operand(std::uint64_t bits) {
    return T(bits % 15);
  }
};
struct OneOrTwo {
  template <class T>
  static T operand(std::uint64_t bits) {
    return T(1 + bits % 4 / 3);
  }
};
struct Any {
  template <class T>
  static T operand(std::uint64_t bits) {
    return T(bits >> 8);
  }
};

template <class T>
struct Smaller {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct Larger {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct OneOf {
  bool operator()(T a, T b) const { return !a != !b; }
};

template <class T>
std::vector<Part> parts_of() {
  return {
      {0, std::is_same_v<T, long double> ? 10 : sizeof(T)}};  // the other bytes of a long double are padding
}

template <class T, class Values, class Operation>
void predefine(const std::string& name, MPI_Datatype type, MPI_Op op) {
  const Put put = [](unsigned char* element, std::uint64_t bits, int) {
    store<T>(element, Values::template operand<T>(bits));
  };
  const Combine combine = [](const unsigned char* left, unsigned char* right) {
    store<T>(right, T(Operation()(load<T>(left), load<T>(right))));
  };
  predefined.push_back({name, type, op, sizeof(T), parts_of<T>(), false, put, combine});
}

template <class T>
void arithmetic(const std::string& name, MPI_Datatype type) {
  predefine<T, Small, std::plus<T>>(name + " sum", type, MPI_SUM);
  predefine<T, OneOrTwo, std::multiplies<T>>(name + " product", type, MPI_PROD);
  predefine<T, Small, Smaller<T>>(name + " minimum", type, MPI_MIN);
  predefine<T, Small, Larger<T>>(name + " maximum", type, MPI_MAX);
}

template <class T>
void logic(const std::string& name, MPI_Datatype type) {
  predefine<T, Small, std::logical_and<T>>(name + " logical and", type, MPI_LAND);
  predefine<T, Small, std::logical_or<T>>(name + " logical or", type, MPI_LOR);
  predefine<T, Small, OneOf<T>>(name + " logical xor", type, MPI_LXOR);
}

template <class T>
void bitwise(const std::string& name, MPI_Datatype type) {
  predefine<T, Any, std::bit_and<T>>(name + " bitwise and", type, MPI_BAND);
  predefine<T, Any, std::bit_or<T>>(name + " bitwise or", type, MPI_BOR);
  predefine<T, Any, std::bit_xor<T>>(name + " bitwise xor", type, MPI_BXOR);
}

template <class T>
void integer(const std::string& name, MPI_Datatype type) {
  arithmetic<T>(name, type);
  logic<T>(name, type);
  bitwise<T>(name, type);
}

template <class T>
struct Located {
  T value;
  int place;
};

// Where values are equal, as they often are here, the lower place wins.
template <class T, bool minimum>
void locate(const std::string& name, MPI_Datatype type) {
  constexpr std::size_t place_offset = offsetof(Located<T>, place);
  const Put put = [](unsigned char* element, std::uint64_t bits, int member) {
    store<T>(element, T(bits % 4));
    store<int>(element + place_offset, member * 3);
  };
  const Combine combine = [](const unsigned char* left, unsigned char* right) {
    const T a = load<T>(left), b = load<T>(right);
    const int i = load<int>(left + place_offset), j = load<int>(right + place_offset);
    if (a == b ? j < i : (b < a) == minimum) return;
    store<T>(right, a);
    store<int>(right + place_offset, i);
  };
  predefined.push_back({name,
                        type,
                        minimum ? MPI_MINLOC : MPI_MAXLOC,
                        sizeof(Located<T>),
                        {{0, sizeof(T)}, {place_offset, sizeof(int)}},
                        false,
                        put,
                        combine});
}

inline void make_predefined() {
  integer<std::int8_t>("int8", MPI_INT8_T);
  integer<std::int16_t>("int16", MPI_INT16_T);
  integer<int>("int", MPI_INT);
  integer<long>("long", MPI_LONG);
  integer<std::uint8_t>("uint8", MPI_UINT8_T);
  integer<unsigned>("unsigned", MPI_UNSIGNED);
  integer<std::uint64_t>("uint64", MPI_UINT64_T);
  arithmetic<MPI_Aint>("aint", MPI_AINT);
  arithmetic<float>("float", MPI_FLOAT);
  arithmetic<double>("double", MPI_DOUBLE);
  arithmetic<long double>("long double", MPI_LONG_DOUBLE);
  logic<bool>("bool", MPI_C_BOOL);
  bitwise<unsigned char>("byte", MPI_BYTE);
  using Complex = std::complex<double>;
  predefine<Complex, Small, std::plus<Complex>>("complex sum", MPI_C_DOUBLE_COMPLEX, MPI_SUM);
  locate<int, true>("int minimum with place", MPI_2INT);
  locate<double, false>("double maximum with place", MPI_DOUBLE_INT);
  locate<float, true>("float minimum with place", MPI_FLOAT_INT);
}

// -- Operations of the program, on types of the program

// Makes of the combination of one element what MPI calls.
template <std::size_t extent, Combine combine>
void over(void* left, void* right, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    combine(static_cast<unsigned char*>(left) + i * extent, static_cast<unsigned char*>(right) + i * extent);
  }
}

inline MPI_Datatype predefined_int() { return MPI_INT; }
inline MPI_Datatype copied_int() {
  MPI_Datatype type;
  MPI_Type_dup(MPI_INT, &type);
  return type;
}
inline void put_int(unsigned char* element, std::uint64_t bits, int) {
  store<int>(element, static_cast<int>(bits % 10007));
}
inline void sum_modulo(const unsigned char* left, unsigned char* right) {
  store<int>(right, (load<int>(left) + load<int>(right)) % 10007);
}
inline void larger_int(const unsigned char* left, unsigned char* right) {
  store<int>(right, std::max(load<int>(left), load<int>(right)));
}

// The function x -> a x + b. One after the other: associative, not commutative.
struct Affine {
  std::uint32_t a, b;
};
inline MPI_Datatype pair_of_words() {
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_UINT32_T, &type);
  return type;
}
inline void put_affine(unsigned char* element, std::uint64_t bits, int) {
  store<Affine>(element, {static_cast<std::uint32_t>(bits) | 1, static_cast<std::uint32_t>(bits >> 32)});
}
inline void compose(const unsigned char* left, unsigned char* right) {
  const auto f = load<Affine>(left), g = load<Affine>(right);
  store<Affine>(right, {f.a * g.a, f.a * g.b + f.b});
}

inline MPI_Datatype resized(MPI_Datatype type, MPI_Aint extent) {
  MPI_Datatype result;
  MPI_Type_create_resized(type, 0, extent, &result);
  MPI_Type_free(&type);
  return result;
}
inline MPI_Datatype words_with_gaps() {  // word, gap, word, gap
  MPI_Datatype type;
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  return resized(type, 16);
}
inline void put_words(unsigned char* element, std::uint64_t bits, int) {
  store<int>(element, static_cast<int>(bits % 1000));
  store<int>(element + 8, static_cast<int>(bits >> 40));
}
inline void sum_and_larger(const unsigned char* left, unsigned char* right) {
  store<int>(right, load<int>(left) + load<int>(right));
  larger_int(left + 8, right + 8);
}

inline MPI_Datatype double_and_int() {
  const int lengths[] = {1, 1};
  const MPI_Aint offsets[] = {0, 8};
  const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT};
  MPI_Datatype type;
  MPI_Type_create_struct(2, lengths, offsets, types, &type);
  return resized(type, 16);
}
inline void put_double_and_int(unsigned char* element, std::uint64_t bits, int) {
  store<double>(element, static_cast<double>(bits % 1024) / 8);
  store<int>(element + 8, static_cast<int>(bits >> 33));
}
inline void sum_and_xor(const unsigned char* left, unsigned char* right) {
  store<double>(right, load<double>(left) + load<double>(right));
  store<int>(right + 8, load<int>(left + 8) ^ load<int>(right + 8));
}

struct OwnOperation {
  const char* name;
  MPI_Datatype (*type)();
  MPI_User_function* function;
  bool commutes;
  std::size_t extent;
  std::vector<Part> parts;
  bool keeps_gaps;
  Put put;
  Combine combine;

  Case make() const {
    Case result{name, type(), MPI_OP_NULL, extent, parts, keeps_gaps, put, combine};
    MPI_Type_commit(&result.type);
    succeed(MPI_Op_create(function, commutes, &result.op), "MPI_Op_create");
    return result;
  }
};

inline const OwnOperation own_operations[] = {
    {"own sum", predefined_int, over<4, sum_modulo>, true, 4, {{0, 4}}, false, put_int, sum_modulo},
    {"own maximum", copied_int, over<4, larger_int>, true, 4, {{0, 4}}, false, put_int, larger_int},
    {"own sum, said not to commute",
     predefined_int,
     over<4, sum_modulo>,
     false,
     4,
     {{0, 4}},
     false,
     put_int,
     sum_modulo},
    {"composition", pair_of_words, over<8, compose>, false, 8, {{0, 8}}, false, put_affine, compose},
    {"words with gaps",
     words_with_gaps,
     over<16, sum_and_larger>,
     true,
     16,
     {{0, 4}, {8, 4}},
     true,
     put_words,
     sum_and_larger},
    {"double and int",
     double_and_int,
     over<16, sum_and_xor>,
     true,
     16,
     {{0, 8}, {8, 4}},
     false,
     put_double_and_int,
     sum_and_xor},
};

inline std::vector<Case> own;  // as long as the program runs

inline void free_case(Case& which) {
  MPI_Op_free(&which.op);
  if (which.type != MPI_INT) MPI_Type_free(&which.type);
}

// -- One call

using Members = std::vector<int>;  // the ranks of a communicator in its order, each by its `me`
using Bytes = std::vector<unsigned char>;

// Values repeat after this number of elements. It is a prime, so that a block in a wrong place has other values.
constexpr std::size_t period = 1009;

inline Bytes operand(const Case& what, std::uint64_t salt, int member, std::size_t count) {
  Bytes tile(std::min(count, period) * what.extent, filler);
  for (std::size_t i = 0; i * what.extent < tile.size(); ++i) {
    what.put(&tile[i * what.extent], mixed(salt, member, i), member);
  }
  return tile;
}

inline Bytes expected(const Case& what, std::uint64_t salt, const Members& members, std::size_t count) {
  Bytes left = operand(what, salt, members[0], count);
  for (std::size_t k = 1; k < members.size(); ++k) {
    Bytes right = operand(what, salt, members[k], count);
    for (std::size_t at = 0; at < left.size(); at += what.extent) what.combine(&left[at], &right[at]);
    left = std::move(right);
  }
  return left;
}

inline std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", bytes[i]);
    text += byte;
  }
  return text;
}

// Memory between guards, `shift` bytes behind an aligned address.
struct Buffer {
  static constexpr std::size_t guard = 64;
  Bytes memory;
  std::size_t bytes, begin;

  Buffer(std::size_t bytes, std::size_t shift)
      : memory(2 * guard + shift + bytes, filler), bytes(bytes), begin(guard + shift) {}
  unsigned char* data() { return memory.data() + begin; }
  void fill(const Bytes& tile) {
    for (std::size_t at = 0; at < bytes; at += tile.size()) {
      std::memcpy(data() + at, tile.data(), std::min(tile.size(), bytes - at));
    }
  }
  bool is_filled(const Bytes& tile) {
    for (std::size_t at = 0; at < bytes; at += tile.size()) {
      if (std::memcmp(data() + at, tile.data(), std::min(tile.size(), bytes - at)) != 0) return false;
    }
    return true;
  }
  bool are_guards_whole() const {
    const auto is_whole = [](unsigned char byte) { return byte == filler; };
    return std::all_of(memory.begin(), memory.begin() + begin, is_whole) &&
           std::all_of(memory.begin() + begin + bytes, memory.end(), is_whole);
  }
};

// From the operand to the checked result.
struct Reduction {
  Case what;
  std::size_t count;
  std::uint64_t salt;
  bool in_place;
  Buffer input, output;
  Bytes mine;

  Reduction(const Case& what, std::size_t count, std::uint64_t salt, bool in_place,
            std::array<std::size_t, 2> shifts)
      : what(what),
        count(count),
        salt(salt),
        in_place(in_place),
        input(in_place ? 0 : count * what.extent, shifts[0]),
        output(count * what.extent, shifts[1]),
        mine(operand(what, salt, me, count)) {
    (in_place ? output : input).fill(mine);
  }

  // A call without elements needs no buffers.
  bool has_buffers() const { return count > 0 || salt % 2 == 0; }
  const void* source() { return in_place ? MPI_IN_PLACE : has_buffers() ? input.data() : nullptr; }
  void* target() { return has_buffers() ? output.data() : nullptr; }

  bool is_right(const unsigned char* got, const unsigned char* wanted) const {
    if (what.keeps_gaps) return std::memcmp(got, wanted, what.extent) == 0;
    return std::all_of(what.parts.begin(), what.parts.end(), [&](const Part& part) {
      return std::memcmp(got + part.offset, wanted + part.offset, part.bytes) == 0;
    });
  }

  // `members`: whose operands are in the result.
  void check(const Members& members) {
    const Bytes tile = expected(what, salt, members, count);
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned char *got = output.data() + i * what.extent, *wanted = &tile[i % period * what.extent];
      if (!is_right(got, wanted)) {
        return wrong(text() + ", " + std::to_string(members.size()) + " ranks: element " + std::to_string(i) +
                     " is " + hexadecimal(got, what.extent) + " not " + hexadecimal(wanted, what.extent));
      }
      if (i < period) {
        for (const Part& part : what.parts) digest.fold(got + part.offset, part.bytes);
      }
    }
    if (!input.are_guards_whole() || !output.are_guards_whole()) wrong(text() + ": written beside a buffer");
    if (!in_place && !input.is_filled(mine)) wrong(text() + ": the input was changed");
  }

  std::string text() const {
    return what.name + ", " + std::to_string(count) + " elements" + (in_place ? ", in place" : "");
  }
};

inline std::size_t draw_bytes() {
  const int which = draw.below(100);
  if (which < 8) return 0;
  if (which < 25) return 1;  // which makes one element
  if (which < 55) return 1 + draw.below(500);
  if (which < 65) return 4096 - 64 + 8 * draw.below(17);
  if (which < 80) return draw.below(20000);
  if (is_slow && which < 98) return draw.below(3000);
  if (which < 90) return 65536 - 64 + 8 * draw.below(17);
  if (which < 97) return draw.below(300000);
  return (1 << 20) - 64 + draw.below(1 << 21);
}

inline Reduction draw_reduction(const Case& what, bool may_be_in_place) {
  const std::size_t count = (draw_bytes() + what.extent - 1) / what.extent;
  const std::uint64_t salt = draw.bits();
  const bool in_place = draw.chance(30) && may_be_in_place;
  // Each rank for itself: aligned to 16 bytes, to an element, or to nothing at all.
  Random local{mixed(salt, me)};
  std::array<std::size_t, 2> shifts;
  for (std::size_t& shift : shifts) {
    shift = local.chance(50) ? 0 : local.chance(50) ? what.extent : what.extent <= 8 ? local.below(16) : 16;
  }
  return Reduction(what, count, salt, in_place, shifts);
}

inline const Case& draw_case() {
  const auto& cases = draw.chance(20) ? own : predefined;
  return cases[draw.below(static_cast<int>(cases.size()))];
}

}  // namespace soak

#endif
