// SPDX-License-Identifier: BSD-3-Clause
// One rank of each node prints a line that every rank of the job would print. The ranks cannot agree on who
// prints: MPI_Init has not run yet, or a rank has found something alone.
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
  // Keeps the name: only the end of the process gives it back.
  ~LineOfNode() = default;

  // Prints the line, unless another rank of the node has printed it. Returns false if another has.
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
