// SPDX-License-Identifier: BSD-3-Clause
// The vectors of all ranks of an allreduce, and what must be true of them afterwards.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/algorithm.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {

inline const std::vector<int> rank_counts = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                             12, 13, 14, 15, 16, 17, 31, 32, 33, 64};

// The name of a test of an expression, and of one whose parameters are an expression and a number of ranks.
inline std::string test_name(const std::string& expression, int ranks) {
  std::string name;
  for (const char c : expression) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') name += c;
    if (c == '(' || c == ',') name += "__";
  }
  return name + "_on_" + std::to_string(ranks);
}
inline std::string readable(const testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  return test_name(std::get<0>(info.param), std::get<1>(info.param));
}

// Gives another result for every tree and every order of operands: floats forgive two that change places.
class Weave final : public HostCombine {
 public:
  void combine(const void* left, void* right, std::size_t count) const override {
    const auto* from = static_cast<const std::uint32_t*>(left);
    auto* to = static_cast<std::uint32_t*>(right);
    for (std::size_t k = 0; k < count; ++k) to[k] += from[k] * 0x9E3779B1;
  }
};

// The composition of maps x -> ax + b modulo 2^16, a in the upper half of a word and b in the lower one. It
// is associative but not commutative, so only operands in rank order give the right result.
class Compose final : public HostCombine {
 public:
  void combine(const void* left, void* right, std::size_t count) const override {
    const auto* from = static_cast<const std::uint32_t*>(left);
    auto* to = static_cast<std::uint32_t*>(right);
    for (std::size_t k = 0; k < count; ++k) to[k] = of(from[k], to[k]);
  }
  // First `left`, then `right`.
  [[nodiscard]] static std::uint32_t of(std::uint32_t left, std::uint32_t right) {
    const std::uint32_t a = right >> 16;
    return a * (left >> 16) << 16 | ((a * (left & 0xffff) + right) & 0xffff);
  }
};

enum class Operation : std::uint8_t { int_sum, float_sum, weave, compose };

inline const Reduction& reduction(Operation operation) {
  static const Weave weave;
  static const Compose compose;
  static const Reduction reductions[] = {{ElementType::uint32, ReduceOp::sum},
                                         {ElementType::float32, ReduceOp::sum},
                                         {sizeof(std::uint32_t), weave},
                                         {sizeof(std::uint32_t), compose}};
  return reductions[static_cast<std::size_t>(operation)];
}

using Bits = std::uint32_t;  // of an int or of a float

struct Message {
  std::size_t count;
  Operation operation;
};

