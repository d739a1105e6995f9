// SPDX-License-Identifier: BSD-3-Clause
// liboffbeat.so, as a program without MPI uses it.
#include <dirent.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ranks.hpp"
#include "support/stub_gpu.h"

namespace {

using ranks::call_of;
using ranks::make_group;
using ranks::require;
using ranks::Shared;

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void expect_success(const std::vector<int>& ends) { EXPECT_EQ(ends, std::vector<int>(ends.size(), 0)); }

// -- types

// Converts between double and each type of the interface. Every value here is a small whole number, which all
// types can hold, so each order of operations gives the same bits.
struct Type {
  offbeat_type type;
  std::size_t width;
  bool is_integer;
};
constexpr Type types[] = {
    {OFFBEAT_INT8, 1, true},
    {OFFBEAT_INT16, 2, true},
    {OFFBEAT_INT32, 4, true},
    {OFFBEAT_INT64, 8, true},
    {OFFBEAT_UINT8, 1, true},
    {OFFBEAT_UINT16, 2, true},
    {OFFBEAT_UINT32, 4, true},
    {OFFBEAT_UINT64, 8, true},
    {OFFBEAT_FLOAT16, 2, false},
    {OFFBEAT_BFLOAT16, 2, false},
    {OFFBEAT_FLOAT32, 4, false},
    {OFFBEAT_FLOAT64, 8, false},
    {OFFBEAT_LONG_DOUBLE, sizeof(long double), false},
    {OFFBEAT_COMPLEX64, 8, false},
    {OFFBEAT_COMPLEX128, 16, false},
    {OFFBEAT_BOOL, 1, true},
};

std::uint16_t half_of(float value) {  // whole numbers up to 2048 only
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent);  // 0.5 <= fraction < 1
  const auto mantissa = static_cast<std::uint16_t>(std::lround((fraction * 2 - 1) * 1024));
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | ((exponent - 1 + 15) << 10) | mantissa);
}

template <class Value>
void put(std::byte* to, Value value) {
  std::memcpy(to, &value, sizeof value);
}

void store(offbeat_type type, double value, std::byte* to) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (type) {
    case OFFBEAT_INT8:
    case OFFBEAT_UINT8:
      return put(to, static_cast<std::uint8_t>(whole));
    case OFFBEAT_INT16:
    case OFFBEAT_UINT16:
      return put(to, static_cast<std::uint16_t>(whole));
    case OFFBEAT_INT32:
    case OFFBEAT_UINT32:
      return put(to, static_cast<std::uint32_t>(whole));
    case OFFBEAT_INT64:
    case OFFBEAT_UINT64:
      return put(to, static_cast<std::uint64_t>(whole));
    case OFFBEAT_FLOAT16:
      return put(to, half_of(static_cast<float>(value)));
    case OFFBEAT_BFLOAT16: {
      const auto single = static_cast<float>(value);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &single, sizeof bits);
      return put(to, static_cast<std::uint16_t>(bits >> 16));
    }
    case OFFBEAT_FLOAT32:
      return put(to, static_cast<float>(value));
    case OFFBEAT_FLOAT64:
      return put(to, value);
    case OFFBEAT_LONG_DOUBLE: {
      std::memset(to, 0, sizeof(long double));
      const auto wide = static_cast<long double>(value);
      std::memcpy(to, &wide, 10);
      return;
    }
    case OFFBEAT_COMPLEX64:
      put(to, static_cast<float>(value));
      return put(to + sizeof(float), 0.0F);
    case OFFBEAT_COMPLEX128:
      put(to, value);
      return put(to + sizeof(double), 0.0);
    case OFFBEAT_BOOL:
      return put(to, static_cast<std::uint8_t>(whole != 0));
    default:
      std::abort();
  }
}

// Returns what offbeat gives for values of all ranks, in rank order; not a number if the operation is not
// defined on the type.
double combined(const Type& type, offbeat_op op, const std::vector<double>& values) {
  const bool is_complex = type.type == OFFBEAT_COMPLEX64 || type.type == OFFBEAT_COMPLEX128;
  const bool is_bool = type.type == OFFBEAT_BOOL;
  const auto fold = [&](auto&& step) {
    return std::accumulate(values.begin() + 1, values.end(), values.front(), step);
  };
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  switch (op) {
    case OFFBEAT_SUM:
      if (is_bool) return NAN;
      return fold([](double a, double b) { return a + b; });
    case OFFBEAT_PROD:
      if (is_bool) return NAN;
      return fold([](double a, double b) { return a * b; });
    case OFFBEAT_MIN:
      if (is_complex || is_bool) return NAN;
      return fold([](double a, double b) { return std::min(a, b); });
    case OFFBEAT_MAX:
      if (is_complex || is_bool) return NAN;
      return fold([](double a, double b) { return std::max(a, b); });
    case OFFBEAT_BITWISE_AND:
      if (!type.is_integer || is_bool) return NAN;
      return fold([&](double a, double b) { return static_cast<double>(whole(a) & whole(b)); });
    case OFFBEAT_BITWISE_OR:
      if (!type.is_integer || is_bool) return NAN;
      return fold([&](double a, double b) { return static_cast<double>(whole(a) | whole(b)); });
    case OFFBEAT_BITWISE_XOR:
      if (!type.is_integer || is_bool) return NAN;
      return fold([&](double a, double b) { return static_cast<double>(whole(a) ^ whole(b)); });
    default:
      return NAN;
  }
}

