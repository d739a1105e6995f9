// SPDX-License-Identifier: BSD-3-Clause
// Rules say which algorithm runs in which case, as text. The built-in rules (rules.txt) and the user's rules
// (OFFBEAT_RULES) have one format, which docs/reference/rules.md describes:
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

inline constexpr std::size_t max_length = std::numeric_limits<std::size_t>::max();

// The numbers from `least` to `most`, both included.
template <class Number>
struct Range {
  Number least = 0;
  Number most = std::numeric_limits<Number>::max();

  [[nodiscard]] bool contains(Number value) const { return least <= value && value <= most; }
  [[nodiscard]] bool is_empty() const { return least > most; }
  friend bool operator==(const Range&, const Range&) = default;
};

// ByteLimit is one end of a range of bytes: a fixed number of bytes, or a number of bytes for each node of
// the communicator.
struct ByteLimit {
  std::size_t bytes;
  bool is_per_node = false;

  // Returns the limit in bytes on a communicator with `nodes` nodes. Returns max_length if the product would
  // overflow.
  [[nodiscard]] std::size_t on_nodes(int nodes) const {
    const auto times = is_per_node ? static_cast<std::size_t>(nodes) : 1;
    return bytes > max_length / times ? max_length : bytes * times;
  }
  friend bool operator==(const ByteLimit&, const ByteLimit&) = default;
};

struct ByteRange {
  ByteLimit least{0};
  ByteLimit most{max_length};
  bool excludes_most = false;  // written ..<

  // Returns the range on a communicator with `nodes` nodes. It may be empty.
  [[nodiscard]] Range<std::size_t> on_nodes(int nodes) const;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Blocking calls, or calls that only begin something: MPI_Ibcast, or MPI_Start of what MPI_Bcast_init made.
enum class CallForm : std::uint8_t { blocking, nonblocking };

// Returns what precedes the name of a collective in the names of such calls: nothing, or the i of "ibcast".
[[nodiscard]] constexpr std::string_view prefix_of(CallForm form) {
  return form == CallForm::nonblocking ? "i" : "";
}

struct Rule {
  Collective collective;
  std::optional<CallForm> form;  // empty: all calls; "ibcast" in the file stands for nonblocking ones
  std::optional<HostMpi> host;   // empty: any host
  Range<int> nodes{1};
  Range<int> ppn{1};
  ByteRange bytes;
  std::vector<const Expression*> alternatives;  // at least one; the first one runs
  std::string reason;                           // the comment on its line
  int line = 0;

  // Returns true if the rule applies to calls of this form on a communicator with this placement under this
  // host. Its algorithm may still be unable to run there.
  [[nodiscard]] bool fits(HostMpi host, const Placement& placement, CallForm calls) const;
  // Returns the canonical spelling, without the comment. Parsing it gives an equal rule.
  [[nodiscard]] std::string text() const;
  // Returns the last field of the canonical spelling.
  [[nodiscard]] std::string algorithm_text() const;
};

// Returns the ranks of a communicator divided by its nodes, rounded up: 4 for 5 ranks on one node and 3 on
// another. The result is 1 exactly if each rank has a node of its own.
[[nodiscard]] constexpr int ranks_per_node(const Placement& placement) {
  return (placement.ranks + placement.nodes - 1) / placement.nodes;
}

struct RuleError {
  int line;
  std::string_view field;  // empty if the error concerns the whole line
  std::string what;

  // Returns the error for people, such as "my.rules:3: nodes: ...".
  [[nodiscard]] std::string text(std::string_view file) const;
};

struct Rules {
  std::string file;  // the path as the user wrote it; empty for the built-in rules
  std::vector<Rule> rules;

  // Returns true if any rule names an algorithm of the host, as native(NAME) does.
  [[nodiscard]] bool name_host_algorithms() const;
  // Returns `hash` extended by everything that influences decisions. Comments and spelling do not count.
  [[nodiscard]] std::uint64_t hash(std::uint64_t hash) const;
};

struct ParsedRules {
  Rules rules;  // the rules without an error
  std::vector<RuleError> errors;
};

// Parses `text`. Errors in it are returned, never thrown. A rule for all collectives becomes one rule for
// each.
[[nodiscard]] ParsedRules parse_rules(std::string file, std::string_view text);

// The largest number of rules and of MiB that a file of rules may have.
inline constexpr std::size_t most_rules = 4096;
inline constexpr std::size_t most_rules_mib = 1;

// Reads a regular file of at most most_rules_mib. Throws UsageError.
[[nodiscard]] std::string read_rules_text(const std::string& path);

// Reads and parses a file of rules. Throws UsageError with the first error of the file.
[[nodiscard]] Rules read_rules(const std::string& path);

[[nodiscard]] std::string_view built_in_rules_text();
[[nodiscard]] const Rules& built_in_rules();

}  // namespace offbeat