// The vectors of all ranks for one message, with guards around the outputs.
class Vectors {
 public:
  Vectors(int ranks, Message message) : message_(message) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto& values = values_.emplace_back();
      for (std::size_t k = 0; k < message.count; ++k) values.push_back(value(rank, k));
    }
    clear(false);
  }
  // As before the collective.
  void clear(bool in_place) {
    in_place_ = in_place;
    inputs_ = values_;
    outputs_.resize(values_.size());
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      outputs_[rank].assign(message_.count + 2 * guard, guard_value);
      if (in_place) std::ranges::copy(values_[rank], outputs_[rank].begin() + guard);
    }
  }
  [[nodiscard]] Call args(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    auto* output = reinterpret_cast<std::byte*>(outputs_[index].data() + guard);
    const auto* input = in_place_ ? output : reinterpret_cast<const std::byte*>(inputs_[index].data());
    return {Collective::allreduce,
            {input, message_.count, sizeof(Bits)},
            {output, message_.count, sizeof(Bits)},
            &reduction(message_.operation)};
  }
  [[nodiscard]] std::span<const Bits> input(std::size_t rank) const { return values_[rank]; }
  [[nodiscard]] std::span<const Bits> output(std::size_t rank) const {
    return std::span(outputs_[rank]).subspan(guard, message_.count);
  }
  // An error in what a rank has; empty: there is none. Its result must have the bits of `reference`. An empty
  // reference is set.
  [[nodiscard]] std::string problem(std::size_t rank, std::vector<Bits>& reference) const {
    const std::string who = "rank " + std::to_string(rank) + ": ";
    if (inputs_[rank] != values_[rank]) return who + "its input was changed";
    for (std::size_t k = 0; k < guard; ++k) {
      if (outputs_[rank][k] != guard_value || outputs_[rank][guard + message_.count + k] != guard_value) {
        return who + "something was written beside its output";
      }
    }
    const std::span<const Bits> result = output(rank);
    if (reference.empty()) {
      if (message_.operation != Operation::weave && !is_sum(result)) return who + "wrong result";
      reference.assign(result.begin(), result.end());
    }
    const auto wrong = std::ranges::mismatch(result, reference).in1;
    if (wrong != result.end()) return who + "other bits at " + std::to_string(wrong - result.begin());
    return {};
  }
  [[nodiscard]] std::string problem(std::vector<Bits>& reference) const {
    for (std::size_t rank = 0; rank < outputs_.size(); ++rank) {
      if (std::string problem = this->problem(rank, reference); !problem.empty()) return problem;
    }
    return {};
  }

 private:
  static constexpr std::size_t guard = 4;
  static constexpr Bits guard_value = 0xA5A5A5A5;

  // Floats are of very different sizes and both signs, so that every order of additions gives other bits.
  [[nodiscard]] Bits value(int rank, std::size_t k) const {
    const auto r = static_cast<Bits>(rank);
    if (message_.operation != Operation::float_sum) return (r + 1) * 1009 + static_cast<Bits>(k) * 13;
    std::uint64_t random = (r * 65536 + k + 1) * 0x9E3779B97F4A7C15u;
    random = (random ^ (random >> 29)) * 0xBF58476D1CE4E5B9u;
    const float mantissa = static_cast<float>(random >> 40) * 0x1p-23F - 1;
    return std::bit_cast<Bits>(std::ldexp(mantissa, static_cast<int>(random % 25) - 12));
  }
  [[nodiscard]] bool is_sum(std::span<const Bits> result) const {
    for (std::size_t k = 0; k < result.size(); ++k) {
      Bits sum = 0;
      double float_sum = 0;
      double magnitude = 0;
      for (const auto& values : values_) {
        sum += values[k];
        float_sum += std::bit_cast<float>(values[k]);
        magnitude += std::abs(std::bit_cast<float>(values[k]));
      }
      if (message_.operation == Operation::float_sum
              ? std::abs(std::bit_cast<float>(result[k]) - float_sum) > 1e-6 * magnitude
              : result[k] != sum) {
        return false;
      }
    }
    return true;
  }

  Message message_;
  bool in_place_ = false;
  std::vector<std::vector<Bits>> values_;
  std::vector<std::vector<Bits>> inputs_;
  std::vector<std::vector<Bits>> outputs_;
};

inline SimulatedMachine awkward_machine() {
  return {.intra_alpha = 3e-7,
          .intra_beta = 1e-10,
          .inter_alpha = 2e-6,
          .inter_beta = 1e-9,
          .injection_rate = 2e9,
          .gamma = 1e-10,
          .eager_bytes = 256,
          .ranks_per_node = 3};
}

// Runs an allreduce by messages, all ranks beginning at once, or as an adversary wants it.
inline void run_all(const Expression& expression, Vectors& vectors, int ranks,
                    SimulationOptions options = {}) {
  Simulator simulator(ranks, awkward_machine(), options);
  simulator.run([&](int rank, Endpoint net) { return carry_out(net, vectors.args(rank), expression); }, {},
                expression.lanes());
}

// Awkward lengths x operations x in place or not x adversarial timing. The simulator throws where messages
// are lost or ranks wait for ever.
inline void expect_exact_and_the_same_bits(const Expression& expression, int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  for (const std::size_t count : std::set<std::size_t>{0, 1, p - 1, p, p + 1, 1000}) {
    for (const auto operation : {Operation::int_sum, Operation::float_sum, Operation::weave}) {
      Vectors vectors(ranks, {count, operation});
      std::vector<Bits> reference;  // of the first run; all others must agree
      for (const bool in_place : {false, true}) {
        for (const std::uint64_t seed : {0, 1, 2}) {  // 0: no adversary
          vectors.clear(in_place);
          SimulationOptions options;
          if (seed > 0) options.adversary = Adversary{seed * 7919 + p};
          run_all(expression, vectors, ranks, options);
          ASSERT_EQ(vectors.problem(reference), "")
              << count << " elements" << (in_place ? " in place" : "") << ", seed " << seed;
        }
      }
    }
  }
}

}  // namespace offbeat
