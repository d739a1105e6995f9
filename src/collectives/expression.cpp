// SPDX-License-Identifier: BSD-3-Clause
// The grammar of expressions, by recursive descent:
//
//     expression = name [ "(" argument { "," argument } ")" ]
//     expression = "native" [ "(" name ")" ]
//     argument   = number [ unit ] | number "x" number { "x" number } | "auto" | expression
//     unit       = "B" | "KiB" | "MiB" | "GiB"
#include <algorithm>
#include <cctype>
#include <limits>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/similar.hpp"
#include "collectives/automatic_grid.hpp"
#include "collectives/native.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat {
namespace {

constexpr int most_segments = 64;
constexpr int most_radix = most_lanes;
constexpr std::size_t most_late_rank = std::numeric_limits<int>::max() - 1;
constexpr int deepest_nesting = 16;
constexpr std::string_view automatic = "auto";  // the shape that grid(auto) has until a plan is made

struct Unit {
  std::string_view name;
  std::size_t bytes;
};
constexpr Unit units[] = {
    {"GiB", std::size_t{1} << 30}, {"MiB", std::size_t{1} << 20}, {"KiB", std::size_t{1} << 10}, {"B", 1}};

class Parser {
 public:
  Parser(Collective collective, std::string_view text)
      : collective_(collective), algorithms_(repertoire(collective).algorithms), text_(text) {
    if (algorithms_.empty()) throw UsageError(std::string(name_of(collective)) + " has no algorithms");
  }

  Expression parse_whole_text() {
    Expression result = expression(0, ExpressionPosition::whole);
    skip_blanks();
    if (position_ < text_.size()) fail("unexpected '" + printable(text_.substr(position_)) + "'");
    if (result.lanes() > most_lanes) {
      fail_at(0, "needs " + std::to_string(result.lanes()) + " segments in flight at once; at most " +
                     std::to_string(most_lanes) + " are possible");
    }
    return result;
  }

 private:
  enum class ExpressionPosition { whole, part, part_or_native, node_phase };

  Expression expression(int depth, ExpressionPosition place) {
    skip_blanks();
    const std::size_t start = position_;
    if (depth > deepest_nesting) fail("nested too deeply");
    const std::string_view name = word();
    if (name.empty())
      fail(at_end() ? "expected an algorithm" : "expected an algorithm, found '" + next_character() + "'");
    Expression result;
    result.algorithm = find(name, start);
    const bool is_part = place == ExpressionPosition::part || place == ExpressionPosition::part_or_native;
    const bool is_misplaced = result.is_native() && place != ExpressionPosition::part_or_native;
    if (is_part && (is_misplaced || result.algorithm->needs.board != OnBoard::no))
      fail_at(start, std::string(name) + " cannot be a part of another algorithm");
    if (place == ExpressionPosition::node_phase && !works_on_node(result.algorithm))
      fail_at(start, std::string(name) + " cannot be the part on a node; " + names_of_node_algorithms());
    const auto parameters = result.algorithm->parameters;
    if (result.is_native() && peek() == '(') {
      name_in_host(result);
      return result;
    }
    if (parameters.empty()) {
      if (peek() == '(') fail(std::string(name) + " takes no arguments");
      return result;
    }
    if (peek() != '(') fail(std::string(name) + " needs arguments: " + signature(*result.algorithm));
    ++position_;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      if (k > 0) expect(',', *result.algorithm);
      argument(parameters[k], result, depth);
      if (is_automatic_grid(result)) break;  // the machine file says the rest
    }
    expect(')', *result.algorithm);
    if (is_part && result.runs_on_host())
      fail_at(start, result.canonical_text() + " cannot be a part of another algorithm");
    return result;
  }

  // Parses "(NAME)". Only the host knows whether it has such an algorithm.
  void name_in_host(Expression& result) {
    ++position_;
    skip_blanks();
    const std::size_t start = position_;
    const std::string_view name = word();
    if (name.empty()) fail("expected the name of one of the host's algorithms, such as ring");
    const auto is_upper = [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; };
    if (std::ranges::any_of(name, is_upper))
      fail_at(start, "the names of the host's algorithms have no capital letters");
    if (peek() != ')')
      fail(std::string("expected ')'") + (at_end() ? "" : ", found '" + next_character() + "'") +
           " in native(NAME)");
    ++position_;
    result.name_in_host = name;
  }

