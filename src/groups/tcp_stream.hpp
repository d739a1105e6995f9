// SPDX-License-Identifier: BSD-3-Clause
// A TcpStream reads and writes frames on a connection, without waiting. Data go straight from the sender's
// buffer to the socket, and from the socket to the receiver's buffer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "groups/message_carrier.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {

// What a frame says. Plain data.
struct TcpFrame {
  enum class Kind : std::uint8_t {
    welcome,        // the first frame of the rank that has accepted a connection
    short_message,  // its data follow
    announcement,   // of a long message; `number` is the sender's
    request,        // by the receiver of an announced message, whose buffer is there; `bytes` is its number
    ready,          // by the receiver of a long message of a collective; `number` is the receiver's
    piece,          // of a long message; its data follow; `number` is the receiver's
    credit,         // the receiver has taken short messages of `bytes` bytes
    goodbye,        // the last frame of a rank that leaves the group
    nudge           // says nothing; the system of the receiver acknowledges it
  };
  Kind kind{};
  Message::Stream stream{};
  std::uint16_t unused = 0;
  std::int32_t tag = 0;
  std::uint64_t bytes = 0;   // of the message; of the data in a piece
  std::uint64_t number = 0;  // of a long message

  [[nodiscard]] std::size_t data_bytes() const {
    return kind == Kind::short_message || kind == Kind::piece ? bytes : 0;
  }
};

class TcpStream {
 public:
  enum class Outcome : std::uint8_t { nothing, moved, closed };

  explicit TcpStream(Descriptor socket) : socket_(std::move(socket)) {}
  [[nodiscard]] const Descriptor& socket() const { return socket_; }
  [[nodiscard]] Descriptor take_socket() { return std::move(socket_); }
  // The error that has closed the stream; 0: the other side has closed it.
  [[nodiscard]] int error() const { return error_; }

  // Begins to write a frame with its data, which must stay until it is written. There must be no other one.
  void write(const TcpFrame& frame, const std::byte* data = nullptr);
  [[nodiscard]] bool is_writing() const { return !rest_.empty() || data_left_ > 0; }
  // Writes as much as the socket takes.
  [[nodiscard]] Outcome flush();
  // Keeps a copy of the data that are not written yet, because their memory may go.
  void keep_data();

  // Reads what has come, up to some limit. For each frame calls begin(frame), which returns where its data
  // belong, null if nobody wants them, and end(frame) when they are there.
  template <class Begin, class End>
  [[nodiscard]] Outcome read(Begin&& begin, End&& end) {
    constexpr std::size_t most_at_once = std::size_t{1} << 20;
    bool has_moved = false;
    for (std::size_t bytes = 0; bytes < most_at_once;) {
      const std::ptrdiff_t got = fill();
      if (got < 0) return Outcome::closed;
      if (got == 0) break;
      has_moved = true;
      bytes += static_cast<std::size_t>(got);
      parse(begin, end);
      if (!may_be_more_) break;
    }
    return has_moved ? Outcome::moved : Outcome::nothing;
  }
  // Handles the frames that were read already.
  template <class Begin, class End>
  void parse(Begin&& begin, End&& end) {
    for (;;) {
      if (is_in_frame_) {
        const std::size_t part = std::min(awaited_, buffered().size());
        if (part > 0 && target_ != nullptr) std::memcpy(target_, buffered().data(), part);
        consume(part);
        count_data(part);
        if (awaited_ > 0) return;
        is_in_frame_ = false;
        end(std::as_const(frame_));
      }
      if (buffered().size() < sizeof frame_) return;
      std::memcpy(&frame_, buffered().data(), sizeof frame_);
      consume(sizeof frame_);
      awaited_ = frame_.data_bytes();
      is_in_frame_ = true;
      target_ = nullptr;  // begin() may throw
      target_ = begin(std::as_const(frame_));
    }
  }
  // Throws away the data of the present frame that have not come yet.
  void skip_data() { target_ = nullptr; }

  // For what comes before the first frame: reads what has come, without looking at it. Returns the number of
  // bytes, 0 if there are none, and less if the stream is closed.
  [[nodiscard]] std::ptrdiff_t fill();
  [[nodiscard]] std::span<const std::byte> buffered() const {
    return {buffer_.get() + first_, last_ - first_};
  }
  void consume(std::size_t bytes) { first_ += bytes; }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{64} << 10;

  void count_data(std::size_t bytes) {
    if (target_ != nullptr) target_ += bytes;
    awaited_ -= bytes;
  }

  Descriptor socket_;
  int error_ = 0;
  // What is to be written: the rest of the frame, and then of its data.
  std::array<std::byte, sizeof(TcpFrame)> out_{};
  std::span<const std::byte> rest_;
  const std::byte* data_ = nullptr;
  std::size_t data_left_ = 0;
  std::vector<std::byte> kept_;
  // What was read, and not consumed yet.
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t first_ = 0;
  std::size_t last_ = 0;
  bool may_be_more_ = false;  // the last read has filled all room
  bool is_in_frame_ = false;
  TcpFrame frame_{};
  std::byte* target_ = nullptr;
  std::size_t awaited_ = 0;  // data of the frame that have not come yet
};

}  // namespace offbeat
