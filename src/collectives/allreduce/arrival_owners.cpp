// SPDX-License-Identifier: BSD-3-Clause
// Idea: a direct reduce-scatter and allgather in pieces. Only ranks that are predicted to be on time own a
// block. When a late rank comes, the data of all others is already combined. The late rank owns nothing: it
// sends its vector while it receives the result, piece by piece.
//
//   4 ranks, 2 is late:   0, 1 and 3 own a third of the vector each
//                         every rank sends each owner its third; owners combine and send the result to all
//
// Cost: 2n(p-1)/p b, as ring, if all come at once or a rank is late for the first time. If a rank was late
// before, n b + 2a after it has come; with m owners n(p-1)/m b. In addition the last piece goes to all
// others: p s b, if s is its length.
// Pieces: 16 KiB; if a rank is predicted to be late, n/8p, but not less than 4 KiB.
// Prediction: up to 16 owners note which ranks were late, and send their notes before their last piece, so
// all ranks have all notes. A rank that most of these owners noted owns nothing in the next call
// (transport/lateness.hpp). A rank is late compared with the median, so no rank is late if half of them are.
// A vector with fewer elements than owners teaches nothing.
// Memory: p n/m, at most 2n bytes: an owner keeps what the others send apart until it combines it.
// Order: a binary tree over the ranks, whichever rank owns an element, so the bits are equal in every run.
// After the last piece has come, log2(p) combinations of one piece remain.
// Source: ours. The bound is that of StragglAR (arXiv 2505.23523), which has to be told the late rank.
#include <algorithm>
#include <bit>
#include <coroutine>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/own_floating_point.hpp"
#include "base/pool.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "transport/lateness.hpp"

namespace offbeat::allreduce_algorithms {
namespace {

constexpr std::size_t longest_piece = std::size_t{16} << 10;
constexpr std::size_t shortest_piece = std::size_t{4} << 10;
constexpr std::size_t most_watchers = 16;  // every rank copies the last piece of each watcher

// Counts the steps of one coroutine. Other coroutines of the same rank wait for a count.
class StepCount {
 public:
  struct CountReached {
    StepCount& of;
    std::size_t count;
    std::coroutine_handle<> waiter{};
    [[nodiscard]] bool await_ready() const { return of.count_ >= count; }
    void await_suspend(std::coroutine_handle<> awaiting) {
      waiter = awaiting;
      of.waiters_.push_back(this);
    }
    void await_resume() const {}
  };
  [[nodiscard]] CountReached reached(std::size_t count) { return {*this, count}; }
  [[nodiscard]] std::size_t count() const { return count_; }
  void advance() {
    ++count_;
    for (CountReached* each : std::exchange(waiters_, {})) {
      if (each->count <= count_) {
        each->waiter.resume();
      } else {
        waiters_.push_back(each);
      }
    }
  }

 private:
  std::size_t count_ = 0;
  pool::List<CountReached*> waiters_;
};

// The state of one allreduce, which all coroutines of a rank share.
struct OwnersState {
  OwnersState(const Endpoint& net, const Call& call)
      : call(call),
        rank(net.rank),
        size(net.size),
        owners(net.lateness() != nullptr ? net.lateness()->on_time(size) : Lateness().on_time(size)),
        owned_by(static_cast<std::size_t>(size), -1),
        sent(static_cast<std::size_t>(size)),
        first(static_cast<std::size_t>(size)),
        seen_late(static_cast<std::size_t>(size)) {
    for (std::size_t k = 0; k < owners.size(); ++k)
      owned_by[static_cast<std::size_t>(owners[k])] = static_cast<int>(k);
    // When the last piece of a late rank comes, its owner still has to send one piece to each other rank.
    // With this length these pieces have n / 8 bytes in all.
    std::size_t piece_bytes = longest_piece;
    if (owners.size() < static_cast<std::size_t>(size)) {
      piece_bytes = call.output.bytes() / (8 * static_cast<std::size_t>(size - 1));
      piece_bytes = std::clamp(piece_bytes, shortest_piece, longest_piece);
    }
    piece_length = std::max<std::size_t>(1, piece_bytes / call.output.width);
    learns = net.lateness() != nullptr && call.output.count >= owners.size();
    if (learns) notes.resize((static_cast<std::size_t>(size) + 63) / 64);
    if (!owns(rank)) return;
    pieces = pieces_of(block(call.output, rank));
    has_one_operand.resize(static_cast<std::size_t>(size) * pieces);
    is_final.resize(pieces);
  }