bool is_defined(offbeat_type type, offbeat_op op) {
  std::byte a[32]{}, b[32]{};
  const void* operands[] = {a, b};
  return offbeat_reduce(a, operands, 2, 1, type, op) == OFFBEAT_OK;
}

// The value of element `index` on `rank`: 0, 1 or 2, so that products of four ranks stay small.
double value_of(int rank, std::size_t index) {
  return static_cast<double>((index * 7 + static_cast<std::size_t>(rank) * 3 + index / 5) % 3);
}

// -- every collective against a local computation

using Bytes = std::vector<std::byte>;

// One call on one rank: its vectors before, and what must be in the output afterwards.
struct Case {
  Bytes input;
  Bytes output;
  Bytes expected;
  std::vector<std::size_t> input_counts;
  std::vector<std::size_t> output_counts;
  offbeat_call call;
};

Bytes vector_of(const Type& type, std::size_t count, int rank, std::size_t first = 0) {
  Bytes bytes(count * type.width);
  for (std::size_t k = 0; k < count; ++k)
    store(type.type, value_of(rank, first + k), bytes.data() + k * type.width);
  return bytes;
}

Bytes combined_vector(const Type& type, offbeat_op op, std::size_t count, int ranks, std::size_t first = 0) {
  Bytes bytes(count * type.width);
  std::vector<double> values(static_cast<std::size_t>(ranks));
  for (std::size_t k = 0; k < count; ++k) {
    for (int r = 0; r < ranks; ++r) values[static_cast<std::size_t>(r)] = value_of(r, first + k);
    store(type.type, combined(type, op, values), bytes.data() + k * type.width);
  }
  return bytes;
}

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

// The length of the block that `giver` has for `taker` in an alltoallv, or of a rank's block otherwise.
std::size_t length_of(std::size_t count, int giver, int taker) {
  return count * static_cast<std::size_t>((giver + 2 * taker) % 3) / 2;
}

Case make_case(offbeat_group* group, const std::string& collective, const Type& type, offbeat_op op,
               std::size_t count, int rank, int ranks, int root) {
  Case made;
  const auto p = static_cast<std::size_t>(ranks);
  const bool is_root = rank == root;
  made.call = call_of(group, collective.c_str());
  made.call.count = count;
  made.call.type = type.type;
  made.call.op = op;
  made.call.root = root;
  if (collective == "allreduce") {
    made.input = vector_of(type, count, rank);
    made.expected = combined_vector(type, op, count, ranks);
  } else if (collective == "reduce") {
    made.input = vector_of(type, count, rank);
    if (is_root) made.expected = combined_vector(type, op, count, ranks);
  } else if (collective == "scan") {
    made.input = vector_of(type, count, rank);
    made.expected = combined_vector(type, op, count, rank + 1);
  } else if (collective == "exscan") {
    made.input = vector_of(type, count, rank);
    if (rank > 0) made.expected = combined_vector(type, op, count, rank);
  } else if (collective == "reduce_scatter_block") {
    made.input = vector_of(type, count * p, rank);
    made.expected = combined_vector(type, op, count, ranks, count * static_cast<std::size_t>(rank));
  } else if (collective == "reduce_scatter") {
    std::size_t begin = 0;
    for (int r = 0; r < ranks; ++r) made.input_counts.push_back(length_of(count, r, 0));
    for (int r = 0; r < rank; ++r) begin += made.input_counts[static_cast<std::size_t>(r)];
    made.input = vector_of(
        type, std::accumulate(made.input_counts.begin(), made.input_counts.end(), std::size_t{0}), rank);
    made.expected =
        combined_vector(type, op, made.input_counts[static_cast<std::size_t>(rank)], ranks, begin);
  } else if (collective == "bcast") {
    if (is_root) made.output = vector_of(type, count, root);
    made.expected = vector_of(type, count, root);
  } else if (collective == "gather" || collective == "allgather") {
    made.input = vector_of(type, count, rank);
    for (int r = 0; r < ranks && (is_root || collective == "allgather"); ++r)
      append(made.expected, vector_of(type, count, r));
  } else if (collective == "allgatherv") {
    for (int r = 0; r < ranks; ++r) {
      made.output_counts.push_back(length_of(count, r, 0));
      append(made.expected, vector_of(type, made.output_counts.back(), r));
    }
    made.input = vector_of(type, made.output_counts[static_cast<std::size_t>(rank)], rank);
  } else if (collective == "scatter") {
    if (is_root) made.input = vector_of(type, count * p, root);
    made.expected = vector_of(type, count, root, count * static_cast<std::size_t>(rank));
  } else if (collective == "alltoall") {
    made.input = vector_of(type, count * p, rank);
    for (int r = 0; r < ranks; ++r)
      append(made.expected, vector_of(type, count, r, count * static_cast<std::size_t>(rank)));
  } else if (collective == "alltoallv") {
    for (int r = 0; r < ranks; ++r) {
      made.input_counts.push_back(length_of(count, rank, r));
      made.output_counts.push_back(length_of(count, r, rank));
      append(made.input, vector_of(type, made.input_counts.back(), rank, static_cast<std::size_t>(r)));
      append(made.expected, vector_of(type, made.output_counts.back(), r, static_cast<std::size_t>(rank)));
    }
  } else {
    made.call.count = 0;
  }
  made.output.resize(std::max(made.output.size(), made.expected.size()), std::byte{0x55});
  return made;
}

