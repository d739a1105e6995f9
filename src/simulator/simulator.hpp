// SPDX-License-Identifier: BSD-3-Clause
// Simulator: every rank a coroutine in one process, in virtual time.
//
// Cost model: Hockney's (Parallel Computing 20(3), 1994) with ports, and the node limit of the max-rate model
// (Gropp, Olson and Samfass, EuroMPI 2016). A message of m bytes that a rank sends at time t
//     leaves from          s    = max(t, out port free) on, taking the rank's out port for m beta;
//     has left at          left = s + m beta, or later where its node is slower: all that leaves a node at
//                          the same time shares R_N equally;
//     begins to arrive at  s + alpha, taking the receiver's in port for m beta from then on, or when it is
//     free; is received at       done = the end of that, but not before left + alpha.
// So an exchange on an idle network takes alpha + m beta, and ppn messages that leave a node at once are
// there after alpha + ppn m / min(R_N, ppn R_b). A reduction of k operands of m bytes takes the rank's core
// for gamma m (k - 1). The ranks' ports are claimed in the order of virtual time, ties in the order of
// scheduling: the same input gives the same result to the last digit. A rank has two ports for its node and
// two for the network: neither kind of message waits for the other.
//
// A send of up to `eager_bytes` is over when its bytes have left; a longer one begins when its receive is
// posted and is over when it is received. Messages match in the order of posting, per (source, destination,
// lane).
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/task.hpp"
#include "node/membership.hpp"
#include "simulator/events.hpp"
#include "simulator/messages.hpp"
#include "simulator/port.hpp"
#include "transport/endpoint.hpp"
#include "transport/lateness.hpp"
#include "transport/transport.hpp"

namespace offbeat {

// A fault that would hang, corrupt or abort an MPI program; what() names the ranks.
class SimulationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Latency and seconds per byte of messages that are at least so long.
struct Protocol {
  std::size_t from_bytes;
  double alpha;
  double beta;
};

// Times in seconds, sizes in bytes, rates in bytes per second.
struct Network {
  double intra_alpha = 0;  // latency within a node
  double intra_beta = 0;   // seconds per byte within a node
  double inter_alpha = 0;
  double inter_beta = 0;                                            // 1 / R_b
  double injection_rate = std::numeric_limits<double>::infinity();  // R_N: what one node can send in all
  double gamma = 0;  // reduction: per byte and operand but the first
  double copy = 0;   // local copy: per byte
  // The board. Writing a word takes `line`, one cache line from core to core. Reading what another rank wrote
  // is free if far_line is 0. Otherwise its first line takes `line` from a rank that shares a last-level
  // cache with this one and far_line from another one, and each further line line_gap. The lines of one rank
  // leave it one after the other, one in line_gap, as with the gap of LogP: so of p ranks that read a word
  // the last one has it after about p gaps.
  double line = 1e-7;
  double far_line = 0;
  double line_gap = 0;
  int ranks_per_cache = 0;  // of a board, consecutive; 0: all
  // In place of alpha and beta for longer messages, shortest first.
  std::vector<Protocol> intra_longer{};
  std::vector<Protocol> inter_longer{};
  std::size_t envelope_bytes = 0;  // that each message has beside its own
  std::size_t eager_bytes = 8192;
  int ranks_per_node = 1;           // consecutive ranks share a node, unless
  std::vector<int> node_of_rank{};  // this says where each rank is

  // What a message of `bytes` takes.
  [[nodiscard]] Protocol protocol(bool within_node, std::size_t bytes) const {
    Protocol found =
        within_node ? Protocol{0, intra_alpha, intra_beta} : Protocol{0, inter_alpha, inter_beta};
    for (const Protocol& longer : within_node ? intra_longer : inter_longer) {
      if (bytes >= longer.from_bytes) found = longer;
    }
    return found;
  }
};

// For tests: everything may take longer than it should (heavy tailed), what is ready runs in any order, any
// send may be eager or not, and a receive buffer holds rubbish until the receive is complete.
struct Adversary {
  std::uint64_t seed = 0;
};

struct SimulationOptions {
  bool phantom = false;  // vectors without data but the heads of messages: sizes and times only
  std::optional<Adversary> adversary{};
  std::size_t board_window_bytes = 0;  // of the board that each node has; 0: none
  bool learns = false;                 // ranks know from one run who was late in those before
};

// How a rank waited for what others had not begun: for a message to be sent or, beyond eager_bytes, received,
// or for a change of the board.
struct SimulatedWait {
  double seconds = 0;    // in all
  double longest = 0;    // at one time
  int longest_for = -1;  // the rank that was late then, be it through others that waited for it
};

struct SimulationResult {
  std::vector<double> exits;         // per rank
  std::vector<SimulatedWait> waits;  // per rank
  double first_arrival = 0;
  double last_arrival = 0;
  double last_exit = 0;
  std::uint64_t messages = 0;
  std::uint64_t inter_node_messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;  // a measure of the simulator's own work
  // Of the boards, where reading is not free.
  std::vector<std::uint64_t> lines_read;  // by each rank
  std::uint64_t most_readers = 0;         // how often any one word, or block of data, was read

  [[nodiscard]] double total_delay() const { return last_exit - first_arrival; }
  [[nodiscard]] double last_delay() const { return last_exit - last_arrival; }
};

class SimulatedBoard;
class Simulator;

// The state of one rank.
class SimulatedTransport final : public Transport {
 public:
  [[nodiscard]] bool start(Transfer& transfer) override;
  [[nodiscard]] bool start(Computation& computation) override;
  [[nodiscard]] bool moves_data() const override;
  [[nodiscard]] double now() const override;

