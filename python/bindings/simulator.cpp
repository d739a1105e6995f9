// SPDX-License-Identifier: BSD-3-Clause
// A machine in virtual time, for `offbeat simulate`.
#include "simulator/simulator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/combinators/combinators.hpp"
#include "models/max_rate.hpp"
#include "simulator/phantom_calls.hpp"

namespace offbeat::python {
namespace {

// The members of these are those of the classes with the same names in python/offbeat/_core.py.

// Applies to messages from `from_bytes` on: seconds, and seconds per byte.
struct MessageProtocol {
  std::size_t from_bytes;
  double alpha, beta, send_copy, receive_copy, line_share;
};

struct Protocols {
  const MessageProtocol* first;  // shortest messages first; this one applies from 0 bytes
  std::size_t count;
};

struct BoardCosts {
  double line, line_gap, put_line;
  std::size_t window_bytes;
};

struct CacheCosts {
  std::size_t cache_bytes;
  int ranks;
  double gamma, copy, memory_rate;
};

struct Caches {
  const CacheCosts* first;  // smallest cache first
  std::size_t count;
};

struct LevelCosts {
  int ranks;
  double line, per_byte, link_rate, memory_rate;
};

struct LevelsOfNode {
  const LevelCosts* first;  // nearest first
  std::size_t count;
};

struct Description {
  int ranks, ranks_per_node;
  Protocols within_node, between_nodes;
  double injection_rate, gamma, copy;
  std::size_t envelope_bytes, eager_bytes;
  const BoardCosts* board;  // null: none
  MessageCosts within_node_message, between_nodes_message;
  const std::size_t* within_node_eager_bytes;  // null: eager_bytes
  double node_gap, ejection_rate, memory_rate, step;
  Caches beyond;
  LevelsOfNode levels;
  double message_lines;
};

struct Wait {
  double seconds, longest;
  int longest_for;
};

struct Traffic {
  std::uint64_t messages, inter_node_messages, bytes, events;
};

// Python's: -1 if a signal's handler has raised an exception.
using CheckSignals = int (*)();
// Returns 0 if the simulation is to stop.
using Report = int (*)(std::uint64_t events, double now);

struct Stopped {};

std::vector<Protocol> longer(const Protocols& protocols) {
  std::vector<Protocol> found;
  for (const MessageProtocol& each : std::span(protocols.first, protocols.count).subspan(1))
    found.push_back(
        {each.from_bytes, each.alpha, each.beta, each.send_copy, each.receive_copy, each.line_share});
  return found;
}

SimulatedMachine machine_of(const Description& from) {
  if (from.within_node.count == 0 || from.between_nodes.count == 0)
    throw UsageError("a machine needs a protocol within a node and one between nodes");
  const MessageProtocol& within = *from.within_node.first;
  const MessageProtocol& between = *from.between_nodes.first;
  SimulatedMachine machine{.injection_rate = from.injection_rate,
                           .gamma = from.gamma,
                           .copy = from.copy,
                           .intra_longer_messages = longer(from.within_node),
                           .inter_longer_messages = longer(from.between_nodes),
                           .envelope_bytes = from.envelope_bytes,
                           .eager_bytes = from.eager_bytes,
                           .ranks_per_node = from.ranks_per_node,
                           .intra_message = from.within_node_message,
                           .inter_message = from.between_nodes_message,
                           .node_gap = from.node_gap,
                           .ejection_rate = from.ejection_rate,
                           .memory_rate = from.memory_rate};
  machine.step = from.step;
  machine.intra_alpha = within.alpha;
  machine.intra_beta = within.beta;
  machine.intra_send_copy = within.send_copy;
  machine.intra_receive_copy = within.receive_copy;
  for (const CacheCosts& each : std::span(from.beyond.first, from.beyond.count))
    machine.beyond.push_back({each.cache_bytes, each.ranks, each.gamma, each.copy, each.memory_rate});
  for (const LevelCosts& each : std::span(from.levels.first, from.levels.count))
    machine.levels.push_back({each.ranks, each.line, each.per_byte, each.link_rate, each.memory_rate});
  machine.message_lines = from.message_lines;
  machine.inter_alpha = between.alpha;
  machine.inter_beta = between.beta;
  if (from.within_node_eager_bytes != nullptr) machine.intra_eager_bytes = *from.within_node_eager_bytes;
  if (from.board != nullptr) {
    machine.line = from.board->line;
    machine.line_gap = from.board->line_gap;
    machine.put_line = from.board->put_line;
  }
  return machine;
}

class Machine {
 public:
  explicit Machine(const Description& from)
      : ranks_(from.ranks),
        has_boards_(from.board != nullptr),
        machine_(machine_of(from)),
        simulator_(ranks_, machine_,
                   {.phantom = true,
                    .board_window_bytes = from.board != nullptr ? from.board->window_bytes : 0,
                    .learns = true}) {}