void finish(Case& made) {
  made.call.input = made.input.empty() ? nullptr : made.input.data();
  made.call.output = made.output.empty() ? nullptr : made.output.data();
  made.call.input_counts = made.input_counts.empty() ? nullptr : made.input_counts.data();
  made.call.output_counts = made.output_counts.empty() ? nullptr : made.output_counts.data();
}

// A long double has bytes without a meaning.
bool is_right(const Case& made) {
  if (made.call.type != OFFBEAT_LONG_DOUBLE)
    return std::equal(made.expected.begin(), made.expected.end(), made.output.begin());
  for (std::size_t at = 0; at < made.expected.size(); at += sizeof(long double)) {
    long double expected = 0, found = 0;
    std::memcpy(&expected, made.expected.data() + at, sizeof expected);
    std::memcpy(&found, made.output.data() + at, sizeof found);
    if (expected != found) return false;
  }
  return true;
}

const std::vector<std::string> combining{"allreduce", "reduce",         "scan",
                                         "exscan",    "reduce_scatter", "reduce_scatter_block"};
const std::vector<std::string> moving{"bcast",   "gather",   "allgather", "allgatherv",
                                      "scatter", "alltoall", "alltoallv", "barrier"};
constexpr offbeat_op ops[] = {OFFBEAT_SUM,         OFFBEAT_PROD,       OFFBEAT_MIN,        OFFBEAT_MAX,
                              OFFBEAT_BITWISE_AND, OFFBEAT_BITWISE_OR, OFFBEAT_BITWISE_XOR};

std::string text_of(const std::string& collective, const Type& type, offbeat_op op, std::size_t count,
                    int ranks) {
  return collective + ", type " + std::to_string(type.type) + ", op " + std::to_string(op) + ", " +
         std::to_string(count) + " elements, " + std::to_string(ranks) + " ranks";
}

void run_and_check(Case made, const std::string& what, bool begins) {
  finish(made);
  if (begins) {
    offbeat_request* request = nullptr;
    require(offbeat_begin(&made.call, &request) == OFFBEAT_OK, what);
    require(offbeat_wait(&request) == OFFBEAT_OK, what);
  } else {
    require(offbeat_run(&made.call) == OFFBEAT_OK, what);
  }
  require(is_right(made), "wrong result: " + what);
}

class Groups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Groups, testing::Values(1, 2, 3, 4, 7));

TEST_P(Groups, CombineEveryTypeWithEveryOperation) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, size);
    int checked = 0;
    for (const std::string& collective : combining) {
      for (const Type& type : types) {
        for (const offbeat_op op : ops) {
          const double sample = combined(type, op, {1, 2});
          if (!is_defined(type.type, op) || std::isnan(sample)) continue;
          for (const std::size_t count : {std::size_t{1}, std::size_t{77}, std::size_t{5000}}) {
            const std::string what = text_of(collective, type, op, count, size);
            run_and_check(make_case(group, collective, type, op, count, rank, size, size - 1), what,
                          count == 77);
            ++checked;
          }
        }
      }
    }
    require(checked > 6 * 3 * 70, "too few cases: " + std::to_string(checked));
    offbeat_group_free(&group);
  }));
}

TEST_P(Groups, MoveVectorsOfEveryLength) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, size);
    for (const std::string& collective : moving) {
      for (const bool begins : {false, true}) {
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{3000}, std::size_t{400'000}}) {
          const Type& type = types[2];
          run_and_check(make_case(group, collective, type, OFFBEAT_SUM, count, rank, size, size / 2),
                        text_of(collective, type, OFFBEAT_SUM, count, size), begins);
        }
      }
    }
    offbeat_group_free(&group);
  }));
}

TEST_P(Groups, CombineLongVectors) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, size);
    for (const std::string& collective : combining) {
      for (const bool begins : {false, true}) {
        const Type& type = types[10];
        run_and_check(make_case(group, collective, type, OFFBEAT_SUM, 700'000, rank, size, 0),
                      text_of(collective, type, OFFBEAT_SUM, 700'000, size), begins);
      }
    }
    offbeat_group_free(&group);
  }));
}

