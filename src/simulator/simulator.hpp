// SPDX-License-Identifier: BSD-3-Clause
// Simulator runs every rank as a coroutine in one process and in virtual time.
//
// Cost model: Hockney's (Parallel Computing 20(3), 1994) with ports, and the node limit of the max-rate model
// (Gropp, Olson and Samfass, EuroMPI 2016). Suppose that a rank sends a message of m bytes at time t.
//
//    It begins to leave at    s = max(t, out port free). It occupies the rank's out port for m beta.
//    It has left at           left = s + m beta, or later if its node is slower: all messages that leave a
//                             node at the same time share R_N equally.
//    It begins to arrive at   s + alpha, or when the receiver's in port is free. It occupies that port for
//                             m beta.
//    It is received at        done = the end of that, but not before left + alpha.
//
// So an exchange on an idle network takes alpha + m beta. If ppn messages leave a node at once, they have
// arrived after alpha + ppn m / min(R_N, ppn R_b). A reduction of k operands of m bytes occupies the rank's
// core for gamma m (k - 1). Ports are assigned in the order of virtual time, and ties are broken by the order
// of scheduling: the same input gives the same result to the last digit. A rank has two ports for its node
// and two for the network, and neither kind of message waits for the other.
//
// A send of up to `eager_bytes` bytes is complete when its bytes have left. A longer one begins when its
// receive is posted, and is complete when it is received. Messages match in the order of posting, per
// (source, destination, lane).
//
// Other costs are zero, and other limits infinite, unless the SimulatedMachine says otherwise:
//
//    overhead   A message occupies the sender's core for o_s before t, and the receiver's for o_r after
//               `done` (LogP: Culler et al., PPoPP 1993). Messages and reductions share the core.
//    copies     While a message leaves, the sender's core copies it for m O_s, and while it arrives, the
//               receiver's core for m O_r, but not before the receive is posted (O of LogGOPS: Hoefler,
//               Schneider and Lumsdaine, HPDC 2010). A message through memory that two ranks share has both
//               copies. They overlap if it is alone. In an exchange each core makes two copies.
//    gap        A port rests for a gap after each message (LogGP: Alexandrov et al., SPAA 1995). In and out
//               have gaps of their own. So have the cards of the nodes: two messages begin to leave a node at
//               least node_gap apart.
//    handshake  A message above eager_bytes sends a request first, and the receiver answers when it has
//               posted its receive. The message itself begins when the answer arrives. Each way takes
//               `handshake`.
//    fan-in     All messages that enter a node at the same time share ejection_rate equally.
//    memory     All that the ranks of a node do in memory at the same time shares memory_rate equally. A
//               reduction of k operands reads k m bytes and writes m, a copy reads m and writes m. A message
//               within the node counts as the copies that cores make of it, and at least as one.
//    levels     Lines that cross a level of the node take its time. A message waits for message_lines of
//               them. Its sender takes the others from the receiver, which has read them before, and then the
//               receiver reads them. Each of the two cores takes the level's time per byte.
//    caches     `beyond` has the costs of cores, and the rate of memory, for what exceeds a cache.
#pragma once

#include <algorithm>
#include <cmath>
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
#include "simulator/levels.hpp"
#include "simulator/messages.hpp"
#include "simulator/port.hpp"
#include "transport/endpoint.hpp"
#include "transport/lateness.hpp"
#include "transport/transport.hpp"

namespace offbeat {

// A fault that would make an MPI program hang, compute wrong results or abort. what() names the ranks.
class SimulationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The latency in seconds, and the seconds per byte, of messages of at least `from_bytes` bytes.
struct Protocol {
  std::size_t from_bytes;
  double alpha;
  double beta;
  double send_copy = 0;     // O_s: seconds per byte that the sender's core copies
  double receive_copy = 0;  // O_r: the same of the receiver's core
  double line_share = 1;    // the share of its lines that come from another core's cache

  [[nodiscard]] bool is_copied() const { return send_copy > 0 || receive_copy > 0; }
};

// What each message costs besides latency and bytes, in seconds.
struct MessageCosts {
  double send_overhead = 0;     // o_s: time of the sender's core
  double receive_overhead = 0;  // o_r: time of the receiver's core
  double send_gap = 0;  // g: from the last byte of a message to the first byte of the next, on the out port
  double receive_gap = 0;  // the same on the in port
  double handshake = 0;    // above eager_bytes: the way of the request, and that of the answer

