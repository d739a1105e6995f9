// SPDX-License-Identifier: BSD-3-Clause
// Every algorithm and a dozen compositions x rank counts x lengths x in place x adversarial timing, in the
// simulator.
//
// Checked: integers are exact; floats have the same bits on every rank, for every timing, in place or not;
// the input is untouched; nothing is written beside the output; no deadlock, no lost message (the simulator
// throws).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/repertoire.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

const std::vector<std::string> compositions = {
    "ring_segmented(1B)",
    "ring_segmented(64B)",
    "ring_segmented(1MiB)",
    "pipeline(1, ring)",
    "pipeline(4, ring)",
    "pipeline(64, recursive_doubling)",
    "pipeline(4B, linear)",
    "pipeline(100B, rabenseifner)",
    "pipeline(1KiB, ring_segmented(32B))",
    "pipeline(3, pipeline(2, binomial))",
    "grid(2x2, ring)",
    "grid(2x3, ring, rabenseifner)",
    "grid(4x2, recursive_doubling, linear)",
    "grid(2x2x2, ring)",
    "grid(3x1, ring)",
    "grid(2x2, pipeline(2, ring), ring_segmented(8B))",
    "pipeline(2, grid(2x4, rabenseifner, ring))",
    "grid(4x4, grid(2x2, ring), binomial)",
};

const std::vector<int> rank_counts = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                      12, 13, 14, 15, 16, 17, 31, 32, 33, 64};

// Algorithms without arguments, from the registry: a new one is tested without being named here.
std::vector<std::string> expressions() {
  std::vector<std::string> all;
  for (const Algorithm* algorithm : repertoire(Collective::allreduce).algorithms) {
    const bool runs_here =
        algorithm->run != nullptr && algorithm->needs.board == OnBoard::no;  // board_test runs those
    if (algorithm->parameters.empty() && runs_here) all.emplace_back(algorithm->name);
  }
  all.insert(all.end(), compositions.begin(), compositions.end());
  return all;
}

Network awkward_network() {
  return {.intra_alpha = 3e-7,
          .intra_beta = 1e-10,
          .inter_alpha = 2e-6,
          .inter_beta = 1e-9,
          .injection_rate = 2e9,
          .gamma = 1e-10,
          .eager_bytes = 256,
          .ranks_per_node = 3};
}

// The vectors of all ranks, with a guard before and after each output.
template <class Element>
struct Vectors {
  static constexpr std::size_t guard = 4;
  std::size_t count;
  bool in_place;
  std::vector<std::vector<Element>> inputs;
  std::vector<std::vector<Element>> outputs;

  Vectors(int ranks, std::size_t count, bool in_place, const std::vector<std::vector<Element>>& values)
      : count(count), in_place(in_place), inputs(values) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<Element> output(count + 2 * guard, Element{77});
      if (in_place)
        std::copy_n(values[static_cast<std::size_t>(rank)].begin(), count, output.begin() + guard);
      outputs.push_back(std::move(output));
    }
  }
  Call args(int rank, const Reduction& op) {
    const auto index = static_cast<std::size_t>(rank);
    auto* output = reinterpret_cast<std::byte*>(outputs[index].data() + guard);
    const auto* input = in_place ? output : reinterpret_cast<const std::byte*>(inputs[index].data());
    return {Collective::allreduce, {input, count, sizeof(Element)}, {output, count, sizeof(Element)}, &op};
  }
  const Element* result(int rank) const { return outputs[static_cast<std::size_t>(rank)].data() + guard; }
  bool guards_intact() const {
    for (const auto& output : outputs) {
      for (std::size_t k = 0; k < guard; ++k) {
        if (output[k] != Element{77} || output[guard + count + k] != Element{77}) return false;
      }
    }
    return true;
  }
};

template <class Element>
void run_all(Simulator& simulator, const Expression& expression, Vectors<Element>& vectors,
             const Reduction& op) {
  simulator.run([&](int rank, Endpoint net) { return carry_out(net, vectors.args(rank, op), expression); },
                {}, expression.lanes());
}

