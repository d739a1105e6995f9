// SPDX-License-Identifier: BSD-3-Clause
// The life of a message in the simulator. simulator.hpp explains the cost model.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "base/pool.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

constexpr int poison_byte = 0xA5;
constexpr double not_known_yet = std::numeric_limits<double>::infinity();
constexpr double shortest_wait = 1e-12;  // in seconds; a shorter wait is rounding

bool overlap(ConstVector left, ConstVector right) {
  constexpr std::less<const std::byte*> before;
  return left.data != nullptr && right.data != nullptr && before(left.data, right.data + right.bytes()) &&
         before(right.data, left.data + left.bytes());
}

std::string length(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

bool Simulator::start(SimulatedTransport& self, Transfer& transfer) {
  for (const int peer : {transfer.to, transfer.from}) {
    if (peer == Transfer::nobody) continue;
    if (peer == self.rank_) fail(name(self.rank_) + " sends to, or receives from, itself");
    if (peer < 0 || peer >= ranks()) {
      fail(name(self.rank_) + " wants a message to or from " + name(peer) + ", but there are only " +
           std::to_string(ranks()) + " ranks");
    }
  }
  if (transfer.to != Transfer::nobody && transfer.from != Transfer::nobody &&
      overlap(transfer.outgoing, transfer.incoming)) {
    fail(name(self.rank_) + " sends from and receives into overlapping memory");
  }

  transfer.pending_halves = 0;
  SimulatedMessage* incoming = nullptr;
  if (transfer.from != Transfer::nobody) incoming = receive(self, transfer);
  if (transfer.to != Transfer::nobody) send(self, transfer, incoming);
  if (transfer.pending_halves > 0) return false;
  if (!adversary_delays()) return true;
  schedule(now_, Kind::complete, &transfer, self.rank_);
  return false;
}

// Begins the receive half of a step. Returns the message, or null if it has arrived already.
SimulatedMessage* Simulator::receive(SimulatedTransport& self, Transfer& transfer) {
  if (adversary_ && !phantom_ && transfer.incoming.data != nullptr) {
    std::memset(transfer.incoming.data, poison_byte, transfer.incoming.bytes());
  }
  SimulatedMessage& message = messages_.post(transfer.from, self.rank_, transfer.lane, false);
  message.receiver = &transfer;
  ++transfer.pending_halves;
  if (!message.is_send_posted) {
    message.first_posted = now_;
    message.bytes = transfer.incoming.bytes();
    return &message;
  }
  check_lengths(message, message.bytes, transfer.incoming.bytes());
  if (!message.is_eager) {
    note_wait(message.source, message.first_posted, self.rank_);
    start_rendezvous(message);
  } else if (message.has_arrived && message.receive_copy_seconds > 0) {
    begin_receive_copy(message);
    if (message.is_final()) find_or_post(message);
  } else if (message.is_final() && message.earliest_received <= now_) {
    const double overhead = receive_overhead(message);
    deliver(message);
    if (overhead > 0) {
      schedule(self.core_.pass(now_, overhead), Kind::half_complete, &transfer, self.rank_);
    } else {
      --transfer.pending_halves;
    }
    return nullptr;
  } else if (message.is_final()) {
    schedule(message.earliest_received, Kind::last_byte_arrived, &message, self.rank_);
  }
  return &message;
}

// Begins the send half of a step. `incoming` is what the rank receives in the same step; it may be null.
void Simulator::send(SimulatedTransport& self, Transfer& transfer, SimulatedMessage* incoming) {
  SimulatedMessage& message = messages_.post(self.rank_, transfer.to, transfer.lane, true);
  const bool expected = message.receiver != nullptr;
  if (expected) {
    check_lengths(message, transfer.outgoing.bytes(), message.bytes);
    note_wait(transfer.to, message.first_posted, self.rank_);
  } else {
    message.first_posted = now_;
  }
  message.bytes = transfer.outgoing.bytes();
  message.carried_bytes = phantom_ ? transfer.head_bytes : message.bytes;
  message.is_send_posted = true;
  message.stays_on_node = self.node_ == rank(transfer.to).node_;
  message.is_eager =
      adversary_ ? (random() & 1) != 0 : machine_.is_eager(message.stays_on_node, message.bytes);
  message.sender = &transfer;
  ++transfer.pending_halves;
  ++result_.messages;
  if (!message.stays_on_node) ++result_.inter_node_messages;
  result_.bytes += message.bytes;
  const double overhead = machine_.message(message.stays_on_node).send_overhead + machine_.step;
  message.handed_to_network = overhead > 0 ? self.core_.pass(now_, overhead) : now_;
  if (!message.is_eager) {
    if (expected) start_rendezvous(message);
    return;
  }

  if (message.carried_bytes > 0 && transfer.outgoing.data != nullptr) {
    message.payload = static_cast<std::byte*>(pool::allocate(message.carried_bytes));
    std::memcpy(message.payload, transfer.outgoing.data, message.carried_bytes);
  }
  if (message.handed_to_network > now_)
    return schedule(message.handed_to_network, Kind::sent_by_core, &message, self.rank_);
  const double left = transmit(message);
  if (left == not_known_yet) return;
  message.sender = nullptr;
  if (incoming != nullptr) {  // this saves an event: the arrival of `incoming` completes both
    incoming->receiver_sends_until = left;
    --transfer.pending_halves;
  } else if (left <= now_) {
    --transfer.pending_halves;
  } else {
    schedule(left, Kind::half_complete, &transfer, self.rank_);
  }
}

// The step of an exchange is part of its send half.
double Simulator::receive_overhead(const SimulatedMessage& message) const {
  return machine_.message(message.stays_on_node).receive_overhead +
         (message.receiver->to == Transfer::nobody ? machine_.step : 0);
}

void Simulator::compute_transfer_times(SimulatedMessage& message) const {
  const Protocol protocol = machine_.protocol(message.stays_on_node, message.bytes);
  message.alpha = protocol.alpha;
  message.port_seconds = bytes_on_wire(message) * protocol.beta;
  message.send_copy_seconds = bytes_on_wire(message) * protocol.send_copy;
  message.receive_copy_seconds = bytes_on_wire(message) * protocol.receive_copy;
  if (!message.stays_on_node || levels_.empty()) return;
  const Level& level = levels_.between(rank(message.source).place_, rank(message.destination).place_);
  const Level& nearest = levels_.nearest();  // the level of the protocol's numbers
  const double further =
      bytes_on_wire(message) * protocol.line_share * beyond_cache(level.per_byte - nearest.per_byte, 1);
  message.alpha += machine_.message_lines * (level.line - nearest.line) + further;
  message.receive_copy_seconds += further;
  if (protocol.send_copy > 0) message.send_copy_seconds += further;
}

// Sends a message off that is not eager. Both sides are posted.
void Simulator::start_rendezvous(SimulatedMessage& message) {
  const double way = machine_.message(message.stays_on_node).handshake;
  const double start = std::max(message.handed_to_network + way, now_) + way;
  if (start > now_) return schedule(start, Kind::sent_by_core, &message, message.source);
  transmit(message);
}

SharedPort* Simulator::shared_port_of(const SimulatedMessage& message) {
  if (message.stays_on_node && !shares_memory()) return nullptr;
  const SimulatedTransport& sender = rank(message.source);
  if (message.stays_on_node) return &memory_of(sender);
  return node_out_ports_.empty() ? nullptr : &node_out_ports_[static_cast<std::size_t>(sender.node_)];
}

// Sends the message off. Returns the time when its last byte leaves, or `not_known_yet` if that depends on
// other ranks of the node.
double Simulator::transmit(SimulatedMessage& message) {
  compute_transfer_times(message);
  SimulatedTransport& sender = rank(message.source);
  ExclusivePort& out = sender.ports(message).out;
  double start = std::max(now_, out.free_at);
  if (message.send_copy_seconds > 0) {
    start = std::max(start, sender.core_.free_at);
    out.free_at = sender.core_.pass(start, message.send_copy_seconds) - message.port_seconds;
  }
  message.last_byte_left = out.pass(start, message.port_seconds);
  out.free_at += machine_.message(message.stays_on_node).send_gap;
  // Others may reach the node's port first.
  if (start > now_ && (shared_port_of(message) != nullptr || waits_for_network_card(message))) {
    schedule(start, Kind::depart, &message, message.source);
    return not_known_yet;
  }
  return depart(message, start);
}

double Simulator::depart(SimulatedMessage& message, double start) {
  if (waits_for_network_card(message) && !message.card_has_begun) {
    ExclusivePort& card = network_cards_[static_cast<std::size_t>(rank(message.source).node_)];
    const double turn = std::max(now_, card.free_at);
    card.pass(now_, machine_.node_gap);
    message.card_has_begun = true;
    message.last_byte_left += turn - start;
    if (turn > now_) {
      schedule(turn, Kind::depart, &message, message.source);
      return not_known_yet;
    }
  }
  double left = message.last_byte_left;
  if (SharedPort* port = shared_port_of(message); port != nullptr) {
    message.is_leaving_node = true;
    const bool is_copied_twice = message.send_copy_seconds > 0 && message.receive_copy_seconds > 0;
    occupy(*port, {.message = &message, .rank = message.source},
           (message.stays_on_node ? (is_copied_twice ? 4 : 2) : 1) * bytes_on_wire(message));
    left = not_known_yet;
  } else if (message.send_copy_seconds > 0) {
    message.earliest_received = left + message.alpha;
  }
  schedule(start + message.alpha, Kind::arrive, &message, message.destination);
  return left;
}

// Completes the send half of an eager message whose last byte leaves at `left`.
void Simulator::end_eager_send(SimulatedMessage& message, double left) {
  if (message.is_eager && left != not_known_yet)
    schedule(left, Kind::half_complete, std::exchange(message.sender, nullptr), message.source);
}

void Simulator::occupy(SharedPort& port, const SharedUse& use, double bytes) {
  port.add(now_, use, bytes);
  await_next(port, use.rank);
}

// Schedules the next look at a node's port. An event that comes too early looks again, so no new event is
// needed if the next message can only be later.
void Simulator::await_next(SharedPort& port, int rank) {
  if (port.next() >= port.scheduled) return;
  port.scheduled = port.next();
  port.scheduled_event = sequence_;
  schedule(port.scheduled, Kind::leave, &port, rank);
}

void Simulator::leave(SharedPort& port, const SimulatedEvent& event) {
  if (event.sequence != port.scheduled_event) return;
  port.scheduled = SharedPort::never;
  while (const std::optional<SharedUse> ended = port.take(now_)) {
    if (ended->computation != nullptr) {
      schedule(std::max(now_, ended->earliest_end), Kind::compute, ended->computation, ended->rank);
      continue;
    }
    SimulatedMessage& message = *ended->message;
    if (ended->enters_node) {
      message.is_entering_node = false;
      message.earliest_received = std::max(message.earliest_received, now_);
      if (message.is_final()) find_or_post(message);
      continue;
    }
    message.is_leaving_node = false;
    const double left = std::max(now_, message.last_byte_left);
    message.earliest_received = std::max(message.earliest_received, left + message.alpha);
    if (message.is_final()) find_or_post(message);
    end_eager_send(message, left);
  }
  await_next(port, event.rank);
}

void Simulator::arrive(SimulatedMessage& message) {
  ExclusivePort& in = rank(message.destination).ports(message).in;
  const double start = std::max(now_, in.free_at);
  message.earliest_received = std::max(message.earliest_received, in.pass(now_, message.port_seconds));
  in.free_at += machine_.message(message.stays_on_node).receive_gap;
  message.has_arrived = true;
  if (message.stays_on_node && !levels_.empty()) {
    const SimulatedTransport& sender = rank(message.source);
    message.earliest_received = std::max(
        message.earliest_received, levels_.pass(sender.node_, sender.place_, rank(message.destination).place_,
                                                now_, bytes_on_wire(message)));
  }
  if (message.receiver != nullptr) begin_receive_copy(message);
  if (!message.stays_on_node && !node_in_ports_.empty()) {
    message.is_entering_node = true;
    if (start > now_) return schedule(start, Kind::enter, &message, message.destination);
    return enter(message);
  }
  if (!message.is_leaving_node) find_or_post(message);
}

void Simulator::begin_receive_copy(SimulatedMessage& message) {
  if (message.receive_copy_seconds == 0) return;
  ExclusivePort& core = rank(message.destination).core_;
  message.earliest_received =
      std::max(message.earliest_received, core.pass(now_, message.receive_copy_seconds));
}

void Simulator::enter(SimulatedMessage& message) {
  occupy(node_in_ports_[static_cast<std::size_t>(rank(message.destination).node_)],
         {.message = &message, .rank = message.destination, .enters_node = true}, bytes_on_wire(message));
}

void Simulator::find_or_post(SimulatedMessage& message) {
  if (message.receiver != nullptr)
    schedule(message.earliest_received, Kind::last_byte_arrived, &message, message.destination);
}

void Simulator::finish_arrival(SimulatedMessage& message) {
  Transfer* sender = message.is_eager ? nullptr : message.sender;
  Transfer& receiver = *message.receiver;
  const int source = message.source;
  const int destination = message.destination;
  const double receiver_sends_until = message.receiver_sends_until;
  const double overhead = receive_overhead(message);
  deliver(message);
  const double received = overhead > 0 ? rank(destination).core_.pass(now_, overhead) : now_;
  if (const double end = std::max(receiver_sends_until, received); end > now_) {
    schedule(end, Kind::half_complete, &receiver, destination);
  } else {
    finish_half(receiver, destination);
  }
  if (sender != nullptr) finish_half(*sender, source);
}

void Simulator::deliver(SimulatedMessage& message) {
  std::byte* target = message.receiver->incoming.data;
  const std::byte* data = message.is_eager ? message.payload : message.sender->outgoing.data;
  if (message.carried_bytes > 0 && data != nullptr && target != nullptr)
    std::memcpy(target, data, message.carried_bytes);
  messages_.release(message);
}

void Simulator::finish_half(Transfer& transfer, int rank) {
  if (--transfer.pending_halves > 0) return;
  if (adversary_) {
    schedule(now_, Kind::complete, &transfer, rank);
  } else {
    resume(transfer.waiter, rank);
  }
}

// Notes that `waiter` waited for `other` since `since`. If `other` was late because it waited itself, the
// wait is blamed on the rank that `other` waited for.
void Simulator::note_wait(int waiter, double since, int other) {
  if (now_ - since <= shortest_wait) return;
  SimulatedTransport& self = rank(waiter);
  const double begin = std::max(since, self.waited_until_);
  const double seconds = now_ - begin;
  if (seconds <= shortest_wait) return;
  self.waited_until_ = now_;
  self.made_late_by_ = rank(other).made_late_by_;
  SimulatedWait& wait = result_.waits[static_cast<std::size_t>(waiter)];
  wait.seconds += seconds;
  if (seconds > wait.longest) wait = {wait.seconds, seconds, self.made_late_by_};
}

void Simulator::check_lengths(const SimulatedMessage& message, std::size_t sent, std::size_t expected) {
  if (sent == expected) return;
  fail(name(message.source) + " sends " + length(sent) + " to " + name(message.destination) + " on lane " +
       std::to_string(message.lane) + ", which expects " + length(expected));
}

}  // namespace offbeat
