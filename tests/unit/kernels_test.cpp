// SPDX-License-Identifier: BSD-3-Clause
// Every kernel of every instruction set against a scalar reference, bit for bit.
//
// The reference shares nothing with the kernels: integers go through 128 bits, the 16-bit floating-point
// types through double, and operands are combined two at a time.
#include "reduction/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace offbeat {
namespace {

constexpr std::size_t most_operands = 17;
constexpr std::size_t longest = 1000;

// ---- the reference ----

struct HalfFormat {
  int mantissa_bits;
  int smallest_exponent;  // of a normal number
  std::uint16_t infinity;
};
constexpr HalfFormat float16_format = {10, -14, 0x7c00};
constexpr HalfFormat bfloat16_format = {7, -126, 0x7f80};

bool is_nan(HalfFormat format, std::uint16_t bits) { return (bits & 0x7fff) > format.infinity; }
std::uint16_t quiet(HalfFormat format, std::uint16_t bits) {
  return static_cast<std::uint16_t>(bits | (1u << (format.mantissa_bits - 1)));
}

double decode(HalfFormat format, std::uint16_t bits) {
  const int magnitude = bits & 0x7fff;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (magnitude > format.infinity) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.infinity) return sign * std::numeric_limits<double>::infinity();
  const int one = 1 << format.mantissa_bits;
  const int exponent = magnitude / one;
  const int significand = magnitude % one + (exponent > 0 ? one : 0);
  return sign *
         std::ldexp(significand, std::max(exponent, 1) - 1 + format.smallest_exponent - format.mantissa_bits);
}

std::uint16_t encode(HalfFormat format, double value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | format.infinity);
  if (value == 0.0) return static_cast<std::uint16_t>(sign);
  const int exponent = std::max(std::ilogb(value), format.smallest_exponent);
  const double significand = std::nearbyint(std::ldexp(std::fabs(value), format.mantissa_bits - exponent));
  const double magnitude =
      std::ldexp(exponent - format.smallest_exponent, format.mantissa_bits) + significand;
  return static_cast<std::uint16_t>(sign | static_cast<int>(std::min<double>(magnitude, format.infinity)));
}

