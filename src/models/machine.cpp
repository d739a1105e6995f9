// SPDX-License-Identifier: BSD-3-Clause
// Reads the part of TOML that machine files use: tables, arrays of tables, and keys with numbers or strings.
// Unknown tables and keys are errors. Values of keys that only `offbeat simulate` reads are not checked.
#include "models/machine.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/text_file.hpp"

namespace offbeat {
namespace {

constexpr std::size_t largest_file_mib = 1;
constexpr double least_rate = 1e-12;
constexpr double largest_number = 1e12;  // as in offbeat simulate, so that results stay finite
constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

using Keys = std::array<std::string_view, 12>;  // the rest is empty

constexpr Keys with_message_keys(std::initializer_list<std::string_view> more) {
  Keys keys{"latency_us",  "bandwidth_gb_per_s", "send_overhead_us", "receive_overhead_us",
            "send_gap_us", "receive_gap_us",     "handshake_us"};
  std::ranges::copy(more, std::ranges::find(keys, ""));
  return keys;
}

// A table that a file may have. `offbeat simulate` reads all of them, grid(auto) only what messages cost.
struct KnownTable {
  std::string_view name;  // "" before the first header
  bool is_array;
  Keys keys;
};

constexpr std::array known_tables{
    KnownTable{"", false, {"name", "source", "eager_limit_bytes", "envelope_bytes", "not_measured"}},
    KnownTable{"calibrated", false, {"mpi", "version", "processor", "cores"}},
    KnownTable{"core",
               false,
               {"combine_ns_per_byte", "copy_ns_per_byte", "node_memory_bandwidth_gb_per_s", "step_ns"}},
    KnownTable{"core.beyond",
               true,
               {"cache_bytes", "ranks_per_cache", "combine_ns_per_byte", "copy_ns_per_byte",
                "node_memory_bandwidth_gb_per_s"}},
    KnownTable{"within_node", false,
               with_message_keys({"eager_limit_bytes", "send_ns_per_byte", "receive_ns_per_byte",
                                  "line_share", "message_lines"})},
    KnownTable{
        "within_node.level", true, {"cores", "line_ns", "core_gb_per_s", "link_gb_per_s", "memory_gb_per_s"}},
    KnownTable{"within_node.longer",
               true,
               {"from_bytes", "latency_us", "bandwidth_gb_per_s", "send_ns_per_byte", "receive_ns_per_byte",
                "line_share"}},
    KnownTable{
        "between_nodes", false,
        with_message_keys({"node_bandwidth_gb_per_s", "node_receive_bandwidth_gb_per_s", "node_gap_us"})},
    KnownTable{"between_nodes.longer", true, {"from_bytes", "latency_us", "bandwidth_gb_per_s"}},
    KnownTable{"board", false, {"line_ns", "far_line_ns", "line_gap_ns", "put_line_ns", "ranks_per_cache"}},
    KnownTable{"algorithm", true, {"expression", "mpi", "level", "latency_us", "bandwidth_gb_per_s"}}};

const KnownTable* known_table(std::string_view name) {
  const auto* const found = std::ranges::find(known_tables, name, &KnownTable::name);
  return found != known_tables.end() ? found : nullptr;
}

struct Value {
  std::string_view key;
  std::string text;
  int line;
  bool is_text = false;  // it was in quotes
};

struct Table {
  const KnownTable* known;
  int line;
  std::vector<Value> values;
};

class Toml {
 public:
  Toml(const std::string& file, std::string_view text) : file_(file), rest_of_text_(text) {
    tables_.push_back({known_table(""), 0, {}});
    while (!rest_of_text_.empty()) {
      ++line_;
      const std::string_view line = trimmed(without_comment(take_line()));
      if (line.empty()) continue;
      if (line.front() == '[') {
        header(line);
      } else {
        key_and_value(line);
      }
    }
  }

  [[nodiscard]] const std::vector<Table>& tables() const { return tables_; }

 private:
  std::string_view take_line() {
    const std::size_t end = std::min(rest_of_text_.find('\n'), rest_of_text_.size());
    const std::string_view line = rest_of_text_.substr(0, end);
    rest_of_text_.remove_prefix(std::min(end + 1, rest_of_text_.size()));
    return line;
  }

