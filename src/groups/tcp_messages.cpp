// SPDX-License-Identifier: BSD-3-Clause
// The messages of a TcpNetwork: which receive gets which of them, and what travels when.
#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "base/copy.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "groups/tcp_network.hpp"

namespace offbeat {
namespace {

// A message up to this length travels at once. A longer one takes longer than the question whether the
// receiver is ready.
constexpr std::size_t longest_short = std::size_t{64} << 10;
// What the receiver keeps of each sender if nobody asks for it.
constexpr std::size_t most_short_bytes = std::size_t{1} << 20;
// So other messages need not wait for the end of a long one.
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

// What a short message counts, because keeping it takes more memory than its data.
constexpr std::size_t cost_of(std::size_t bytes) { return bytes + 128; }

bool is_long_of_collective(const Message& message) {
  return message.stream == Message::Stream::collective && message.bytes > longest_short;
}

}  // namespace

// -- beginning

void TcpNetwork::begin(Message& message) {
  const std::lock_guard guard(lock_);
  message.is_misfit = false;
  message.begun_ns = 0;
  message.is_send ? send(message) : receive(message);
}

void TcpNetwork::send(Message& message) {
  Peer& to = peer(message.peer);
  if (!is_long_of_collective(message)) {
    to.unsent.push(message);
  } else {
    const auto found = std::ranges::find(to.readies, message.tag, &TcpFrame::tag);
    if (found == to.readies.end()) {
      to.long_sends.push(message);
    } else {
      const TcpFrame ready = *found;
      to.readies.erase(found);
      obey_ready(to, message, ready);
    }
  }
  ensure_connection(to);
  pump(to);
}

void TcpNetwork::receive(Message& message) {
  if (message.peer == Message::any_rank) return begin_from_any(message);
  Peer& from = peer(message.peer);
  if (is_long_of_collective(message)) {
    message.number = ++numbers_;
    message.moved_bytes = 0;
    from.arriving.push(message);
    from.control.push_back({.kind = TcpFrame::Kind::ready,
                            .stream = message.stream,
                            .tag = message.tag,
                            .bytes = message.bytes,
                            .number = message.number});
    ensure_connection(from);
    return pump(from);
  }
  const auto found = find_unexpected(from, message);
  found != from.unexpected.end() ? take(message, from, found) : receives_.push(message);
}

// The rank after that of the last such message comes first, so that no rank waits forever because others send
// all the time.
void TcpNetwork::begin_from_any(Message& receive) {
  const auto size = static_cast<int>(peers_.size());
  for (int k = 0; k < size; ++k) {
    const std::unique_ptr<Peer>& from = peers_[static_cast<std::size_t>((first_of_any_ + k) % size)];
    if (from == nullptr) continue;
    const auto found = find_unexpected(*from, receive);
    if (found != from->unexpected.end()) return take(receive, *from, found);
  }
  receives_.push(receive);
}

std::list<TcpNetwork::Unexpected>::iterator TcpNetwork::find_unexpected(Peer& from, const Message& receive) {
  return std::ranges::find_if(from.unexpected, [&](const Unexpected& each) {
    return !each.is_given_away && each.frame.stream == receive.stream && each.frame.tag == receive.tag;
  });
}

void TcpNetwork::take(Message& receive, Peer& from, std::list<Unexpected>::iterator found) {
  if (found->frame.kind == TcpFrame::Kind::announcement) {
    const TcpFrame frame = found->frame;
    from.unexpected.erase(found);
    if (match(receive, from, frame)) request(receive, from, frame);
    return;
  }
  found->is_given_away = true;
  if (match(receive, from, found->frame)) found->taker = &receive;
  if (found->is_complete) deliver(from, found);
}

// The message is complete, and given away.
void TcpNetwork::deliver(Peer& from, std::list<Unexpected>::iterator found) {
  Message* const taker = found->taker;
  if (taker != nullptr && found->frame.bytes > 0)
    offbeat::copy(taker->data, found->data.data(), found->frame.bytes);
  credit(from, found->frame);
  from.unexpected.erase(found);
  if (taker != nullptr) taker->is_over.store(true, std::memory_order_release);
}

bool TcpNetwork::match(Message& receive, const Peer& from, const TcpFrame& frame) {
  if (receive.peer == Message::any_rank) first_of_any_ = (from.rank + 1) % static_cast<int>(peers_.size());
  if (frame.bytes != receive.bytes) {
    // The thread that waits for the message throws.
    receive.peer = from.rank;
    receive.moved_bytes = frame.bytes;
    receive.is_misfit = true;
    return false;
  }
  note_arrival(receive, rank_, from.rank, frame.tag, frame.bytes);
  return true;
}

void TcpNetwork::request(Message& receive, Peer& from, const TcpFrame& announcement) {
  receive.number = ++numbers_;
  receive.moved_bytes = 0;
  from.arriving.push(receive);
  from.control.push_back(
      {.kind = TcpFrame::Kind::request, .bytes = receive.number, .number = announcement.number});
  pump(from);
}

void TcpNetwork::credit(Peer& to, const TcpFrame& taken) {
  if (taken.stream == Message::Stream::failure) return;
  to.untold_bytes += cost_of(taken.bytes);
  if (to.untold_bytes < most_short_bytes / 4 || to.loss != Loss::none) return;
  to.control.push_back({.kind = TcpFrame::Kind::credit, .bytes = std::exchange(to.untold_bytes, 0)});
  pump(to);
}

void TcpNetwork::forget(const Message& message) noexcept {
  const std::lock_guard guard(lock_);
  receives_.remove(message);
  for (const std::unique_ptr<Peer>& each : peers_) {
    if (each == nullptr) continue;
    for (MessageQueue* queue :
         {&each->unsent, &each->long_sends, &each->announced, &each->streaming, &each->arriving})
      queue->remove(message);
    for (Unexpected& kept : each->unexpected)
      if (kept.taker == &message) kept.taker = nullptr;
  }
  for (const std::unique_ptr<Connection>& each : connections_) {
    if (each->sending == &message) {
      run_ignoring_exceptions([&] { each->stream.keep_data(); });
      each->sending = nullptr;
    }
    if (each->receiving == &message) {
      each->stream.skip_data();
      each->receiving = nullptr;
    }
  }
}

std::vector<int> TcpNetwork::awaited_ranks() {
  const std::lock_guard guard(lock_);
  std::vector<int> found;
  for (const std::unique_ptr<Peer>& each : peers_) {
    if (each == nullptr) continue;
    const auto is_awaited = [&](const Message& receive) {
      return receive.peer == each->rank && receive.stream == Message::Stream::collective;
    };
    if (receives_.find(is_awaited) != nullptr || each->arriving.find(is_awaited) != nullptr)
      found.push_back(each->rank);
  }
  return found;
}

// -- moving

bool TcpNetwork::move(const Message& message) {
  if (message.is_over.load(std::memory_order_acquire)) return true;
  if (!lock_.try_lock()) return false;
  const std::lock_guard guard(lock_, std::adopt_lock);
  const bool has_moved = poll();
  if (!message.is_over.load(std::memory_order_acquire)) require_hope(message);
  return has_moved;
}

bool TcpNetwork::move_all(std::span<Message* const> messages) {
  if (!lock_.try_lock()) return false;
  const std::lock_guard guard(lock_, std::adopt_lock);
  const bool has_moved = poll();
  if (has_moved) return true;
  for (const Message* each : messages)
    if (!each->is_over.load(std::memory_order_acquire)) require_hope(*each);
  return false;
}

// A rank that waits for another one in vain connects to it, and so hears of its end.
void TcpNetwork::require_hope(const Message& begun) {
  constexpr std::int64_t patience_ns = 100 * ns_per_ms;
  auto& message = const_cast<Message&>(begun);
  if (message.is_misfit && message.is_send)
    throw BoardError(Trouble::mismatch, number_of(message.peer),
                     name_of(rank_) + " sends " + std::to_string(message.bytes) + " bytes to " +
                         name_of(message.peer) + ", which receives " + std::to_string(message.moved_bytes) +
                         " bytes");
  if (message.is_misfit) note_arrival(message, rank_, message.peer, message.tag, message.moved_bytes);
  if (message.peer == Message::any_rank || has_heard_of_failure_) return;
  Peer& other = peer(message.peer);
  if (other.out != nullptr) look_for_silence(other);
  if (other.loss != Loss::none) throw loss_of(other);
  if (other.has_connection() || other.retry_ns != 0) return;
  const std::int64_t now_ns = monotonic_ns();
  if (message.begun_ns == 0) message.begun_ns = now_ns;
  if (now_ns - message.begun_ns > patience_ns) ensure_connection(other);
}

void TcpNetwork::stream(Peer& to, Message& message, std::uint64_t number) {
  message.number = number;
  message.moved_bytes = 0;
  to.streaming.push(message);
}

void TcpNetwork::obey_ready(Peer& to, Message& send, const TcpFrame& ready) {
  if (ready.bytes == send.bytes) return stream(to, send, ready.number);
  send.moved_bytes = ready.bytes;
  send.is_misfit = true;
}

void TcpNetwork::pump(Peer& to) {
  Connection* const on = to.out;
  if (on == nullptr || on->state != Connection::State::open || on->is_broken) return;
  while (on->stream.is_writing() || write_next(to, *on)) {
    if (on->stream.flush() == TcpStream::Outcome::closed) {
      on->is_broken = true;  // but there may be something to read
      return watch(*on, false);
    }
    if (on->stream.is_writing()) return watch(*on, true);
    Message* const message = std::exchange(on->sending, nullptr);
    if (message != nullptr && on->ends_message) message->is_over.store(true, std::memory_order_release);
  }
  watch(*on, false);
}

// Headers go before pieces, so that a long message delays no other one.
bool TcpNetwork::write_next(Peer& to, Connection& on) {
  if (!to.control.empty()) {
    on.stream.write(to.control.front());
    to.control.pop_front();
    return true;
  }
  if (Message* const send = to.unsent.first(); send != nullptr) {
    TcpFrame frame{.kind = TcpFrame::Kind::short_message,
                   .stream = send->stream,
                   .tag = send->tag,
                   .bytes = send->bytes};
    to.unsent.remove(*send);
    const bool is_failure = send->stream == Message::Stream::failure;
    if (is_failure ||
        (send->bytes <= longest_short && to.short_bytes + cost_of(send->bytes) <= most_short_bytes)) {
      if (!is_failure) to.short_bytes += cost_of(send->bytes);
      on.stream.write(frame, send->data);
      on.sending = send;
      on.ends_message = true;
      return true;
    }
    frame.kind = TcpFrame::Kind::announcement;
    frame.number = send->number = ++to.announcements;
    to.announced.push(*send);
    on.stream.write(frame);
    return true;
  }
  Message* const send = to.streaming.first();
  if (send == nullptr) return false;
  to.streaming.remove(*send);
  const std::size_t bytes = std::min(piece_bytes, send->bytes - send->moved_bytes);
  on.stream.write({.kind = TcpFrame::Kind::piece, .bytes = bytes, .number = send->number},
                  send->data + send->moved_bytes);
  send->moved_bytes += bytes;
  on.sending = send;
  on.ends_message = send->moved_bytes == send->bytes;
  if (!on.ends_message) to.streaming.push(*send);
  return true;
}

std::byte* TcpNetwork::begin_frame(Connection& on, const TcpFrame& frame) {
  on.receiving = nullptr;
  on.keeping = nullptr;
  if (frame.kind == TcpFrame::Kind::short_message) return begin_message(on, frame);
  if (frame.kind != TcpFrame::Kind::piece) return nullptr;
  on.receiving = on.peer->arriving.find([&](const Message& each) { return each.number == frame.number; });
  if (on.receiving == nullptr || frame.bytes > on.receiving->bytes - on.receiving->moved_bytes) {
    on.receiving = nullptr;  // it has failed
    return nullptr;
  }
  return on.receiving->data + on.receiving->moved_bytes;
}

Message* TcpNetwork::find_receive(const Peer& from, const TcpFrame& frame) const {
  return receives_.find([&](const Message& each) {
    return (each.peer == from.rank || each.peer == Message::any_rank) && each.stream == frame.stream &&
           each.tag == frame.tag;
  });
}

std::byte* TcpNetwork::begin_message(Connection& on, const TcpFrame& frame) {
  Peer& from = *on.peer;
  if (Message* const receive = find_receive(from, frame); receive != nullptr) {
    receives_.remove(*receive);
    if (!match(*receive, from, frame)) return nullptr;
    on.receiving = receive;
    return receive->data;
  }
  from.unexpected.push_back({.frame = frame, .data = std::vector<std::byte>(frame.bytes)});
  on.keeping = &from.unexpected.back();
  return on.keeping->data.data();
}

void TcpNetwork::end_frame(Connection& on, const TcpFrame& frame) {
  Peer& from = *on.peer;
  Message* const receive = std::exchange(on.receiving, nullptr);
  Unexpected* const kept = std::exchange(on.keeping, nullptr);
  switch (frame.kind) {
    case TcpFrame::Kind::short_message:
      if (frame.stream == Message::Stream::failure && !is_shared()) has_heard_of_failure_ = true;
      if (kept == nullptr) {
        credit(from, frame);
        if (receive != nullptr) receive->is_over.store(true, std::memory_order_release);
        return;
      }
      kept->is_complete = true;
      if (kept->is_given_away)
        deliver(from, std::ranges::find(from.unexpected, kept, [](Unexpected& each) { return &each; }));
      return;
    case TcpFrame::Kind::piece:
      if (receive == nullptr) return;
      receive->moved_bytes += frame.bytes;
      if (receive->moved_bytes < receive->bytes) return;
      from.arriving.remove(*receive);
      receive->is_over.store(true, std::memory_order_release);
      return;
    default:
      obey(on, frame);
  }
}

void TcpNetwork::obey(Connection& on, const TcpFrame& frame) {
  Peer& from = *on.peer;
  switch (frame.kind) {
    case TcpFrame::Kind::announcement: {
      Message* const receive = find_receive(from, frame);
      if (receive == nullptr) {
        from.unexpected.push_back({.frame = frame, .data = {}});
        return;
      }
      receives_.remove(*receive);
      if (match(*receive, from, frame)) request(*receive, from, frame);
      return;
    }
    case TcpFrame::Kind::request: {
      Message* const send =
          from.announced.find([&](const Message& each) { return each.number == frame.number; });
      if (send == nullptr) return;
      from.announced.remove(*send);
      stream(from, *send, frame.bytes);
      return pump(from);
    }
    case TcpFrame::Kind::ready: {
      Message* const send = from.long_sends.find([&](const Message& each) { return each.tag == frame.tag; });
      if (send == nullptr) {
        from.readies.push_back(frame);
        return;
      }
      from.long_sends.remove(*send);
      obey_ready(from, *send, frame);
      return pump(from);
    }
    case TcpFrame::Kind::credit:
      from.short_bytes -= std::min<std::uint64_t>(from.short_bytes, frame.bytes);
      return;
    case TcpFrame::Kind::goodbye:
      on.has_goodbye = true;
      return;
    default:
      return;
  }
}

}  // namespace offbeat
