// SPDX-License-Identifier: BSD-3-Clause
// The life of a message in the simulator: simulator.hpp has the cost model.
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

// The receive half of a step. Returns the message unless it is there already.
SimulatedMessage* Simulator::receive(SimulatedTransport& self, Transfer& transfer) {
  if (adversary_ && transfer.incoming.data != nullptr) {
    std::memset(transfer.incoming.data, rubbish, transfer.incoming.bytes());
  }
  SimulatedMessage& message = messages_.post(transfer.from, self.rank_, transfer.lane, false);
  message.receiver = &transfer;
  ++transfer.pending;
  if (!message.sent) {
    message.bytes = transfer.incoming.bytes();
    return &message;
  }
  check_lengths(message, message.bytes, transfer.incoming.bytes());
  if (!message.eager) {
    transmit(message);
  } else if (message.arrived && message.done <= now_) {
    deliver(message);
    --transfer.pending;
    return nullptr;
  } else if (message.arrived) {
    schedule(message.done, Kind::land, &message, self.rank_);
  }
  return &message;
}

// The send half of a step in which the rank also receives `incoming`, if that is not null.
void Simulator::send(SimulatedTransport& self, Transfer& transfer, SimulatedMessage* incoming) {
  SimulatedMessage& message = messages_.post(self.rank_, transfer.to, transfer.lane, true);
  const bool expected = message.receiver != nullptr;
  if (expected) check_lengths(message, transfer.outgoing.bytes(), message.bytes);
  message.bytes = transfer.outgoing.bytes();
  message.sent = true;
  message.eager = adversary_ ? (random() & 1) != 0 : message.bytes <= network_.eager_bytes;
  message.sender = &transfer;
  ++transfer.pending;
  ++result_.messages;
  if (self.node_ != rank(transfer.to).node_) ++result_.inter_node_messages;
  result_.bytes += message.bytes;
  if (!message.eager) {
    if (expected) transmit(message);
    return;
  }

  if (!phantom_ && transfer.outgoing.data != nullptr) {
    message.payload = static_cast<std::byte*>(pool::allocate(message.bytes));
    std::memcpy(message.payload, transfer.outgoing.data, message.bytes);
  }
  const double left = transmit(message);
  if (left == unknown) return;
  message.sender = nullptr;
  if (incoming != nullptr) {  // saves an event: the message that comes in looks after both
    incoming->receiver_sends = left;
    --transfer.pending;
  } else if (left <= now_) {
    --transfer.pending;
  } else {
    schedule(left, Kind::half, &transfer, self.rank_);
  }
}

// The message is on its way. Returns when its last byte leaves, if that is known already.
double Simulator::transmit(SimulatedMessage& message) {
  SimulatedTransport& source = rank(message.source);
  const double start = std::max(now_, source.out_.free);
  message.done = source.out_.pass(now_, static_cast<double>(message.bytes) * link(message).beta);
  if (start > now_ && link(message).limited) {  // others may get to the node's port before it
    schedule(start, Kind::depart, &message, message.source);
    return unknown;
  }
  return depart(message, start);
}

double Simulator::depart(SimulatedMessage& message, double start) {
  const Link link = this->link(message);
  double left = message.done;
  message.done = 0;
  if (link.limited) {
    SimulatedPort& port = nodes_[static_cast<std::size_t>(rank(message.source).node_)];
    left = std::max(left, port.pass(start, static_cast<double>(message.bytes) / network_.injection_rate));
    message.done = left + link.alpha;
  }
  schedule(start + link.alpha, Kind::arrive, &message, message.destination);
  return left;
}

void Simulator::depart_late(SimulatedMessage& message) {
  const double left = depart(message, now_);
  if (message.eager) schedule(left, Kind::half, std::exchange(message.sender, nullptr), message.source);
}

void Simulator::arrive(SimulatedMessage& message) {
  const double seconds = static_cast<double>(message.bytes) * link(message).beta;
  message.done = std::max(message.done, rank(message.destination).in_.pass(now_, seconds));
  message.arrived = true;
  if (message.receiver != nullptr) schedule(message.done, Kind::land, &message, message.destination);
}

void Simulator::land(SimulatedMessage& message) {
  Transfer* sender = message.eager ? nullptr : message.sender;
  Transfer& receiver = *message.receiver;
  const int source = message.source;
  const int destination = message.destination;
  const double receiver_sends = message.receiver_sends;
  deliver(message);
  if (receiver_sends > now_) {
    schedule(receiver_sends, Kind::half, &receiver, destination);
  } else {
    half_over(receiver, destination);
  }
  if (sender != nullptr) half_over(*sender, source);
}

void Simulator::deliver(SimulatedMessage& message) {
  std::byte* target = message.receiver->incoming.data;
  const std::byte* data = message.eager ? message.payload : message.sender->outgoing.data;
  if (!phantom_ && data != nullptr && target != nullptr) std::memcpy(target, data, message.bytes);
  messages_.release(message);
}

void Simulator::half_over(Transfer& transfer, int rank) {
  if (--transfer.pending > 0) return;
  if (adversary_) {
    schedule(now_, Kind::complete, &transfer, rank);
  } else {
    resume(transfer.waiter, rank);
  }
}

void Simulator::check_lengths(const SimulatedMessage& message, std::size_t sent, std::size_t expected) {
  if (sent == expected) return;
  fail(name(message.source) + " sends " + length(sent) + " to " + name(message.destination) + " on lane " +
       std::to_string(message.lane) + ", which expects " + length(expected));
}

Simulator::Link Simulator::link(const SimulatedMessage& message) const {
  const bool within = rank(message.source).node_ == rank(message.destination).node_;
  return within ? Link{network_.intra_alpha, network_.intra_beta, false}
                : Link{network_.inter_alpha, network_.inter_beta, !nodes_.empty()};
}

}  // namespace offbeat
