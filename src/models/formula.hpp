// SPDX-License-Identifier: BSD-3-Clause
// Formula evaluates the text of an algorithm's cost (Algorithm::cost), so that what people read is what the
// program computes. docs/explanation/models.md explains the language and derives the formulas.
//
//     cost       = formula { "," definition } [ "," words for people ]
//     definition = letter "=" formula
//     formula    = [ "-" ] term { ( "+" | "-" ) term }
//     term       = power { [ "*" | "/" ] power }      from left to right: n/p b is (n/p) b
//     power      = factor [ "^" factor ]
//     factor     = number | name | "(" formula ")" | "[" formula relation formula "]"
//                | function factor | function "(" formula { "," formula } ")" | sum
//     relation   = "<" | "<=" | "=" | ">=" | ">"       [...] is 1 if it holds, else 0
//     sum        = "sum(" letter "<" formula ":" formula ")"                          letter = 0, 1, ...
//                | "sum(" letter "in radices(" formula "," formula "):" formula ")"   patterns/radices.hpp
//                | "sum(" letter "in dimensions:" formula ")"                         of a grid
//
// Names are letters, so nb is n b, with an apostrophe for messages within a node (a', b'), and `nodes`,
// BYTES.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace offbeat {

// What a formula may use. Times are in seconds, lengths in bytes.
struct FormulaInput {
  double p = 1;         // ranks
  double n = 0;         // bytes of the vector; of one block in collectives that have blocks
  double m = 0;         // bytes of a block
  double a = 0;         // latency
  double b = 0;         // per byte
  double c = 0;         // per byte that is combined
  double a_within = 0;  // a' and b': within a node
  double b_within = 0;
  double w = 0;  // 1 if a message of n bytes waits for its receiver, else 0
  double o = 0;  // time of a core for one more message, if several are under way at once
  double v = 0;  // time of a core to send a message and to receive another
  double nodes = 1;
  double s = 1;                     // ranks on a node; the number of segments in a pipeline
  double f = 1;                     // how many of these segments are in flight
  double radix = 0;                 // K
  double segment_bytes = 0;         // BYTES
  std::span<const int> dimensions;  // of a grid
};

// The cost of a part of an algorithm, which a formula asks for.
class CostOfParts {
 public:
  CostOfParts() = default;
  CostOfParts(const CostOfParts&) = delete;
  CostOfParts& operator=(const CostOfParts&) = delete;
  virtual ~CostOfParts() = default;
  // The time of the part on `ranks` ranks with `bytes` bytes: T. `dimension` is that of a grid; 0 elsewhere.
  [[nodiscard]] virtual double time(std::size_t dimension, double ranks, double bytes) const = 0;
  // How long its busiest resource works: U. In how many steps the same resource does so: N.
  [[nodiscard]] virtual double busy(double ranks, double bytes) const = 0;
  [[nodiscard]] virtual double steps(double ranks, double bytes) const = 0;
};

class Formula {
 public:
  // Throws UsageError, whose text names the column.
  explicit Formula(std::string_view text);

  // Returns the value; costs are in seconds. `parts` may be null if the formula has no T, U or N of a part.
  [[nodiscard]] double operator()(const FormulaInput& input, const CostOfParts* parts = nullptr) const;
  [[nodiscard]] bool defines(char letter) const;
  // Returns the value of a definition.
  [[nodiscard]] double value_of(char letter, const FormulaInput& input,
                                const CostOfParts* parts = nullptr) const;

 private:
  friend class FormulaParser;
  class Names;
  enum class Kind : std::uint8_t {
    number,
    letter,
    a_within,
    b_within,
    nodes,
    radix,
    segment_bytes,
    add,
    subtract,
    multiply,
    divide,
    power,
    less,
    at_most,
    equal,
    at_least,
    more,
    log2,
    ceil,
    floor,
    max,
    min,
    pow2,
    ones,
    product,
    last,
    fold,
    time,
    busy,
    steps,
    sum,
    sum_of_radices,
    sum_of_dimensions,
  };
  // A node of the syntax tree. Its operands are indices of nodes, which were parsed before it.
  static constexpr std::uint16_t none = 0xFFFF;  // no operand
  struct Node {
    Kind kind;
    char letter = 0;
    double number = 0;
    std::array<std::uint16_t, 3> operands{none, none, none};
  };
  struct Definition {
    char letter;
    std::uint16_t node;
  };
  class Evaluation;

  // Throws UsageError if a letter has no value, or one that depends on itself.
  void require_values(std::string_view text) const;

  std::vector<Node> nodes_;
  std::uint16_t root_ = 0;
  std::vector<Definition> definitions_;
};

}  // namespace offbeat
