// SPDX-License-Identifier: BSD-3-Clause
// Messages carries the messages of a group on one node, through rings on the board, and finds the receive
// that each of them belongs to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "base/pool.hpp"
#include "groups/channel.hpp"
#include "groups/message_carrier.hpp"
#include "groups/node_board.hpp"

namespace offbeat {

// A short message travels with its header. The receiver keeps it if nobody has asked for it. Of a long one
// only an announcement travels at first. The data follow in pieces when the receiver has found the receive to
// which they belong. So a message that nobody asks for is in no other message's way, and the memory for such
// messages is bounded: each sender may have as many bytes waiting at each receiver as a ring has.
class Messages final : public MessageCarrier {
 public:
  explicit Messages(NodeBoard& board);

  // Returns the size of the rings for a group of this many ranks; all of them together are bounded.
  [[nodiscard]] static std::size_t ring_bytes(int ranks);

  void begin(Message& message) override;
  bool move(const Message& message) override;
  void forget(const Message& message) noexcept override;

 private:
  // A message that came before its receive.
  struct Unexpected {
    Frame frame;
    pool::List<std::byte> data;  // of a short message
  };
  using UnexpectedList = std::list<Unexpected, pool::Allocator<Unexpected>>;
  // All that this rank has under way with another rank.
  struct Peer {
    Peer(const Board& board, int rank)
        : rank(rank), out(board, board.rank, rank), in(board, rank, board.rank) {}

    const int rank;
    Channel out;
    Channel in;
    bool has_sent = false;
    std::uint64_t long_messages = 0;
    MessageQueue unsent;     // sends of which nothing has travelled
    MessageQueue announced;  // long sends
    MessageQueue arriving;   // long receives whose message is announced
    UnexpectedList unexpected;

    [[nodiscard]] UnexpectedList::iterator find_unexpected(int tag) {
      return std::ranges::find_if(unexpected, [&](const Unexpected& each) { return each.frame.tag == tag; });
    }
  };

  [[nodiscard]] Peer& peer(int rank);
  // Calls look(rank) for the other ranks until it returns true. No rank waits forever because others send
  // all the time.
  template <class Look>
  void look_at_any(Look&& look) const;
  void begin_from_any(Message& receive);
  // Gives the receive a message that came before it.
  void take(Message& receive, Peer& from, UnexpectedList::iterator found);
  // Gives the receive the message that belongs to it. Throws BoardError if the lengths differ.
  void match(Message& receive, const Peer& from, const Frame& frame);
  void expect_pieces(Message& receive, Peer& from, const Frame& frame);
  // Reads what a peer has sent. Returns true if there was anything.
  bool read(Peer& from);
  void read_frame(Peer& from, const Frame& frame);
  // Writes what this rank owes a peer. Returns true if anything was written.
  bool write(Peer& to);
  [[nodiscard]] bool send_first(Peer& to, Message& message) const;
  bool send_pieces(Peer& to, Message& message) const;

  NodeBoard& board_;
  const std::size_t longest_short_;  // the most bytes of a message that travels with its header
  std::vector<std::unique_ptr<Peer>> peers_;
  MessageQueue receives_;  // those that have found no message
  int first_of_any_ = 0;   // where a receive from any rank looks first: behind the rank of the last one
};

}  // namespace offbeat
