// SPDX-License-Identifier: BSD-3-Clause
// A Channel carries frames from one rank of a board to another one: small headers with data, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "node/board.hpp"

namespace offbeat {

// What a frame says. Plain data.
struct Frame {
  enum class Kind : std::uint32_t {
    short_message,  // the data follow
    announcement,   // of a long message
    request,        // by the receiver of a long message, whose buffer is there
    piece,          // of a long message; its data follow
  };
  Kind kind{};
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;   // of the message; of the data in a piece
  std::uint64_t number = 0;  // of a long message, as its sender counts them
};

// The ring is a queue of bytes with one writer and one reader. A frame is visible as a whole or not at all.
// Both sides keep what they last saw of the other one, so a frame usually costs each of them one transfer of
// a cache line besides its data.
class Channel {
 public:
  Channel(const Board& board, int from, int to)
      : words_(board.channel_words(from, to)), ring_(board.ring(from, to), board.shape().ring_bytes) {}

  // Returns the bytes of a frame with `bytes` bytes of data.
  [[nodiscard]] static constexpr std::size_t length_with(std::size_t bytes) {
    return sizeof(Frame) + (bytes + alignment - 1) / alignment * alignment;
  }
  [[nodiscard]] std::size_t capacity() const { return ring_.size(); }

  // For the sender: writes a frame. Returns false if there is no room for it at present.
  [[nodiscard]] bool put(const Frame& frame, std::span<const std::byte> data = {});
  // Returns true if the sender may write a short message of this length. The receiver keeps such messages in
  // its own memory until it asks for them. They may have as many bytes as the ring.
  [[nodiscard]] bool may_put_short(std::size_t bytes) const {
    return short_ + length_with(bytes) - words_.received.load(std::memory_order_relaxed) <= capacity();
  }
  void count_short(std::size_t bytes) { short_ += length_with(bytes); }

  // For the receiver: sets `frame` to the next frame. Returns false if there is none.
  [[nodiscard]] bool look(Frame& frame);
  // Copies the data of the frame that look() found.
  void copy(std::byte* to, std::size_t bytes) const { read_bytes(read_ + sizeof(Frame), to, bytes); }
  // Ends the use of that frame; `bytes` is the number of its data.
  void next(std::size_t bytes);
  // Says that a receive has taken a short message of this length.
  void received_short(std::size_t bytes);

 private:
  static constexpr std::size_t alignment = 8;
  static_assert(sizeof(Frame) % alignment == 0);

  void write_bytes(std::uint64_t at, const std::byte* from, std::size_t bytes);
  void read_bytes(std::uint64_t at, std::byte* to, std::size_t bytes) const;

  Board::ChannelWords& words_;
  const std::span<std::byte> ring_;
  std::uint64_t written_ = 0;  // the sender's own count; as last seen by the receiver
  std::uint64_t read_ = 0;     // the receiver's own count; as last seen by the sender
  std::uint64_t short_ = 0;    // the bytes of short messages that the sender has written
};

}  // namespace offbeat