// Even ranks have their vectors on a GPU, which is a stub. Each rank gives ones, so every type can hold the
// sum.
TEST_P(Groups, CombineMemoryOfAGpu) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, size);
    const bool has_gpu = rank % 2 == 0;
    const stub_gpu gpu = has_gpu ? stub_load(STUB_CUDA) : stub_gpu{};
    struct Ones {
      offbeat_type type;
      std::uint16_t one;
      std::uint16_t sums[8];  // of 1, 2, 3, ... ones
    };
    constexpr Ones narrow[] = {
        {OFFBEAT_FLOAT16, 0x3c00, {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800}},
        {OFFBEAT_BFLOAT16, 0x3f80, {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100}}};
    for (const auto& [type, one, sums] : narrow) {
      for (const std::size_t count : {1, 3000, 700'000}) {
        for (const bool begins : {false, true}) {
          std::vector<std::uint16_t> input(count, one);
          std::vector<std::uint16_t> output(count, 7);
          const std::size_t bytes = 2 * count;
          void* const there[] = {has_gpu ? gpu.allocate(bytes, STUB_DEVICE) : nullptr,
                                 has_gpu ? gpu.allocate(bytes, STUB_DEVICE) : nullptr};
          if (has_gpu) gpu.write(there[0], input.data(), bytes);
          offbeat_call call = call_of(group, "allreduce");
          call.input = has_gpu ? there[0] : input.data();
          call.output = has_gpu ? there[1] : output.data();
          call.count = count;
          call.type = type;
          call.op = OFFBEAT_SUM;
          const long blocking = has_gpu ? gpu.calls(STUB_BLOCKING) : 0;
          if (begins) {
            offbeat_request* request = nullptr;
            require(offbeat_begin(&call, &request) == OFFBEAT_OK, "begin");
            require(offbeat_wait(&request) == OFFBEAT_OK, "wait");
            require(!has_gpu || size == 1 || gpu.calls(STUB_BLOCKING) == blocking, "a copy kept it waiting");
          } else {
            require(offbeat_run(&call) == OFFBEAT_OK, "run");
          }
          if (has_gpu) gpu.read(output.data(), there[1], bytes);
          const std::vector<std::uint16_t> expected(count, sums[size - 1]);
          require(output == expected, "wrong sum of " + std::to_string(count));
          for (void* const each : there) {
            if (each != nullptr) gpu.release(each);
          }
        }
      }
    }
    offbeat_group_free(&group);
  }));
}

// All ranks get the error of a rank whose driver does not copy, or the sum.
TEST(Group, TellsWhoseDriverFails) {
  expect_success(ranks::run(3, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 3);
    std::vector<float> values(300'000, 1);
    offbeat_call call = call_of(group, "allreduce");
    call.output = values.data();
    call.count = values.size();
    call.type = OFFBEAT_FLOAT32;
    call.op = OFFBEAT_SUM;
    if (rank == 1) {
      const stub_gpu gpu = stub_load(STUB_CUDA);
      call.output = gpu.allocate(values.size() * sizeof(float), STUB_DEVICE);
      gpu.fail(STUB_READ, 719);
    }
    require(offbeat_run(&call) != OFFBEAT_OK, "no error");
    const std::string text = offbeat_error_text();
    require(text.find("rank 1") != std::string::npos, "the rank is not named");
    require(text.find("cuMemcpyDtoHAsync fails with error 719") != std::string::npos, "no reason");
    offbeat_group_free(&group);
  }));
}

// Random calls in two groups with different orders of the ranks. Up to four are under way at once.
TEST_P(Groups, RandomSequencesInSeveralGroups) {
  const int size = GetParam();
  expect_success(ranks::run(size, [size](Shared& shared, int rank) {
    offbeat_group* groups[] = {make_group(shared, rank, size, 0),
                               make_group(shared, size - 1 - rank, size, 1)};
    std::mt19937 random(1234);  // equal on all ranks
    const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
    for (int sequence = 0; sequence < 150; ++sequence) {
      std::vector<Case> cases;
      std::vector<offbeat_request*> requests;
      const std::size_t length = 1 + below(4);
      cases.reserve(length);
      for (std::size_t k = 0; k < length; ++k) {
        const std::size_t which = below(2);
        const bool combines = below(2) == 0;
        const std::string& collective =
            combines ? combining[below(combining.size())] : moving[below(moving.size())];
        const Type& type = types[below(8)];
        const std::size_t count = below(3) == 0 ? below(20'000) : below(200);
        const int root = static_cast<int>(below(static_cast<std::size_t>(size)));
        const bool begins = below(2) == 0;
        const int mine = which == 0 ? rank : size - 1 - rank;
        cases.push_back(make_case(groups[which], collective, type, OFFBEAT_MAX, count, mine, size, root));
        finish(cases.back());
        if (begins) {
          requests.push_back(nullptr);
          require(offbeat_begin(&cases.back().call, &requests.back()) == OFFBEAT_OK, collective);
        } else {
          require(offbeat_run(&cases.back().call) == OFFBEAT_OK, collective);
        }
      }
      while (!requests.empty()) {  // in any order
        const std::size_t next = static_cast<std::size_t>(rand()) % requests.size();
        require(offbeat_wait(&requests[next]) == OFFBEAT_OK, "wait");
        requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(next));
      }
      for (const Case& each : cases) require(is_right(each), "wrong result in a sequence");
    }
    for (offbeat_group*& group : groups) offbeat_group_free(&group);
  }));
}