  [[nodiscard]] bool owns(int who) const { return owned_by[static_cast<std::size_t>(who)] >= 0; }
  // Returns true if this owner notes which ranks are late. These watchers are spread evenly over the owners,
  // because neighbours may be late together.
  [[nodiscard]] bool is_watcher(int owner) const {
    const auto number = static_cast<std::size_t>(owned_by[static_cast<std::size_t>(owner)]);
    return learns && number * watchers() % owners.size() < watchers();
  }
  [[nodiscard]] std::size_t watchers() const { return std::min(most_watchers, owners.size()); }
  template <class AnyVector>
  [[nodiscard]] AnyVector block(const AnyVector& vector, int owner) const {
    return vector.block(static_cast<int>(owners.size()), owned_by[static_cast<std::size_t>(owner)]);
  }
  template <class AnyVector>
  [[nodiscard]] AnyVector piece_of(const AnyVector& block, std::size_t piece) const {
    const std::size_t begin = piece * piece_length;
    return block.slice(begin, std::min(piece_length, block.count - begin));
  }
  template <class AnyVector>
  [[nodiscard]] std::size_t pieces_of(const AnyVector& block) const {
    return (block.count + piece_length - 1) / piece_length;
  }
  [[nodiscard]] std::size_t notes_bytes() const { return notes.size() * sizeof(notes[0]); }

  // Notes the ranks whose first piece came late. A rank is late if its first piece comes after the median
  // by more than the sum of two times. One is a quarter of the time from the last of these pieces to the last
  // result: what the exchange itself takes. The other is the time from the first of these pieces to the
  // median, because pieces of ranks that arrive together come one after the other.
  void note_who_is_late(double end) {
    const OwnFloatingPoint own;
    pool::List<double> others;
    for (int k = 0; k < size; ++k)
      if (k != rank) others.push_back(first[static_cast<std::size_t>(k)]);
    std::ranges::sort(others);
    const double median = others[(others.size() - 1) / 2];
    const double tolerated = (median - others.front()) + (end - others.back()) / 4;
    for (int k = 0; k < size; ++k) {
      if (k == rank || first[static_cast<std::size_t>(k)] - median <= tolerated) continue;
      notes[static_cast<std::size_t>(k) / 64] |= std::uint64_t{1} << k % 64;
    }
    count_notes(notes.data());
  }
  // Adds the notes of one owner to `seen_late`. The loop visits the set bits only, because most ranks are on
  // time.
  void count_notes(const void* of_owner) {
    for (std::size_t k = 0; k < notes.size(); ++k) {
      std::uint64_t noted = 0;
      std::memcpy(&noted, static_cast<const std::byte*>(of_owner) + k * sizeof(noted), sizeof(noted));
      for (; noted != 0; noted &= noted - 1)
        ++seen_late[k * 64 + static_cast<std::size_t>(std::countr_zero(noted))];
    }
  }

  const Call& call;
  int rank;
  int size;
  pool::List<int> owners;
  pool::List<int> owned_by;         // for each rank: the number of its block; -1: it owns none
  pool::List<StepCount> sent;       // for each owner: how many pieces were sent to it
  pool::List<double> first;         // for each rank: when its first piece came
  pool::List<int> seen_late;        // for each rank: how many owners noted that it was late
  pool::List<std::uint64_t> notes;  // bit k % 64 of element k / 64: rank k was late; empty: no prediction
  bool learns = false;
  std::size_t piece_length;  // in elements

