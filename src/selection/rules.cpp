// SPDX-License-Identifier: BSD-3-Clause
#include "selection/rules.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/similar.hpp"
#include "base/text_file.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat {
namespace {

constexpr std::string_view blanks = " \t\r\v\f";
constexpr std::array<std::string_view, 6> field_names{"collective", "host",  "nodes",
                                                      "ppn",        "bytes", "algorithm"};
constexpr std::string_view per_node_suffix = "/node";

struct Unit {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array units{Unit{"GiB", std::size_t{1} << 30}, Unit{"MiB", std::size_t{1} << 20},
                           Unit{"KiB", std::size_t{1} << 10}, Unit{"B", 1}};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Thrown for a field that cannot be understood. The place that catches it knows the line and the field.
struct FieldError {
  std::string what;
};

[[noreturn]] void fail(std::string_view text, std::string_view why, std::string_view expected) {
  throw FieldError{"'" + printable(text, 60) + "'" + std::string(why) + "; expected " +
                   std::string(expected)};
}

constexpr std::string_view expected_counts_text =
    "a number such as 8, a range such as 2..8, 9.. or ..4, or *";
constexpr std::string_view expected_bytes_text =
    "a size such as 8 or 64KiB, a range such as 16KiB..1MiB, ..<4KiB or 16KiB/node.., or *";

// The two ends of a range as text: "A", "A..", "..B", "A..B", "A..<B" or "*".
struct ParsedRange {
  std::string_view least;  // empty if the range has no lower end
  std::string_view most;
  bool excludes_most = false;
  bool is_single_value = false;  // a single value, not a range
};

ParsedRange parse_range(std::string_view text, std::string_view expected) {
  if (text == "*") return {};
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {text, text, false, true};
  ParsedRange ends{text.substr(0, dots), text.substr(dots + 2)};
  if (ends.most.starts_with('<')) {
    ends.excludes_most = true;
    ends.most.remove_prefix(1);
    if (ends.most.empty()) fail(text, " has no upper end", expected);
  }
  if (ends.least.empty() && ends.most.empty()) fail(text, " has no ends", expected);
  return ends;
}

// Reads digits from the beginning of `text`, and removes them.
template <class Number>
Number number(std::string_view& text, std::string_view whole, std::string_view expected) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) fail(whole, " is too large", expected);
  if (error != std::errc() || text.front() == '-') fail(whole, " is not understood", expected);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

int count_from_1(std::string_view text) {
  std::string_view rest = text;
  const int value = number<int>(rest, text, expected_counts_text);
  if (!rest.empty()) fail(text, " is not understood", expected_counts_text);
  if (value < 1) fail(text, " is less than 1", expected_counts_text);
  return value;
}

Range<int> parse_count_range(std::string_view text) {
  const ParsedRange ends = parse_range(text, expected_counts_text);
  Range<int> range{1};
  if (!ends.least.empty()) range.least = count_from_1(ends.least);
  if (!ends.most.empty()) range.most = count_from_1(ends.most) - (ends.excludes_most ? 1 : 0);
  if (range.is_empty()) fail(text, " is an empty range", expected_counts_text);
  return range;
}

ByteLimit byte_limit(std::string_view text) {
  std::string_view rest = text;
  ByteLimit limit{number<std::size_t>(rest, text, expected_bytes_text)};
  if (rest.ends_with(per_node_suffix)) {
    limit.is_per_node = true;
    rest.remove_suffix(per_node_suffix.size());
  }
  if (rest.empty()) return limit;
  const auto* const unit = std::ranges::find(units, rest, &Unit::name);
  if (unit == units.end()) fail(text, " has an unknown unit (B, KiB, MiB or GiB)", expected_bytes_text);
  if (limit.bytes > max_length / unit->bytes) fail(text, " is too large", expected_bytes_text);
  limit.bytes *= unit->bytes;
  return limit;
}

ByteRange parse_byte_range(std::string_view text) {
  const ParsedRange ends = parse_range(text, expected_bytes_text);
  ByteRange range;
  if (!ends.least.empty()) range.least = byte_limit(ends.least);
  if (!ends.most.empty()) range.most = byte_limit(ends.most);
  range.excludes_most = ends.excludes_most;
  // An end that grows with the number of nodes may pass the other end on some numbers of nodes only.
  const bool may_hold =
      !range.on_nodes(1).is_empty() || !range.on_nodes(std::numeric_limits<int>::max()).is_empty();
  if (!may_hold) fail(text, " is an empty range", expected_bytes_text);
  return range;
}

// Returns " (did you mean 'x'?)", or an empty text if no known name is similar.
std::string suggestion(std::string_view text, const std::vector<std::string_view>& known) {
  const std::string_view similar = text.size() < 64 ? most_similar(text, known) : std::string_view();
  return similar.empty() ? "" : " (did you mean '" + std::string(similar) + "'?)";
}

// The calls that the first field of a rule names.
struct CollectiveField {
  std::vector<Collective> collectives;
  std::optional<CallForm> form;
};

CollectiveField parse_collective_field(std::string_view text) {
  std::vector<std::string_view> names;
  std::vector<Collective> all;
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    if (repertoire(collective).algorithms.empty()) continue;
    if (text == name_of(collective)) return {{collective}, {}};
    const std::string_view prefix = prefix_of(CallForm::nonblocking);
    if (text.starts_with(prefix) && text.substr(prefix.size()) == name_of(collective))
      return {{collective}, CallForm::nonblocking};
    names.push_back(name_of(collective));
    all.push_back(collective);
  }
  if (text == "*") return {all, {}};
  std::string expected =
      "a collective that offbeat serves, with an i before it for its non-blocking calls, or *: ";
  for (const std::string_view name : names)
    expected += (name == names.front() ? "" : ", ") + std::string(name);
  fail(text, suggestion(text, names), expected);
}