  // A # inside quotes begins no comment.
  static std::string_view without_comment(std::string_view line) {
    char quote = 0;
    for (std::size_t k = 0; k < line.size(); ++k) {
      const char c = line[k];
      if (quote == '"' && c == '\\') {
        ++k;
      } else if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '#') {
        return line.substr(0, k);
      }
    }
    return line;
  }

  void header(std::string_view line) {
    const bool is_array = line.starts_with("[[");
    const std::string_view close = is_array ? "]]" : "]";
    if (!line.ends_with(close)) fail("a table begins with [name] or [[name]]");
    const std::string name = without_blanks_at_dots(
        line.substr(close.size(), line.size() - std::min(line.size(), 2 * close.size())));
    const KnownTable* const known = name.empty() ? nullptr : known_table(name);
    if (known == nullptr) fail("unknown table '" + printable(name, 60) + "'");
    if (is_array != known->is_array)
      fail("a table of this name begins with " + (is_array ? "[" + name + "]" : "[[" + name + "]]"));
    const auto same = [&](const Table& each) { return each.known == known; };
    if (!is_array && std::ranges::any_of(tables_, same)) fail("[" + name + "] occurs twice");
    tables_.push_back({known, line_, {}});
  }

  // Returns a.b for " a . b ".
  static std::string without_blanks_at_dots(std::string_view name) {
    std::string found;
    for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
      found.append(trimmed(name.substr(0, dot))).push_back('.');
      name.remove_prefix(dot + 1);
    }
    return found.append(trimmed(name));
  }

