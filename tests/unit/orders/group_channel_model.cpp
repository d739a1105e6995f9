// SPDX-License-Identifier: BSD-3-Clause
// Channel (groups/channel.hpp): put, look, copy, next and received_short.
#include "modelled.hpp"
//
#include "groups/channel.cpp"

namespace offbeat {
namespace {

// The ring holds two frames with data, so the sender soon waits for the receiver.
constexpr std::size_t data_bytes = 8;
constexpr BoardShape shape{
    .ranks = 2, .window_bytes = 0, .ring_bytes = 2 * Channel::length_with(data_bytes) + 16};
constexpr std::uint64_t frames = 4;

class Frames : public model::Protocol {
 public:
  Frames() : Protocol({.bytes = shape.rings_offset() + 4 * shape.ring_bytes, .atomics = 4}) {}

  void begin() override {}
  void run(int thread) override {
    Board board(memory(), shape, thread, {});
    Channel channel(board, 0, 1);
    for (std::uint64_t number = 1; number <= frames; ++number) {
      std::uint64_t data = 100 + number;
      if (thread == 0) {
        while (!channel.may_put_short(data_bytes)) model::yield();
        while (!channel.put({.bytes = data_bytes, .number = number}, std::as_bytes(std::span(&data, 1))))
          model::yield();
        channel.count_short(data_bytes);
      } else {
        Frame frame;
        while (!channel.look(frame)) model::yield();
        model::require(frame.number == number, "another frame");
        channel.copy(reinterpret_cast<std::byte*>(&data), data_bytes);
        model::require(data == 100 + number, "other data");
        channel.next(data_bytes);
        channel.received_short(data_bytes);
      }
    }
  }
};

TEST(ModelOfGroupChannel, IsRight) {
  Frames sent;
  model::expect_right(sent, 2);
}

TEST(ModelOfGroupChannel, HasNeedOfEachStep) {
  Frames sent;
  model::expect_mutations_found({&sent}, 2);
}

}  // namespace
}  // namespace offbeat
