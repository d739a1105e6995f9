// SPDX-License-Identifier: BSD-3-Clause
// The part of offbeat._core that `offbeat simulate` uses: a machine in virtual time.
#include "simulator/simulator.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "collectives/algorithm.hpp"
#include "models/max_rate.hpp"
#include "simulator/phantom_calls.hpp"

using namespace nb::literals;

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

// The protocols of messages, shortest messages first. Each is the length in bytes from which it applies, the
// latency in seconds, and the seconds per byte. The first applies from 0 bytes.
using Protocols = std::vector<std::tuple<std::size_t, double, double>>;
// Network::line, far_line, line_gap (seconds), ranks_per_cache, and the bytes of a window.
using BoardCosts = std::tuple<double, double, double, int, std::size_t>;

// MessageCosts, in the order of its members.
using Message = std::tuple<double, double, double, double, double>;

offbeat::MessageCosts costs(const Message& message) {
  const auto& [send_overhead, receive_overhead, send_gap, receive_gap, handshake] = message;
  return {send_overhead, receive_overhead, send_gap, receive_gap, handshake};
}

std::vector<offbeat::Protocol> longer(const Protocols& protocols) {
  std::vector<offbeat::Protocol> found;
  for (std::size_t k = 1; k < protocols.size(); ++k) {
    const auto& [from_bytes, alpha, beta] = protocols[k];
    found.push_back({from_bytes, alpha, beta});
  }
  return found;
}

class Machine {
 public:
  Machine(int ranks, offbeat::Network network, const std::optional<BoardCosts>& board)
      : ranks_(ranks),
        has_boards_(board.has_value()),
        network_(std::move(network)),
        simulator_(ranks, network_,
                   {.phantom = true, .board_window_bytes = board ? std::get<4>(*board) : 0, .learns = true}) {
  }

  // Returns the time that the max-rate model predicts if all ranks begin at once, or nothing if the model has
  // no formula for this expression.
  [[nodiscard]] std::optional<double> model(std::string_view collective, std::string_view expression,
                                            std::size_t bytes) const {
    if (collective != name_of(offbeat::Collective::allreduce) || has_boards_ || !network_.is_hockney() ||
        !network_.is_eager(true, bytes) || !network_.is_eager(false, bytes))
      return {};
    const offbeat::Protocol within = network_.protocol(true, bytes);
    const offbeat::Protocol between = network_.protocol(false, bytes);
    const offbeat::max_rate::Rates rates{.node_alpha = within.alpha,
                                         .node_beta = within.beta,
                                         .alpha = between.alpha,
                                         .beta = between.beta,
                                         .injection_rate = network_.injection_rate,
                                         .gamma = network_.gamma,
                                         .envelope_bytes = network_.envelope_bytes};
    return offbeat::max_rate::allreduce(expression, rates, {nodes(), network_.ranks_per_node}, bytes);
  }

  // Returns why an expression cannot run on this machine, or an empty text if it can.
  [[nodiscard]] std::string unsuitable(std::string_view collective, std::string_view expression) const {
    const auto parsed = offbeat::parse_expression(known_collective(collective), expression);
    if (parsed.runs_on_host()) return "is the host MPI's own, which the simulator does not know";
    return parsed.unsuitable({.ranks = ranks_, .nodes = nodes(), .board = has_boards_});
  }

  [[nodiscard]] static bool learns(std::string_view collective, std::string_view expression) {
    return offbeat::parse_expression(known_collective(collective), expression).learns();
  }
  void forget() { simulator_.forget(); }