TEST(Group, TellsWhenACallIsDone) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    std::atomic<int> done{0};
    for (int k = 0; k < 200; ++k) {
      float value = 1;
      offbeat_call call = call_of(group, "allreduce");
      call.output = &value;
      call.count = 1;
      call.type = OFFBEAT_FLOAT32;
      call.done_state = &done;
      call.done = [](void* state, offbeat_status status, const char* text) {
        require(status == OFFBEAT_OK && text[0] == '\0', "a call has failed");
        ++*static_cast<std::atomic<int>*>(state);
      };
      if (rank == 1 && k % 50 == 0) usleep(20'000);
      require(offbeat_begin(&call, nullptr) == OFFBEAT_OK, "begin");
      while (done.load() <= k) sched_yield();  // no call of offbeat advances it
      require(value == 2, "wrong sum");
    }
    offbeat_group_free(&group);
  }));
}

// -- errors

// Calls allreduce and returns the status; the text stays in offbeat_error_text.
offbeat_status allreduce(offbeat_group* group, std::size_t count, double timeout_s = 0) {
  std::vector<float> data(count, 1.0F);
  offbeat_call call = call_of(group, "allreduce");
  call.output = data.data();
  call.count = count;
  call.type = OFFBEAT_FLOAT32;
  call.timeout_s = timeout_s;
  return offbeat_run(&call);
}

bool text_has(const std::string& what) {
  return std::string(offbeat_error_text()).find(what) != std::string::npos;
}

// One rank waits for a call that another rank has only begun, with the same bits.
TEST(Group, RunsCallsInTheirTurnAmongThoseThatWereBegun) {
  const std::vector<int> ends = ranks::run(3, [](ranks::Shared& shared, int rank) {
    offbeat_group* group = ranks::make_group(shared, rank, 3);
    for (int k = 0; k < 60; ++k) {
      std::vector<double> data(k % 3 == 0 ? 1 : k % 3 == 1 ? 100 : 50'000, rank + k);
      offbeat_call call = ranks::call_of(group, "allreduce");
      call.output = data.data();
      call.count = data.size();
      call.type = OFFBEAT_FLOAT64;
      call.as_begun = 1;
      if (k % 4 == rank) {
        offbeat_request* request = nullptr;
        ranks::require(offbeat_begin(&call, &request) == OFFBEAT_OK, "not begun");
        ranks::require(offbeat_wait(&request) == OFFBEAT_OK, "not waited for");
      } else {
        ranks::require(offbeat_run(&call) == OFFBEAT_OK, "not run");
      }
      for (const double each : data) ranks::require(each == 3 + 3 * k, "a wrong sum");
    }
    offbeat_group_free(&group);
  });
  for (const int end : ends) EXPECT_EQ(end, 0);
}

// What a program does whose functions for the end of a call wait for further calls.
struct Nested {
  offbeat_group* group;
  double sum = 1;
  std::atomic<int> over{0};

  static int is_over(void* self) { return static_cast<Nested*>(self)->over.load(); }
  void begin(void (*done)(void*, offbeat_status, const char*)) {
    offbeat_call call = ranks::call_of(group, "allreduce");
    call.output = &sum;
    call.count = 1;
    call.type = OFFBEAT_FLOAT64;
    call.done = done;
    call.done_state = this;
    ranks::require(offbeat_begin(&call, nullptr) == OFFBEAT_OK, "not begun");
  }
  static void end(void* self, offbeat_status status, const char*) {
    ranks::require(status == OFFBEAT_OK, "not ended well");
    static_cast<Nested*>(self)->over.store(1);
  }
  static void wait_for_another(void* self, offbeat_status status, const char*) {
    auto& mine = *static_cast<Nested*>(self);
    ranks::require(status == OFFBEAT_OK, "not ended well");
    Nested inner{.group = mine.group};
    inner.begin(end);
    ranks::require(offbeat_wait_until(mine.group, is_over, &inner) == OFFBEAT_OK, "no wait");
    ranks::require(inner.sum == 2, "a wrong inner sum");
    mine.over.store(1);
  }
};

TEST(Group, WaitsInAFunctionThatIsCalledAtTheEnd) {
  const std::vector<int> ends = ranks::run(2, [](ranks::Shared& shared, int rank) {
    std::array<offbeat_group*, 2> groups{ranks::make_group(shared, rank, 2, 0),
                                         ranks::make_group(shared, rank, 2, 1)};
    for (int k = 0; k < 100; ++k) {
      std::array<Nested, 2> calls{{{.group = groups[0]}, {.group = groups[1]}}};
      for (const int which : {(rank + k) % 2, (rank + k + 1) % 2})
        calls[static_cast<std::size_t>(which)].begin(Nested::wait_for_another);
      for (Nested& each : calls) {
        ranks::require(offbeat_wait_until(each.group, Nested::is_over, &each) == OFFBEAT_OK, "no wait");
        ranks::require(each.sum == 2, "a wrong sum");
      }
    }
    for (offbeat_group*& each : groups) offbeat_group_free(&each);
  });
  for (const int end : ends) EXPECT_EQ(end, 0);
}

// The memory of a group that is freed does not stay as it was.
TEST(Group, MayBeFreedBeforeItsRequestsAreWaitedFor) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    alarm(20);
    mallopt(M_PERTURB, 0x55);
    for (int size = rank == 0 ? 1 : 2; size <= 2; ++size) {
      offbeat_group* group = make_group(shared, rank, size, size - 1);
      offbeat_request* call_request = nullptr;
      offbeat_request* message_request = nullptr;
      offbeat_call call = call_of(group, "barrier");
      if (size == 1 || rank == 0) require(offbeat_begin(&call, &call_request) == OFFBEAT_OK, "no call");
      offbeat_message message = OFFBEAT_MESSAGE_INIT;
      message.group = group;
      message.peer = 1 - rank;
      if (size == 2) {
        require(offbeat_begin_receive(&message, &message_request) == OFFBEAT_OK, "no receive");
        ++shared.words[0];
        while (shared.words[0].load() < 2) sched_yield();
      }
      offbeat_group_free(&group);
      const offbeat_status expected = size == 1 ? OFFBEAT_OK : OFFBEAT_ERROR_RANK;
      if (call_request != nullptr) require(offbeat_wait(&call_request) == expected, "the call's end");
      if (message_request != nullptr)
        require(offbeat_wait(&message_request) == OFFBEAT_ERROR_RANK, "the message's end");
    }
  }));
}

