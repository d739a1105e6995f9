// SPDX-License-Identifier: BSD-3-Clause
#include "groups/messages.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/copy.hpp"
#include "base/error.hpp"

namespace offbeat {

// A quarter of the ring lets a few short messages be under way.
Messages::Messages(NodeBoard& board)
    : board_(board),
      longest_short_(board.board().shape().ring_bytes / 4 - sizeof(Frame)),
      peers_(static_cast<std::size_t>(board.board().size)) {}

std::size_t Messages::ring_bytes(int ranks) {
  constexpr std::size_t least = 4096;
  constexpr std::size_t most = 65536;
  constexpr std::size_t most_together = std::size_t{64} << 20;
  const auto pairs = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  return std::clamp(std::bit_floor(most_together / pairs), least, most);
}

Messages::Peer& Messages::peer(int rank) {
  std::unique_ptr<Peer>& found = peers_[static_cast<std::size_t>(rank)];
  if (found == nullptr) found = std::make_unique<Peer>(board_.board(), rank);
  return *found;
}

template <class Look>
void Messages::look_at_any(Look&& look) const {
  const int size = board_.board().size;
  const int first = first_of_any_;
  for (int k = 0; k < size; ++k) {
    const int rank = (first + k) % size;
    if (rank != board_.board().rank && look(rank)) return;
  }
}

// -- beginning

void Messages::begin(Message& message) {
  if (message.is_send) {
    peer(message.peer).unsent.push(message);
    return;
  }
  if (message.peer == Message::any_rank) return begin_from_any(message);
  Peer& from = peer(message.peer);
  const auto found = from.find_unexpected(message.tag);
  found != from.unexpected.end() ? take(message, from, found) : receives_.push(message);
}

// What has come, but was not read yet, counts like a message that was read: otherwise a rank whose messages
// were read would keep its turn.
void Messages::begin_from_any(Message& receive) {
  receives_.push(receive);
  bool has_read = false;
  look_at_any([&](int rank) {
    Peer& from = peer(rank);
    if (const auto found = from.find_unexpected(receive.tag); found != from.unexpected.end()) {
      receives_.remove(receive);
      take(receive, from, found);
    } else {
      has_read = read(from) || has_read;
    }
    return receive.peer != Message::any_rank;
  });
  if (has_read) board_.board().bell().ring();
}

void Messages::take(Message& receive, Peer& from, UnexpectedList::iterator found) {
  const Frame frame = found->frame;
  match(receive, from, frame);
  if (frame.kind == Frame::Kind::short_message) {
    if (frame.bytes > 0) offbeat::copy(receive.data, found->data.data(), frame.bytes);
    from.in.received_short(frame.bytes);
    receive.is_over = true;
  } else {
    expect_pieces(receive, from, frame);
  }
  from.unexpected.erase(found);
}

void Messages::match(Message& receive, const Peer& from, const Frame& frame) {
  if (receive.peer == Message::any_rank) first_of_any_ = (from.rank + 1) % board_.board().size;
  note_arrival(receive, board_.board().rank, from.rank, frame.tag, frame.bytes);
}

void Messages::expect_pieces(Message& receive, Peer& from, const Frame& frame) {
  receive.number = frame.number;
  from.arriving.push(receive);
}

void Messages::forget(const Message& message) noexcept {
  receives_.remove(message);
  if (message.peer == Message::any_rank) return;
  const std::unique_ptr<Peer>& with = peers_[static_cast<std::size_t>(message.peer)];
  if (with == nullptr) return;
  for (MessageQueue* queue : {&with->unsent, &with->announced, &with->arriving}) queue->remove(message);
}

// -- moving

bool Messages::move(const Message& message) {
  bool has_moved = false;
  if (message.peer == Message::any_rank) {
    look_at_any([&](int rank) {
      has_moved = read(peer(rank)) || has_moved;
      return message.peer != Message::any_rank;
    });
    if (message.peer == Message::any_rank) return has_moved;
  }
  Peer& with = peer(message.peer);
  has_moved = read(with) || has_moved;
  has_moved = write(with) || has_moved;
  if (has_moved) board_.board().bell().ring();
  return has_moved;
}

// Reads at most a ring's bytes, because the sender may write as fast as this rank reads.
bool Messages::read(Peer& from) {
  Frame frame;
  std::size_t bytes = 0;
  while (bytes < from.in.capacity() && from.in.look(frame)) {
    read_frame(from, frame);
    const bool has_data = frame.kind == Frame::Kind::short_message || frame.kind == Frame::Kind::piece;
    const std::size_t data_bytes = has_data ? frame.bytes : 0;
    from.in.next(data_bytes);
    bytes += Channel::length_with(data_bytes);
  }
  return bytes > 0;
}

void Messages::read_frame(Peer& from, const Frame& frame) {
  const auto has_number = [&](const Message& each) { return each.number == frame.number; };
  switch (frame.kind) {
    case Frame::Kind::short_message:
    case Frame::Kind::announcement: {
      const bool is_short = frame.kind == Frame::Kind::short_message;
      Message* const receive = receives_.find([&](const Message& each) {
        return (each.peer == from.rank || each.peer == Message::any_rank) && each.tag == frame.tag;
      });
      if (receive == nullptr) {
        from.unexpected.push_back({frame, pool::List<std::byte>(is_short ? frame.bytes : 0)});
        if (is_short) from.in.copy(from.unexpected.back().data.data(), frame.bytes);
        return;
      }
      match(*receive, from, frame);
      receives_.remove(*receive);
      if (!is_short) return expect_pieces(*receive, from, frame);
      from.in.copy(receive->data, frame.bytes);
      from.in.received_short(frame.bytes);
      receive->is_over = true;
      return;
    }
    case Frame::Kind::request:
      if (Message* const send = from.announced.find(has_number); send != nullptr) send->is_requested = true;
      return;
    case Frame::Kind::piece: {
      Message* const receive = from.arriving.find(has_number);
      if (receive == nullptr) return;  // it has failed
      from.in.copy(receive->data + receive->moved_bytes, frame.bytes);
      receive->moved_bytes += frame.bytes;
      if (receive->moved_bytes < receive->bytes) return;
      from.arriving.remove(*receive);
      receive->is_over = true;
    }
  }
}

// Headers go before pieces, so that a long message delays no other one.
bool Messages::write(Peer& to) {
  bool has_moved = false;
  for (Message* each = to.arriving.first(); each != nullptr;) {
    Message& receive = *std::exchange(each, each->next);
    if (receive.is_requested) continue;
    receive.is_requested = to.out.put({.kind = Frame::Kind::request, .number = receive.number});
    if (!receive.is_requested) break;
    has_moved = true;
    if (receive.bytes > 0) continue;
    to.arriving.remove(receive);
    receive.is_over = true;
  }
  while (to.unsent.first() != nullptr) {
    Message& send = *to.unsent.first();
    if (!send_first(to, send)) break;
    if (!std::exchange(to.has_sent, true)) board_.keep_for_good(to.out.capacity());
    has_moved = true;
  }
  for (Message* each = to.announced.first(); each != nullptr;) {
    Message& send = *std::exchange(each, each->next);
    if (send.is_requested) has_moved = send_pieces(to, send) || has_moved;
  }
  return has_moved;
}

bool Messages::send_first(Peer& to, Message& message) const {
  if (message.bytes <= longest_short_ && to.out.may_put_short(message.bytes)) {
    const Frame frame{.kind = Frame::Kind::short_message, .tag = message.tag, .bytes = message.bytes};
    if (!to.out.put(frame, {message.data, message.bytes})) return false;
    to.out.count_short(message.bytes);
    to.unsent.remove(message);
    message.is_over = true;
    return true;
  }
  const Frame frame{.kind = Frame::Kind::announcement,
                    .tag = message.tag,
                    .bytes = message.bytes,
                    .number = to.long_messages + 1};
  if (!to.out.put(frame)) return false;
  message.number = ++to.long_messages;
  to.unsent.remove(message);
  to.announced.push(message);
  return true;
}

// Writes at most a ring's bytes. An eighth of the ring in a piece lets both ranks copy at the same time.
bool Messages::send_pieces(Peer& to, Message& message) const {
  const std::size_t piece_bytes = to.out.capacity() / 8 - sizeof(Frame);
  const std::size_t before = message.moved_bytes;
  while (message.moved_bytes < message.bytes && message.moved_bytes - before < to.out.capacity()) {
    const std::size_t bytes = std::min(piece_bytes, message.bytes - message.moved_bytes);
    const Frame frame{.kind = Frame::Kind::piece, .bytes = bytes, .number = message.number};
    if (!to.out.put(frame, {message.data + message.moved_bytes, bytes})) break;
    message.moved_bytes += bytes;
  }
  if (message.moved_bytes == message.bytes) {
    to.announced.remove(message);
    message.is_over = true;
    return true;
  }
  return message.moved_bytes > before;
}

}  // namespace offbeat