  void key_and_value(std::string_view line) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) fail("expected a [table] or KEY = VALUE");
    Value value{.key = trimmed(line.substr(0, equals)), .text = {}, .line = line_};
    if (value.key.empty()) fail("a key is missing before =");
    refuse_unknown(value.key);
    for (const Value& each : tables_.back().values)
      if (each.key == value.key) fail(printable(value.key, 60) + " occurs twice");
    std::string_view text = trimmed(line.substr(equals + 1));
    if (text.empty()) fail(printable(value.key, 60) + " has no value");
    for (const std::string_view quotes : {R"(""")", "'''"}) {
      if (!text.starts_with(quotes)) continue;
      skip_multiline_text(line, quotes);
      value.is_text = true;
      tables_.back().values.push_back(std::move(value));
      return;
    }
    if (text.front() == '"' || text.front() == '\'') {
      if (text.size() < 2 || text.back() != text.front())
        fail(printable(value.key, 60) + ": a quote is not closed");
      text = text.substr(1, text.size() - 2);
      value.is_text = true;
    } else if (text.front() == '[' || text.front() == '{') {
      fail(printable(value.key, 60) + ": neither a number nor a text in quotes");
    }
    value.text = text;
    if (!value.is_text) {  // 1_000 and +1 are numbers, too
      std::erase(value.text, '_');
      if (value.text.starts_with('+')) value.text.erase(0, 1);
    }
    tables_.back().values.push_back(std::move(value));
  }

  // Texts of several lines are for people.
  void skip_multiline_text(std::string_view first, std::string_view quotes) {
    const std::size_t begin = first.find(quotes) + quotes.size();
    const int from = line_;
    if (first.find(quotes, begin) != std::string_view::npos) return;
    while (!rest_of_text_.empty()) {
      ++line_;
      if (take_line().find(quotes) != std::string_view::npos) return;
    }
    line_ = from;
    fail(std::string(quotes) + " is not closed");
  }

  void refuse_unknown(std::string_view key) const {
    const KnownTable& table = *tables_.back().known;
    if (std::ranges::find(table.keys, key) != table.keys.end()) return;
    std::string known;
    for (const std::string_view each : table.keys)
      if (!each.empty()) known.append(known.empty() ? "; known are " : ", ").append(each);
    fail(printable(key, 60) + ": unknown key" + known);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(printable(file_) + ":" + std::to_string(line_) + ": " + what);
  }

  const std::string& file_;
  std::string_view rest_of_text_;
  int line_ = 0;
  std::vector<Table> tables_;
};

// Reads the values of one table.
class Reader {
 public:
  Reader(const std::string& file, const Table& table) : file_(file), table_(table) {}

  [[nodiscard]] double number(std::string_view key, double least = 0) const {
    return number_of(required_value(key), least);
  }
  [[nodiscard]] double number_or(std::string_view key, double otherwise, double least = 0) const {
    const Value* value = find(key);
    return value != nullptr ? number_of(*value, least) : otherwise;
  }
  [[nodiscard]] std::string text(std::string_view key) const {
    const Value& value = required_value(key);
    if (!value.is_text) fail(value, "'" + printable(value.text, 40) + "' is not a text in quotes");
    return value.text;
  }
  [[nodiscard]] std::string text_or(std::string_view key, std::string otherwise) const {
    return find(key) != nullptr ? text(key) : std::move(otherwise);
  }
  [[nodiscard]] std::size_t bytes_or(std::string_view key, std::size_t otherwise) const {
    const Value* value = find(key);
    if (value == nullptr) return otherwise;
    std::size_t found = 0;
    const char* const end = value->text.data() + value->text.size();
    const auto [read_to, error] = std::from_chars(value->text.data(), end, found);
    if (error != std::errc() || read_to != end || value->is_text || found >= std::size_t{1} << 62)
      fail(*value, "'" + printable(value->text, 40) + "' is not a whole number of bytes");
    return found;
  }
  [[noreturn]] void fail(std::string_view key, const std::string& what) const {
    fail(required_value(key), what);
  }

 private:
  [[nodiscard]] const Value* find(std::string_view key) const {
    const auto found = std::ranges::find(table_.values, key, &Value::key);
    return found != table_.values.end() ? &*found : nullptr;
  }
  [[nodiscard]] const Value& required_value(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) {
      throw UsageError(printable(file_) + ":" + std::to_string(table_.line) + ": " + name_of(key) +
                       ": it is missing");
    }
    return *value;
  }
  [[nodiscard]] double number_of(const Value& value, double least) const {
    double found = 0;
    const char* const end = value.text.data() + value.text.size();
    const auto [read_to, error] = std::from_chars(value.text.data(), end, found);
    const bool is_number = error == std::errc() && read_to == end && !value.is_text;
    if (!is_number || !(found >= least && found <= largest_number)) {
      std::array<char, 32> smallest{};
      std::to_chars(smallest.data(), smallest.data() + smallest.size() - 1, least);
      fail(value,
           "'" + printable(value.text, 40) + "' is not a number from " + smallest.data() + " to 1e+12");
    }
    return found;
  }
  [[noreturn]] void fail(const Value& value, const std::string& what) const {
    throw UsageError(printable(file_) + ":" + std::to_string(value.line) + ": " + name_of(value.key) + ": " +
                     what);
  }
  [[nodiscard]] std::string name_of(std::string_view key) const {
    const std::string table(table_.known->name);
    return (table.empty() ? table : table + ".") + std::string(key);
  }

  const std::string& file_;
  const Table& table_;
};

// In most algorithms a rank sends and receives at once. Then its core makes both copies of a message.
double seconds_per_byte(const Reader& reader) {
  const double copies = reader.number_or("send_ns_per_byte", 0) + reader.number_or("receive_ns_per_byte", 0);
  return 1e-9 * std::max(1 / reader.number("bandwidth_gb_per_s", least_rate), copies);
}
double latency(const Reader& reader) { return reader.number("latency_us") * 1e-6; }

// Returns the only table of this name. Throws if there is none.
Reader table_named(const Toml& toml, const std::string& file, std::string_view name) {
  const auto is_named = [&](const Table& each) { return each.known->name == name; };
  const auto found = std::ranges::find_if(toml.tables(), is_named);
  if (found == toml.tables().end())
    throw UsageError(printable(file) + ": the table [" + std::string(name) + "] is missing");
  return {file, *found};
}

Machine::Messages messages(const Toml& toml, const std::string& file, const std::string& name,
                           std::size_t eager_bytes) {
  const Reader reader = table_named(toml, file, name);
  Machine::Messages found{.protocols = {{0, latency(reader), seconds_per_byte(reader)}},
                          .send_overhead = reader.number_or("send_overhead_us", 0) * 1e-6,
                          .receive_overhead = reader.number_or("receive_overhead_us", 0) * 1e-6,
                          .send_gap = reader.number_or("send_gap_us", 0) * 1e-6,
                          .receive_gap = reader.number_or("receive_gap_us", 0) * 1e-6,
                          .handshake = reader.number_or("handshake_us", 0) * 1e-6,
                          .eager_bytes = reader.bytes_or("eager_limit_bytes", eager_bytes)};
  for (const Table& table : toml.tables()) {
    if (table.known->name != name + ".longer") continue;
    const Reader longer(file, table);
    const std::size_t from = longer.bytes_or("from_bytes", 0);
    if (from <= found.protocols.back().from_bytes)
      longer.fail("from_bytes", "it must be larger than in the table before");
    found.protocols.push_back({from, latency(longer), seconds_per_byte(longer)});
  }
  return found;
}

Machine::Algorithm algorithm_of(const Reader& reader) {
  constexpr std::string_view between = "between_nodes";
  const std::string level = reader.text_or("level", std::string(between));
  if (level != between && level != "within_node")
    reader.fail("level", "'" + printable(level, 40) + "' is neither between_nodes nor within_node");
  return {.expression = reader.text("expression"),
          .mpi = reader.text_or("mpi", ""),
          .is_within_node = level != between,
          .latency = latency(reader),
          .per_byte = seconds_per_byte(reader)};
}

}  // namespace

const Machine::Protocol& Machine::Messages::protocol(std::size_t bytes) const {
  auto found = protocols.begin();
  for (auto longer = found + 1; longer != protocols.end() && bytes >= longer->from_bytes; ++longer)
    found = longer;
  return *found;
}

const Machine::Algorithm* Machine::algorithm(std::string_view expression, bool within_node) const {
  const auto found = std::ranges::find_if(algorithms, [&](const Algorithm& each) {
    return each.expression == expression && each.is_within_node == within_node;
  });
  return found != algorithms.end() ? &*found : nullptr;
}

std::uint64_t Machine::hash() const {
  std::uint64_t hash = fnv1a("machine");
  const auto add = [&](double value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof value>>(value);
    hash = fnv1a({bytes.data(), bytes.size()}, hash);
  };
  for (const Messages* each : {&within_node, &between_nodes}) {
    for (const Protocol& protocol : each->protocols) {
      add(static_cast<double>(protocol.from_bytes));
      add(protocol.latency);
      add(protocol.per_byte);
    }
    add(each->send_overhead);
    add(each->receive_overhead);
    add(each->send_gap);
    add(each->receive_gap);
    add(each->handshake);
    add(static_cast<double>(each->eager_bytes));
  }
  add(node_per_byte);
  add(combine_per_byte);
  for (const Algorithm& each : algorithms) {
    hash = fnv1a(each.expression + '\n' + each.mpi + '\n', hash);
    add(each.is_within_node ? 1 : 0);
    add(each.latency);
    add(each.per_byte);
  }
  return hash;
}

Machine parse_machine(std::string file, std::string_view text) {
  const std::string where = file.empty() ? "the built-in machine" : file;
  const Toml toml(where, text);
  const Reader whole(where, toml.tables().front());
  const std::size_t eager_bytes = whole.bytes_or("eager_limit_bytes", 8192);
  const Reader between = table_named(toml, where, "between_nodes");
  constexpr double no_limit = std::numeric_limits<double>::infinity();
  Machine machine{.name = whole.text("name"),
                  .file = std::move(file),
                  .within_node = messages(toml, where, "within_node", eager_bytes),
                  .between_nodes = messages(toml, where, "between_nodes", eager_bytes),
                  .node_per_byte = 1e-9 / between.number_or("node_bandwidth_gb_per_s", no_limit, least_rate),
                  .combine_per_byte = table_named(toml, where, "core").number("combine_ns_per_byte") * 1e-9,
                  .algorithms = {}};
  for (const Table& table : toml.tables()) {
    if (table.known->name == "algorithm") machine.algorithms.push_back(algorithm_of({where, table}));
  }
  return machine;
}

Machine read_machine(const std::string& path) {
  return parse_machine(path, read_text_file(path, largest_file_mib));
}

// Never destroyed, because a program may call MPI while it exits.
const Machine& built_in_machine() {
  static const auto* machine = new Machine(parse_machine("", built_in_machine_text()));
  return *machine;
}

}  // namespace offbeat
