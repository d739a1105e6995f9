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

constexpr int rubbish = 0xA5;
constexpr double unknown = std::numeric_limits<double>::infinity();
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

  transfer.pending = 0;
  SimulatedMessage* incoming = nullptr;
  if (transfer.from != Transfer::nobody) incoming = receive(self, transfer);
  if (transfer.to != Transfer::nobody) send(self, transfer, incoming);
  if (transfer.pending > 0) return false;
  if (!hesitates()) return true;
  schedule(now_, Kind::complete, &transfer, self.rank_);
  return false;
}

// Begins the receive half of a step. Returns the message, or null if it has arrived already.
SimulatedMessage* Simulator::receive(SimulatedTransport& self, Transfer& transfer) {
  if (adversary_ && !phantom_ && transfer.incoming.data != nullptr) {
    std::memset(transfer.incoming.data, rubbish, transfer.incoming.bytes());
  }
  SimulatedMessage& message = messages_.post(transfer.from, self.rank_, transfer.lane, false);
  message.receiver = &transfer;
  ++transfer.pending;
  if (!message.sent) {
    message.posted = now_;
    message.bytes = transfer.incoming.bytes();
    return &message;
  }
  check_lengths(message, message.bytes, transfer.incoming.bytes());
  if (!message.eager) {
    note_wait(message.source, message.posted, self.rank_);
    clear_to_send(message);
  } else if (message.is_final() && message.done <= now_) {
    const double overhead = network_.message(message.stays).receive_overhead;
    deliver(message);
    if (overhead > 0) {
      schedule(self.core_.pass(now_, overhead), Kind::half, &transfer, self.rank_);
    } else {
      --transfer.pending;
    }
    return nullptr;
  } else if (message.is_final()) {
    schedule(message.done, Kind::land, &message, self.rank_);
  }
  return &message;
}

// Begins the send half of a step. `incoming` is what the rank receives in the same step; it may be null.
void Simulator::send(SimulatedTransport& self, Transfer& transfer, SimulatedMessage* incoming) {
  SimulatedMessage& message = messages_.post(self.rank_, transfer.to, transfer.lane, true);
  const bool expected = message.receiver != nullptr;
  if (expected) {
    check_lengths(message, transfer.outgoing.bytes(), message.bytes);
    note_wait(transfer.to, message.posted, self.rank_);
  } else {
    message.posted = now_;
  }
  message.bytes = transfer.outgoing.bytes();
  message.carried = phantom_ ? transfer.head_bytes : message.bytes;
  message.sent = true;
  message.stays = self.node_ == rank(transfer.to).node_;
  message.eager = adversary_ ? (random() & 1) != 0 : network_.is_eager(message.stays, message.bytes);
  message.sender = &transfer;
  ++transfer.pending;
  ++result_.messages;
  if (!message.stays) ++result_.inter_node_messages;
  result_.bytes += message.bytes;
  const double overhead = network_.message(message.stays).send_overhead;
  message.ready = overhead > 0 ? self.core_.pass(now_, overhead) : now_;
  if (!message.eager) {
    if (expected) clear_to_send(message);
    return;
  }

  if (message.carried > 0 && transfer.outgoing.data != nullptr) {
    message.payload = static_cast<std::byte*>(pool::allocate(message.carried));
    std::memcpy(message.payload, transfer.outgoing.data, message.carried);
  }
  if (message.ready > now_) return schedule(message.ready, Kind::inject, &message, self.rank_);
  const double left = transmit(message);
  if (left == unknown) return;
  message.sender = nullptr;
  if (incoming != nullptr) {  // this saves an event: the arrival of `incoming` completes both
    incoming->receiver_sends = left;
    --transfer.pending;
  } else if (left <= now_) {
    --transfer.pending;
  } else {
    schedule(left, Kind::half, &transfer, self.rank_);
  }
}

void Simulator::measure(SimulatedMessage& message) const {
  const Protocol protocol = network_.protocol(message.stays, message.bytes);
  message.alpha = protocol.alpha;
  message.seconds = bytes_on_wire(message) * protocol.beta;
}

// Sends a message off that is not eager. Both sides are posted.
void Simulator::clear_to_send(SimulatedMessage& message) {
  const double way = network_.message(message.stays).handshake;
  const double start = std::max(message.ready + way, now_) + way;
  if (start > now_) return schedule(start, Kind::inject, &message, message.source);
  transmit(message);
}

SharedPort* Simulator::shared_port_of(const SimulatedMessage& message) {
  std::vector<SharedPort>& ports = message.stays ? memories_ : ways_out_;
  return ports.empty() ? nullptr : &ports[static_cast<std::size_t>(rank(message.source).node_)];
}

// Sends the message off. Returns the time when its last byte leaves, or `unknown` if others on the node
// decide that.
double Simulator::transmit(SimulatedMessage& message) {
  measure(message);
  SimulatedPort& out = rank(message.source).ports(message).out;
  const double start = std::max(now_, out.free);
  message.left_rank = out.pass(now_, message.seconds);
  out.free += network_.message(message.stays).send_gap;
  // Others may reach the node's port first.
  if (start > now_ && (shared_port_of(message) != nullptr || waits_for_card(message))) {
    schedule(start, Kind::depart, &message, message.source);
    return unknown;
  }
  return depart(message, start);
}

