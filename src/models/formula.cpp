// SPDX-License-Identifier: BSD-3-Clause
#include "models/formula.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "patterns/radices.hpp"

namespace offbeat {
namespace {

// Returns the largest power of two up to `number`.
double power_of_two(double number) { return std::exp2(std::floor(std::log2(number))); }

// Returns how many bits are set in the binary numbers from 0 to `end` - 1.
double count_set_bits_below(double end) {
  double ones = 0;
  for (double bit = 1; bit < end; bit *= 2) {
    const double rounds = std::floor(end / (2 * bit));
    ones += rounds * bit + std::max(0.0, end - 2 * bit * rounds - bit);
  }
  return ones;
}

// Returns the cost of folding all ranks into `core` groups, one rank of which has the result of all in the
// end (collectives/phases/fold.hpp).
double fold(const FormulaInput& in, double core) {
  if (core >= in.p) return 0;
  const double others = std::ceil(in.p / core) - 1;  // in the largest group
  const double move = in.n * in.b;
  const double combine = in.n * in.c;
  const double collect = in.w > 0 ? others * (in.a + move + combine)
                                  : in.a + move + (others - 1) * std::max(move, combine) + combine;
  return collect + in.a + others * move + in.w * (others - 1) * in.a;
}

}  // namespace

// One evaluation, with the values that letters have in it.
class Formula::Evaluation {
 public:
  Evaluation(const Formula& formula, const FormulaInput& input, const CostOfParts* parts)
      : formula_(formula), input_(input), parts_(parts) {}

  double of(std::uint16_t index) {
    const Node& node = formula_.nodes_[index];
    const auto operand = [&](std::size_t k) { return of(node.operands[k]); };
    switch (node.kind) {
      case Kind::number:
        return node.number;
      case Kind::letter:
        return value_of_letter(node.letter);
      case Kind::a_within:
        return input_.a_within;
      case Kind::b_within:
        return input_.b_within;
      case Kind::nodes:
        return input_.nodes;
      case Kind::radix:
        return input_.radix;
      case Kind::segment_bytes:
        return input_.segment_bytes;
      case Kind::add:
        return operand(0) + operand(1);
      case Kind::subtract:
        return operand(0) - operand(1);
      case Kind::multiply:
        return operand(0) * operand(1);
      case Kind::divide:
        return operand(0) / operand(1);
      case Kind::power:
        return std::pow(operand(0), operand(1));
      case Kind::less:
        return operand(0) < operand(1) ? 1 : 0;
      case Kind::at_most:
        return operand(0) <= operand(1) ? 1 : 0;
      case Kind::equal:
        return operand(0) == operand(1) ? 1 : 0;
      case Kind::at_least:
        return operand(0) >= operand(1) ? 1 : 0;
      case Kind::more:
        return operand(0) > operand(1) ? 1 : 0;
      case Kind::log2:
        return std::log2(operand(0));
      case Kind::ceil:
        return std::ceil(operand(0));
      case Kind::floor:
        return std::floor(operand(0));
      case Kind::max:
        return std::max(operand(0), operand(1));
      case Kind::min:
        return std::min(operand(0), operand(1));
      case Kind::pow2:
        return power_of_two(operand(0));
      case Kind::ones:
        return count_set_bits_below(operand(0));
      case Kind::last: {
        const Radices radices(static_cast<int>(operand(0)), static_cast<int>(operand(1)));
        return radices.steps() == 0 ? 1 : radices[radices.steps() - 1].radix;
      }
      case Kind::product:
        return Radices(static_cast<int>(operand(0)), static_cast<int>(operand(1))).product();
      case Kind::fold:
        return fold(input_, operand(0));
      case Kind::time:
        return parts().time(dimension_, operand(0), operand(1));
      case Kind::busy:
        return parts().busy(operand(0), operand(1));
      case Kind::steps:
        return parts().steps(operand(0), operand(1));
      case Kind::sum: {
        const double end = operand(0);
        double total = 0;
        for (double k = 0; k < end; ++k) total += value_with_letter(node, k);
        return total;
      }
      case Kind::sum_of_radices: {
        const Radices radices(static_cast<int>(operand(0)), static_cast<int>(operand(1)));
        double total = 0;
        for (int k = 0; k < radices.steps(); ++k) total += value_with_letter(node, radices[k].radix);
        return total;
      }
      case Kind::sum_of_dimensions: {
        double total = 0;
        for (std::size_t k = 0; k < input_.dimensions.size(); ++k) {
          dimension_ = k;
          total += value_with_letter(node, input_.dimensions[k]);
        }
        dimension_ = 0;
        return total;
      }
    }
    return 0;
  }