class Mismatches : public testing::TestWithParam<std::pair<std::size_t, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(Lengths, Mismatches,
                         testing::Values(std::pair{1000, 1001}, std::pair{10, 5000},
                                         std::pair{50'000, 60'000}, std::pair{0, 7},
                                         std::pair{1'000'000, 3}));

TEST_P(Mismatches, AreErrorsOnAllRanks) {
  const auto [first, second] = GetParam();
  expect_success(ranks::run(3, [first = first, second = second](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 3);
    offbeat_status status = allreduce(group, rank == 2 ? second : first, 20);
    // An empty call waits for nobody, so it may end before the others have begun theirs.
    if (status == OFFBEAT_OK) status = allreduce(group, 4, 20);
    require(status == OFFBEAT_ERROR_MISMATCH, "no mismatch found: " + std::to_string(status));
    require(text_has("rank 2"), "the text names no rank");
    require(allreduce(group, 1) == OFFBEAT_ERROR_MISMATCH, "the error is forgotten");
    offbeat_group_free(&group);
  }));
}

TEST(Group, NoticesADifferentCollective) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    offbeat_call barrier = call_of(group, "barrier");
    barrier.timeout_s = 20;
    const offbeat_status status = rank == 0 ? offbeat_run(&barrier) : allreduce(group, 10, 20);
    require(status == OFFBEAT_ERROR_MISMATCH && text_has("barrier") && text_has("allreduce"), "no mismatch");
    offbeat_group_free(&group);
  }));
}

TEST(Group, NoticesADifferentLabelOfTheOperation) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    int sum = 1;
    offbeat_call call = call_of(group, "allreduce");
    call.output = &sum;
    call.count = 1;
    call.type = OFFBEAT_INT32;
    call.timeout_s = 20;
    call.op_label = 128;
    require(offbeat_run(&call) == OFFBEAT_ERROR_ARGUMENT, "a label of 128");
    call.op_label = 127;
    require(offbeat_run(&call) == OFFBEAT_OK && sum == 2, "equal labels");
    call.op_label = rank;
    require(offbeat_run(&call) == OFFBEAT_ERROR_MISMATCH && text_has("sum; rank 1") && text_has("sum 1"),
            "no mismatch");
    offbeat_group_free(&group);
  }));
}

TEST(Group, NoticesDifferentListsInAlltoallv) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    std::vector<int> input(200'000), output(200'000);
    const std::size_t given[] = {100, rank == 0 ? 100U : 100U};
    const std::size_t taken[] = {rank == 0 ? 100U : 100'000U, 100};
    offbeat_call call = call_of(group, "alltoallv");
    call.input = input.data();
    call.output = output.data();
    call.type = OFFBEAT_INT32;
    call.input_counts = given;
    call.output_counts = taken;
    call.timeout_s = 20;
    require(offbeat_run(&call) == OFFBEAT_ERROR_MISMATCH && text_has("alltoallv"), "no mismatch");
    offbeat_group_free(&group);
  }));
}