  // The following members are used on owners only.
  std::size_t pieces = 0;
  const Scratch* contributions = nullptr;  // for each rank: its input for this rank's block
  const Scratch* last_piece = nullptr;     // the notes, followed by the last piece of the result
  pool::List<char> has_one_operand;        // for each combination of each piece: one operand is there
  pool::List<char> is_final;
  StepCount results;  // counts the final pieces, from the first one on

  [[nodiscard]] Vector contribution(int of, std::size_t piece) const {
    const std::size_t length = block(call.output, rank).count;
    return piece_of(contributions->vector().slice(static_cast<std::size_t>(of) * length, length), piece);
  }
};

// Combines a piece of rank `from` with others, up the tree, as long as the other operand is there. The result
// of ranks [a, b) replaces the piece of rank a.
Task combine(Endpoint net, OwnersState& all, int from, std::size_t piece) {
  const ConstVector mine = all.piece_of(all.block(all.call.input, all.rank), piece);
  const Vector result = all.piece_of(all.block(all.call.output, all.rank), piece);
  for (int half = 1; half < all.size; half *= 2) {
    const int left = from & ~(2 * half - 1);
    const int right = left + half;
    if (right >= all.size) continue;
    char& is_there = all.has_one_operand[static_cast<std::size_t>(right) * all.pieces + piece];
    if (is_there == 0) {
      is_there = 1;
      co_return;
    }
    const auto operand = [&](int rank) -> ConstVector {
      const bool is_combined = half > 1 && rank + 1 < all.size;
      return rank == all.rank && !is_combined ? mine : ConstVector(all.contribution(rank, piece));
    };
    const Vector to = 2 * half >= all.size ? result : all.contribution(left, piece);
    co_await net.reduce(*all.call.op, to, operand(left), operand(right));
  }
  if (all.is_watcher(all.rank) && piece + 1 == all.pieces) {
    all.note_who_is_late(net.now());
    const Vector bytes = all.last_piece->vector();
    std::memcpy(bytes.data, all.notes.data(), all.notes_bytes());
    co_await net.copy(bytes.slice(all.notes_bytes(), result.bytes()),
                      ConstVector{result.data, result.bytes(), 1});
  }
  all.is_final[piece] = 1;
  while (all.results.count() < all.pieces && all.is_final[all.results.count()] != 0) all.results.advance();
}

Task send_contribution(Endpoint net, OwnersState& all, int owner) {
  const ConstVector block = all.block(all.call.input, owner);
  for (std::size_t piece = 0; piece < all.pieces_of(block); ++piece) {
    co_await net.send(owner, all.piece_of(block, piece));
    all.sent[static_cast<std::size_t>(owner)].advance();
  }
}

Task receive_contribution(Endpoint net, OwnersState& all, int from) {
  for (std::size_t piece = 0; piece < all.pieces; ++piece) {
    if (from != all.rank) co_await net.receive(from, all.contribution(from, piece));
    if (piece == 0) all.first[static_cast<std::size_t>(from)] = net.now();
    co_await combine(net, all, from, piece);
  }
}

Task send_result(Endpoint net, OwnersState& all, int to) {
  const ConstVector block = all.block(all.call.output, all.rank);
  for (std::size_t piece = 0; piece < all.pieces; ++piece) {
    co_await all.results.reached(piece + 1);
    if (!all.is_watcher(all.rank) || piece + 1 < all.pieces) {
      co_await net.send(to, all.piece_of(block, piece));
    } else {
      co_await net.send(to, all.last_piece->vector(), all.notes_bytes());
    }
  }
}

// Receives a piece of the result only after the piece of the input was sent: in place, both are the same
// memory.
Task receive_result(Endpoint net, OwnersState& all, int owner) {
  const Vector block = all.block(all.call.output, owner);
  const std::size_t pieces = all.pieces_of(block);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    co_await all.sent[static_cast<std::size_t>(owner)].reached(piece + 1);
    const Vector result = all.piece_of(block, piece);
    if (!all.is_watcher(owner) || piece + 1 < pieces) {
      co_await net.receive(owner, result);
      continue;
    }
    const Scratch bytes = net.scratch(all.notes_bytes() + result.bytes(), 1, all.notes_bytes());
    co_await net.receive(owner, bytes.vector());
    all.count_notes(bytes.vector().data);
    co_await net.copy({result.data, result.bytes(), 1},
                      bytes.vector().slice(all.notes_bytes(), result.bytes()));
  }
}

Task do_nothing() { co_return; }

// Sends this rank's input to all owners and receives what other ranks send to this owner, all at the same
// time. Each rank begins with a different peer.
Task contributions(Endpoint net, OwnersState& all) {
  co_await net.concurrently_on_shared_lanes(2 * net.size, [&](const Endpoint& lane, int k) {
    const int distance = k / 2;
    const int to = (net.rank + distance) % net.size;
    const int from = (net.rank + net.size - distance) % net.size;
    if (k % 2 == 0) return all.owns(net.rank) ? receive_contribution(lane, all, from) : do_nothing();
    return distance > 0 && all.owns(to) ? send_contribution(lane, all, to) : do_nothing();
  });
}

Task results(Endpoint net, OwnersState& all) {
  co_await net.concurrently_on_shared_lanes(2 * net.size, [&](const Endpoint& lane, int k) {
    const int distance = k / 2;
    const int to = (net.rank + distance) % net.size;
    const int from = (net.rank + net.size - distance) % net.size;
    if (distance == 0) return do_nothing();
    if (k % 2 == 0) return all.owns(from) ? receive_result(lane, all, from) : do_nothing();
    return all.owns(net.rank) ? send_result(lane, all, to) : do_nothing();
  });
}

Task run(Endpoint net, Call call, const Expression&) {
  OwnersState all(net, call);
  const Vector own =
      all.owns(net.rank) ? all.block(call.output, net.rank) : Vector{nullptr, 0, call.output.width};
  const Scratch contributed_round = net.scratch(own.count * static_cast<std::size_t>(net.size), own.width);
  const bool is_watcher = all.owns(net.rank) && all.is_watcher(net.rank);
  const std::size_t last = is_watcher ? all.notes_bytes() + all.piece_of(own, all.pieces - 1).bytes() : 0;
  const Scratch last_piece = net.scratch(last, 1, is_watcher ? all.notes_bytes() : 0);
  all.contributions = &contributed_round;
  all.last_piece = &last_piece;
  co_await net.concurrently(
      2, [&](const Endpoint& lane, int k) { return k == 0 ? contributions(lane, all) : results(lane, all); });
  if (!all.learns) co_return;
  pool::List<int> watchers(static_cast<std::size_t>(net.size), static_cast<int>(all.watchers()));
  for (const int owner : all.owners)
    if (all.is_watcher(owner)) --watchers[static_cast<std::size_t>(owner)];
  net.lateness()->note(all.seen_late, watchers);
}

}  // namespace

const Algorithm arrival_owners{
    .name = "arrival_owners",
    .summary = "direct reduce-scatter and allgather; ranks predicted to be late own no block; large messages",
    .cost =
        "2a + (2(p-1) + w(p-2)) gb + max(max([r=1], w) lgc, (p-1) gc - (p-2) gb) + (r-1) max(w(a + "
        "(p-1) gb + lgc), (p-1) g max(2b, c)), g = n/p/r, l = ceil(log2 p), r = max(1, ceil(n/p/2^14)),"
        " or nb + 2a after a late rank",
    .serves = {Collective::allreduce},
    .source = "ours; the bound of StragglAR (Devraj et al. 2025)",
    .learns = true,
    .run = run,
    .lanes = [](const Expression&) { return 2; },  // contributions and results
};

}  // namespace offbeat::allreduce_algorithms