  [[nodiscard]] bool operator==(const MessageCosts&) const = default;
};

// What cores take if the data of a call are not in a cache of `cache_bytes`, which `ranks` ranks of a node
// share (0: all of them). The data of a rank are its input and its output, and memory that it shares or works
// in: as much, but no more than two windows of a board. If they exceed the cache, it keeps a part of them,
// and these costs apply to the rest.
struct BeyondCache {
  std::size_t cache_bytes = 0;
  int ranks = 1;
  double gamma = 0;
  double copy = 0;
  double memory_rate = std::numeric_limits<double>::infinity();
};

// The costs of a machine. Times are in seconds, sizes in bytes, rates in bytes per second.
struct SimulatedMachine {
  double intra_alpha = 0;  // latency within a node
  double intra_beta = 0;   // seconds per byte within a node
  double inter_alpha = 0;
  double inter_beta = 0;                                            // 1 / R_b: seconds per byte between nodes
  double injection_rate = std::numeric_limits<double>::infinity();  // R_N: limit of all that leaves a node
  double gamma = 0;  // reduction: seconds per byte that is combined
  double copy = 0;   // local copy: seconds per byte
  // The costs of the board. Writing a word takes `line`, the time to move one cache line from core to core.
  // Without levels, reading what another rank wrote is free. Otherwise the first line takes the `line` of the
  // level that both ranks share. Each further line takes line_gap or what the level has, whichever is longer.
  // Lines of one rank leave it one after the other, line_gap apart, as with the gap of LogP. So if p ranks
  // read one word, the last one has it after about p gaps. A core copies or combines lines while they arrive,
  // so its work with them takes the longer of both times.
  double line = 1e-7;
  double line_gap = 0;
  std::vector<Level> levels{};  // inside a node, nearest first
  double message_lines = 0;     // lines for which a message within a node waits, one after the other
  // A rank's core takes `step` to begin an exchange of messages, a copy or a combination: what it touches
  // first is in no cache.
  double step = 0;
  // Time to write a line that another core has read; at least that of the level of the farthest reader.
  double put_line = 0;
  double intra_send_copy = 0;     // O_s of the shortest messages within a node
  double intra_receive_copy = 0;  // O_r
  // The costs of longer messages, shortest first.
  std::vector<Protocol> intra_longer_messages{};
  std::vector<Protocol> inter_longer_messages{};
  std::size_t envelope_bytes = 0;  // bytes that each message has besides its data
  std::size_t eager_bytes = 8192;
  std::optional<std::size_t> intra_eager_bytes{};  // within a node; nothing: eager_bytes
  int ranks_per_node = 1;           // N consecutive ranks share a node; ignored if node_of_rank is set
  std::vector<int> node_of_rank{};  // the node of each rank; empty: by ranks_per_node
  MessageCosts intra_message{};
  MessageCosts inter_message{};
  double node_gap = 0;  // from the first byte of a message that leaves a node to that of the next
  double ejection_rate = std::numeric_limits<double>::infinity();  // limit of all that enters a node
  double memory_rate =
      std::numeric_limits<double>::infinity();  // limit of what a node's cores read and write
  std::vector<BeyondCache> beyond{};            // smallest cache first

  [[nodiscard]] const MessageCosts& message(bool within_node) const {
    return within_node ? intra_message : inter_message;
  }
  // True if no message costs more than latency and bytes, and nothing but R_N limits a node.
  [[nodiscard]] bool is_hockney() const {
    return intra_message == MessageCosts{} && inter_message == MessageCosts{} && node_gap == 0 &&
           !std::isfinite(ejection_rate) && !std::isfinite(memory_rate) && beyond.empty() && step == 0 &&
           intra_send_copy == 0 && intra_receive_copy == 0 && levels.empty() &&
           std::ranges::none_of(intra_longer_messages, &Protocol::is_copied);
  }
  [[nodiscard]] bool is_eager(bool within_node, std::size_t bytes) const {
    return bytes <= (within_node ? intra_eager_bytes.value_or(eager_bytes) : eager_bytes);
  }
  // Returns the costs of a message of `bytes` bytes.
  [[nodiscard]] Protocol protocol(bool within_node, std::size_t bytes) const {
    Protocol found = within_node ? Protocol{0, intra_alpha, intra_beta, intra_send_copy, intra_receive_copy}
                                 : Protocol{0, inter_alpha, inter_beta};
    for (const Protocol& longer : within_node ? intra_longer_messages : inter_longer_messages) {
      if (bytes >= longer.from_bytes) found = longer;
    }
    return found;
  }
};

// Makes runs hostile, for tests. Every step may take longer than it should (heavy tailed), and coroutines
// that are ready resume in any order. Any send may be eager or not, and a receive buffer holds rubbish until
// the receive is complete.
struct Adversary {
  std::uint64_t seed = 0;
};

struct SimulationOptions {
  bool phantom = false;  // vectors have no data, except the heads of messages; only sizes and times count
  std::optional<Adversary> adversary{};
  std::size_t board_window_bytes = 0;  // size of a window on each node's board; 0: no boards
  bool learns = false;                 // earlier runs influence this one (lateness prediction)
};

// How long a rank waited for something that another rank had not begun: a message to be sent (or received,
// above eager_bytes), or a change of the board.
struct SimulatedWait {
  double seconds = 0;         // all waits together
  double longest = 0;         // the longest single wait
  int cause_of_longest = -1;  // the rank that caused it, even if only through other ranks that waited for it
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
  std::uint64_t events = 0;  // measures the simulator's own work
  // Reads of boards; counted only if reading is not free.
  std::vector<std::uint64_t> lines_read;  // cache lines that each rank read
  std::uint64_t most_readers = 0;         // how often the most popular word or block of data was read

