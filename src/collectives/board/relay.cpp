// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/board/relay.hpp"

namespace offbeat {

Task Relay::announce(std::size_t chunk) const {
  co_await board_.announce(word(net_.rank, chunk), {round_, net_.rank});
}

Task Relay::take(std::size_t chunk, int holder) const {
  const ConstVector theirs = chunk_on_board(holder, chunk);
  co_await board_.charge_fetch(holder, theirs.data, theirs.bytes());
  ConstVector source = theirs;
  if (tree_.has_children()) {
    const Vector mine = chunk_on_board(net_.rank, chunk);
    co_await net_.put(mine, theirs);
    co_await announce(chunk);
    source = mine;
  }
  Computation copy = net_.copy(chunk_of(output_, chunk), source);
  copy.past_cache = past_cache_;
  co_await copy;
}

Task Relay::take(std::size_t chunk) const {
  const Board::Word& announced = word(tree_.parent(), chunk);
  Patience::Wait wait(board_.patience);
  const auto is_there = [&] {
    return Board::Mark(announced.load(std::memory_order_acquire)).round == round_;
  };
  while (!is_there()) co_await board_.pause(wait, is_there);
  co_await board_.charge_fetch(tree_.parent(), &announced, sizeof announced);
  co_await take(chunk, tree_.parent());
}

}  // namespace offbeat