TEST(Group, NamesTheRankThatIsMissing) {
  expect_success(ranks::run(3, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 3);
    require(allreduce(group, 10) == OFFBEAT_OK, "allreduce");
    if (rank == 1) {
      while (shared.words[0].load() < 2) usleep(1000);
      require(allreduce(group, 10) == OFFBEAT_ERROR_TIMEOUT, "a late rank does not hear of the time-out");
    } else {
      long none = 0;  // of these two ranks only the first one to begin may wait for the whole time
      shared.words[1].compare_exchange_strong(none, static_cast<long>(1e9 * now_s()));
      const offbeat_status status = allreduce(group, 10, 0.5);
      ++shared.words[0];
      require(status == OFFBEAT_ERROR_TIMEOUT && text_has("for rank 1"), "no time-out");
      require(now_s() - 1e-9 * static_cast<double>(shared.words[1].load()) > 0.4, "it came too early");
    }
    offbeat_group_free(&group);
  }));
}

// A fourth call waits for its turn behind the first one, which has no time limit.
TEST(Group, CountsTheTimeBeforeACallHasItsTurn) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    if (rank == 0) {
      std::array<offbeat_request*, 4> requests{};
      const double began_s = now_s();
      for (std::size_t k = 0; k < requests.size(); ++k) {
        offbeat_call call = call_of(group, "barrier");
        call.timeout_s = k == 3 ? 0.3 : 0;
        require(offbeat_begin(&call, &requests[k]) == OFFBEAT_OK, "begin");
      }
      require(offbeat_wait(&requests[3]) == OFFBEAT_ERROR_TIMEOUT && text_has("0.3 s for rank 1"),
              "no time-out");
      require(now_s() - began_s > 0.25, "it came too early");
      for (offbeat_request*& each : requests) static_cast<void>(offbeat_wait(&each));
      shared.words[0] = 1;
    } else {
      while (shared.words[0].load() == 0) usleep(1000);
    }
    offbeat_group_free(&group);
  }));
}

TEST(Group, GivesUpWithAText) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    if (rank == 1) {
      usleep(50'000);
      offbeat_group_give_up(group, "the disk is full");
    }
    require(allreduce(group, 10) == OFFBEAT_ERROR_RANK, "no error");
    require(text_has("rank 1 has given up: the disk is full"), "another text");
    offbeat_group_free(&group);
  }));
}

TEST(Group, OfOneRankGivesUp) {
  expect_success(ranks::run(1, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 1);
    offbeat_group_give_up(group, "the disk is full");
    offbeat_group_give_up(group, "nor is there a printer");
    require(allreduce(group, 10) == OFFBEAT_ERROR_RANK, "no error");
    require(text_has("rank 0 has given up: the disk is full"), "another text");
    offbeat_group_free(&group);
  }));
}

// Two threads of each rank give up at the same moment. All get one of the texts, as a whole.
TEST(Group, HasOneReasonOnAllRanks) {
  for (int round = 0; round < 20; ++round) {
    expect_success(ranks::run(4, [](Shared& shared, int rank) {
      offbeat_group* group = make_group(shared, rank, 4);
      ++shared.words[0];
      while (shared.words[0].load() < 4) sched_yield();
      std::vector<std::thread> threads;
      for (int k = 0; k < 2; ++k) {
        threads.emplace_back([&, k] {
          const std::string why(150, static_cast<char>('a' + 2 * rank + k));
          offbeat_group_give_up(group, why.c_str());
        });
      }
      for (std::thread& each : threads) each.join();
      require(allreduce(group, 10) == OFFBEAT_ERROR_RANK, "no error");
      const std::string text = offbeat_error_text();
      std::strncpy(shared.texts[rank], text.c_str(), sizeof shared.texts[rank] - 1);
      const std::string why = text.substr(text.find(": ") + 2);
      require(why == std::string(150, why[0]), "a torn text: " + text);
      require(text.find("rank " + std::to_string((why[0] - 'a') / 2) + " has given up") == 0, "another rank");
      ++shared.words[1];
      while (shared.words[1].load() < 4) sched_yield();
      require(text == shared.texts[0], "the texts differ");
      offbeat_group_free(&group);
    }));
  }
}

TEST(Group, NoticesARankThatHasLeft) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    if (rank == 0) {
      require(allreduce(group, 10) == OFFBEAT_ERROR_RANK && text_has("rank 1 has left"), "no error");
      shared.words[0] = 1;
    }
    offbeat_group_free(&group);
    while (shared.words[0].load() == 0) usleep(1000);  // the process of rank 1 lives
  }));
}