template <class T>
T bit_copy(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// Opaque to the optimiser, so that no two operations become one fused operation.
template <class T>
[[gnu::noinline]] T add(T left, T right) {
  return left + right;
}
template <class T>
[[gnu::noinline]] T multiply(T left, T right) {
  return left * right;
}

template <class T>
T combine_integers(ReduceOp op, T left, T right) {
  __extension__ using Wide = unsigned __int128;
  const auto wide_left = static_cast<Wide>(left);
  const auto wide_right = static_cast<Wide>(right);
  switch (op) {
    case ReduceOp::sum:
      return static_cast<T>(wide_left + wide_right);
    case ReduceOp::prod:
      return static_cast<T>(wide_left * wide_right);
    case ReduceOp::min:
      return std::min(left, right);
    case ReduceOp::max:
      return std::max(left, right);
    case ReduceOp::logical_and:
      return left != 0 && right != 0 ? 1 : 0;
    case ReduceOp::logical_or:
      return left != 0 || right != 0 ? 1 : 0;
    case ReduceOp::logical_xor:
      return (left != 0) != (right != 0) ? 1 : 0;
    case ReduceOp::bitwise_and:
      return static_cast<T>(wide_left & wide_right);
    case ReduceOp::bitwise_or:
      return static_cast<T>(wide_left | wide_right);
    case ReduceOp::bitwise_xor:
      return static_cast<T>(wide_left ^ wide_right);
  }
  return 0;
}

template <class T>
T combine_floats(ReduceOp op, T left, T right) {
  if (op == ReduceOp::sum) return add(left, right);
  if (op == ReduceOp::prod) return multiply(left, right);
  if (op == ReduceOp::min) return right < left ? right : left;
  return left < right ? right : left;
}

std::uint16_t combine_halves(HalfFormat format, ReduceOp op, std::uint16_t left, std::uint16_t right) {
  const double left_value = decode(format, left);
  const double right_value = decode(format, right);
  if (op == ReduceOp::min) return right_value < left_value ? right : left;
  if (op == ReduceOp::max) return left_value < right_value ? right : left;
  if (is_nan(format, left)) return quiet(format, left);
  if (is_nan(format, right)) return quiet(format, right);
  // Exact, as double has more than twice the digits: rounded only once.
  const double value = op == ReduceOp::sum ? left_value + right_value : left_value * right_value;
  return std::isnan(value) ? quiet(format, format.infinity) : encode(format, value);
}

template <class T>
std::complex<T> combine_complex(ReduceOp op, std::complex<T> left, std::complex<T> right) {
  if (op == ReduceOp::sum) return {add(left.real(), right.real()), add(left.imag(), right.imag())};
  const T real = add(multiply(left.real(), right.real()), -multiply(left.imag(), right.imag()));
  const T imaginary = add(multiply(left.real(), right.imag()), multiply(left.imag(), right.real()));
  return {real, imaginary};
}

// Calls function(a value of the C++ type), or function(a HalfFormat).
template <class Function>
void visit(ElementType type, Function function) {
  switch (type) {
    case ElementType::int8:
      return function(std::int8_t{});
    case ElementType::int16:
      return function(std::int16_t{});
    case ElementType::int32:
      return function(std::int32_t{});
    case ElementType::int64:
      return function(std::int64_t{});
    case ElementType::uint8:
    case ElementType::boolean:
      return function(std::uint8_t{});
    case ElementType::uint16:
      return function(std::uint16_t{});
    case ElementType::uint32:
      return function(std::uint32_t{});
    case ElementType::uint64:
      return function(std::uint64_t{});
    case ElementType::float16:
      return function(float16_format);
    case ElementType::bfloat16:
      return function(bfloat16_format);
    case ElementType::float32:
      return function(float{});
    case ElementType::float64:
      return function(double{});
    case ElementType::long_double:
      return function(0.0L);
    case ElementType::complex64:
      return function(std::complex<float>{});
    case ElementType::complex128:
      return function(std::complex<double>{});
    case ElementType::complex_long_double:
      return function(std::complex<long double>{});
  }
}

template <class T>
constexpr bool is_half = std::is_same_v<T, HalfFormat>;
template <class T>
constexpr bool is_complex = false;
template <class T>
constexpr bool is_complex<std::complex<T>> = true;

// destination = left op right
void combine_reference(ElementType type, ReduceOp op, void* destination, const void* left,
                       const void* right) {
  visit(type, [&]<class T>(T example) {
    const auto store = [&](auto value) { std::memcpy(destination, &value, sizeof(value)); };
    if constexpr (is_half<T>) {
      store(combine_halves(example, op, bit_copy<std::uint16_t>(left), bit_copy<std::uint16_t>(right)));
    } else if constexpr (is_complex<T>) {
      store(combine_complex(op, bit_copy<T>(left), bit_copy<T>(right)));
    } else if constexpr (std::is_integral_v<T>) {
      store(combine_integers(op, bit_copy<T>(left), bit_copy<T>(right)));
    } else {
      store(combine_floats(op, bit_copy<T>(left), bit_copy<T>(right)));
    }
  });
}

bool same_bits(float left, float right) { return std::memcmp(&left, &right, sizeof(left)) == 0; }
bool same_bits(double left, double right) { return std::memcmp(&left, &right, sizeof(left)) == 0; }
// Not memcmp: the x87 format is followed by padding.
bool same_bits(long double left, long double right) {
  return left == right && std::signbit(left) == std::signbit(right);
}

// Equal bits; but any NaN for a NaN, unless the operation only selects. (KeepsTheNanPayload says more.)
bool same_element(ElementType type, ReduceOp op, const void* left, const void* right) {
  const bool selects = op == ReduceOp::min || op == ReduceOp::max;
  bool same = std::memcmp(left, right, width_of(type)) == 0;
  if (same) return true;
  const auto same_float = [&](auto expected, auto actual) {
    if (std::isnan(expected) && std::isnan(actual)) {
      return !selects || std::is_same_v<decltype(expected), long double>;
    }
    return same_bits(expected, actual);
  };
  visit(type, [&]<class T>(T example) {
    if constexpr (is_half<T>) {
      same = !selects && is_nan(example, bit_copy<std::uint16_t>(left)) &&
             is_nan(example, bit_copy<std::uint16_t>(right));
    } else if constexpr (is_complex<T>) {
      const T expected = bit_copy<T>(left);
      const T actual = bit_copy<T>(right);
      same = same_float(expected.real(), actual.real()) && same_float(expected.imag(), actual.imag());
    } else if constexpr (std::is_floating_point_v<T>) {
      same = same_float(bit_copy<T>(left), bit_copy<T>(right));
    }
  });
  return same;
}

// ---- operands ----

// Bytes that begin `offset` elements behind an aligned address, with one guard element on either side.
class Buffer {
 public:
  Buffer(std::size_t width, std::size_t count, std::size_t offset)
      : width_(width), first_(64 + offset * width), bytes_(64 + first_ + (count + 1) * width, guard) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    first_ += (64 - address % 64) % 64;
  }
  std::byte* at(std::size_t index) { return bytes_.data() + first_ + index * width_; }
  bool guard_is_intact(std::size_t count) {
    const auto is_guard = [](std::byte byte) { return byte == guard; };
    return std::all_of(at(0) - width_, at(0), is_guard) && std::all_of(at(count), at(count + 1), is_guard);
  }
  void fill() { std::fill(bytes_.begin(), bytes_.end(), guard); }

 private:
  static constexpr std::byte guard{0xa5};
  std::size_t width_;
  std::size_t first_;
  std::vector<std::byte> bytes_;
};