  void argument(Parameter parameter, Expression& result, int depth) {
    skip_blanks();
    const std::size_t start = position_;
    switch (parameter) {
      case Parameter::segments_or_bytes: {
        const std::size_t value = number("a number of segments or a segment size such as 32KiB");
        if (const Unit* unit = parse_unit()) {
          result.bytes = in_bytes(value, *unit, start);
          return;
        }
        if (value > most_segments) {
          fail_at(start, "at most " + std::to_string(most_segments) +
                             " segments; for a segment size add a unit, for example " +
                             std::to_string(value) + "B");
        }
        result.segments = static_cast<int>(value);
        return;
      }
      case Parameter::bytes: {
        const std::size_t value = number("a size such as 8KiB");
        const Unit* unit = parse_unit();
        result.bytes = in_bytes(value, unit != nullptr ? *unit : units[3], start);
        return;
      }
      case Parameter::radix: {
        const std::size_t value = number("how many ranks exchange with one another, such as 4", 0);
        if (value < 2 || value > most_radix)
          fail_at(start, "K is between 2 and " + std::to_string(most_radix));
        result.radix = static_cast<int>(value);
        return;
      }
      case Parameter::late_rank: {
        const std::size_t value = number("the number of the rank that is late, such as 0", 0);
        if (value > most_late_rank)
          fail_at(start, "ranks have numbers up to " + std::to_string(most_late_rank));
        result.late_rank = static_cast<int>(value);
        return;
      }
      case Parameter::dimensions:
        dimensions(result, start);
        return;
      case Parameter::algorithm:
        result.parts.push_back(expression(depth + 1, ExpressionPosition::part));
        return;
      case Parameter::algorithm_or_native:
        result.parts.push_back(expression(depth + 1, ExpressionPosition::part_or_native));
        if (result.parts.front().is_native() && !segmentable_by_host.contain(collective_))
          fail_at(start, "native cannot work on a part of each vector of this collective");
        return;
      case Parameter::node_algorithm:
        result.parts.push_back(expression(depth + 1, ExpressionPosition::node_phase));
        return;
      case Parameter::algorithms:
        result.parts.push_back(expression(depth + 1, ExpressionPosition::part_or_native));
        while (peek() == ',') {
          ++position_;
          result.parts.push_back(expression(depth + 1, ExpressionPosition::part_or_native));
        }
        if (std::ranges::any_of(result.parts, &Expression::is_native) && !result.runs_on_host())
          fail_at(start, "native cannot share a grid with other algorithms");
        if (std::ranges::any_of(result.parts, has_automatic_grid))
          fail_at(start, "grid(auto) cannot be a part of a grid that has a shape");
        if (result.parts.size() != 1 && result.parts.size() != result.dimensions.size()) {
          fail_at(start, "expected 1 algorithm or one for each of the " +
                             std::to_string(result.dimensions.size()) + " dimensions, found " +
                             std::to_string(result.parts.size()));
        }
        return;
    }
  }

  void dimensions(Expression& result, std::size_t start) {
    if (text_.substr(start).starts_with(automatic)) {
      position_ += automatic.size();
      if (peek() == ',') fail("grid(auto) takes no algorithms, because it chooses them, too");
      return;
    }
    std::size_t product = 1;
    do {
      if (!result.dimensions.empty()) ++position_;  // the x
      const std::size_t value = number("dimensions such as 32x32, or auto");
      product *= std::min<std::size_t>(value, std::numeric_limits<int>::max());
      if (product > std::size_t{std::numeric_limits<int>::max()}) fail_at(start, "the grid is too large");
      result.dimensions.push_back(static_cast<int>(value));
    } while (position_ < text_.size() && text_[position_] == 'x');
    if (result.dimensions.size() < 2) fail_at(start, "a grid has at least two dimensions, such as 4x4");
  }

  std::size_t number(const std::string& expected, std::size_t least = 1) {
    const std::size_t start = position_;
    std::size_t value = 0;
    while (!at_end() && std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) {
      const auto digit = static_cast<std::size_t>(text_[position_] - '0');
      if (value > (std::numeric_limits<std::size_t>::max() - digit) / 10)
        fail_at(start, "the number is too large");
      value = value * 10 + digit;
      ++position_;
    }
    if (position_ == start) fail("expected " + expected);
    if (value < least) fail_at(start, "must be at least " + std::to_string(least));
    return value;
  }

