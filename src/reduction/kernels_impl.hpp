// SPDX-License-Identifier: BSD-3-Clause
// The loops behind every kernel. This header is compiled once per instruction set.
//
// Everything is in an unnamed namespace on purpose. The linker could merge an inline function or template
// that has linkage, and keep the copy with AVX-512 instructions, which would then run on a machine without
// them. For the same reason nothing below calls a function of the standard library.
//
// The loops are plain so that the compiler vectorises them. Only binary16 needs intrinsics, because neither
// compiler vectorises its conversions. The bits do not depend on the instruction set: no operation is fused
// with another, and the 16-bit types compute in float and round after each operation.
//
// Compilers may swap the operands of + and *. That shows only if both are NaN: then either payload may
// survive. Insisting on the left one would halve the throughput in the first-level cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "reduction/kernels.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace offbeat {
namespace {

template <class T>
T choose(bool condition, T yes, T no) {
  return condition ? yes : no;
}

// choose() for bits, for places where compilers would make choose() a branch and not vectorise it.
template <class Bits>
Bits select_bits(bool condition, Bits yes, Bits no) {
  return static_cast<Bits>(no ^ ((no ^ yes) & -static_cast<Bits>(condition)));
}

// ---- operations ----

struct Sum {
  template <class T>
  T operator()(T left, T right) const {
    return static_cast<T>(left + right);
  }
};

struct Prod {
  template <class T>
  T operator()(T left, T right) const {
    // The factor 1u makes the product unsigned: 16-bit operands would be promoted to int, whose overflow is
    // undefined.
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(1u * left * right);
    else
      return left * right;
  }
};

struct Min {
  template <class T>
  T operator()(T left, T right) const {
    return choose(right < left, right, left);
  }
};

struct Max {
  template <class T>
  T operator()(T left, T right) const {
    return choose(left < right, right, left);
  }
};

struct LogicalAnd {
  template <class T>
  T operator()(T left, T right) const {
    return static_cast<T>((left != 0) & (right != 0));
  }
};

struct LogicalOr {
  template <class T>
  T operator()(T left, T right) const {
    return static_cast<T>((left | right) != 0);
  }
};

struct LogicalXor {
  template <class T>
  T operator()(T left, T right) const {
    return static_cast<T>((left != 0) ^ (right != 0));
  }
};

struct BitwiseAnd {
  template <class T>
  T operator()(T left, T right) const {
    return static_cast<T>(left & right);
  }
};

struct BitwiseOr {
  template <class T>
  T operator()(T left, T right) const {
    return static_cast<T>(left | right);
  }
};

struct BitwiseXor {
  template <class T>
  T operator()(T left, T right) const {
    return static_cast<T>(left ^ right);
  }
};

// ---- number types: an Element in memory is loaded as a Value, and rounded between two operations ----

template <class T>
struct NativeNumber {
  using Element = T;
  static T load(T element) { return element; }
  static T round(T value) { return value; }
  static T store(T value) { return value; }
};

// A complex number with the textbook product. The treatment of infinities in Annex G of the C standard would
// cost a branch per element.
template <class T>
struct Complex {
  T real;
  T imaginary;

  ~Complex() {
  }  // makes the type not trivial: otherwise clang packs both floats into one register and does not vectorise

  friend Complex operator+(Complex left, Complex right) {
    return {left.real + right.real, left.imaginary + right.imaginary};
  }
  // This adds a negative instead of subtracting, because GCC 12 vectorises a difference to a fused vfmaddsub
  // in spite of -ffp-contract=off.
  friend Complex operator*(Complex left, Complex right) {
    return {left.real * right.real + left.imaginary * -right.imaginary,
            left.real * right.imaginary + left.imaginary * right.real};
  }
};

// A 16-bit floating-point number that is only compared. Its bits are ordered like a sign-magnitude integer.
template <std::int16_t infinity>
struct ComparableHalf {
  std::uint16_t bits;

  std::int16_t magnitude() const { return static_cast<std::int16_t>(bits & 0x7fff); }
  std::int16_t sort_key() const {
    const auto sign = static_cast<std::int16_t>(static_cast<std::int16_t>(bits) >> 15);
    return static_cast<std::int16_t>((magnitude() ^ sign) - sign);
  }
  friend bool operator<(ComparableHalf left, ComparableHalf right) {
    const bool less = left.sort_key() < right.sort_key();
    const bool left_is_number = left.magnitude() <= infinity;
    const bool right_is_number = right.magnitude() <= infinity;
    return less & left_is_number & right_is_number;
  }
  friend ComparableHalf choose(bool condition, ComparableHalf yes, ComparableHalf no) {
    return {select_bits(condition, yes.bits, no.bits)};
  }
};

inline std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

struct BFloat16 {
  struct AdjacentPair;
  using Lanes = AdjacentPair;
  using Element = std::uint16_t;
  static float load(Element element) { return float_of(std::uint32_t{element} << 16); }
  static float round(float value) { return float_of(rounded_bits(value)); }
  static Element store(float value) { return static_cast<Element>(rounded_bits(value) >> 16); }

