// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/relay.hpp"

namespace offbeat {

Task Relay::announce(std::size_t chunk) const {
  co_await board_.announce(word(net_.rank, chunk), {tag_, net_.rank});
}

Task Relay::take(std::size_t chunk) const {
  const int parent = tree_.parent();
  const Board::Word& announced = word(parent, chunk);
  Patience::Wait wait(board_.patience);
  const auto is_there = [&] { return Board::Mark(announced.load(std::memory_order_acquire)).round == tag_; };
  while (!is_there()) co_await board_.pause(wait, is_there);
  co_await board_.charge_fetch(parent, &announced, sizeof announced);
  ConstVector source = chunk_on_board(parent, chunk);
  co_await board_.charge_fetch(parent, source.data, source.bytes());
  if (tree_.has_children()) {
    const Vector mine = chunk_on_board(net_.rank, chunk);
    co_await net_.put(mine, source);
    co_await announce(chunk);
    source = mine;
  }
  Computation copy = net_.copy(chunk_of(output_, chunk), source);
  copy.past_cache = past_cache_;
  co_await copy;
}

}  // namespace offbeat
