// SPDX-License-Identifier: BSD-3-Clause
// Lines that every rank of a job would print alike, where the ranks cannot agree on who prints: before
// MPI_Init, or if a rank has found something alone. One rank of each node prints them.
#pragma once

#include <string>
#include <string_view>

namespace offbeat {

// One line of a job on this node. Lines that differ only in numbers, such as that of a rank, count as equal.
//
// The rank that prints it holds a name in the kernel: an abstract Unix socket, made from the user, the job
// and the line. The kernel drops the name when the process ends, however it ends.
class LineOfNode {
 public:
  explicit LineOfNode(std::string_view line);
  LineOfNode(const LineOfNode&) = delete;
  LineOfNode& operator=(const LineOfNode&) = delete;
  // Does not give the name back: that is up to the end of the process.
  ~LineOfNode() = default;

  // Prints the line, unless another rank of the node has. Returns false if one has.
  bool say_first();
  // Returns true if another rank of the node has printed the line, or is about to, and still runs.
  [[nodiscard]] bool is_said() const;

 private:
  std::string line_;
  std::string name_;
};

// Prints a line, unless another rank of this job on this node has printed it and still runs.
void say_once_on_node(std::string_view line);

}  // namespace offbeat