  const Unit* parse_unit() {
    const std::size_t start = position_;
    if (at_end() || std::isalpha(static_cast<unsigned char>(text_[position_])) == 0) return nullptr;
    const std::string_view name = word();
    for (const Unit& unit : units) {
      if (name == unit.name) return &unit;
    }
    fail_at(start, "unknown unit '" + printable(name) + "'; use B, KiB, MiB or GiB");
  }

  std::size_t in_bytes(std::size_t value, const Unit& unit, std::size_t start) {
    if (value > std::numeric_limits<std::size_t>::max() / unit.bytes) fail_at(start, "the size is too large");
    return value * unit.bytes;
  }

  const Algorithm* find(std::string_view name, std::size_t start) {
    for (const Algorithm* algorithm : algorithms_) {
      if (algorithm->name == name) return algorithm;
    }
    std::vector<std::string_view> names;
    for (const Algorithm* algorithm : algorithms_) names.push_back(algorithm->name);
    const std::string_view meant = most_similar(name, names);
    fail_at(start, "unknown algorithm '" + printable(name) + "'" +
                       (meant.empty() ? "" : " (did you mean '" + std::string(meant) + "'?)"));
  }

  // Returns true if the algorithm can be the node's part of a hierarchy. In an allreduce it needs a
  // node_phase, because the node waits for the other nodes before it has the result.
  [[nodiscard]] bool works_on_node(const Algorithm* algorithm) const {
    return algorithm->needs.board == OnBoard::one_node &&
           (collective_ != Collective::allreduce || algorithm->node_phase != nullptr);
  }
  [[nodiscard]] std::string names_of_node_algorithms() const {
    std::string names;
    int count = 0;
    for (const Algorithm* each : algorithms_) {
      if (!works_on_node(each)) continue;
      names += (count++ == 0 ? "" : ", ") + std::string(each->name);
    }
    return (count > 1 ? "one of " : "") + names + " can";
  }

  static std::string signature(const Algorithm& algorithm) {
    std::string text = std::string(algorithm.name) + "(";
    for (std::size_t k = 0; k < algorithm.parameters.size(); ++k) {
      if (k > 0) text += ", ";
      text += name_of(algorithm.parameters[k]);
    }
    return text + ")";
  }

  void expect(char character, const Algorithm& algorithm) {
    if (peek() != character) {
      fail(std::string("expected '") + character + "'" +
           (at_end() ? "" : ", found '" + next_character() + "'") + " in " + signature(algorithm));
    }
    ++position_;
  }

  std::string_view word() {
    skip_blanks();
    const std::size_t start = position_;
    const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    while (!at_end() && in_name(text_[position_])) ++position_;
    return text_.substr(start, position_ - start);
  }
  char peek() {
    skip_blanks();
    return at_end() ? '\0' : text_[position_];
  }
  void skip_blanks() {
    while (!at_end() && std::isspace(static_cast<unsigned char>(text_[position_])) != 0) ++position_;
  }
  [[nodiscard]] bool at_end() const { return position_ >= text_.size(); }
  [[nodiscard]] std::string next_character() const { return printable(text_.substr(position_, 1)); }
  [[noreturn]] void fail(const std::string& what) const { fail_at(position_, what); }
  [[noreturn]] static void fail_at(std::size_t position, const std::string& what) {
    throw ExpressionError(position + 1, what);
  }

  const Collective collective_;
  std::span<const Algorithm* const> algorithms_;
  std::string_view text_;
  std::size_t position_ = 0;
};

std::string size_text(std::size_t bytes) {
  for (const Unit& unit : units) {
    if (bytes % unit.bytes == 0) return std::to_string(bytes / unit.bytes) + std::string(unit.name);
  }
  return std::to_string(bytes);
}

}  // namespace

Expression parse_expression(Collective collective, std::string_view text) {
  return Parser(collective, text).parse_whole_text();
}

std::string_view name_of(Parameter parameter) {
  switch (parameter) {
    case Parameter::segments_or_bytes:
      return "SEGMENTS|BYTES";
    case Parameter::bytes:
      return "BYTES";
    case Parameter::radix:
      return "K";
    case Parameter::late_rank:
      return "RANK";
    case Parameter::dimensions:
      return "D1xD2[x...]";
    case Parameter::algorithm:
    case Parameter::algorithm_or_native:
      return "ALGORITHM";
    case Parameter::node_algorithm:
      return "NODE_ALGORITHM";
    case Parameter::algorithms:
      return "ALGORITHM[, ...]";
  }
  return "";
}