  // NaN needs no special case: a NaN that comes from bfloat16 operands has no bits to round off.
  static std::uint32_t rounded_bits(float value) {
    const std::uint32_t bits = bits_of(value);
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  }
};

// Two adjacent elements in one word, each as the upper half of a float, so that no vector changes its width.
struct BFloat16::AdjacentPair {
  static constexpr std::size_t lanes = 2;
  using Element [[gnu::aligned(2), gnu::may_alias]] = std::uint32_t;
  struct Value {
    float upper;
    float lower;

    ~Value() {}  // as in Complex
    friend Value operator+(const Value& left, const Value& right) {
      return {left.upper + right.upper, left.lower + right.lower};
    }
    friend Value operator*(const Value& left, const Value& right) {
      return {left.upper * right.upper, left.lower * right.lower};
    }
  };
  static Value load(std::uint32_t pair) { return {float_of(pair & 0xffff0000u), float_of(pair << 16)}; }
  static Value round(const Value& value) {
    return {BFloat16::round(value.upper), BFloat16::round(value.lower)};
  }
  static std::uint32_t store(const Value& value) {
    return rounded_bits(value.upper) | (rounded_bits(value.lower) >> 16);
  }
};

#ifdef __F16C__

// With AVX-512 an Element is a vector, because g++ 12 would also store a struct on the stack. With AVX2 it
// does not, and a struct is faster there.
#ifdef __AVX512F__
struct Float16Lanes {
  static constexpr std::size_t lanes = 16;
  using Element [[gnu::aligned(2), gnu::may_alias]] = __m256i;
  static __m512 load(const Element& element) { return _mm512_cvtph_ps(element); }
  static __m512 round(__m512 value) { return _mm512_cvtph_ps(store(value)); }
  static __m256i store(__m512 value) { return _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }
};
#else
struct Float16Lanes {
  static constexpr std::size_t lanes = 8;
  struct Element {
    std::uint16_t half[lanes];
  };
  static __m256 load(const Element& element) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(&element)));
  }
  static __m256 round(__m256 value) { return _mm256_cvtph_ps(to_halves(value)); }
  static Element store(__m256 value) { return __builtin_bit_cast(Element, to_halves(value)); }

 private:
  static __m128i to_halves(__m256 value) { return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }
};
#endif

struct Float16 {
  using Element = std::uint16_t;
  using Lanes = Float16Lanes;
  static float load(Element element) { return _cvtsh_ss(element); }
  static float round(float value) { return load(store(value)); }
  static Element store(float value) {
    const __m128i half = _mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT);
    return static_cast<Element>(_mm_cvtsi128_si32(half));
  }
};

#elif defined(__aarch64__)

// Every such processor converts binary16.
struct Float16Lanes {
  static constexpr std::size_t lanes = 4;
  using Element [[gnu::aligned(2), gnu::may_alias]] = float16x4_t;
  static float32x4_t load(const Element& element) { return vcvt_f32_f16(element); }
  static float32x4_t round(float32x4_t value) { return vcvt_f32_f16(store(value)); }
  static float16x4_t store(float32x4_t value) { return vcvt_f16_f32(value); }
};

struct Float16 {
  using Element = std::uint16_t;
  using Lanes = Float16Lanes;
  static float load(Element element) { return __builtin_bit_cast(__fp16, element); }
  static float round(float value) { return static_cast<__fp16>(value); }
  static Element store(float value) { return __builtin_bit_cast(Element, static_cast<__fp16>(value)); }
};

#else

// Converts binary16 by integer operations without branches, so that compilers vectorise it. It never computes
// with a subnormal float, which a program linked with -ffast-math would flush to zero.
struct Float16 {
  using Element = std::uint16_t;
  static float load(Element element) { return to_floats(element); }
  static float round(float value) { return to_floats(to_halves(value)); }
  static Element store(float value) { return static_cast<Element>(to_halves(value)); }

 private:
  static float to_floats(std::uint32_t half) {
    constexpr std::uint32_t rebias = (127u - 15u) << 23;
    constexpr std::uint32_t smallest_normal = 0x0400u << 13;
    constexpr std::uint32_t infinity = 0x7c00u << 13;
    const std::uint32_t sign = (half & 0x8000u) << 16;
    const std::uint32_t magnitude = (half & 0x7fffu) << 13;
    const std::uint32_t normal = magnitude + rebias;
    const std::uint32_t subnormal = bits_of(float_of(normal + (1u << 23)) - 0x1p-14f);
    const std::uint32_t unbounded = normal + rebias;
    const std::uint32_t finite = select_bits(magnitude < smallest_normal, subnormal, normal);
    return float_of(sign | select_bits(magnitude < infinity, finite, unbounded));
  }