 private:
  // The letter of a sum that is being evaluated.
  struct BoundLetter {
    char letter;
    double value;
    const BoundLetter* outer_letter;
  };

  [[nodiscard]] const CostOfParts& parts() const {
    if (parts_ == nullptr) throw UsageError("this formula asks for the cost of a part, and there is none");
    return *parts_;
  }

  // Returns the body of a sum with its letter set to `value`.
  double value_with_letter(const Node& sum, double value) {
    const BoundLetter bound{sum.letter, value, innermost_letter_};
    innermost_letter_ = &bound;
    const double result = of(sum.operands[2]);
    innermost_letter_ = bound.outer_letter;
    return result;
  }

  double value_of_letter(char letter) {
    for (const BoundLetter* bound = innermost_letter_; bound != nullptr; bound = bound->outer_letter) {
      if (bound->letter == letter) return bound->value;
    }
    for (const Definition& each : formula_.definitions_) {
      if (each.letter == letter) return of(each.node);
    }
    switch (letter) {
      case 'p':
        return input_.p;
      case 'n':
        return input_.n;
      case 'm':
        return input_.m;
      case 'a':
        return input_.a;
      case 'b':
        return input_.b;
      case 'c':
        return input_.c;
      case 'w':
        return input_.w;
      case 'o':
        return input_.o;
      case 'v':
        return input_.v;
      case 's':
        return input_.s;
      case 'f':
        return input_.f;
      case 'q':
        return power_of_two(input_.p);
      case 'D': {
        double product = 1;
        for (const int size : input_.dimensions) product *= size;
        return product;
      }
      default:
        throw UsageError(std::string("formula: '") + letter + "' has no value");
    }
  }

  const Formula& formula_;
  const FormulaInput& input_;
  const CostOfParts* parts_;
  const BoundLetter* innermost_letter_ = nullptr;
  std::size_t dimension_ = 0;
};

// Finds out whether every letter has a value.
class Formula::Names {
 public:
  explicit Names(const Formula& formula) : formula_(formula) {}

  // Returns a letter without a value, or with one that depends on itself; 0 if there is none.
  char missing(std::uint16_t index, const std::string& known) {
    const Node& node = formula_.nodes_[index];
    if (node.kind == Kind::letter)
      return known.find(node.letter) == std::string::npos ? look_up(node.letter) : 0;
    const bool sums = node.kind >= Kind::sum;
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      if (node.operands[k] == none) continue;
      const bool is_body = sums && k == 2;
      if (const char letter = missing(node.operands[k], is_body ? known + node.letter : known); letter != 0)
        return letter;
    }
    return 0;
  }

 private:
  char look_up(char letter) {
    for (const Definition& each : formula_.definitions_) {
      if (each.letter != letter) continue;
      if (open_definitions_.find(letter) != std::string::npos) return letter;
      open_definitions_ += letter;
      const char missing_letter = missing(each.node, "");
      open_definitions_.pop_back();
      return missing_letter;
    }
    return std::string_view("pnmabcwovsfqD").find(letter) == std::string_view::npos ? letter : '\0';
  }

  const Formula& formula_;
  std::string open_definitions_;  // definitions that are being looked up
};

void Formula::require_values(std::string_view text) const {
  Names names(*this);
  char missing = names.missing(root_, "");
  for (const Definition& each : definitions_) {
    if (missing == 0) missing = names.missing(each.node, std::string(1, each.letter));
  }
  if (missing != 0) throw UsageError("formula '" + std::string(text) + "': '" + missing + "' has no value");
}

double Formula::operator()(const FormulaInput& input, const CostOfParts* parts) const {
  return Evaluation(*this, input, parts).of(root_);
}

bool Formula::defines(char letter) const {
  return std::ranges::any_of(definitions_, [&](const Definition& each) { return each.letter == letter; });
}

double Formula::value_of(char letter, const FormulaInput& input, const CostOfParts* parts) const {
  for (const Definition& each : definitions_) {
    if (each.letter == letter) return Evaluation(*this, input, parts).of(each.node);
  }
  throw UsageError(std::string("formula: '") + letter + "' is not defined");
}

}  // namespace offbeat