using Random = std::mt19937_64;

double random_between(Random& random, double low, double high) {
  return low + (high - low) * std::ldexp(static_cast<double>(random() >> 11), -53);
}

// Every fourth element is ordinary, close to underflow, close to overflow, or anything (infinity, NaN, zero).
double random_value(Random& random, std::size_t index, int smallest_exponent, int digits) {
  const double significand = random_between(random, 1.0, 2.0) * (random() % 2 == 0 ? 1.0 : -1.0);
  const int exponent = static_cast<int>(random() % 6);
  switch (index % 4) {
    case 0:
      return std::ldexp(significand, exponent - 3);
    case 1:
      return std::ldexp(significand,
                        smallest_exponent + 2 - static_cast<int>(random() % static_cast<unsigned>(digits)));
    case 2:
      return std::ldexp(significand, -smallest_exponent - exponent / 2);
    default:
      constexpr double infinity = std::numeric_limits<double>::infinity();
      constexpr std::array<double, 8> special = {0.0, -0.0, 1.0, -1.0, 1.5, -2.0, infinity, -infinity};
      const std::size_t pick = random() % 40;
      return pick < special.size() ? special[pick]
             : pick == 8           ? std::numeric_limits<double>::quiet_NaN()
                                   : std::ldexp(significand, exponent - 3);
  }
}

template <class T>
T random_float(Random& random, std::size_t index) {
  using Limits = std::numeric_limits<T>;
  using Double = std::numeric_limits<double>;  // the range of long double is beyond random_value
  return static_cast<T>(random_value(random, index, std::max(Limits::min_exponent, Double::min_exponent) - 1,
                                     std::min(Limits::digits, Double::digits)));
}