std::optional<HostMpi> parse_host_field(std::string_view text) {
  if (text == "*") return std::nullopt;
  if (const std::optional<HostMpi> host = host_named(text)) return host;
  fail(text, suggestion(text, {host_names.begin(), host_names.end()}), "openmpi, mpich, intel, other or *");
}

// Parses the last field of a rule. `column` is the column in which the field begins, counted from 1.
std::vector<const Expression*> parse_alternatives(Collective collective, std::string_view text,
                                                  std::size_t column) {
  std::vector<const Expression*> alternatives;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('|', start), text.size());
    const std::string_view one = text.substr(start, end - start);
    try {
      const Expression* expression = interned_expression(collective, one);
      if (std::ranges::find(alternatives, expression) != alternatives.end())
        throw ExpressionError(1, expression->canonical_text() + " occurs twice");
      alternatives.push_back(expression);
    } catch (const ExpressionError& error) {
      const std::string_view what = error.what();
      throw FieldError{"column " + std::to_string(column + start + error.column - 1) +
                       std::string(what.substr(what.find(':')))};
    }
    start = end + 1;
  }
  return alternatives;
}

// Returns the next word of `rest` and removes it from there. Returns an empty text if there is none.
std::string_view next_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(blanks));
  rest.remove_prefix(word.size());
  return word;
}

class Parser {
 public:
  explicit Parser(std::string file) { parsed_.rules.file = std::move(file); }

  void line(int number, std::string_view whole) {
    const std::size_t hash = whole.find('#');
    std::string_view rest = whole.substr(0, hash);
    if (trimmed(rest).empty()) return;
    Rule rule{};
    rule.line = number;
    if (hash != std::string_view::npos) rule.reason = printable(trimmed(whole.substr(hash + 1)));
    std::array<std::string_view, field_names.size()> words;
    for (std::size_t k = 0; k + 1 < field_names.size(); ++k) words[k] = next_word(rest);
    words.back() = trimmed(rest);
    const auto missing = std::ranges::find_if(words, &std::string_view::empty);
    if (missing != words.end()) {
      const std::string_view field = field_names[static_cast<std::size_t>(missing - words.begin())];
      add_error(number, field, "missing; a rule is: collective host nodes ppn bytes algorithm # reason");
      return;
    }
    // Every field is parsed even after an error, so that one run shows all errors.
    CollectiveField calls;
    bool is_right = true;
    const auto read = [&](std::size_t k, auto&& parse) {
      try {
        parse(words[k]);
      } catch (const FieldError& bad) {
        add_error(number, field_names[k], bad.what);
        is_right = false;
      }
    };
    read(0, [&](std::string_view text) {
      calls = parse_collective_field(text);
      rule.form = calls.form;
    });
    read(1, [&](std::string_view text) { rule.host = parse_host_field(text); });
    read(2, [&](std::string_view text) { rule.nodes = parse_count_range(text); });
    read(3, [&](std::string_view text) { rule.ppn = parse_count_range(text); });
    read(4, [&](std::string_view text) { rule.bytes = parse_byte_range(text); });
    read(5, [&](std::string_view text) {
      const auto column = static_cast<std::size_t>(text.data() - whole.data()) + 1;
      for (const Collective collective : calls.collectives) {
        rule.collective = collective;
        try {
          rule.alternatives = parse_alternatives(collective, text, column);
        } catch (FieldError& bad) {
          if (calls.collectives.size() > 1) bad.what = std::string(name_of(collective)) + ": " + bad.what;
          throw;
        }
        if (is_right) add(rule);
      }
    });
  }