 private:
  friend class Simulator;
  Simulator* simulator_ = nullptr;
  int rank_ = 0;
  int node_ = 0;
  SimulatedBoard* node_board_ = nullptr;
  std::optional<Locality> locality_;
  Lateness lateness_;
  struct Ports {
    SimulatedPort out;
    SimulatedPort in;
  };
  [[nodiscard]] Ports& ports(const SimulatedMessage& message) { return message.stays ? memory_ : card_; }

  Ports memory_;  // for messages within the node
  Ports card_;
  SimulatedPort core_;
  double waited_until_ = 0;
  int waits_for_ = 0;  // who made it late: itself, until it has waited
};

class Simulator {
 public:
  using MakeRootTask = std::function<Task(int rank, Endpoint net)>;

  Simulator(int ranks, Network network, SimulationOptions options = {});
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  ~Simulator();

  // Runs make(rank, endpoint), called at time arrivals[rank] (0 if empty), for every rank until all have
  // ended. Every call starts anew: time 0, idle ports, the adversary's seed. Throws SimulationError; what a
  // task throws is nested in it.
  SimulationResult run(const MakeRootTask& make, std::span<const double> arrivals = {}, int lanes = 1);

  // Called now and then during a run, with the number of events so far. What it throws ends the run.
  void report_to(std::function<void(std::uint64_t events)> report) { report_ = std::move(report); }

  [[nodiscard]] int ranks() const { return static_cast<int>(ranks_.size()); }

  // What a rank has learned.
  [[nodiscard]] Lateness& lateness(int rank) { return this->rank(rank).lateness_; }
  void forget() {
    for (SimulatedTransport& each : ranks_) each.lateness_ = {};
  }

  // For other kinds of awaitable: the time, and a resumption at a later one.
  [[nodiscard]] double now() const { return now_; }
  void resume_at(double time, int rank, std::coroutine_handle<> waiter) {
    schedule(time, Kind::resume, waiter.address(), rank);
  }

  // Awaitable: the rank does something else for `seconds`.
  struct Pause {
    Simulator* simulator;
    int rank;
    double seconds;
    [[nodiscard]] bool await_ready() const { return seconds <= 0; }
    void await_suspend(std::coroutine_handle<> waiter) const {
      simulator->resume_at(simulator->now() + seconds, rank, waiter);
    }
    void await_resume() const {}
  };
  [[nodiscard]] Pause pause(int rank, double seconds) { return {this, rank, seconds}; }

 private:
  friend class SimulatedBoard;
  friend class SimulatedTransport;
  using Kind = SimulatedEvent::Kind;
  struct Run;

  bool start(SimulatedTransport& self, Transfer& transfer);
  bool start(SimulatedTransport& self, Computation& computation);
  SimulatedMessage* receive(SimulatedTransport& self, Transfer& transfer);
  void send(SimulatedTransport& self, Transfer& transfer, SimulatedMessage* incoming);
  void check_lengths(const SimulatedMessage& message, std::size_t sent, std::size_t expected);

  // The life of a message.
  double transmit(SimulatedMessage& message);
  double depart(SimulatedMessage& message, double start);
  void await_next(SharedPort& port, int rank);
  void leave(SharedPort& port, const SimulatedEvent& event);
  void arrive(SimulatedMessage& message);
  void expect(SimulatedMessage& message);
  void land(SimulatedMessage& message);
  void deliver(SimulatedMessage& message);
  void half_over(Transfer& transfer, int rank);
  void note_wait(int waiter, double since, int other);

  void measure(SimulatedMessage& message) const;
  [[nodiscard]] bool is_limited(const SimulatedMessage& message) const {
    return !message.stays && !nodes_.empty();
  }
  [[nodiscard]] double bytes_on_wire(const SimulatedMessage& message) const {
    return static_cast<double>(message.bytes + network_.envelope_bytes);
  }
  [[nodiscard]] SimulatedTransport& rank(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const SimulatedTransport& rank(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)];
  }

  void make_boards(std::size_t window_bytes);
  [[nodiscard]] std::string describe_at_boards() const;
  void touch(int rank, std::coroutine_handle<> waiter) {
    schedule(now_ + network_.line, Kind::touch, waiter.address(), rank);
  }

  void dispatch(const SimulatedEvent& event);
  void schedule(double time, Kind kind, void* subject, int rank);
  void start_rank(int rank);
  void resume(std::coroutine_handle<> waiter, int rank);
  void finish_rank(int rank);
  [[noreturn]] void fail(const std::string& text);
  static std::string name(int rank);

  std::uint64_t random();
  [[nodiscard]] bool hesitates() { return adversary_.has_value() && (random() & 1) != 0; }

  Network network_;
  bool phantom_;
  std::optional<Adversary> adversary_;
  std::function<void(std::uint64_t events)> report_;
  std::uint64_t random_state_ = 0;

  std::vector<SimulatedTransport> ranks_;
  std::vector<SharedPort> nodes_;  // what leaves each node; empty if that is not limited
  std::vector<std::unique_ptr<SimulatedBoard>> boards_;
  Membership membership_;
  SimulatedMessages messages_;
  SimulatedEvents events_;
  std::uint64_t sequence_ = 0;
  double now_ = 0;

  // Of the current run.
  const MakeRootTask* make_ = nullptr;
  int lanes_ = 1;
  std::vector<Task> tasks_;
  JoinCounter running_;
  std::exception_ptr failure_;
  SimulationResult result_;
};

}  // namespace offbeat