double Simulator::depart(SimulatedMessage& message, double start) {
  if (waits_for_card(message) && !message.in_turn) {
    SimulatedPort& card = cards_[static_cast<std::size_t>(rank(message.source).node_)];
    const double turn = std::max(now_, card.free);
    card.pass(now_, network_.node_gap);
    message.in_turn = true;
    message.left_rank += turn - start;
    if (turn > now_) {
      schedule(turn, Kind::depart, &message, message.source);
      return unknown;
    }
  }
  double left = message.left_rank;
  if (SharedPort* port = shared_port_of(message); port != nullptr) {
    message.leaving = true;
    use(*port, {.message = &message, .rank = message.source},
        message.stays ? 2 * bytes_on_wire(message) : bytes_on_wire(message));
    left = unknown;
  }
  schedule(start + message.alpha, Kind::arrive, &message, message.destination);
  return left;
}

// Completes the send half of an eager message whose last byte leaves at `left`.
void Simulator::end_eager_send(SimulatedMessage& message, double left) {
  if (message.eager && left != unknown)
    schedule(left, Kind::half, std::exchange(message.sender, nullptr), message.source);
}

void Simulator::use(SharedPort& port, const SharedUse& use, double bytes) {
  port.add(now_, use, bytes);
  await_next(port, use.rank);
}

// Schedules the next look at a node's port. An event that comes too early looks again, so no new event is
// needed if the next message can only be later.
void Simulator::await_next(SharedPort& port, int rank) {
  if (port.next() >= port.scheduled) return;
  port.scheduled = port.next();
  port.event = sequence_;
  schedule(port.scheduled, Kind::leave, &port, rank);
}

void Simulator::leave(SharedPort& port, const SimulatedEvent& event) {
  if (event.sequence != port.event) return;
  port.scheduled = SharedPort::never;
  while (const std::optional<SharedUse> ended = port.take(now_)) {
    if (ended->computation != nullptr) {
      schedule(std::max(now_, ended->earliest), Kind::compute, ended->computation, ended->rank);
      continue;
    }
    SimulatedMessage& message = *ended->message;
    if (ended->enters) {
      message.entering = false;
      message.done = std::max(message.done, now_);
      if (message.is_final()) expect(message);
      continue;
    }
    message.leaving = false;
    const double left = std::max(now_, message.left_rank);
    message.done = std::max(message.done, left + message.alpha);
    if (message.is_final()) expect(message);
    end_eager_send(message, left);
  }
  await_next(port, event.rank);
}

void Simulator::arrive(SimulatedMessage& message) {
  SimulatedPort& in = rank(message.destination).ports(message).in;
  const double start = std::max(now_, in.free);
  message.done = std::max(message.done, in.pass(now_, message.seconds));
  in.free += network_.message(message.stays).receive_gap;
  message.arrives = true;
  if (!message.stays && !ways_in_.empty()) {
    message.entering = true;
    if (start > now_) return schedule(start, Kind::enter, &message, message.destination);
    return enter(message);
  }
  if (!message.leaving) expect(message);
}

void Simulator::enter(SimulatedMessage& message) {
  use(ways_in_[static_cast<std::size_t>(rank(message.destination).node_)],
      {.message = &message, .rank = message.destination, .enters = true}, bytes_on_wire(message));
}

void Simulator::expect(SimulatedMessage& message) {
  if (message.receiver != nullptr) schedule(message.done, Kind::land, &message, message.destination);
}

void Simulator::finish_arrival(SimulatedMessage& message) {
  Transfer* sender = message.eager ? nullptr : message.sender;
  Transfer& receiver = *message.receiver;
  const int source = message.source;
  const int destination = message.destination;
  const double receiver_sends = message.receiver_sends;
  const double overhead = network_.message(message.stays).receive_overhead;
  deliver(message);
  const double received = overhead > 0 ? rank(destination).core_.pass(now_, overhead) : now_;
  if (const double end = std::max(receiver_sends, received); end > now_) {
    schedule(end, Kind::half, &receiver, destination);
  } else {
    finish_half(receiver, destination);
  }
  if (sender != nullptr) finish_half(*sender, source);
}

void Simulator::deliver(SimulatedMessage& message) {
  std::byte* target = message.receiver->incoming.data;
  const std::byte* data = message.eager ? message.payload : message.sender->outgoing.data;
  if (message.carried > 0 && data != nullptr && target != nullptr) std::memcpy(target, data, message.carried);
  messages_.release(message);
}

void Simulator::finish_half(Transfer& transfer, int rank) {
  if (--transfer.pending > 0) return;
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
  self.waits_for_ = rank(other).waits_for_;
  SimulatedWait& wait = result_.waits[static_cast<std::size_t>(waiter)];
  wait.seconds += seconds;
  if (seconds > wait.longest) wait = {wait.seconds, seconds, self.waits_for_};
}

void Simulator::check_lengths(const SimulatedMessage& message, std::size_t sent, std::size_t expected) {
  if (sent == expected) return;
  fail(name(message.source) + " sends " + length(sent) + " to " + name(message.destination) + " on lane " +
       std::to_string(message.lane) + ", which expects " + length(expected));
}

}  // namespace offbeat