  ParsedRules result() { return std::move(parsed_); }

 private:
  void add(const Rule& rule) {
    if (parsed_.rules.rules.size() == most_rules) {
      if (!is_full_) add_error(rule.line, "", "a file has at most " + std::to_string(most_rules) + " rules");
      is_full_ = true;
      return;
    }
    parsed_.rules.rules.push_back(rule);
  }
  void add_error(int line, std::string_view field, std::string what) {
    parsed_.errors.push_back({line, field, std::move(what)});
  }

  ParsedRules parsed_;
  bool is_full_ = false;
};

template <class Number, class Text>
std::string range_text(const Range<Number>& range, const Range<Number>& all, Text&& text_of) {
  if (range == all) return "*";
  if (range.least == range.most) return text_of(range.least);
  return (range.least == all.least ? "" : text_of(range.least)) + ".." +
         (range.most == all.most ? "" : text_of(range.most));
}

std::string counts_text(const Range<int>& range) {
  return range_text(range, {1}, [](int value) { return std::to_string(value); });
}

std::string limit_text(const ByteLimit& limit) {
  const auto* const unit =
      limit.bytes == 0
          ? &units.back()
          : std::ranges::find_if(units, [&](const Unit& each) { return limit.bytes % each.bytes == 0; });
  const std::string_view name = unit->bytes == 1 ? std::string_view() : unit->name;
  return std::to_string(limit.bytes / unit->bytes) + std::string(name) +
         std::string(limit.is_per_node ? per_node_suffix : "");
}

std::string bytes_text(const ByteRange& range) {
  if (range == ByteRange{}) return "*";
  if (range.least == range.most && !range.excludes_most) return limit_text(range.least);
  const bool is_open_below = range.least == ByteRange{}.least;
  const bool is_open_above = range.most == ByteRange{}.most && !range.excludes_most;
  return (is_open_below ? "" : limit_text(range.least)) + ".." + (range.excludes_most ? "<" : "") +
         (is_open_above ? "" : limit_text(range.most));
}

}  // namespace

Range<std::size_t> ByteRange::on_nodes(int nodes) const {
  Range<std::size_t> range{least.on_nodes(nodes), most.on_nodes(nodes)};
  if (!excludes_most) return range;
  if (range.most == 0) return {1, 0};
  --range.most;
  return range;
}

bool Rule::fits(HostMpi under, const Placement& placement, CallForm calls) const {
  return (!form || *form == calls) && (!host || *host == under) && nodes.contains(placement.nodes) &&
         ppn.contains(ranks_per_node(placement));
}

std::string Rule::algorithm_text() const {
  std::string text;
  for (const Expression* each : alternatives) text += (text.empty() ? "" : " | ") + each->canonical_text();
  return text;
}

std::string Rule::text() const {
  return std::string(form ? prefix_of(*form) : "") + std::string(name_of(collective)) + " " +
         std::string(host ? name_of(*host) : "*") + " " + counts_text(nodes) + " " + counts_text(ppn) + " " +
         bytes_text(bytes) + " " + algorithm_text();
}

std::string RuleError::text(std::string_view file) const {
  return printable(file) + ":" + std::to_string(line) + ": " + std::string(field) +
         (field.empty() ? "" : ": ") + what;
}

bool Rules::name_host_algorithms() const {
  return std::ranges::any_of(rules, [](const Rule& rule) {
    return std::ranges::any_of(rule.alternatives, &Expression::names_host_algorithm);
  });
}

std::uint64_t Rules::hash(std::uint64_t hash) const {
  for (const Rule& rule : rules) hash = fnv1a("\n", fnv1a(rule.text(), hash));
  return hash;
}

ParsedRules parse_rules(std::string file, std::string_view text) {
  Parser parser(std::move(file));
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    parser.line(number, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.result();
}

std::string read_rules_text(const std::string& path) { return read_text_file(path, most_rules_mib); }

Rules read_rules(const std::string& path) {
  ParsedRules parsed = parse_rules(path, read_rules_text(path));
  if (parsed.errors.empty()) return std::move(parsed.rules);
  const std::size_t others = parsed.errors.size() - 1;
  throw UsageError(parsed.errors.front().text(path) +
                   (others == 0 ? "" : "; `offbeat rules check` shows " + std::to_string(others) + " more"));
}

// The rules are never destroyed, because a program may call MPI while it exits.
const Rules& built_in_rules() {
  static const auto* rules = new Rules(parse_rules("", built_in_rules_text()).rules);
  return *rules;
}

}  // namespace offbeat
