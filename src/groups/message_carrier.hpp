// SPDX-License-Identifier: BSD-3-Clause
// A MessageCarrier carries messages between two ranks of a group. Messages carries the messages of a group on
// one node, through rings on the board. A Network carries all messages of a group that spans several nodes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace offbeat {

// Where a receive writes what it has found. All null: it does not ask.
struct ArrivalTarget {
  int* rank = nullptr;
  int* tag = nullptr;
  std::size_t* bytes = nullptr;
};

// One message that this rank sends or receives.
struct Message {
  static constexpr int any_rank = -1;
  static constexpr std::size_t more_bytes = std::numeric_limits<std::size_t>::max();  // nobody knows how many
  // What a message is for. Messages of different streams have nothing to do with each other.
  enum class Stream : std::uint8_t {
    program,     // the program sends it. A receive learns the length when it finds the message
    collective,  // an algorithm sends it. The receiver knows the sender and the length
    failure      // tells another node that the group cannot go on
  };

  Stream stream = Stream::program;
  bool is_send = false;
  bool is_synchronous = false;  // the send is over only when the receiver has begun to receive
  int peer = any_rank;  // the other rank; a receive from any rank knows it when it has found a message
  int tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  ArrivalTarget arrival;

  // The members below belong to the carrier.
  std::uint64_t number = 0;  // given by the carrier, which counts messages
  std::size_t moved_bytes = 0;
  bool is_requested = false;  // the receiver has a buffer for this long message, and has said so
  bool is_misfit = false;     // the other side has a length of `moved_bytes`
  std::int64_t begun_ns = 0;  // when this rank was seen to wait for it
  std::uintptr_t handle = 0;  // what the carrier's library calls the message
  // Set last: another thread may then destroy the message.
  std::atomic<bool> is_over{false};
  Message* next = nullptr;  // in a MessageQueue
};

// A list of messages in the order in which they were begun. It owns none of them.
class MessageQueue {
 public:
  void push(Message& message);
  // Removes the message if it is in the list.
  void remove(const Message& message) noexcept;
  [[nodiscard]] Message* first() const { return first_; }
  // Returns the first message for which fits(message) is true, or null.
  template <class Fits>
  [[nodiscard]] Message* find(Fits&& fits) const {
    Message* each = first_;
    while (each != nullptr && !fits(*each)) each = each->next;
    return each;
  }

 private:
  Message* first_ = nullptr;
  Message* last_ = nullptr;
};

// Records in `receive` that rank `receiver` gets a message of `bytes` bytes from rank `from`. Throws
// BoardError if the lengths differ.
void note_arrival(Message& receive, int receiver, int from, int tag, std::size_t bytes);

// All functions but the first need the lock of OperationsUnderWay.
class MessageCarrier {
 public:
  MessageCarrier() = default;
  MessageCarrier(const MessageCarrier&) = delete;
  MessageCarrier& operator=(const MessageCarrier&) = delete;
  virtual ~MessageCarrier() = default;

  // Throws UsageError if it cannot carry such a message.
  virtual void require_possible(int /*tag*/, std::size_t /*bytes*/) const {}
  // Begins a message. Throws BoardError if a message and its receive differ in length, as move() does.
  virtual void begin(Message& message) = 0;
  // Moves this and other messages as far as possible without waiting. Returns true if any has moved.
  virtual bool move(const Message& message) = 0;
  // Forgets a message that has failed.
  virtual void forget(const Message& message) noexcept = 0;
};

}  // namespace offbeat