std::vector<std::vector<std::int32_t>> integer_inputs(int ranks, std::size_t count) {
  std::vector<std::vector<std::int32_t>> inputs(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) {
      inputs[static_cast<std::size_t>(rank)].push_back(
          static_cast<std::int32_t>((rank + 1) * 1009 + static_cast<int>(k) * 13));
    }
  }
  return inputs;
}

// Of very different sizes and both signs, so that every order of additions gives other bits.
std::vector<std::vector<float>> float_inputs(int ranks, std::size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> mantissa(-1.0F, 1.0F);
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks));
  for (auto& input : inputs) {
    for (std::size_t k = 0; k < count; ++k) input.push_back(std::ldexp(mantissa(random), exponent(random)));
  }
  return inputs;
}

bool same_bits(float left, float right) {
  return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
}

template <class Element>
Vectors<Element> result_of(const std::string& text, int ranks, std::size_t count, bool in_place,
                           ElementType type, const std::vector<std::vector<Element>>& inputs,
                           SimulationOptions options) {
  const Expression expression = parse_expression(Collective::allreduce, text);
  const Reduction sum(type, ReduceOp::sum);
  Simulator simulator(ranks, awkward_network(), options);
  Vectors<Element> vectors(ranks, count, in_place, inputs);
  run_all(simulator, expression, vectors, sum);
  return vectors;
}

class EveryAlgorithm : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(EveryAlgorithm, IsExactAndHasTheSameBitsEverywhere) {
  const auto& [text, ranks] = GetParam();
  const Expression expression = parse_expression(Collective::allreduce, text);
  if (const std::string reason = expression.unsuitable({ranks}); !reason.empty()) {
    // A grid may need more ranks. It says so before a message is sent.
    EXPECT_NE(reason.find("needs at least"), std::string::npos);
    EXPECT_NE(text.find("grid"), std::string::npos);
    EXPECT_LT(ranks, 16);
    return;
  }
  const auto p = static_cast<std::size_t>(ranks);
  for (const std::size_t count : std::set<std::size_t>{0, 1, p - 1, p, p + 1, 1000}) {
    const auto integers = integer_inputs(ranks, count);
    const auto floats = float_inputs(ranks, count);
    std::vector<float> bits;  // of the first run; all others must agree
    for (const bool in_place : {false, true}) {
      for (const std::uint64_t seed : {0, 1, 2}) {  // 0: no adversary
        SCOPED_TRACE("count " + std::to_string(count) + (in_place ? " in place" : "") + " seed " +
                     std::to_string(seed));
        const SimulationOptions options =
            seed == 0 ? SimulationOptions{} : SimulationOptions{.adversary = Adversary{seed * 7919 + p}};

        const auto exact = result_of(text, ranks, count, in_place, ElementType::int32, integers, options);
        for (std::size_t k = 0; k < count; ++k) {
          const auto expected =
              static_cast<std::int32_t>(ranks * (ranks + 1) / 2 * 1009 + ranks * static_cast<int>(k) * 13);
          for (int rank = 0; rank < ranks; ++rank) {
            ASSERT_EQ(exact.result(rank)[k], expected) << "rank " << rank << ", element " << k;
          }
        }
        ASSERT_TRUE(exact.guards_intact());
        ASSERT_EQ(exact.inputs, integers);

        const auto rounded = result_of(text, ranks, count, in_place, ElementType::float32, floats, options);
        if (bits.empty()) bits.assign(rounded.result(0), rounded.result(0) + count);
        for (int rank = 0; rank < ranks; ++rank) {
          ASSERT_TRUE(std::equal(bits.begin(), bits.end(), rounded.result(rank), same_bits))
              << "rank " << rank;
        }
      }
    }
  }
}

std::string readable(const testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  std::string name;
  for (const char c : std::get<0>(info.param)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      name += c;
    } else if (c == '(' || c == ',') {
      name += "__";
    }
  }
  return name + "_on_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Allreduce, EveryAlgorithm,
                         testing::Combine(testing::ValuesIn(expressions()), testing::ValuesIn(rank_counts)),
                         readable);

std::vector<float> bits_of(const std::string& text, int ranks, std::size_t count) {
  const auto vectors =
      result_of(text, ranks, count, false, ElementType::float32, float_inputs(ranks, count), {});
  return {vectors.result(0), vectors.result(0) + count};
}

