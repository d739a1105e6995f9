// SPDX-License-Identifier: BSD-3-Clause
#include "models/formula.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "patterns/radices.hpp"

namespace offbeat {
namespace {

constexpr int deepest_nesting = 40;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

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

class FormulaParser {
 public:
  FormulaParser(Formula& formula, std::string_view text) : formula_(formula), text_(text) {}

  void parse_whole_text() {
    formula_.root_ = sum_of_terms(0);
    while (peek() == ',') {
      ++position_;
      const char letter = peek();
      const std::size_t after = position_ + 1;
      const std::size_t next = text_.find_first_not_of(' ', after);
      if (!is_letter(letter) || next == std::string_view::npos || text_[next] != '=') return;  // words
      position_ = next + 1;
      formula_.definitions_.push_back({letter, sum_of_terms(0)});
    }
    if (position_ < text_.size()) fail("unexpected '" + std::string(text_.substr(position_)) + "'");
  }

 private:
  using Kind = Formula::Kind;
  using NodeIndex = std::uint16_t;

  NodeIndex add(Kind kind, NodeIndex first = Formula::none, NodeIndex second = Formula::none,
                NodeIndex third = Formula::none) {
    formula_.nodes_.push_back({.kind = kind, .operands = {first, second, third}});
    return static_cast<NodeIndex>(formula_.nodes_.size() - 1);
  }
  NodeIndex add_number(double number) {
    const NodeIndex index = add(Kind::number);
    formula_.nodes_[index].number = number;
    return index;
  }
  NodeIndex add_letter(Kind kind, char letter) {
    const NodeIndex index = add(kind);
    formula_.nodes_[index].letter = letter;
    return index;
  }

  NodeIndex sum_of_terms(int depth) {
    if (depth > deepest_nesting) fail("nested too deeply");
    NodeIndex left = accept("-") ? add(Kind::subtract, add_number(0), term(depth)) : term(depth);
    while (true) {
      if (accept("+")) {
        left = add(Kind::add, left, term(depth));
      } else if (accept("-")) {
        left = add(Kind::subtract, left, term(depth));
      } else {
        return left;
      }
    }
  }

  NodeIndex term(int depth) {
    NodeIndex left = power(depth);
    while (true) {
      if (accept("/")) {
        left = add(Kind::divide, left, power(depth));
      } else if (accept("*") || is_letter(peek()) || is_digit(peek()) || peek() == '(' || peek() == '[') {
        left = add(Kind::multiply, left, power(depth));
      } else {
        return left;
      }
    }
  }

  NodeIndex power(int depth) {
    const NodeIndex base = factor(depth);
    return accept("^") ? add(Kind::power, base, factor(depth)) : base;
  }

  NodeIndex factor(int depth) {
    if (accept("(")) {
      const NodeIndex inner = sum_of_terms(depth + 1);
      expect(")");
      return inner;
    }
    if (accept("[")) return relation(depth + 1);
    if (is_digit(peek())) return number();
    if (accept("sum(")) return sum(depth + 1);
    for (const auto& [name, kind, operands] : functions) {
      if (accept(name)) return call(kind, operands, depth + 1);
    }
    for (const auto& [name, kind] : names) {
      if (accept(name)) return add(kind);
    }
    if (!is_letter(peek()))
      fail(at_end() ? "expected a number or a name" : "unexpected '" + next_character() + "'");
    return add_letter(Kind::letter, text_[position_++]);
  }

  NodeIndex relation(int depth) {
    const NodeIndex left = sum_of_terms(depth);
    static constexpr std::pair<std::string_view, Kind> relations[] = {{"<=", Kind::at_most},
                                                                      {">=", Kind::at_least},
                                                                      {"<", Kind::less},
                                                                      {">", Kind::more},
                                                                      {"=", Kind::equal}};
    for (const auto& [text, kind] : relations) {
      if (!accept(text)) continue;
      const NodeIndex compared = add(kind, left, sum_of_terms(depth));
      expect("]");
      return compared;
    }
    fail("expected <, <=, =, >= or >");
  }

  NodeIndex call(Kind kind, int operands, int depth) {
    if (operands == 1 && peek() != '(') return add(kind, factor(depth));
    expect("(");
    std::array<NodeIndex, 2> given{Formula::none, Formula::none};
    for (int k = 0; k < operands; ++k) {
      if (k > 0) expect(",");
      given[static_cast<std::size_t>(k)] = sum_of_terms(depth);
    }
    expect(")");
    return add(kind, given[0], given[1]);
  }

  NodeIndex sum(int depth) {
    const char letter = peek();
    if (!is_letter(letter)) fail("expected a letter");
    ++position_;
    Kind kind = Kind::sum;
    NodeIndex first = Formula::none;
    NodeIndex second = Formula::none;
    if (accept("<")) {
      first = sum_of_terms(depth);
    } else if (accept("in radices(")) {
      kind = Kind::sum_of_radices;
      first = sum_of_terms(depth);
      expect(",");
      second = sum_of_terms(depth);
      expect(")");
    } else {
      kind = Kind::sum_of_dimensions;
      expect("in dimensions");
    }
    expect(":");
    const NodeIndex body = sum_of_terms(depth);
    expect(")");
    const NodeIndex index = add(kind, first, second, body);
    formula_.nodes_[index].letter = letter;
    return index;
  }

  NodeIndex number() {
    double value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] =
        std::from_chars(begin, text_.data() + text_.size(), value, std::chars_format::fixed);
    if (error != std::errc{}) fail("wrong number");
    position_ += static_cast<std::size_t>(end - begin);
    return add_number(value);
  }

  char peek() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    return at_end() ? '\0' : text_[position_];
  }
  bool accept(std::string_view token) {
    peek();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "'");
  }
  [[nodiscard]] bool at_end() const { return position_ >= text_.size(); }
  [[nodiscard]] std::string next_character() const { return std::string(text_.substr(position_, 1)); }
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError("formula '" + std::string(text_) + "', column " + std::to_string(position_ + 1) + ": " +
                     what);
  }

  struct Function {
    std::string_view name;
    Kind kind;
    int operands;
  };
  static constexpr Function functions[] = {
      {"log2", Kind::log2, 1}, {"ceil", Kind::ceil, 1},        {"floor", Kind::floor, 1},
      {"max", Kind::max, 2},   {"min", Kind::min, 2},          {"pow2", Kind::pow2, 1},
      {"ones", Kind::ones, 1}, {"product", Kind::product, 2},  {"last", Kind::last, 2},
      {"fold", Kind::fold, 1}, {"T_ALGORITHM", Kind::time, 2}, {"T", Kind::time, 2},
      {"U", Kind::busy, 2},    {"N", Kind::steps, 2}};
  static constexpr std::pair<std::string_view, Kind> names[] = {{"nodes", Kind::nodes},
                                                                {"BYTES", Kind::segment_bytes},
                                                                {"K", Kind::radix},
                                                                {"a'", Kind::a_within},
                                                                {"b'", Kind::b_within}};

  Formula& formula_;
  std::string_view text_;
  std::size_t position_ = 0;
};

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
    return std::string_view("pnmabcwosfqD").find(letter) == std::string_view::npos ? letter : '\0';
  }

  const Formula& formula_;
  std::string open_definitions_;  // definitions that are being looked up
};

Formula::Formula(std::string_view text) {
  FormulaParser(*this, text).parse_whole_text();
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
