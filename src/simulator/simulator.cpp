// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "simulator/board.hpp"

namespace offbeat {
namespace {

constexpr std::size_t longest_working_memory = std::size_t{2} << 20;  // both windows of a rank, by default
constexpr double no_limit = std::numeric_limits<double>::infinity();
constexpr std::uint64_t events_between_reports = std::uint64_t{1} << 20;

void require(bool condition, const char* what) {
  if (!condition) throw UsageError(std::string("simulator: ") + what);
}

std::size_t checked_rank_count(int ranks) {
  require(ranks > 0, "needs at least one rank");
  return static_cast<std::size_t>(ranks);
}

// Returns the exception that is being handled, with the rank in front of its text.
std::exception_ptr exception_with_rank(const std::string& rank) {
  std::string text = "unknown exception";
  try {
    throw;
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
  }
  try {
    std::throw_with_nested(SimulationError(rank + ": " + text));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

std::string Simulator::name(int rank) { return "rank " + std::to_string(rank); }

bool SimulatedTransport::start(Transfer& transfer) { return simulator_->start(*this, transfer); }
bool SimulatedTransport::start(Computation& computation) { return simulator_->start(*this, computation); }
bool SimulatedTransport::moves_data() const { return !simulator_->phantom_; }
double SimulatedTransport::now() const { return simulator_->now_; }

Simulator::Simulator(int ranks, SimulatedMachine machine, SimulationOptions options)
    : machine_(std::move(machine)),
      phantom_(options.phantom),
      adversary_(options.adversary),
      ranks_(checked_rank_count(ranks)),
      membership_(ranks),
      messages_(ranks) {
  const std::vector<int>& nodes = machine_.node_of_rank;
  require(machine_.ranks_per_node > 0, "needs at least one rank per node");
  require(nodes.empty() || nodes.size() == ranks_.size(), "node_of_rank needs one entry per rank");
  require(nodes.empty() || *std::min_element(nodes.begin(), nodes.end()) >= 0, "node numbers begin at 0");
  require(std::min({machine_.injection_rate, machine_.ejection_rate, machine_.memory_rate}) > 0,
          "the rates of a node must be positive");
  for (const MessageCosts& each : {machine_.intra_message, machine_.inter_message}) {
    require(std::min({each.send_overhead, each.receive_overhead, each.send_gap, each.receive_gap,
                      each.handshake}) >= 0,
            "costs must not be negative");
  }
  require(std::min({machine_.intra_alpha, machine_.intra_beta, machine_.inter_alpha, machine_.inter_beta,
                    machine_.intra_send_copy, machine_.intra_receive_copy, machine_.gamma, machine_.copy,
                    machine_.line, machine_.line_gap, machine_.message_lines, machine_.put_line,
                    machine_.step, machine_.node_gap}) >= 0,
          "costs must not be negative");
  for (const Level& each : machine_.levels) {
    require(std::min({each.line, each.per_byte}) >= 0 && each.ranks >= 0, "costs must not be negative");
    require(std::min(each.link_rate, each.memory_rate) > 0, "the rates of a level must be positive");
  }
  double least_memory_rate = machine_.memory_rate;
  for (const BeyondCache& each : machine_.beyond) {
    require(std::min({each.gamma, each.copy}) >= 0 && each.ranks >= 0, "costs must not be negative");
    require(each.memory_rate > 0, "the rates of a node must be positive");
    least_memory_rate = std::min(least_memory_rate, each.memory_rate);
  }
  for (const std::vector<Protocol>& protocols :
       {machine_.intra_longer_messages, machine_.inter_longer_messages}) {
    require(std::ranges::is_sorted(protocols, {}, &Protocol::from_bytes),
            "the protocols of longer messages must be in the order of their lengths");
    require(std::ranges::all_of(protocols,
                                [](const Protocol& each) {
                                  return std::min({each.alpha, each.beta, each.send_copy, each.receive_copy,
                                                   each.line_share}) >= 0;
                                }),
            "costs must not be negative");
  }
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    SimulatedTransport& self = this->rank(rank);
    self.simulator_ = this;
    self.rank_ = rank;
    self.node_ = nodes.empty() ? rank / machine_.ranks_per_node : nodes[static_cast<std::size_t>(rank)];
    most = std::max(most, self.node_);
  }
  membership_.group_by([this](int rank) { return this->rank(rank).node_; });
  // A rank that is alone on its node, and no faster than the node, is never delayed by the node's limit.
  double fastest = machine_.inter_beta;
  for (const Protocol& longer : machine_.inter_longer_messages) fastest = std::min(fastest, longer.beta);
  const bool has_company = membership_.nodes() < ranks;
  const auto number = static_cast<std::size_t>(most) + 1;
  if (std::isfinite(machine_.injection_rate) && (has_company || fastest * machine_.injection_rate < 1))
    node_out_ports_.resize(number, SharedPort(machine_.injection_rate));
  if (std::isfinite(machine_.ejection_rate) && (has_company || fastest * machine_.ejection_rate < 1))
    node_in_ports_.resize(number, SharedPort(machine_.ejection_rate));
  levels_ = Levels(machine_.levels, most + 1, most_ranks_on_node());
  least_memory_rate = std::min(least_memory_rate, levels_.memory_rate());
  if (std::isfinite(least_memory_rate)) memories_.resize(levels_.memories(), SharedPort(least_memory_rate));
  if (machine_.node_gap > 0) network_cards_.resize(number);
  for (SimulatedTransport& self : ranks_) {
    self.locality_.emplace(membership_, self.rank_);
    self.place_ = self.locality_->member;
    self.locality = &*self.locality_;
    if (options.learns) self.lateness = &self.lateness_;
  }
  if (options.board_window_bytes > 0) make_boards(options.board_window_bytes);
  set_call_bytes(0);
}

int Simulator::most_ranks_on_node() const {
  int most = 1;
  for (int node = 0; node < membership_.nodes(); ++node)
    most = std::max(most, static_cast<int>(membership_.members(node).size()));
  return most;
}

void Simulator::set_call_bytes(std::size_t bytes) {
  const int on_node = most_ranks_on_node();
  core_costs_ = {.gamma = machine_.gamma, .copy = machine_.copy, .memory_rate = machine_.memory_rate};
  const std::size_t data = bytes + std::min(bytes, longest_working_memory);
  for (const BeyondCache& each : machine_.beyond) {
    const std::size_t all =
        data * static_cast<std::size_t>(each.ranks == 0 ? on_node : std::min(each.ranks, on_node));
    if (all <= each.cache_bytes) continue;
    const double share = 1 - static_cast<double>(each.cache_bytes) / static_cast<double>(all);
    core_costs_.gamma += share * (each.gamma - core_costs_.gamma);
    core_costs_.copy += share * (each.copy - core_costs_.copy);
    const double of_levels = &each == &machine_.beyond.back() ? levels_.memory_rate() : no_limit;
    core_costs_.memory_rate = std::min(each.memory_rate, of_levels) / share;
  }
  for (SharedPort& memory : memories_) memory.set_rate(core_costs_.memory_rate);
}

// Nobody knows which core has read the line, so it is as far away as any.
double Simulator::put_line() const {
  if (levels_.empty()) return machine_.put_line;
  return std::max(machine_.put_line, levels_.farthest().per_byte * static_cast<double>(BoardShape::line));
}

double Simulator::beyond_cache(double seconds, std::size_t bytes) const {
  return std::max(0.0, seconds - (core_costs_.copy - machine_.copy) * static_cast<double>(bytes));
}

void Simulator::make_boards(std::size_t window_bytes) {
  require(window_bytes % BoardShape::smallest_chunk == 0,
          "a window of the board is a multiple of 4096 bytes");
  for (int node = 0; node < membership_.nodes(); ++node) {
    const std::span<const int> members = membership_.members(node);
    require(members.size() <= Board::most_ranks, "a board has at most 65536 ranks");
    boards_.push_back(std::make_unique<SimulatedBoard>(
        *this, std::vector<int>(members.begin(), members.end()), window_bytes, phantom_));
    for (const int member : members) rank(member).node_board_ = boards_.back().get();
  }
}

void Simulator::forget_uses() {
  for (const auto& board : boards_) board->forget_uses();
}
bool Simulator::knows_uses() const {
  return std::ranges::any_of(boards_, [](const auto& board) { return board->knows_uses(); });
}

Simulator::~Simulator() = default;

// The state of one run. Its end destroys the coroutines before the messages, which point into them.
struct Simulator::Run {
  Simulator& simulator;
  ~Run() {
    simulator.tasks_.clear();
    simulator.messages_.clear();
    simulator.events_.clear();
    simulator.failure_ = nullptr;
  }
};

SimulationResult Simulator::run(const MakeRootTask& make, std::span<const double> arrivals, int lanes) {
  require(arrivals.empty() || arrivals.size() == ranks_.size(), "needs one arrival time per rank");
  const Run run{*this};
  make_root_task_ = &make;
  lanes_ = lanes;
  tasks_.resize(ranks_.size());
  running_.running_tasks = ranks_.size();
  result_ = {};
  result_.exits.assign(ranks_.size(), std::numeric_limits<double>::infinity());
  result_.waits.assign(ranks_.size(), {});
  if (!arrivals.empty()) {
    require(
        std::all_of(arrivals.begin(), arrivals.end(), [](double at) { return at >= 0 && std::isfinite(at); }),
        "arrival times must be finite and not negative");
    const auto [first, last] = std::minmax_element(arrivals.begin(), arrivals.end());
    result_.first_arrival = *first;
    result_.last_arrival = *last;
  }
  now_ = 0;
  sequence_ = 0;
  if (adversary_) random_state_ = adversary_->seed;
  for (std::vector<SharedPort>* ports : {&node_out_ports_, &node_in_ports_, &memories_}) {
    for (SharedPort& port : *ports) port.clear();
  }
  std::fill(network_cards_.begin(), network_cards_.end(), ExclusivePort{});
  levels_.clear();
  for (const auto& board : boards_) board->clear();
  for (SimulatedTransport& rank : ranks_) {
    rank.memory_ = rank.network_card_ = {};
    rank.core_ = rank.fetches_ = {};
    rank.fetched_until_ = 0;
    rank.running_coroutines = 1;
    rank.lateness_.begin_call();
    rank.waited_until_ = 0;
    rank.made_late_by_ = rank.rank_;
    if (rank.node_board_ != nullptr) rank.board = &rank.node_board_->of(rank.locality_->member);
    schedule(arrivals.empty() ? 0 : arrivals[static_cast<std::size_t>(rank.rank_)], Kind::start, nullptr,
             rank.rank_);
  }

  std::uint64_t dispatched = 0;
  while (!events_.empty()) {
    const SimulatedEvent event = events_.pop();
    now_ = event.time;
    dispatch(event);
    if (++dispatched % events_between_reports == 0 && report_progress_) report_progress_(dispatched, now_);
    if (failure_) std::rethrow_exception(failure_);
  }
  result_.events = sequence_;
  if (running_.running_tasks > 0) {
    throw SimulationError("deadlock: " + std::to_string(running_.running_tasks) + " of " +
                          std::to_string(ranks()) + " ranks never end" +
                          messages_.describe_unmatched(result_.exits) + describe_at_boards());
  }
  if (messages_.unmatched() > 0) {
    throw SimulationError("all ranks have ended, but not all messages were received" +
                          messages_.describe_unmatched(result_.exits));
  }
  result_.lines_read.resize(ranks_.size());
  for (const auto& board : boards_) board->add_reads_to(result_);
  result_.last_exit = *std::max_element(result_.exits.begin(), result_.exits.end());
  return std::move(result_);
}

// Names at most ten ranks.
std::string Simulator::describe_at_boards() const {
  std::vector<int> waiting;
  for (const auto& board : boards_) board->list_waiting(waiting);
  if (waiting.empty()) return {};
  std::sort(waiting.begin(), waiting.end());
  waiting.erase(std::unique(waiting.begin(), waiting.end()),
                waiting.end());  // several branches of a rank may wait
  constexpr std::size_t most = 10;
  std::string text = "\n  waiting on the board: rank ";
  for (std::size_t k = 0; k < std::min(waiting.size(), most); ++k) {
    text += (k > 0 ? ", " : "") + std::to_string(waiting[k]);
  }
  if (waiting.size() > most) text += " and " + std::to_string(waiting.size() - most) + " more";
  return text;
}

void Simulator::dispatch(const SimulatedEvent& event) {
  switch (event.kind) {
    case Kind::start:
      return start_rank(event.rank);
    case Kind::sent_by_core: {
      auto& message = *static_cast<SimulatedMessage*>(event.subject);
      return end_eager_send(message, transmit(message));
    }
    case Kind::depart: {
      auto& message = *static_cast<SimulatedMessage*>(event.subject);
      return end_eager_send(message, depart(message, now_));
    }
    case Kind::leave:
      return leave(*static_cast<SharedPort*>(event.subject), event);
    case Kind::arrive:
      return arrive(*static_cast<SimulatedMessage*>(event.subject));
    case Kind::enter:
      return enter(*static_cast<SimulatedMessage*>(event.subject));
    case Kind::begin: {
      auto& computation = *static_cast<Computation*>(event.subject);
      return begin(computation, event.rank, now_ + duration(computation, event.rank));
    }
    case Kind::last_byte_arrived:
      return finish_arrival(*static_cast<SimulatedMessage*>(event.subject));
    case Kind::half_complete:
      return finish_half(*static_cast<Transfer*>(event.subject), event.rank);
    case Kind::complete:
      return resume(static_cast<Transfer*>(event.subject)->waiter, event.rank);
    case Kind::compute: {
      const auto& computation = *static_cast<Computation*>(event.subject);
      if (!phantom_) computation.perform();
      return resume(computation.waiter, event.rank);
    }
    case Kind::touch: {
      SimulatedBoard& board = *rank(event.rank).node_board_;
      const std::size_t paused = board.paused();  // what the rank writes wakes others, not itself
      resume(std::coroutine_handle<>::from_address(event.subject), event.rank);
      return board.wake(event.rank, paused);
    }
    case Kind::resume:
      return resume(std::coroutine_handle<>::from_address(event.subject), event.rank);
  }
}

void Simulator::schedule(double time, Kind kind, void* subject, int rank) {
  if (adversary_) {
    // The delay has a Pareto distribution: half of the delays are below 1 us, one in a thousand is above 1
    // ms.
    const double uniform = static_cast<double>((random() >> 44) + 1) * 0x1p-20;
    time += 1e-6 * (1 / uniform - 1);
  }
  events_.push({time, sequence_++, subject, rank, kind});
}

void Simulator::start_rank(int rank) {
  Task& task = tasks_[static_cast<std::size_t>(rank)];
  try {
    task = (*make_root_task_)(rank, Endpoint(this->rank(rank), rank, ranks(), lanes_));
  } catch (...) {
    failure_ = exception_with_rank(name(rank));
    return;
  }
  task.set_join(running_);
  const std::size_t running = running_.running_tasks;
  task.start();
  if (running_.running_tasks != running) finish_rank(rank);
}

void Simulator::resume(std::coroutine_handle<> waiter, int rank) {
  const std::size_t running = running_.running_tasks;
  waiter.resume();
  if (running_.running_tasks != running) finish_rank(rank);
}

void Simulator::finish_rank(int rank) {
  const Task task = std::move(tasks_[static_cast<std::size_t>(rank)]);
  result_.exits[static_cast<std::size_t>(rank)] = std::max(now_, this->rank(rank).fetched_until_);
  try {
    task.rethrow_if_failed();
  } catch (...) {
    if (!failure_) failure_ = exception_with_rank(name(rank));
  }
}

// Ends the run with its first failure. The failure is stored as well as thrown, because a task whose other
// branches wait forever would never pass it on.
void Simulator::fail(const std::string& text) {
  if (!failure_) failure_ = std::make_exception_ptr(SimulationError(text));
  std::rethrow_exception(failure_);
}

// Returns the next number of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), which is equal on every
// machine.
std::uint64_t Simulator::random() {
  std::uint64_t bits = random_state_ += 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

double Simulator::put_seconds(const Computation& computation, int rank) const {
  const Vector& to = computation.destination;
  if (levels_.empty()) {
    const double lines = static_cast<double>(to.bytes()) / static_cast<double>(BoardShape::line);
    return computation.to_shared ? lines * machine_.put_line : 0;
  }
  const SimulatedTransport& self = this->rank(rank);
  return self.node_board_ == nullptr ? 0 : self.node_board_->put_seconds(self.place_, to.data, to.bytes());
}

void Simulator::note_put(const Computation& computation, int rank) {
  const SimulatedTransport& self = this->rank(rank);
  if (self.node_board_ == nullptr) return;
  self.node_board_->note_put(self.place_, computation.destination.data, computation.destination.bytes());
}

// Returns how long a core takes that need not share the memory.
double Simulator::duration(const Computation& computation, int rank) const {
  const std::size_t operands = computation.operand_count;
  const bool copies = computation.reduction == nullptr || operands < 2;
  const double work =
      static_cast<double>(computation.destination.bytes()) *
          (copies ? core_costs_.copy : core_costs_.gamma * static_cast<double>(operands - 1)) +
      static_cast<double>(computation.second_destination.bytes()) * core_costs_.copy;
  const double lines_come = std::max(0.0, this->rank(rank).fetched_until_ - now_);
  return machine_.step + std::max(work, lines_come + put_seconds(computation, rank));
}

// The core begins now and would end at `done`. Others on the node may make that later.
void Simulator::begin(Computation& computation, int rank, double done) {
  note_put(computation, rank);
  const auto operands = static_cast<double>(std::max<std::size_t>(computation.operand_count, 1));
  const double bytes = static_cast<double>(computation.destination.bytes()) * (operands + 1) +
                       2 * static_cast<double>(computation.second_destination.bytes());
  occupy(memory_of(this->rank(rank)), {.computation = &computation, .rank = rank, .earliest_end = done},
         bytes);
}

bool Simulator::start(SimulatedTransport& self, Computation& computation) {
  const double begins = std::max(now_, self.core_.free_at);
  const double done = self.core_.pass(now_, duration(computation, self.rank_));
  if (shares_memory() && computation.destination.bytes() + computation.second_destination.bytes() > 0) {
    if (begins > now_) {
      schedule(begins, Kind::begin, &computation, self.rank_);
    } else {
      begin(computation, self.rank_, done);
    }
    return false;
  }
  note_put(computation, self.rank_);
  if (done <= now_ && !adversary_delays()) {
    if (!phantom_) computation.perform();
    return true;
  }
  schedule(done, Kind::compute, &computation, self.rank_);
  return false;
}

}  // namespace offbeat