void fill_randomly(ElementType type, Random& random, std::size_t count, Buffer& buffer) {
  for (std::size_t i = 0; i < count; ++i) {
    visit(type, [&]<class T>(T example) {
      const auto store = [&](auto value) { std::memcpy(buffer.at(i), &value, sizeof(value)); };
      if constexpr (is_half<T>) {
        const double value = random_value(random, i, example.smallest_exponent, example.mantissa_bits);
        const bool anything = i % 8 == 7 || std::isnan(value);
        store(anything ? static_cast<std::uint16_t>(random()) : encode(example, value));
      } else if constexpr (is_complex<T>) {
        using Part = typename T::value_type;
        const Part real = random_float<Part>(random, i);
        store(T{real, random_float<Part>(random, i)});
      } else if constexpr (std::is_integral_v<T>) {
        // Zero often enough for the logical operations, and only 0 and 1 in a boolean.
        const bool zero = random() % 4 == 0;
        store(type == ElementType::boolean ? static_cast<T>(!zero) : static_cast<T>(zero ? 0 : random()));
      } else {
        store(random_float<T>(random, i));
      }
    });
  }
}

// ---- the pairs ----

bool has_meaning(ElementType type, ReduceOp op) {
  const bool is_logical =
      op == ReduceOp::logical_and || op == ReduceOp::logical_or || op == ReduceOp::logical_xor;
  if (type == ElementType::boolean) return is_logical;
  if (type <= ElementType::uint64) return true;
  const bool is_complex = type >= ElementType::complex64 && type <= ElementType::complex_long_double;
  return op == ReduceOp::sum || op == ReduceOp::prod ||
         (!is_complex && (op == ReduceOp::min || op == ReduceOp::max));
}

std::vector<InstructionSet> available_sets() {
  std::vector<InstructionSet> sets;
  for (const auto set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (find_kernels(set, ElementType::float32, ReduceOp::sum)) sets.push_back(set);
  }
  return sets;
}

using Pair = std::tuple<InstructionSet, ElementType, ReduceOp>;

template <class Function>
void for_each_pair(Function function) {
  for (const auto set : available_sets()) {
    for (std::size_t type = 0; type < element_type_count; ++type) {
      for (std::size_t op = 0; op < reduce_op_count; ++op) {
        function(set, static_cast<ElementType>(type), static_cast<ReduceOp>(op));
      }
    }
  }
}

std::vector<Pair> meaningful_pairs() {
  std::vector<Pair> pairs;
  for_each_pair([&](InstructionSet set, ElementType type, ReduceOp op) {
    if (has_meaning(type, op)) pairs.emplace_back(set, type, op);
  });
  return pairs;
}

std::string name_of_pair(const testing::TestParamInfo<Pair>& info) {
  const auto [set, type, op] = info.param;
  return std::string(name_of(set)).append("_").append(name_of(type)).append("_").append(name_of(op));
}

// ---- tests ----

class EveryPair : public testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    std::tie(set, type, op) = GetParam();
    width = width_of(type);
    kernels = find_kernels(set, type, op);
  }

  // Checks all lengths and aliases for operands that begin `offset` elements behind an aligned address.
  void check(std::size_t offset);
  void check_one(std::size_t operand_count, std::size_t length, std::size_t alias);

  InstructionSet set{};
  ElementType type{};
  ReduceOp op{};
  std::size_t width = 0;
  Kernels kernels;
  std::vector<Buffer> pristine;
  std::vector<Buffer> operands;
  std::vector<Buffer> expected;  // expected[k]: of k + 1 operands
  std::vector<Buffer> separate;
};

void EveryPair::check(std::size_t offset) {
  Random random(offset);
  const std::vector<Buffer> empty(most_operands, Buffer(width, longest + 1, offset));
  pristine = empty;
  expected = empty;
  separate = {Buffer(width, longest + 1, offset)};
  for (auto& buffer : pristine) fill_randomly(type, random, longest + 1, buffer);
  operands = pristine;
  std::memcpy(expected[0].at(0), pristine[0].at(0), longest * width);
  for (std::size_t k = 1; k < most_operands; ++k) {
    for (std::size_t i = 0; i < longest; ++i) {
      combine_reference(type, op, expected[k].at(i), expected[k - 1].at(i), pristine[k].at(i));
    }
  }
  for (const std::size_t operand_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17}) {
    for (const std::size_t length : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000}) {
      for (const std::size_t alias : {operand_count, std::size_t{0}, operand_count / 2, operand_count - 1}) {
        check_one(operand_count, length, alias);
        if (HasFatalFailure()) return;
      }
    }
  }
  for (std::size_t k = 0; k < most_operands; ++k) {
    ASSERT_EQ(std::memcmp(operands[k].at(0), pristine[k].at(0), longest * width), 0) << "operand " << k;
  }
}

