// SPDX-License-Identifier: BSD-3-Clause
#include "models/max_rate.hpp"

#include <algorithm>
#include <bit>

#include "patterns/radices.hpp"

namespace offbeat::max_rate {
namespace {

bool is_power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }
int log2(int number) { return std::bit_width(static_cast<unsigned>(number)) - 1; }

// The times of the steps that a message of `bytes` bytes takes.
class StepTimes {
 public:
  StepTimes(const Rates& rates, std::size_t bytes)
      : rates_(rates),
        bytes_(static_cast<double>(bytes)),
        bytes_on_wire_(static_cast<double>(bytes + rates.envelope_bytes)) {}

  [[nodiscard]] double combine() const { return rates_.gamma * bytes_; }
  // Returns the time until the last of `messages` messages of one rank has arrived within the node.
  [[nodiscard]] double within_node(int messages = 1) const {
    return rates_.node_alpha + messages * bytes_on_wire_ * rates_.node_beta;
  }
  // Equation 3: alpha + k n / min(R_N, k R_b) for k ranks of a node that send at the same time.
  [[nodiscard]] double between_nodes(int senders) const {
    return rates_.alpha +
           std::max(bytes_on_wire_ * rates_.beta, senders * bytes_on_wire_ / rates_.injection_rate);
  }
  [[nodiscard]] double doubling_within_node(int ranks) const {
    return log2(ranks) * (within_node() + combine());
  }

 private:
  const Rates& rates_;
  const double bytes_;
  const double bytes_on_wire_;
};

double recursive_doubling(const StepTimes& steps, Shape shape) {
  return steps.doubling_within_node(shape.ranks_per_node) +
         log2(shape.nodes) * (steps.between_nodes(shape.ranks_per_node) + steps.combine());
}

double smp(const StepTimes& steps, Shape shape) {
  const int levels = log2(shape.ranks_per_node);
  const double reduce = levels * (steps.within_node() + steps.combine());
  const double among_leaders = log2(shape.nodes) * (steps.between_nodes(1) + steps.combine());
  const double broadcast = levels * steps.within_node();
  return reduce + among_leaders + broadcast;
}

double nap(const StepTimes& steps, Shape shape) {
  const int ranks = shape.ranks_per_node;
  if (ranks == 1) return smp(steps, shape);
  double time = steps.doubling_within_node(ranks);
  const Radices radices(shape.nodes, ranks);
  for (int k = 0; k < radices.steps(); ++k) {
    const int radix = radices[k].radix;
    time += steps.between_nodes(radix - 1) + steps.doubling_within_node(radix);
    // The ranks that took part pass the result to the other ranks of the node.
    if (ranks > radix) time += steps.within_node(ranks / radix - 1);
  }
  return time;
}

}  // namespace

std::optional<double> allreduce(std::string_view algorithm, const Rates& rates, Shape shape,
                                std::size_t bytes) {
  if (!is_power_of_two(shape.nodes) || !is_power_of_two(shape.ranks_per_node)) return {};
  const StepTimes steps(rates, bytes);
  if (algorithm == "recursive_doubling") return recursive_doubling(steps, shape);
  if (algorithm == "smp") return smp(steps, shape);
  if (algorithm == "nap") return nap(steps, shape);
  return {};
}

}  // namespace offbeat::max_rate