// Other programs may have files in /dev/shm.
std::vector<std::string> files_in_shm() {
  std::vector<std::string> names;
  if (DIR* folder = opendir("/dev/shm")) {
    while (const dirent* entry = readdir(folder))
      if (std::string(entry->d_name).find("offbeat") != std::string::npos) names.emplace_back(entry->d_name);
    closedir(folder);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Killed : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Blocking, Killed, testing::Bool());

TEST_P(Killed, IsNamedWithinTwoSecondsAndLeavesNothing) {
  const bool begins = GetParam();
  const std::vector<std::string> before = files_in_shm();
  const std::vector<int> ends = ranks::run(3, [begins](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 3);
    require(allreduce(group, 10) == OFFBEAT_OK, "allreduce");
    if (rank == 1) {
      usleep(50'000);
      kill(getpid(), SIGKILL);
    }
    const double began_s = now_s();
    offbeat_status status = OFFBEAT_OK;
    if (begins) {
      float value = 1;
      offbeat_call call = call_of(group, "allreduce");
      call.output = &value;
      call.count = 1;
      call.type = OFFBEAT_FLOAT32;
      offbeat_request* request = nullptr;
      require(offbeat_begin(&call, &request) == OFFBEAT_OK, "begin");
      status = offbeat_wait(&request);
    } else {
      status = allreduce(group, 100'000);
    }
    require(status == OFFBEAT_ERROR_RANK && text_has("rank 1") && text_has("died"), "no error");
    require(now_s() - began_s < 2, "it took too long");
    offbeat_group_free(&group);
  });
  EXPECT_EQ(ends, (std::vector<int>{0, -SIGKILL, 0}));
  EXPECT_EQ(files_in_shm(), before);
}

// One rank may have too little room: for a file, or in its address space. Then no rank has a group, and each
// can make another one later.
class Limits : public testing::TestWithParam<std::pair<int, int>> {};
INSTANTIATE_TEST_SUITE_P(OfRanks, Limits,
                         testing::Values(std::pair{RLIMIT_FSIZE, 0}, std::pair{RLIMIT_AS, 0},
                                         std::pair{RLIMIT_AS, 2}));

TEST_P(Limits, AreErrorsOnAllRanks) {
  const auto [resource, limited] = GetParam();
  expect_success(ranks::run(3, [resource = resource, limited = limited](Shared& shared, int rank) {
    rlimit before{};
    getrlimit(static_cast<__rlimit_resource>(resource), &before);
    if (rank == limited) {
      const rlim_t most = resource == RLIMIT_AS ? rlim_t{100} << 20 : rlim_t{1} << 20;
      const rlimit less{most, before.rlim_max};
      setrlimit(static_cast<__rlimit_resource>(resource), &less);
    }
    ranks::Meeting me{&shared.boards[0], rank, 3};
    offbeat_group* group = nullptr;
    require(offbeat_group_make(rank, 3, ranks::exchange, &me, &group) == OFFBEAT_ERROR_SET_UP, "a group");
    require(group == nullptr && text_has(resource == RLIMIT_AS ? "no memory" : "File too large"),
            "another text");
    setrlimit(static_cast<__rlimit_resource>(resource), &before);
    group = make_group(shared, rank, 3, 1);
    require(allreduce(group, 10) == OFFBEAT_OK, "allreduce");
    offbeat_group_free(&group);
  }));
}

TEST(Group, OfTheParentIsNotTheChilds) {
  expect_success(ranks::run(2, [](Shared& shared, int rank) {
    offbeat_group* group = make_group(shared, rank, 2);
    require(allreduce(group, 10) == OFFBEAT_OK, "allreduce");
    const pid_t child = fork();
    if (child == 0) {
      require(allreduce(group, 10) == OFFBEAT_ERROR_ARGUMENT, "the child used its parent's group");
      offbeat_group* own = make_group(shared, rank, 2, 1);
      require(allreduce(own, 10) == OFFBEAT_OK, "the child's own group");
      offbeat_group_free(&own);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(status == 0, "the child has failed");
    require(allreduce(group, 10) == OFFBEAT_OK, "allreduce after the fork");
    offbeat_group_free(&group);
  }));
}

TEST(Group, RefusesBadArguments) {
  offbeat_group* group = nullptr;
  EXPECT_EQ(offbeat_group_make(2, 2, ranks::exchange, nullptr, &group), OFFBEAT_ERROR_ARGUMENT);
  EXPECT_EQ(offbeat_group_make(0, 2, nullptr, nullptr, &group), OFFBEAT_ERROR_ARGUMENT);
  ASSERT_EQ(offbeat_group_make(0, 1, nullptr, nullptr, &group), OFFBEAT_OK);
  offbeat_call call = call_of(group, "alltoallv");
  EXPECT_EQ(offbeat_run(&call), OFFBEAT_ERROR_ARGUMENT);
  EXPECT_TRUE(text_has("input_counts"));
  call.collective = "neighbor_alltoall";
  EXPECT_EQ(offbeat_run(&call), OFFBEAT_ERROR_ARGUMENT);
  offbeat_call without_group = call_of(nullptr, "barrier");
  EXPECT_EQ(offbeat_run(&without_group), OFFBEAT_ERROR_MPI);
  EXPECT_TRUE(text_has("needs a group"));
  offbeat_group_free(&group);
  EXPECT_EQ(group, nullptr);
  EXPECT_STREQ(offbeat_family(), "none");
}

}  // namespace
