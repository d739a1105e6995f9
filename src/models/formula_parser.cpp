// SPDX-License-Identifier: BSD-3-Clause
// Parses the text of a formula into its syntax tree, by recursive descent. formula.hpp has the grammar.
#include <array>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "models/formula.hpp"

namespace offbeat {
namespace {

constexpr int deepest_nesting = 40;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

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

Formula::Formula(std::string_view text) {
  FormulaParser(*this, text).parse_whole_text();
  require_values(text);
}

}  // namespace offbeat