// The destination is operand `alias`, or separate if there is no such operand.
void EveryPair::check_one(std::size_t operand_count, std::size_t length, std::size_t alias) {
  const bool in_place = alias < operand_count;
  Buffer& destination = in_place ? operands[alias] : separate[0];
  if (!in_place) destination.fill();
  std::array<const void*, most_operands> inputs{};
  for (std::size_t k = 0; k < operand_count; ++k) inputs[k] = operands[k].at(0);
  combine(kernels, width, destination.at(0), inputs.data(), operand_count, length);

  const auto where = [&] {
    return std::to_string(operand_count) + " operands of " + std::to_string(length) + " elements, into " +
           (in_place ? "operand " + std::to_string(alias) : "another buffer");
  };
  Buffer& reference = expected[operand_count - 1];
  if (std::memcmp(destination.at(0), reference.at(0), length * width) != 0) {
    for (std::size_t i = 0; i < length; ++i) {
      ASSERT_TRUE(same_element(type, op, reference.at(i), destination.at(i))) << where() << ", element " << i;
    }
  }
  if (in_place) {
    ASSERT_EQ(std::memcmp(destination.at(length), pristine[alias].at(length), width), 0) << where();
    std::memcpy(destination.at(0), pristine[alias].at(0), length * width);
  } else {
    ASSERT_TRUE(destination.guard_is_intact(length)) << where();
  }
}

TEST_P(EveryPair, EqualsTheReference) {
  ASSERT_TRUE(kernels);
  check(0);
  check(1);
}

// Long enough for several blocks of several passes.
TEST_P(EveryPair, GoesBlockByBlock) {
  constexpr std::size_t length = 10'000;
  constexpr std::size_t operand_count = 10;
  Random random(7);
  std::vector<Buffer> data(operand_count, Buffer(width, length, 1));
  for (auto& buffer : data) fill_randomly(type, random, length, buffer);
  std::array<const void*, operand_count> inputs{};
  for (std::size_t k = 0; k < operand_count; ++k) inputs[k] = data[k].at(0);
  Buffer two_at_a_time(width, length, 0);
  std::memcpy(two_at_a_time.at(0), inputs[0], length * width);
  for (std::size_t k = 1; k < operand_count; ++k) {
    const void* const pair[] = {two_at_a_time.at(0), inputs[k]};
    kernels.two(two_at_a_time.at(0), pair, length);
  }
  combine(kernels, width, data[5].at(0), inputs.data(), operand_count, length);
  for (std::size_t i = 0; i < length; ++i) {
    ASSERT_TRUE(same_element(type, op, two_at_a_time.at(i), data[5].at(i))) << "element " << i;
  }
  EXPECT_TRUE(data[5].guard_is_intact(length));
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryPair, testing::ValuesIn(meaningful_pairs()), name_of_pair);

TEST(Kernels, AreEmptyWithoutMeaning) {
  for_each_pair([](InstructionSet set, ElementType type, ReduceOp op) {
    const Kernels kernels = find_kernels(set, type, op);
    EXPECT_EQ(static_cast<bool>(kernels), has_meaning(type, op)) << name_of(type) << ' ' << name_of(op);
    EXPECT_EQ(kernels.two == nullptr, kernels.four == nullptr);
    EXPECT_EQ(kernels.two == nullptr, kernels.eight == nullptr);
  });
}

