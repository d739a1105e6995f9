// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/automatic_grid.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "collectives/combinators/combinators.hpp"

namespace offbeat {
namespace {

constexpr double good_enough_factor = 1.03;                   // times the cheapest
constexpr std::size_t longest = std::size_t{1} << 30;         // from here on latency plays no part
constexpr std::size_t segment_sizes[] = {8 << 10, 64 << 10};  // of ring_segmented

std::string name_in_expressions(const suara::BaseAlgorithm& base, std::size_t segment) {
  return std::string(base.name) + (segment > 0 ? "(" + std::to_string(segment >> 10) + "KiB)" : "");
}

suara::Messages costs_of(const Machine::Messages& messages) {
  const auto parameters = [&](std::size_t bytes) -> suara::Hockney {
    const Machine::Protocol& protocol = messages.protocol(bytes);
    const double handshake = bytes > messages.eager_bytes ? 2 * messages.handshake : 0;
    return {protocol.latency + messages.send_overhead + messages.receive_overhead + handshake,
            protocol.per_byte};
  };
  std::vector<std::size_t> limits;
  for (const Machine::Protocol& each : messages.protocols) {
    if (each.from_bytes > 0) limits.push_back(each.from_bytes);
  }
  if (messages.handshake > 0) limits.push_back(messages.eager_bytes + 1);
  std::ranges::sort(limits);
  suara::Messages costs{.shortest = parameters(0),
                        .o = std::max(messages.send_overhead + messages.send_gap,
                                      messages.receive_overhead + messages.receive_gap),
                        .v = messages.send_overhead + messages.receive_overhead,
                        .eager_bytes = static_cast<double>(messages.eager_bytes)};
  for (const std::size_t from : limits) costs.longer.push_back({static_cast<double>(from), parameters(from)});
  return costs;
}

constexpr std::size_t openmpi_segment_bytes = 1 << 20;  // of Open MPI's ring_segmented, by default

// Returns the base algorithm whose formula the host's algorithm has, or null.
const suara::BaseAlgorithm* base_with_same_formula(std::string_view host_expression) {
  std::string_view name = host_expression;
  name.remove_prefix(std::string_view("native(").size());
  name.remove_suffix(1);
  if (name == "nonoverlapping" || name == "reduce_bcast") name = "binomial";
  if (name == "shumilin_ring") name = "ring";
  const auto bases = suara::bases();
  const auto found = std::ranges::find(bases, name, &suara::BaseAlgorithm::name);
  return found != bases.end() ? &*found : nullptr;
}

// Returns how many consecutive ranks share a node, or 1 if nodes differ.
int consecutive_ranks(const Placement& placement) {
  return placement.equal_nodes && placement.in_rank_order ? placement.ranks / placement.nodes : 1;
}

}  // namespace

std::vector<GridPart> grid_parts(const Machine& machine, std::string_view mpi) {
  const suara::Messages within = costs_of(machine.within_node);
  const suara::Messages between = costs_of(machine.between_nodes);
  std::vector<GridPart> parts;
  const auto add = [&](std::string expression, const suara::BaseAlgorithm& base, std::size_t segment) {
    // Parameters that were fitted to an algorithm include the time of the cores.
    const auto fitted_or = [&](const suara::Messages& usual, bool within_node) -> suara::Messages {
      const Machine::Algorithm* fitted = machine.algorithm(expression, within_node);
      if (fitted == nullptr) return usual;
      return {.shortest = {fitted->latency, fitted->per_byte}, .eager_bytes = usual.eager_bytes};
    };
    suara::Candidate candidate{&base, fitted_or(within, true), fitted_or(between, false),
                               static_cast<double>(segment)};
    parts.push_back({std::move(expression), std::move(candidate)});
  };
  if (mpi.empty()) {
    for (const suara::BaseAlgorithm& base : suara::bases()) {
      if (base.name != "ring_segmented") {
        add(name_in_expressions(base, 0), base, 0);
        continue;
      }
      for (const std::size_t segment : segment_sizes) add(name_in_expressions(base, segment), base, segment);
    }
    return parts;
  }
  for (const Machine::Algorithm& each : machine.algorithms) {
    const bool is_hosts = each.expression.starts_with("native(") && each.expression.ends_with(")");
    if (each.mpi != mpi || !is_hosts || each.is_within_node) continue;
    const suara::BaseAlgorithm* base = base_with_same_formula(each.expression);
    if (base != nullptr)
      add(each.expression, *base, base->name == "ring_segmented" ? openmpi_segment_bytes : 0);
  }
  return parts;
}

namespace {

// The question that the optimiser answers, and the names of the algorithms in its answer.
class GridSearch {
 public:
  GridSearch(const Machine& machine, const Placement& placement, std::size_t bytes, std::string_view mpi)
      : parts_(grid_parts(machine, mpi)) {
    for (const GridPart& part : parts_) candidates_.push_back(part.candidate);
    problem_ = {.ranks = placement.ranks,
                .ranks_per_node = consecutive_ranks(placement),
                .bytes = static_cast<double>(bytes),
                .c = machine.combine_per_byte,
                .node_b = machine.node_per_byte,
                .messages = costs_of(placement.nodes == 1 ? machine.within_node : machine.between_nodes),
                .near = costs_of(machine.within_node),
                .may_fold = mpi.empty()};
  }

  [[nodiscard]] bool has_parts() const { return !parts_.empty(); }
  [[nodiscard]] suara::Grid find_grid() const { return suara::cheapest_grid(problem_, candidates_); }