// What the headers of the algorithms say about their order.
TEST(Order, LinearIsTheNaiveLoop) {
  constexpr int ranks = 11;
  constexpr std::size_t count = 50;
  const auto inputs = float_inputs(ranks, count);
  std::vector<float> naive = inputs[0];
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) naive[k] += inputs[rank][k];
  }
  EXPECT_EQ(bits_of("linear", ranks, count), naive);
}

TEST(Order, RabenseifnerHasTheBitsOfRecursiveDoubling) {
  for (const int ranks : {2, 4, 7, 8, 16, 24}) {
    EXPECT_EQ(bits_of("rabenseifner", ranks, 100), bits_of("recursive_doubling", ranks, 100)) << ranks;
  }
}

TEST(Order, BinomialHasTheBitsOfRecursiveDoublingForPowersOfTwo) {
  for (const int ranks : {2, 4, 8, 16, 32}) {
    EXPECT_EQ(bits_of("binomial", ranks, 100), bits_of("recursive_doubling", ranks, 100)) << ranks;
  }
}

TEST(Order, TheInputsOfThisTestCanTellOrdersApart) {
  EXPECT_NE(bits_of("ring", 8, 100), bits_of("linear", 8, 100));
}

// The cost formulas in the headers, exactly.
class Cost : public testing::Test {
 protected:
  static constexpr double a = 2e-6;
  static constexpr double b = 1e-9;
  static constexpr double c = 3e-10;
  static double time_of(const std::string& text, int ranks, std::size_t bytes) {
    const Expression expression = parse_expression(Collective::allreduce, text);
    const Reduction sum(ElementType::uint8, ReduceOp::sum);
    const Network network{.inter_alpha = a, .inter_beta = b, .gamma = c, .eager_bytes = std::size_t{1} << 40};
    Simulator simulator(ranks, network, {.phantom = true});
    return simulator
        .run(
            [&](int, Endpoint net) {
              return carry_out(net, {Collective::allreduce, {nullptr, bytes, 1}, {nullptr, bytes, 1}, &sum},
                               expression);
            },
            {}, expression.lanes())
        .last_delay();
  }
};

TEST_F(Cost, RecursiveDoubling) {
  const double n = 1 << 20;
  EXPECT_NEAR(time_of("recursive_doubling", 64, 1 << 20), 6 * (a + n * b + n * c), 1e-12);
}

TEST_F(Cost, Ring) {
  const double n = 1 << 20;
  EXPECT_NEAR(time_of("ring", 16, 1 << 20), 30 * a + 2 * n * 15 / 16 * b + n * 15 / 16 * c, 1e-12);
}

TEST_F(Cost, Rabenseifner) {
  const double n = 1 << 20;
  EXPECT_NEAR(time_of("rabenseifner", 16, 1 << 20), 8 * a + 2 * n * 15 / 16 * b + n * 15 / 16 * c, 1e-12);
}

TEST_F(Cost, BinomialOfPowersOfTwo) {
  const double n = 1 << 16;
  EXPECT_NEAR(time_of("binomial", 32, 1 << 16), 5 * (2 * a + 2 * n * b + n * c), 1e-12);
}

TEST_F(Cost, GridIsTheSumOfItsDimensions) {
  EXPECT_NEAR(time_of("grid(8x4, ring, rabenseifner)", 32, 1 << 20),
              time_of("ring", 8, 1 << 20) + time_of("rabenseifner", 4, 1 << 20), 1e-12);
}

TEST_F(Cost, PipelineOverlapsSendingAndCombining) {
  const double whole = time_of("recursive_doubling", 64, 1 << 22);
  const double segments = time_of("pipeline(16, recursive_doubling)", 64, 1 << 22);
  EXPECT_LT(segments, 0.95 * whole);
  const double bandwidth_alone = 6 * (1 << 22) * b;
  EXPECT_GT(segments, bandwidth_alone);
}

TEST_F(Cost, SegmentedRingOverlapsSendingAndCombining) {
  EXPECT_LT(time_of("ring_segmented(16KiB)", 16, 1 << 22), 0.95 * time_of("ring", 16, 1 << 22));
}

}  // namespace
}  // namespace offbeat
