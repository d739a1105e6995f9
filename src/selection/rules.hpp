// SPDX-License-Identifier: BSD-3-Clause
// Rules: which algorithm runs where, as text. The built-in rules (rules.txt) and the user's (OFFBEAT_RULES)
// have the same format, which docs/rules.md describes:
//
//     collective  host  nodes  ppn  bytes  algorithm [| algorithm ...]  [# reason]
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "selection/host_mpi.hpp"
#include "selection/interned_expression.hpp"

namespace offbeat {

inline constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();

// All numbers from `least` to `most`, both included.
template <class Number>
struct Range {
  Number least = 0;
  Number most = std::numeric_limits<Number>::max();

  [[nodiscard]] bool contains(Number value) const { return least <= value && value <= most; }
  [[nodiscard]] bool is_empty() const { return least > most; }
  friend bool operator==(const Range&, const Range&) = default;
};

// One end of a range of bytes: a number of bytes, or so many for each node of the communicator.
struct ByteLimit {
  std::size_t bytes;
  bool is_per_node = false;

  // Saturates.
  [[nodiscard]] std::size_t on(int nodes) const {
    const auto times = is_per_node ? static_cast<std::size_t>(nodes) : 1;
    return bytes > any_length / times ? any_length : bytes * times;
  }
  friend bool operator==(const ByteLimit&, const ByteLimit&) = default;
};

struct ByteRange {
  ByteLimit least{0};
  ByteLimit most{any_length};
  bool excludes_most = false;  // written ..<

  // Empty if the ends leave nothing on that many nodes.
  [[nodiscard]] Range<std::size_t> on(int nodes) const;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct Rule {
  Collective collective;
  std::optional<HostMpi> host;  // empty: any
  Range<int> nodes{1};
  Range<int> ppn{1};
  ByteRange bytes;
  std::vector<const Expression*> alternatives;  // at least one; the first one runs
  std::string reason;                           // the comment in its line
  int line = 0;

  // Whether it is about such communicators under this host. What runs there is not looked at.
  [[nodiscard]] bool fits(HostMpi host, const Placement& placement) const;
  // The canonical spelling, without the comment; parsing it gives the same rule.
  [[nodiscard]] std::string text() const;
  // The last field of it.
  [[nodiscard]] std::string algorithm_text() const;
};

// The ranks of a communicator divided by its nodes, rounded up: 4 for 5 ranks on one node and 3 on another. A
// communicator has a node for each of its ranks exactly if this is 1.
[[nodiscard]] constexpr int ranks_per_node(const Placement& placement) {
  return (placement.ranks + placement.nodes - 1) / placement.nodes;
}

struct RuleError {
  int line;
  std::string_view field;  // empty: the line as a whole
  std::string what;

  // "my.rules:3: nodes: ..."
  [[nodiscard]] std::string text(std::string_view file) const;
};

struct Rules {
  std::string file;  // the name that people know it by; empty: the rules are built in
  std::vector<Rule> rules;

  // Extends `hash` by everything that decides. Comments and the spelling do not.
  [[nodiscard]] std::uint64_t hash(std::uint64_t hash) const;
};

struct ParsedRules {
  Rules rules;  // those without an error
  std::vector<RuleError> errors;
};

// Never throws for what the text says. A rule for all collectives becomes one rule for each.
[[nodiscard]] ParsedRules parse_rules(std::string file, std::string_view text);

// The most that a file of rules may have.
inline constexpr std::size_t most_rules = 4096;
inline constexpr std::size_t most_rules_bytes = std::size_t{1} << 20;

// The text of a regular file of at most most_rules_bytes. Throws UsageError.
[[nodiscard]] std::string read_rules_text(const std::string& path);

// Throws UsageError, with the first error that the file has.
[[nodiscard]] Rules read_rules(const std::string& path);

[[nodiscard]] std::string_view built_in_rules_text();
[[nodiscard]] const Rules& built_in_rules();

}  // namespace offbeat