  [[nodiscard]] double total_delay() const { return last_exit - first_arrival; }
  [[nodiscard]] double last_delay() const { return last_exit - last_arrival; }
};

class SimulatedBoard;
class Simulator;

// The state of one simulated rank.
class SimulatedTransport final : public Transport {
 public:
  [[nodiscard]] bool start(Transfer& transfer) override;
  [[nodiscard]] bool start(Computation& computation) override;
  [[nodiscard]] bool moves_data() const override;
  [[nodiscard]] double now() const override;

 private:
  friend class SimulatedBoard;
  friend class Simulator;
  Simulator* simulator_ = nullptr;
  int rank_ = 0;
  int node_ = 0;
  int place_ = 0;  // its number on the node
  SimulatedBoard* node_board_ = nullptr;
  std::optional<Locality> locality_;
  Lateness lateness_;
  struct Ports {
    ExclusivePort out;
    ExclusivePort in;
  };
  [[nodiscard]] Ports& ports(const SimulatedMessage& message) {
    return message.stays_on_node ? memory_ : network_card_;
  }

  Ports memory_;  // for messages within the node; card_: for the network
  Ports network_card_;
  ExclusivePort core_;
  ExclusivePort fetches_;     // lines that the rank reads
  double fetched_until_ = 0;  // when the last of these lines is there
  double waited_until_ = 0;
  int made_late_by_ = 0;  // the rank that made this one late; itself until it has waited
};

class Simulator {
 public:
  using MakeRootTask = std::function<Task(int rank, Endpoint net)>;

  Simulator(int ranks, SimulatedMachine machine, SimulationOptions options = {});
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;
  ~Simulator();

  // Runs one task per rank until all have ended. The task of a rank is make(rank, endpoint), which is called
  // at arrivals[rank], or at 0 if `arrivals` is empty. Each run starts anew: time 0, idle ports, the
  // adversary's seed. Throws SimulationError; an exception of a task is nested in it.
  SimulationResult run(const MakeRootTask& make, std::span<const double> arrivals = {}, int lanes = 1);

  // Says how many bytes the input and the output of a rank have together, which decides whether the data of a
  // call exceed a cache. Counts for the next runs.
  void set_call_bytes(std::size_t bytes);

  // A run finds the lines of boards in the caches in which the run before has left them. After forget_uses(),
  // any core may have them. knows_uses() returns true if a run has used a board since.
  void forget_uses();
  [[nodiscard]] bool knows_uses() const;

  // `report` is called after every 2^20 events of a run, with the number of events so far and the virtual
  // time. If it throws, the run ends.
  using ProgressReport = std::function<void(std::uint64_t events, double now)>;
  void set_progress_report(ProgressReport report) { report_progress_ = std::move(report); }

  [[nodiscard]] int ranks() const { return static_cast<int>(ranks_.size()); }

  // Returns a rank's record of late ranks, which it keeps from call to call. forget() clears the records of
  // all ranks.
  [[nodiscard]] Lateness& lateness(int rank) { return this->rank(rank).lateness_; }
  void forget() {
    for (SimulatedTransport& each : ranks_) each.lateness_ = {};
  }

  // now() returns the virtual time, and resume_at() resumes a coroutine later. Other kinds of awaitables use
  // these.
  [[nodiscard]] double now() const { return now_; }
  void resume_at(double time, int rank, std::coroutine_handle<> waiter) {
    schedule(time, Kind::resume, waiter.address(), rank);
  }

  // An awaitable with which the rank does something else for `seconds`.
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

