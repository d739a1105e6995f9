// SPDX-License-Identifier: BSD-3-Clause
//
// Every predefined type x every operation that MPI allows on it x counts
// 0, 1, p-1, p, p+1, 1000, 100000 x in place or not, against values computed here.
//
//   --stride S --offset O   check only the cases with number % S == O
//   --max-count C           leave out longer messages
//   --bits 1                also check that all ranks get the same bits, each time (allreduce_bits.h)
//
// Values are small integers, so that floating point is exact in any order.
#include <complex>
#include <cstdint>
#include <functional>
#include <vector>

#include "allreduce_bits.h"
#include "check.h"

namespace {

long stride, offset, case_number;
std::vector<int> counts;

struct Operation {
  const char* name;
  MPI_Op op;
};

const Operation kArithmetic[] = {{"SUM", MPI_SUM}, {"PROD", MPI_PROD}};
const Operation kOrder[] = {{"MIN", MPI_MIN}, {"MAX", MPI_MAX}};
const Operation kLogical[] = {{"LAND", MPI_LAND}, {"LOR", MPI_LOR}, {"LXOR", MPI_LXOR}};
const Operation kBitwise[] = {{"BAND", MPI_BAND}, {"BOR", MPI_BOR}, {"BXOR", MPI_BXOR}};

// What `rank` contributes at element `i`. The result is in `repeat`s of 12 elements.
constexpr int kPeriod = 12;

template <typename T>
struct Imaginary {
  static T unit() { return T(1); }
};
template <typename T>
struct Imaginary<std::complex<T>> {
  static std::complex<T> unit() { return {T(1), T(1)}; }
};

template <typename T>
T contribution(MPI_Op op, int rank, int i) {
  i %= kPeriod;
  if (op == MPI_SUM) return T((rank * 3 + i) % 5) * Imaginary<T>::unit();
  if (op == MPI_PROD) return (rank + i) % 4 == 0 ? T(2) * Imaginary<T>::unit() : T(1);
  if (op == MPI_MIN || op == MPI_MAX) return T((rank * 7 + i * 3) % 11);
  if (op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR) return T((rank + i) % 3);
  return T((rank * 11 + i * 37) & 0x7f);
}

// One step of the fold; for types that have the operation.
template <typename T>
T arithmetic(MPI_Op op, T a, T b) {
  return op == MPI_SUM ? T(a + b) : T(a * b);
}
template <typename T>
T order(MPI_Op op, T a, T b) {
  return (op == MPI_MIN) == (b < a) ? b : a;
}
template <typename T>
T logical(MPI_Op op, T a, T b) {
  const bool x = a != T(0), y = b != T(0);
  return T(op == MPI_LAND ? (x && y) : op == MPI_LOR ? (x || y) : (x != y));
}
template <typename T>
T bitwise(MPI_Op op, T a, T b) {
  return T(op == MPI_BAND ? (a & b) : op == MPI_BOR ? (a | b) : (a ^ b));
}

template <typename T>
void check_one(const char* type_name, MPI_Datatype type, Operation operation, int count, bool in_place,
               T (*fold)(MPI_Op, T, T)) {
  if (case_number++ % stride != offset) return;
  const T guard = T(77);
  std::vector<T> input(count + 1, guard), output(count + 1, guard);
  for (int i = 0; i < count; ++i) input[i] = contribution<T>(operation.op, world_rank, i);
  if (in_place) output = input;
  const int code = allreduce(in_place ? MPI_IN_PLACE : input.data(), output.data(), count, type, operation.op,
                             MPI_COMM_WORLD);
  T expected[kPeriod];
  for (int i = 0; i < kPeriod; ++i) {
    expected[i] = contribution<T>(operation.op, 0, i);
    for (int rank = 1; rank < world_size; ++rank)
      expected[i] = fold(operation.op, expected[i], contribution<T>(operation.op, rank, i));
  }
  int wrong = -1;
  for (int i = 0; i < count && wrong < 0; ++i) {
    if (output[i] != expected[i % kPeriod]) wrong = i;
    if (!in_place && input[i] != contribution<T>(operation.op, world_rank, i)) wrong = i;
  }
  if (output[count] != guard) wrong = count;
  CHECK(code == MPI_SUCCESS && wrong < 0, "%s %s count %d%s: %s at element %d", type_name, operation.name,
        count, in_place ? " in place" : "", wrong == count ? "wrote past the end" : "wrong", wrong);
}

template <typename T, std::size_t N>
void check_operations(const char* type_name, MPI_Datatype type, const Operation (&operations)[N],
                      T (*fold)(MPI_Op, T, T)) {
  // An MPI without Fortran has no MPI_INTEGER. It says so in one of four ways.
  int size = 0;
  if (type == MPI_DATATYPE_NULL) return;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int code = MPI_Type_size(type, &size);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  if (code != MPI_SUCCESS || size == 0 || size == MPI_UNDEFINED) return;
  CHECK(size == int(sizeof(T)), "%s has %d bytes", type_name, size);
  for (Operation operation : operations)
    for (int count : counts)
      for (bool in_place : {false, true}) check_one<T>(type_name, type, operation, count, in_place, fold);
}

template <typename T>
void integer(const char* name, MPI_Datatype type) {
  check_operations<T>(name, type, kArithmetic, arithmetic<T>);
  check_operations<T>(name, type, kOrder, order<T>);
  check_operations<T>(name, type, kBitwise, bitwise<T>);
}
template <typename T>
void c_integer(const char* name, MPI_Datatype type) {
  integer<T>(name, type);
  check_operations<T>(name, type, kLogical, logical<T>);
}
template <typename T>
void floating(const char* name, MPI_Datatype type) {
  check_operations<T>(name, type, kArithmetic, arithmetic<T>);
  check_operations<T>(name, type, kOrder, order<T>);
}
template <typename T>
void complex(const char* name, MPI_Datatype type) {
  check_operations<T>(name, type, kArithmetic, arithmetic<T>);
}

#define TYPE(kind, ctype, name) kind<ctype>(#name, name)

void all_types() {
  TYPE(c_integer, signed char, MPI_SIGNED_CHAR);
  TYPE(c_integer, unsigned char, MPI_UNSIGNED_CHAR);
  TYPE(c_integer, short, MPI_SHORT);
  TYPE(c_integer, unsigned short, MPI_UNSIGNED_SHORT);
  TYPE(c_integer, int, MPI_INT);
  TYPE(c_integer, unsigned, MPI_UNSIGNED);
  TYPE(c_integer, long, MPI_LONG);
  TYPE(c_integer, unsigned long, MPI_UNSIGNED_LONG);
  TYPE(c_integer, long long, MPI_LONG_LONG);
  TYPE(c_integer, unsigned long long, MPI_UNSIGNED_LONG_LONG);
  TYPE(c_integer, std::int8_t, MPI_INT8_T);
  TYPE(c_integer, std::int16_t, MPI_INT16_T);
  TYPE(c_integer, std::int32_t, MPI_INT32_T);
  TYPE(c_integer, std::int64_t, MPI_INT64_T);
  TYPE(c_integer, std::uint8_t, MPI_UINT8_T);
  TYPE(c_integer, std::uint16_t, MPI_UINT16_T);
  TYPE(c_integer, std::uint32_t, MPI_UINT32_T);
  TYPE(c_integer, std::uint64_t, MPI_UINT64_T);
  TYPE(integer, MPI_Aint, MPI_AINT);
  TYPE(integer, MPI_Offset, MPI_OFFSET);
  TYPE(integer, MPI_Count, MPI_COUNT);
  TYPE(integer, std::int32_t, MPI_INTEGER);
  TYPE(integer, std::int8_t, MPI_INTEGER1);
  TYPE(integer, std::int16_t, MPI_INTEGER2);
  TYPE(integer, std::int32_t, MPI_INTEGER4);
  TYPE(integer, std::int64_t, MPI_INTEGER8);
  TYPE(floating, float, MPI_FLOAT);
  TYPE(floating, double, MPI_DOUBLE);
  TYPE(floating, long double, MPI_LONG_DOUBLE);
  TYPE(floating, float, MPI_REAL);
  TYPE(floating, double, MPI_DOUBLE_PRECISION);
  TYPE(floating, float, MPI_REAL4);
  TYPE(floating, double, MPI_REAL8);
  TYPE(complex, std::complex<float>, MPI_C_FLOAT_COMPLEX);
  TYPE(complex, std::complex<double>, MPI_C_DOUBLE_COMPLEX);
  TYPE(complex, std::complex<long double>, MPI_C_LONG_DOUBLE_COMPLEX);
  TYPE(complex, std::complex<float>, MPI_CXX_FLOAT_COMPLEX);
  TYPE(complex, std::complex<double>, MPI_CXX_DOUBLE_COMPLEX);
  TYPE(complex, std::complex<long double>, MPI_CXX_LONG_DOUBLE_COMPLEX);
  TYPE(complex, std::complex<float>, MPI_COMPLEX);
  TYPE(complex, std::complex<double>, MPI_DOUBLE_COMPLEX);
  check_operations<unsigned char>("MPI_BYTE", MPI_BYTE, kBitwise, bitwise<unsigned char>);
  check_operations<std::int32_t>("MPI_LOGICAL", MPI_LOGICAL, kLogical, logical<std::int32_t>);
}

}  // namespace

