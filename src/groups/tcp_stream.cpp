// SPDX-License-Identifier: BSD-3-Clause
#include "groups/tcp_stream.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>

namespace offbeat {

void TcpStream::write(const TcpFrame& frame, const std::byte* data) {
  std::memcpy(out_.data(), &frame, sizeof frame);
  rest_ = out_;
  data_ = data;
  data_left_ = frame.data_bytes();
}

TcpStream::Outcome TcpStream::flush() {
  bool has_moved = false;
  while (is_writing()) {
    iovec parts[2] = {{const_cast<std::byte*>(rest_.data()), rest_.size()},
                      {const_cast<std::byte*>(data_), data_left_}};
    msghdr message{};
    message.msg_iov = rest_.empty() ? parts + 1 : parts;
    message.msg_iovlen = rest_.empty() || data_left_ == 0 ? 1 : 2;
    const ssize_t written = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      error_ = errno;
      return Outcome::closed;
    }
    has_moved = true;
    const std::size_t of_frame = std::min(rest_.size(), static_cast<std::size_t>(written));
    rest_ = rest_.subspan(of_frame);
    data_ += static_cast<std::size_t>(written) - of_frame;
    data_left_ -= static_cast<std::size_t>(written) - of_frame;
  }
  return has_moved ? Outcome::moved : Outcome::nothing;
}

void TcpStream::keep_data() {
  if (data_left_ == 0) return;
  kept_.assign(data_, data_ + data_left_);
  data_ = kept_.data();
}

// Data that somebody waits for go where they belong. What comes behind them goes into the buffer.
std::ptrdiff_t TcpStream::fill() {
  if (buffer_ == nullptr) buffer_ = std::make_unique_for_overwrite<std::byte[]>(buffer_bytes);
  if (first_ == last_) first_ = last_ = 0;
  if (first_ > buffer_bytes / 2) {
    std::memmove(buffer_.get(), buffer_.get() + first_, last_ - first_);
    last_ -= std::exchange(first_, 0);
  }
  const bool goes_straight = is_in_frame_ && target_ != nullptr && awaited_ > 0 && first_ == last_;
  iovec parts[2] = {{target_, goes_straight ? awaited_ : 0}, {buffer_.get() + last_, buffer_bytes - last_}};
  msghdr message{};
  message.msg_iov = goes_straight ? parts : parts + 1;
  message.msg_iovlen = goes_straight ? 2 : 1;
  ssize_t got = 0;
  do {
    got = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    may_be_more_ = false;
    return 0;
  }
  if (got <= 0) {
    if (got < 0) error_ = errno;
    return -1;
  }
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t straight = goes_straight ? std::min(awaited_, bytes) : 0;
  if (straight > 0) count_data(straight);
  last_ += bytes - straight;
  may_be_more_ = bytes == parts[0].iov_len + parts[1].iov_len;
  return got;
}

}  // namespace offbeat