TEST(Kernels, AreThoseOfTheBestInstructionSet) {
  EXPECT_EQ(available_sets().back(), instruction_set());
  EXPECT_EQ(find_kernels(ElementType::float32, ReduceOp::sum).two,
            find_kernels(instruction_set(), ElementType::float32, ReduceOp::sum).two);
}

TEST(Kernels, KnowNamesAndWidths) {
  EXPECT_EQ(name_of(ElementType::int8), "int8");
  EXPECT_EQ(name_of(ElementType::bfloat16), "bfloat16");
  EXPECT_EQ(name_of(ElementType::boolean), "boolean");
  EXPECT_EQ(name_of(ReduceOp::sum), "sum");
  EXPECT_EQ(name_of(ReduceOp::bitwise_xor), "bitwise_xor");
  EXPECT_EQ(name_of(InstructionSet::avx512), "avx512");
  for (std::size_t index = 0; index < element_type_count; ++index) {
    visit(static_cast<ElementType>(index), [&]<class T>(T) {
      EXPECT_EQ(width_of(static_cast<ElementType>(index)), is_half<T> ? 2 : sizeof(T));
    });
  }
}

class EverySet : public testing::TestWithParam<InstructionSet> {};
INSTANTIATE_TEST_SUITE_P(Kernels, EverySet, testing::ValuesIn(available_sets()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

std::vector<std::uint16_t> every_half() {
  std::vector<std::uint16_t> values(65536);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
  return values;
}

// Negative zero is the neutral element of the sum, also for itself: what is left are the conversions.
TEST_P(EverySet, ConvertsEveryHalfAndBack) {
  for (const auto& [type, format] :
       {std::pair{ElementType::float16, float16_format}, std::pair{ElementType::bfloat16, bfloat16_format}}) {
    const auto kernels = find_kernels(GetParam(), type, ReduceOp::sum);
    const auto values = every_half();
    const std::vector<std::uint16_t> negative_zero(values.size(), 0x8000);
    std::vector<std::uint16_t> sums(values.size());
    const void* const operands[] = {values.data(), negative_zero.data()};
    kernels.two(sums.data(), operands, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool nan = is_nan(format, values[i]);
      ASSERT_EQ(sums[i], nan ? quiet(format, values[i]) : values[i]);
      ASSERT_TRUE(nan || encode(format, decode(format, values[i])) == values[i]) << "bad reference";
    }
  }
}

// One operand takes every value; the other ones are chosen to hit ties, subnormals and overflow.
TEST_P(EverySet, RoundsEveryHalfLikeTheReference) {
  for (const auto type : {ElementType::float16, ElementType::bfloat16}) {
    const auto values = every_half();
    std::vector<std::uint16_t> partner(values.size());
    std::vector<std::uint16_t> results(values.size());
    const void* const operands[] = {values.data(), partner.data()};
    for (const auto op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max}) {
      const auto kernels = find_kernels(GetParam(), type, op);
      for (const std::uint16_t bits :
           {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x1401, 0x3b80, 0x3c00, 0x3c01, 0x3f80, 0x3f81,
            0xbf7f, 0x5a33, 0x7bff, 0x7c00, 0x7f7f, 0xff80}) {
        std::fill(partner.begin(), partner.end(), bits);
        kernels.two(results.data(), operands, values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
          std::uint16_t reference = 0;
          combine_reference(type, op, &reference, &values[i], &bits);
          ASSERT_TRUE(same_element(type, op, &reference, &results[i]))
              << name_of(type) << ' ' << name_of(op) << std::hex << " of 0x" << values[i] << " and 0x" << bits
              << " is 0x" << results[i] << ", not 0x" << reference;
        }
      }
    }
  }
}

TEST_P(EverySet, RoundsTiesToEven) {
  struct Case {
    ElementType type;
    std::uint16_t left, right, sum;
  };
  for (const auto& [type, left, right, sum] : {
           Case{ElementType::bfloat16, 0x3f80, 0x3b80, 0x3f80},  // 1 + 1/256: down to 1
           Case{ElementType::bfloat16, 0x3f81, 0x3b80, 0x3f82},  // 1 + 3/256: up to 1 + 4/256
           Case{ElementType::bfloat16, 0x3f80, 0x3b81, 0x3f81},  // just above the tie
           Case{ElementType::bfloat16, 0x7f7f, 0x7b00,
                0x7f80},  // the largest + half its last place: infinity
           Case{ElementType::bfloat16, 0x7f7f, 0x7aff, 0x7f7f},
           Case{ElementType::float16, 0x6800, 0x3c00, 0x6800},  // 2048 + 1: down to 2048
           Case{ElementType::float16, 0x6801, 0x3c00, 0x6802},  // 2050 + 1: up to 2052
           Case{ElementType::float16, 0x7bff, 0x4c00, 0x7c00},  // 65504 + 16: infinity
           Case{ElementType::float16, 0x7bff, 0x4bff, 0x7bff},
       }) {
    for (const std::size_t count : {1, 40}) {
      const std::vector<std::uint16_t> lefts(count, left);
      const std::vector<std::uint16_t> rights(count, right);
      std::vector<std::uint16_t> sums(count);
      const void* const operands[] = {lefts.data(), rights.data()};
      find_kernels(GetParam(), type, ReduceOp::sum).two(sums.data(), operands, count);
      EXPECT_EQ(sums, std::vector<std::uint16_t>(count, sum)) << name_of(type) << std::hex << ' ' << left;
    }
  }
}

// A NaN among numbers keeps its payload and becomes quiet, wherever it stands (R tells NA from NaN by it).
template <class Bits>
void check_nan_payload(InstructionSet set, ElementType type, Bits one, Bits signalling, Bits quiet_bit) {
  constexpr std::size_t count = 47;
  for (const auto op : {ReduceOp::sum, ReduceOp::prod}) {
    for (std::size_t position = 0; position < 8; ++position) {
      std::array<std::vector<Bits>, 8> data;
      data.fill(std::vector<Bits>(count, one));
      data[position].assign(count, signalling);
      std::array<const void*, 8> operands{};
      for (std::size_t k = 0; k < 8; ++k) operands[k] = data[k].data();
      std::vector<Bits> result(count);
      find_kernels(set, type, op).eight(result.data(), operands.data(), count);
      EXPECT_EQ(result, std::vector<Bits>(count, signalling | quiet_bit))
          << name_of(type) << " at " << position;
    }
  }
}

TEST_P(EverySet, KeepsTheNanPayload) {
  check_nan_payload<std::uint16_t>(GetParam(), ElementType::float16, 0x3c00, 0xfd5a, 0x0200);
  check_nan_payload<std::uint16_t>(GetParam(), ElementType::bfloat16, 0x3f80, 0xff95, 0x0040);
  check_nan_payload<std::uint32_t>(GetParam(), ElementType::float32, 0x3f800000, 0xff8007a2, 0x00400000);
  check_nan_payload<std::uint64_t>(GetParam(), ElementType::float64, 0x3ff0000000000000, 0x7ff00000000007a2,
                                   0x0008000000000000);
}

// The left one stays unless the right one is better: so do the first of two zeros, and a NaN that came first.
TEST_P(EverySet, OrdersZerosAndNansByPosition) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 4> left = {0.0f, -0.0f, nan, 1.0f};
  const std::array<float, 4> right = {-0.0f, 0.0f, 1.0f, nan};
  const void* const operands[] = {left.data(), right.data()};
  for (const auto op : {ReduceOp::min, ReduceOp::max}) {
    std::array<float, 4> result{};
    find_kernels(GetParam(), ElementType::float32, op).two(result.data(), operands, result.size());
    EXPECT_EQ(std::memcmp(result.data(), left.data(), sizeof(result)), 0) << name_of(op);
  }
}

}  // namespace
}  // namespace offbeat