  [[nodiscard]] std::string grid_text(const suara::Grid& grid) const {
    const auto part = [&](int dimension) -> const std::string& {
      return parts_[grid.algorithms[static_cast<std::size_t>(dimension)]].expression;
    };
    if (grid.dimensions == 1) return part(0);
    std::string sizes;
    std::string algorithms;
    bool are_equal = true;
    for (int k = 0; k < grid.dimensions; ++k) {
      sizes += (k == 0 ? "" : "x") + std::to_string(grid.sizes[static_cast<std::size_t>(k)]);
      algorithms += ", " + part(k);
      are_equal = are_equal && part(k) == part(0);
    }
    return "grid(" + sizes + (are_equal ? ", " + part(0) : algorithms) + ")";
  }

  // Returns the time of an expression that grid_text() has returned for some length.
  [[nodiscard]] double seconds(const Expression& chosen) const {
    const bool is_grid = chosen.algorithm == &combinators::grid;
    suara::Grid grid{.dimensions = is_grid ? static_cast<int>(chosen.dimensions.size()) : 1};
    for (std::size_t k = 0; k < static_cast<std::size_t>(grid.dimensions); ++k) {
      const Expression& part = is_grid ? chosen.parts[chosen.parts.size() == 1 ? 0 : k] : chosen;
      const auto found = std::ranges::find(parts_, part.canonical_text(), &GridPart::expression);
      grid.sizes[k] = is_grid ? chosen.dimensions[k] : problem_.ranks;
      grid.algorithms[k] = static_cast<std::size_t>(found - parts_.begin());
    }
    return suara::seconds(problem_, candidates_, grid);
  }

 private:
  std::vector<GridPart> parts_;
  std::vector<suara::Candidate> candidates_;
  suara::Problem problem_;
};

// Where a part of an expression runs, and on how many bytes.
struct PartCall {
  Placement placement;
  std::size_t bytes;
};
PartCall make_part_call(const Expression& expression, const Placement& placement, std::size_t bytes) {
  if (expression.algorithm == &combinators::pipeline) {
    const auto count = static_cast<std::size_t>(std::max(1, expression.segments));
    return {placement, expression.segments > 0 ? bytes / count : std::min(bytes, expression.bytes)};
  }
  if (placement.nodes == placement.ranks) return {placement, bytes};
  // The last part of hierarchy and lanes runs between the nodes; in lanes each rank of a node has a share.
  const std::size_t shares =
      static_cast<std::size_t>(placement.ranks) / static_cast<std::size_t>(placement.nodes);
  const bool is_shared = expression.algorithm == &lanes::allreduce;
  return {{.ranks = placement.nodes, .nodes = placement.nodes}, is_shared ? bytes / shares : bytes};
}

// Returns true if the grids in `chosen`, which have the places of grid(auto) in `expression`, are good
// enough.
bool grids_are_good_enough(const Expression& expression, const Expression& chosen, const Machine& machine,
                           const Placement& placement, std::size_t bytes) {
  if (is_automatic_grid(expression)) {
    if (placement.ranks < 2) return true;
    const GridSearch question(machine, placement, bytes, {});
    return question.seconds(chosen) <= good_enough_factor * question.find_grid().seconds;
  }
  const PartCall call = make_part_call(expression, placement, bytes);
  for (std::size_t k = 0; k < expression.parts.size(); ++k) {
    if (has_automatic_grid(expression.parts[k]) &&
        !grids_are_good_enough(expression.parts[k], chosen.parts[k], machine, call.placement, call.bytes))
      return false;
  }
  return true;
}

}  // namespace

ChosenGrid choose_grid(const Machine& machine, const Placement& placement, std::size_t bytes,
                       std::string_view mpi) {
  ChosenGrid best{{}, std::numeric_limits<double>::infinity()};
  const auto look_for_better = [&](std::string_view whose) {
    const GridSearch question(machine, placement, bytes, whose);
    if (!question.has_parts()) return;
    const suara::Grid grid = question.find_grid();
    if (grid.seconds < best.seconds) best = {question.grid_text(grid), grid.seconds};
  };
  look_for_better({});
  if (!mpi.empty()) look_for_better(mpi);
  return best;
}

double grid_seconds(const Expression& chosen, const Machine& machine, const Placement& placement,
                    std::size_t bytes) {
  return GridSearch(machine, placement, bytes, {}).seconds(chosen);
}

Expression replace_automatic_grids(const Expression& expression, const Machine& machine,
                                   const Placement& placement, std::size_t bytes) {
  if (is_automatic_grid(expression)) {
    if (placement.ranks < 2) return parse_expression(Collective::allreduce, "recursive_doubling");
    return parse_expression(Collective::allreduce, choose_grid(machine, placement, bytes).expression);
  }
  if (!has_automatic_grid(expression)) return expression;
  Expression result = expression;
  const PartCall call = make_part_call(expression, placement, bytes);
  for (Expression& part : result.parts)
    part = replace_automatic_grids(part, machine, call.placement, call.bytes);
  return result;
}

std::size_t longest_with_same_grids(const Expression& expression, const Machine& machine,
                                    const Placement& placement, std::size_t least, std::size_t most) {
  const Expression chosen = replace_automatic_grids(expression, machine, placement, typical_length(least));
  std::size_t good = least;
  while (good < std::min(most, longest)) {
    const std::size_t quarter = std::max<std::size_t>(1, std::bit_floor(good) / 4);
    const std::size_t next = std::min(most, (good / quarter + 1) * quarter);
    if (!grids_are_good_enough(expression, chosen, machine, placement, typical_length(next))) return next - 1;
    good = next;
  }
  return most;
}

}  // namespace offbeat
