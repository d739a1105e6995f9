// SPDX-License-Identifier: BSD-3-Clause
#include "groups/network_transport.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.hpp"

namespace offbeat {
namespace {

// If a vector is cut into messages, this part of it is under way at once.
constexpr std::size_t bytes_at_once = std::size_t{4} << 20;

}  // namespace

NetworkTransport::NetworkTransport(Network& network, const Locality& where, int first_tag)
    : BoardTransport(Patience{}), network_(network), first_tag_(first_tag) {
  locality = &where;
  patience_.sleep = network.sleep();
}

int NetworkTransport::tag(const Transfer& transfer) const { return first_tag_ + lane_of(transfer); }

// The exception is not thrown into the coroutine: half of the transfer may be under way, and its memory must
// stay.
bool NetworkTransport::start(Transfer& transfer) {
  transfer.pending_halves =
      static_cast<int>(transfer.from != Transfer::nobody) + static_cast<int>(transfer.to != Transfer::nobody);
  try {
    if (transfer.from != Transfer::nobody) post(transfer, false);
    if (transfer.to != Transfer::nobody) post(transfer, true);
  } catch (...) {
    if (!first_coroutine_failure) first_coroutine_failure = std::current_exception();
    return false;
  }
  return transfer.pending_halves == 0;
}

std::unique_ptr<NetworkTransport::Leg> NetworkTransport::new_leg() {
  if (unused_.empty()) return std::make_unique<Leg>();
  std::unique_ptr<Leg> leg = std::move(unused_.back());
  unused_.pop_back();
  return leg;
}

// The last message of a part is synchronous, so that copies which the network makes of short messages take no
// more memory than one part.
void NetworkTransport::post(Transfer& transfer, bool is_send) {
  Transfer::Direction& direction = is_send ? transfer.sending : transfer.receiving;
  const int peer = is_send ? transfer.to : transfer.from;
  const std::size_t bytes = is_send ? transfer.outgoing.bytes() : transfer.incoming.bytes();
  std::byte* const data = is_send ? const_cast<std::byte*>(transfer.outgoing.data) : transfer.incoming.data;
  const std::size_t longest = network_.longest_message(peer);
  const std::size_t end_of_part =
      longest >= bytes - direction.begun_bytes
          ? bytes
          : std::min(bytes, direction.begun_bytes + std::max(longest, bytes_at_once));
  do {
    std::unique_ptr<Leg> leg = new_leg();
    leg->transfer = &transfer;
    Message& message = leg->message;
    message.stream = Message::Stream::collective;
    message.is_send = is_send;
    message.peer = peer;
    message.tag = tag(transfer);
    message.data = data + direction.begun_bytes;
    message.bytes = std::min(longest, end_of_part - direction.begun_bytes);
    message.moved_bytes = 0;
    message.is_requested = false;
    message.is_over.store(false, std::memory_order_relaxed);
    direction.begun_bytes += message.bytes;
    message.is_synchronous = direction.begun_bytes == end_of_part && end_of_part < bytes;
    ++direction.messages_under_way;
    // The places come first: that may fail, and then no message may be under way.
    legs_.push_back(std::move(leg));
    under_way_.push_back(&message);
    network_.begin(message);
  } while (direction.begun_bytes < end_of_part);
}

bool NetworkTransport::end(Leg& leg) {
  Transfer& transfer = *leg.transfer;
  const bool is_send = leg.message.is_send;
  Transfer::Direction& direction = is_send ? transfer.sending : transfer.receiving;
  if (--direction.messages_under_way > 0) return false;
  if (direction.begun_bytes < (is_send ? transfer.outgoing.bytes() : transfer.incoming.bytes())) {
    post(transfer, is_send);
    return false;
  }
  return --transfer.pending_halves == 0;
}

bool NetworkTransport::test_messages() {
  if (under_way_.empty()) {
    if (awaits_others()) return false;
    throw CommunicationError("a collective has not ended, but waits for nothing");
  }
  const bool has_moved = network_.move_all(under_way_);
  over_.clear();
  std::size_t kept = 0;
  over_.reserve(legs_.size());
  for (std::size_t k = 0; k < legs_.size(); ++k) {
    if (legs_[k]->message.is_over.load(std::memory_order_acquire)) {
      over_.push_back(std::move(legs_[k]));
    } else {
      under_way_[kept] = under_way_[k];
      std::swap(legs_[kept++], legs_[k]);
    }
  }
  legs_.resize(kept);
  under_way_.resize(kept);
  if (over_.empty()) return has_moved;
  // Free the places before resuming, because resumed tasks begin new messages.
  resumable_.clear();
  for (std::unique_ptr<Leg>& leg : over_) {
    Transfer& transfer = *leg->transfer;
    if (end(*leg)) resumable_.push_back(transfer.waiter);
    unused_.push_back(std::move(leg));
  }
  for (const std::coroutine_handle<> waiter : resumable_) waiter.resume();
  return true;
}

// Memory to which a network may still write is never freed.
bool NetworkTransport::abandon_messages() noexcept {
  bool is_any_under_way = false;
  for (const Message* each : under_way_) {
    if (each->is_over.load(std::memory_order_acquire)) continue;
    network_.forget(*each);
    is_any_under_way = true;
  }
  under_way_.clear();
  legs_.clear();
  return is_any_under_way && network_.may_touch_forgotten();
}

}  // namespace offbeat