  // Returns the time that the max-rate model predicts if all ranks begin at once, or nothing if the model has
  // no formula for this expression.
  [[nodiscard]] std::optional<double> model(std::string_view collective, std::string_view expression,
                                            std::size_t bytes) const {
    if (collective != name_of(Collective::allreduce) || has_boards_ || !machine_.is_hockney() ||
        !machine_.is_eager(true, bytes) || !machine_.is_eager(false, bytes))
      return {};
    const Protocol within = machine_.protocol(true, bytes);
    const Protocol between = machine_.protocol(false, bytes);
    const max_rate::Rates rates{.node_alpha = within.alpha,
                                .node_beta = within.beta,
                                .alpha = between.alpha,
                                .beta = between.beta,
                                .injection_rate = machine_.injection_rate,
                                .gamma = machine_.gamma,
                                .envelope_bytes = machine_.envelope_bytes};
    return max_rate::allreduce(expression, rates, {nodes(), machine_.ranks_per_node}, bytes);
  }

  // Returns why an expression cannot run on this machine, or an empty text if it can.
  [[nodiscard]] std::string why_unsuitable(std::string_view collective, std::string_view expression) const {
    const auto known = known_collective(collective);
    const auto parsed = parse_expression(known, expression);
    if (parsed.runs_on_host()) return "is the host MPI's own, which the simulator does not know";
    if (known == Collective::alltoallv && parsed.algorithm == &hierarchies::alltoall && nodes() > 1)
      return "exchanges lengths between nodes, and messages of the simulator have no data";
    return parsed.why_unsuitable({.ranks = ranks_,
                                  .nodes = nodes(),
                                  .board = has_boards_,
                                  .equal_nodes = nodes() * machine_.ranks_per_node == ranks_});
  }

  void forget() { simulator_.forget(); }

  SimulationResult run(std::string_view collective, std::string_view expression, std::size_t bytes,
                       std::span<const double> arrivals, CheckSignals check_signals, Report report) {
    if (const std::string why = why_unsuitable(collective, expression); !why.empty())
      throw UsageError(std::string(expression) + " " + why);
    const auto known = known_collective(collective);
    const auto parsed = parse_expression(known, expression);
    const PhantomCalls calls(known, bytes, ranks_);
    const Call of_root = calls.call_of_rank(0);
    simulator_.set_call_bytes(of_root.input.bytes() + of_root.output.bytes());
    simulator_.set_progress_report([&](std::uint64_t events, double now) {
      if (check_signals() != 0 || report(events, now) == 0) throw Stopped();
    });
    const auto run_once = [&] {
      return simulator_.run(
          [&](int rank, Endpoint net) { return carry_out(net, calls.call_of_rank(rank), parsed); }, arrivals,
          parsed.lanes());
    };
    if (machine_.levels.empty() || !has_boards_) return run_once();
    std::vector<Lateness> before;
    for (int rank = 0; rank < ranks_; ++rank) before.push_back(simulator_.lateness(rank));
    simulator_.forget_uses();
    const SimulationResult first = run_once();
    if (!simulator_.knows_uses()) return first;
    for (int rank = 0; rank < ranks_; ++rank)
      simulator_.lateness(rank) = before[static_cast<std::size_t>(rank)];
    return run_once();
  }

 private:
  [[nodiscard]] int nodes() const { return (ranks_ + machine_.ranks_per_node - 1) / machine_.ranks_per_node; }

  int ranks_;
  bool has_boards_;
  SimulatedMachine machine_;
  Simulator simulator_;
};

}  // namespace
}  // namespace offbeat::python

using namespace offbeat::python;

extern "C" {

// Makes `*machine`, which offbeat_python_free_machine() deletes. `size` is that of the description.
int offbeat_python_make_machine(const Description* description, std::size_t size, Machine** machine) {
  return answer([&] {
    if (size != sizeof(Description))
      throw offbeat::UsageError("offbeat-python.so and offbeat/_core.py do not fit");
    *machine = new Machine(*description);
    return json(true);
  });
}
void offbeat_python_free_machine(Machine* machine) { delete machine; }

int offbeat_python_unsuitable(const Machine* machine, Text collective, Text expression) {
  return answer([&] { return json(machine->why_unsuitable(collective, expression)); });
}
int offbeat_python_model(const Machine* machine, Text collective, Text expression, std::size_t size_bytes) {
  return answer([&] { return json(machine->model(collective, expression, size_bytes)); });
}
int offbeat_python_learns(Text collective, Text expression) {
  return answer(
      [&] { return json(offbeat::parse_expression(known_collective(collective), expression).learns()); });
}
void offbeat_python_forget(Machine* machine) { machine->forget(); }

// Simulates one call and fills `exits` and `waits`, which have a place for each rank. The result is false if
// `check_signals` or `report` has stopped it.
int offbeat_python_run(Machine* machine, Text collective, Text expression, std::size_t size_bytes,
                       const double* arrivals, std::size_t count, CheckSignals check_signals, Report report,
                       double* exits, Wait* waits, Traffic* traffic) {
  return answer([&] {
    try {
      const offbeat::SimulationResult result =
          machine->run(collective, expression, size_bytes, {arrivals, count}, check_signals, report);
      std::copy(result.exits.begin(), result.exits.end(), exits);
      std::transform(result.waits.begin(), result.waits.end(), waits, [](const offbeat::SimulatedWait& wait) {
        return Wait{wait.seconds, wait.longest, wait.cause_of_longest};
      });
      *traffic = {result.messages, result.inter_node_messages, result.bytes, result.events};
      return json(true);
    } catch (const Stopped&) {
      return json(false);
    }
  });
}

}  // extern "C"