// bool needs an array that is not std::vector<bool>, and only 0 and 1 as values.
static void check_bool(const char* name, MPI_Datatype type, const Operation& operation, int count,
                       bool in_place) {
  if (case_number++ % stride != offset || type == MPI_DATATYPE_NULL) return;
  bool* input = static_cast<bool*>(allocate(count));
  bool* output = static_cast<bool*>(allocate(count));
  for (int i = 0; i < count; ++i) input[i] = output[i] = (world_rank + i) % 3 != 0;
  allreduce(in_place ? MPI_IN_PLACE : input, output, count, type, operation.op, MPI_COMM_WORLD);
  int wrong = -1;
  for (int i = 0; i < count && wrong < 0; ++i) {
    bool expected = i % 3 != 0;
    for (int rank = 1; rank < world_size; ++rank)
      expected = logical<bool>(operation.op, expected, (rank + i) % 3 != 0);
    unsigned char byte;
    memcpy(&byte, output + i, 1);
    if (byte != (expected ? 1 : 0)) wrong = i;
  }
  CHECK(wrong < 0, "%s %s count %d%s: wrong at element %d", name, operation.name, count,
        in_place ? " in place" : "", wrong);
  free(input);
  free(output);
}

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  stride = option(argc, argv, "--stride", 1);
  offset = option(argc, argv, "--offset", 0) % stride;
  const long max_count = option(argc, argv, "--max-count", 100000);
  for (int count : {0, 1, world_size - 1, world_size, world_size + 1, 1000, 100000})
    if (count <= max_count) counts.push_back(count);
  all_types();
  for (const Operation& operation : kLogical)
    for (int count : counts)
      for (bool in_place : {false, true}) {
        check_bool("MPI_C_BOOL", MPI_C_BOOL, operation, count, in_place);
        check_bool("MPI_CXX_BOOL", MPI_CXX_BOOL, operation, count, in_place);
      }
  if (option(argc, argv, "--bits", 0) != 0) check_bits(max_count);
  return check_finish();
}