  static std::uint32_t to_halves(float value) {
    constexpr std::uint32_t rebias = (127u - 15u) << 23;
    constexpr std::uint32_t smallest_normal = 113u << 23;  // 2^-14
    constexpr std::uint32_t too_large = 143u << 23;        // 2^16
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    // The last place of a float in [0.5, 1) is that of a subnormal half, so the addition rounds.
    const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    const std::uint32_t normal = (magnitude - rebias + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
    const std::uint32_t not_a_number = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
    const std::uint32_t unbounded = select_bits(value != value, not_a_number, 0x7c00u);
    const std::uint32_t finite = select_bits(magnitude < smallest_normal, subnormal, normal);
    return ((bits >> 16) & 0x8000u) | select_bits(magnitude < too_large, finite, unbounded);
  }
};

#endif

// ---- the loop ----

template <class Number, class Op, std::size_t... rest>
void combine(typename Number::Element* destination, const void* const* operands, std::size_t count,
             std::index_sequence<rest...>) {
  using Element = typename Number::Element;
  const Element* const source[] = {static_cast<const Element*>(operands[0]),
                                   static_cast<const Element*>(operands[1]),
                                   static_cast<const Element*>(operands[rest + 2])...};
  // If the destination is one of the operands, no iteration depends on another one. The pragmas say so.
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i) {
    auto value = Op{}(Number::load(source[0][i]), Number::load(source[1][i]));
    ((value = Op{}(Number::round(value), Number::load(source[rest + 2][i]))), ...);
    destination[i] = Number::store(value);
  }
}

template <class Number, class Op, std::size_t operand_count>
void kernel(void* destination, const void* const* operands, std::size_t count) {
  constexpr std::make_index_sequence<operand_count - 2> rest;
  if constexpr (requires { typename Number::Lanes; }) {
    using Lanes = typename Number::Lanes;
    using Element = typename Number::Element;
    const std::size_t blocks = count / Lanes::lanes;
    const std::size_t done = blocks * Lanes::lanes;
    combine<Lanes, Op>(static_cast<typename Lanes::Element*>(destination), operands, blocks, rest);
    const void* tail[operand_count];
    for (std::size_t k = 0; k < operand_count; ++k) tail[k] = static_cast<const Element*>(operands[k]) + done;
    combine<Number, Op>(static_cast<Element*>(destination) + done, tail, count - done, rest);
  } else {
    combine<Number, Op>(static_cast<typename Number::Element*>(destination), operands, count, rest);
  }
}

// ---- the table: one row per ElementType, one column per ReduceOp, in the order of the enums ----

template <class Number, class Op>
constexpr Kernels kernels = {&kernel<Number, Op, 2>, &kernel<Number, Op, 4>, &kernel<Number, Op, 8>};

struct KernelsOfType {
  Kernels by_operation[reduce_op_count];
};

// Only min and max depend on the sign, so signed and unsigned types share the other columns.
template <class T>
constexpr KernelsOfType integer_kernels() {
  using UnsignedNumber = NativeNumber<std::make_unsigned_t<T>>;
  return {{kernels<UnsignedNumber, Sum>, kernels<UnsignedNumber, Prod>, kernels<NativeNumber<T>, Min>,
           kernels<NativeNumber<T>, Max>, kernels<UnsignedNumber, LogicalAnd>,
           kernels<UnsignedNumber, LogicalOr>, kernels<UnsignedNumber, LogicalXor>,
           kernels<UnsignedNumber, BitwiseAnd>, kernels<UnsignedNumber, BitwiseOr>,
           kernels<UnsignedNumber, BitwiseXor>}};
}

template <class Number, class Ordered = Number>
constexpr KernelsOfType floating_kernels() {
  return {{kernels<Number, Sum>, kernels<Number, Prod>, kernels<Ordered, Min>, kernels<Ordered, Max>}};
}

template <class T>
constexpr KernelsOfType complex_kernels() {
  return {{kernels<NativeNumber<Complex<T>>, Sum>, kernels<NativeNumber<Complex<T>>, Prod>}};
}

// Booleans are handled as bytes, because another language may store a truth value that C++ cannot read as
// bool.
constexpr KernelsOfType boolean_kernels() {
  using Byte = NativeNumber<std::uint8_t>;
  return {{{}, {}, {}, {}, kernels<Byte, LogicalAnd>, kernels<Byte, LogicalOr>, kernels<Byte, LogicalXor>}};
}

constexpr KernelsOfType table[element_type_count] = {
    integer_kernels<std::int8_t>(),
    integer_kernels<std::int16_t>(),
    integer_kernels<std::int32_t>(),
    integer_kernels<std::int64_t>(),
    integer_kernels<std::uint8_t>(),
    integer_kernels<std::uint16_t>(),
    integer_kernels<std::uint32_t>(),
    integer_kernels<std::uint64_t>(),
    floating_kernels<Float16, NativeNumber<ComparableHalf<0x7c00>>>(),
    floating_kernels<BFloat16, NativeNumber<ComparableHalf<0x7f80>>>(),
    floating_kernels<NativeNumber<float>>(),
    floating_kernels<NativeNumber<double>>(),
    floating_kernels<NativeNumber<long double>>(),
    complex_kernels<float>(),
    complex_kernels<double>(),
    complex_kernels<long double>(),
    boolean_kernels(),
};

inline Kernels find_kernels_of(ElementType type, ReduceOp op) {
  return table[static_cast<std::size_t>(type)].by_operation[static_cast<std::size_t>(op)];
}

}  // namespace
}  // namespace offbeat
