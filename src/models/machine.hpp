// SPDX-License-Identifier: BSD-3-Clause
// Machine has what a machine file says about messages (docs/how-to/simulate.md). Choosing a grid needs no
// more. `offbeat simulate` reads the same files, and all of their keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace offbeat {

// Times are in seconds, lengths in bytes.
struct Machine {
  // The costs of messages of at least from_bytes bytes.
  struct Protocol {
    std::size_t from_bytes;
    double latency;
    double per_byte;
  };
  struct Messages {
    std::vector<Protocol> protocols;  // shortest messages first; at least one
    double send_overhead = 0;         // of a core, for each message
    double receive_overhead = 0;
    double send_gap = 0;  // of a port, after each message
    double receive_gap = 0;
    double handshake = 0;         // each way, above the eager limit
    std::size_t eager_bytes = 0;  // longer messages wait for their receivers

    [[nodiscard]] const Protocol& protocol(std::size_t bytes) const;
  };
  // The latency and the time per byte of Hockney's model, measured for one allreduce algorithm.
  struct Algorithm {
    std::string expression;  // in the canonical spelling; also native(NAME)
    std::string mpi;         // of native(NAME), as in rules
    bool is_within_node;
    double latency;
    double per_byte;
  };

  std::string name;
  std::string file;  // the path as the user wrote it; empty for the one that is built in
  Messages within_node;
  Messages between_nodes;
  double node_per_byte = 0;  // of all messages together that leave a node; 0: no limit
  double combine_per_byte = 0;
  std::vector<Algorithm> algorithms;

  // Returns the entry of an algorithm, or null if the file has none.
  [[nodiscard]] const Algorithm* algorithm(std::string_view expression, bool within_node) const;
  // Returns a number that almost surely differs for machines on which another grid may be chosen. Comments
  // and the order of keys do not count.
  [[nodiscard]] std::uint64_t hash() const;
};

// Parses the text of a machine file. Throws UsageError with one line that names the file, the line, and the
// key. Keys that are about other things than messages are known, but not read.
[[nodiscard]] Machine parse_machine(std::string file, std::string_view text);

// Reads a regular file of at most 1 MiB. Throws UsageError.
[[nodiscard]] Machine read_machine(const std::string& path);

[[nodiscard]] std::string_view built_in_machine_text();
[[nodiscard]] const Machine& built_in_machine();

}  // namespace offbeat