std::string Needs::text() const {
  std::string result;
  if (ranks != nullptr) result = "at least " + std::string(ranks_text) + " ranks";
  if (board == OnBoard::no) return result;
  if (!result.empty()) result += "; ";
  if (board == OnBoard::one_node) result += "all ranks on one node; ";
  if (board == OnBoard::every_node) result += "shared memory on every node; ";
  return result + "cannot be a part of another algorithm";
}

int Expression::lanes() const {
  if (algorithm->lanes != nullptr) return algorithm->lanes(*this);
  int most = 1;
  for (const Expression& part : parts) most = std::max(most, part.lanes());
  return most;
}

std::string Expression::why_unsuitable(const Placement& placement) const {
  if (is_automatic_grid(*this)) return "has no shape here";
  if (algorithm->needs.board == OnBoard::one_node && placement.nodes > 1)
    return "needs all ranks on one node";
  if (uses_board(placement) && !placement.board && algorithm->needs.board != OnBoard::if_any)
    return "needs shared memory between the ranks of a node";
  if (algorithm->needs.ranks != nullptr && placement.ranks < algorithm->needs.ranks(*this))
    return "needs at least " + std::to_string(algorithm->needs.ranks(*this)) + " ranks";
  if (algorithm->why_unsuitable != nullptr) return algorithm->why_unsuitable(*this, placement);
  for (const Expression& part : parts) {
    if (std::string reason = part.why_unsuitable(placement); !reason.empty()) return reason;
  }
  return {};
}

std::size_t Expression::lease(const Call& call, int rank, int ranks, int node_ranks) const {
  const OnBoard board = algorithm->needs.board;
  if (board == OnBoard::no) return 0;
  // There hierarchy and lanes run their part for a node, and nothing else.
  if (board == OnBoard::every_node && node_ranks == ranks)
    return parts.front().lease(call, rank, ranks, node_ranks);
  if (algorithm->lease != nullptr) return algorithm->lease(call, rank, node_ranks);
  const std::size_t vector = std::max(call.input.bytes(), call.output.bytes());
  return roles_of(call.collective).is_personalised ? static_cast<std::size_t>(node_ranks) * vector : vector;
}

bool Expression::same_bits_every_run() const {
  return algorithm->same_bits_every_run && std::ranges::all_of(parts, &Expression::same_bits_every_run);
}

std::string_view Expression::operand_order() const {
  return algorithm->order == Algorithm::order_of_part ? parts.front().operand_order() : algorithm->order;
}

bool Expression::learns() const {
  return algorithm->learns || std::ranges::any_of(parts, &Expression::learns);
}

bool is_automatic_grid(const Expression& expression) {
  const auto parameters = expression.algorithm->parameters;
  return !parameters.empty() && parameters.front() == Parameter::dimensions && expression.dimensions.empty();
}

bool has_automatic_grid(const Expression& expression) {
  return is_automatic_grid(expression) || std::ranges::any_of(expression.parts, has_automatic_grid);
}

std::string Expression::canonical_text() const {
  std::string result(algorithm->name);
  if (is_automatic_grid(*this)) return result + "(" + std::string(automatic) + ")";
  if (!name_in_host.empty()) result += "(" + name_in_host + ")";
  std::string separator = "(";
  std::size_t next_part = 0;
  const auto add = [&](const std::string& argument) {
    result += separator + argument;
    separator = ", ";
  };
  for (const Parameter parameter : algorithm->parameters) {
    switch (parameter) {
      case Parameter::segments_or_bytes:
        add(segments > 0 ? std::to_string(segments) : size_text(bytes));
        break;
      case Parameter::bytes:
        add(size_text(bytes));
        break;
      case Parameter::radix:
        add(std::to_string(radix));
        break;
      case Parameter::late_rank:
        add(std::to_string(late_rank));
        break;
      case Parameter::dimensions: {
        std::string grid;
        for (const int dimension : dimensions) grid += (grid.empty() ? "" : "x") + std::to_string(dimension);
        add(grid);
        break;
      }
      case Parameter::algorithms:
        for (; next_part < parts.size(); ++next_part) add(parts[next_part].canonical_text());
        break;
      case Parameter::algorithm:
      case Parameter::algorithm_or_native:
      case Parameter::node_algorithm:
        add(parts[next_part++].canonical_text());
        break;
    }
  }
  return algorithm->parameters.empty() ? result : result + ")";
}

}  // namespace offbeat