  nb::dict run(std::string_view collective, std::string_view expression, std::size_t bytes,
               const std::vector<double>& arrivals, const nb::object& report) {
    if (const std::string why = unsuitable(collective, expression); !why.empty())
      throw offbeat::UsageError(std::string(expression) + " " + why);
    const auto known = known_collective(collective);
    const auto parsed = offbeat::parse_expression(known, expression);
    const offbeat::PhantomCalls calls(known, bytes, ranks_);
    simulator_.report_to([&](std::uint64_t events) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!report.is_none()) report(events);
    });
    const offbeat::SimulationResult result = simulator_.run(
        [&](int rank, offbeat::Endpoint net) { return offbeat::carry_out(net, calls.of(rank), parsed); },
        arrivals, parsed.lanes());
    nb::list waits;
    for (const offbeat::SimulatedWait& wait : result.waits)
      waits.append(nb::make_tuple(wait.seconds, wait.longest, wait.longest_for));
    nb::dict found;
    found["exits"] = result.exits;
    found["waits"] = waits;
    found["messages"] = result.messages;
    found["inter_node_messages"] = result.inter_node_messages;
    found["bytes"] = result.bytes;
    found["events"] = result.events;
    return found;
  }

 private:
  [[nodiscard]] int nodes() const { return (ranks_ + network_.ranks_per_node - 1) / network_.ranks_per_node; }

  int ranks_;
  bool has_boards_;
  offbeat::Network network_;
  offbeat::Simulator simulator_;
};

void make(Machine* self, int ranks, int ranks_per_node, const Protocols& within_node,
          const Protocols& between_nodes, double injection_rate, double gamma, double copy,
          std::size_t envelope_bytes, std::size_t eager_bytes, const std::optional<BoardCosts>& board,
          const Message& within_node_message, const Message& between_nodes_message,
          std::optional<std::size_t> within_node_eager_bytes, double node_gap, double ejection_rate,
          double memory_rate) {
  offbeat::Network network{.injection_rate = injection_rate,
                           .gamma = gamma,
                           .copy = copy,
                           .intra_longer = longer(within_node),
                           .inter_longer = longer(between_nodes),
                           .envelope_bytes = envelope_bytes,
                           .eager_bytes = eager_bytes,
                           .intra_eager_bytes = within_node_eager_bytes,
                           .ranks_per_node = ranks_per_node,
                           .intra_message = costs(within_node_message),
                           .inter_message = costs(between_nodes_message),
                           .node_gap = node_gap,
                           .ejection_rate = ejection_rate,
                           .memory_rate = memory_rate};
  std::tie(std::ignore, network.intra_alpha, network.intra_beta) = within_node.at(0);
  std::tie(std::ignore, network.inter_alpha, network.inter_beta) = between_nodes.at(0);
  if (board) {
    std::tie(network.line, network.far_line, network.line_gap, network.ranks_per_cache, std::ignore) = *board;
  }
  new (self) Machine(ranks, std::move(network), board);
}

}  // namespace

void register_simulator(nb::module_& module) {
  nb::class_<Machine>(module, "SimulatedMachine",
                      "Ranks on nodes in virtual time. They make one collective call at a time. Times are in "
                      "seconds, rates in bytes per second.")
      .def("__init__", make, "ranks"_a, "ranks_per_node"_a, nb::kw_only(), "within_node"_a, "between_nodes"_a,
           "injection_rate"_a, "gamma"_a, "copy"_a, "envelope_bytes"_a, "eager_bytes"_a, "board"_a.none(),
           "within_node_message"_a = Message{}, "between_nodes_message"_a = Message{},
           "within_node_eager_bytes"_a.none() = nb::none(), "node_gap"_a = 0.0, "ejection_rate"_a = unlimited,
           "memory_rate"_a = unlimited)
      .def("unsuitable", &Machine::unsuitable, "collective"_a, "expression"_a,
           "Returns why an expression cannot run on this machine, or an empty text if it can.")
      .def("model", &Machine::model, "collective"_a, "expression"_a, "size_bytes"_a,
           "Returns the time that the max-rate model predicts if all ranks begin at once, or None if the "
           "model "
           "has no formula for this expression.")
      .def_static("learns", &Machine::learns, "collective"_a, "expression"_a,
                  "Whether earlier calls influence this one (lateness prediction).")
      .def("forget", &Machine::forget,
           "Forgets all earlier calls, so that they do not influence the next one.")
      .def(
          "run", &Machine::run, "collective"_a, "expression"_a, "size_bytes"_a, "arrivals"_a,
          "report"_a.none(),
          "Simulates one call, in which rank k arrives at arrivals[k]. Returns a dict: exits, waits, "
          "messages, "
          "inter_node_messages, bytes, events. waits has a tuple per rank: the sum of its waits, its longest "
          "wait, and the rank for which that was (-1: none). Calls report(events) now and then.");
}