  // The steps in the life of a message, in this order.
  void start_rendezvous(SimulatedMessage& message);
  double transmit(SimulatedMessage& message);
  double depart(SimulatedMessage& message, double start);
  void end_eager_send(SimulatedMessage& message, double left);
  void occupy(SharedPort& port, const SharedUse& use, double bytes);
  void await_next(SharedPort& port, int rank);
  void leave(SharedPort& port, const SimulatedEvent& event);
  void arrive(SimulatedMessage& message);
  void enter(SimulatedMessage& message);
  void find_or_post(SimulatedMessage& message);
  void finish_arrival(SimulatedMessage& message);
  void deliver(SimulatedMessage& message);
  [[nodiscard]] double duration(const Computation& computation, int rank) const;
  void begin(Computation& computation, int rank, double done);
  void finish_half(Transfer& transfer, int rank);
  void note_wait(int waiter, double since, int other);

  void compute_transfer_times(SimulatedMessage& message) const;
  [[nodiscard]] double receive_overhead(const SimulatedMessage& message) const;
  // Occupies the receiver's core with the message's copy, from now on.
  void begin_receive_copy(SimulatedMessage& message);
  // Returns the time to write a line that any core of the node may have read.
  [[nodiscard]] double put_line() const;
  // Returns the time to take the lines of a computation's destination from other ranks.
  [[nodiscard]] double put_seconds(const Computation& computation, int rank) const;
  void note_put(const Computation& computation, int rank);
  // Returns the part of `seconds` for `bytes` bytes that counts beyond a cache.
  [[nodiscard]] double beyond_cache(double seconds, std::size_t bytes) const;
  // Returns what a message shares with other messages from its node: the link out of the node or, if it stays
  // on the node, the node's memory. Returns null if no limit there can delay it.
  [[nodiscard]] SharedPort* shared_port_of(const SimulatedMessage& message);
  [[nodiscard]] bool shares_memory() const { return std::isfinite(core_costs_.memory_rate); }
  [[nodiscard]] bool waits_for_network_card(const SimulatedMessage& message) const {
    return !message.stays_on_node && machine_.node_gap > 0;
  }
  [[nodiscard]] double bytes_on_wire(const SimulatedMessage& message) const {
    return static_cast<double>(message.bytes + machine_.envelope_bytes);
  }
  [[nodiscard]] SimulatedTransport& rank(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const SimulatedTransport& rank(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)];
  }

  void make_boards(std::size_t window_bytes);
  [[nodiscard]] int most_ranks_on_node() const;
  [[nodiscard]] SharedPort& memory_of(const SimulatedTransport& rank) {
    return memories_[levels_.memory_of(rank.node_, rank.place_)];
  }
  [[nodiscard]] std::string describe_at_boards() const;
  void touch(int rank, std::coroutine_handle<> waiter, double further) {
    const double begins = std::max(now_, this->rank(rank).fetched_until_);
    schedule(begins + machine_.line + further, Kind::touch, waiter.address(), rank);
  }

  void dispatch(const SimulatedEvent& event);
  void schedule(double time, Kind kind, void* subject, int rank);
  void start_rank(int rank);
  void resume(std::coroutine_handle<> waiter, int rank);
  void finish_rank(int rank);
  [[noreturn]] void fail(const std::string& text);
  static std::string name(int rank);

  std::uint64_t random();
  [[nodiscard]] bool adversary_delays() { return adversary_.has_value() && (random() & 1) != 0; }

  SimulatedMachine machine_;
  BeyondCache core_costs_;  // the costs of cores for calls of the present length
  bool phantom_;
  std::optional<Adversary> adversary_;
  ProgressReport report_progress_;
  std::uint64_t random_state_ = 0;

  std::vector<SimulatedTransport> ranks_;
  // One per node each, and one per group of a node with its own memory. Empty if unlimited.
  std::vector<SharedPort> node_out_ports_;
  std::vector<SharedPort> node_in_ports_;
  std::vector<SharedPort> memories_;
  std::vector<ExclusivePort> network_cards_;  // for node_gap
  std::vector<std::unique_ptr<SimulatedBoard>> boards_;
  Membership membership_;
  Levels levels_;
  SimulatedMessages messages_;
  SimulatedEvents events_;
  std::uint64_t sequence_ = 0;
  double now_ = 0;

  // The state of the current run.
  const MakeRootTask* make_root_task_ = nullptr;
  int lanes_ = 1;
  std::vector<Task> tasks_;
  JoinCounter running_;
  std::exception_ptr failure_;
  SimulationResult result_;
};

}  // namespace offbeat
