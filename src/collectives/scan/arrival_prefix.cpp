// SPDX-License-Identifier: BSD-3-Clause
// Idea: a rank leaves as soon as the ranks below it have arrived. It waits for no higher rank, and the last
// rank gives nothing to any other rank. The algorithm runs on the board of one node, in one of three ways:
//
//     slots      each rank puts its vector into its slot, reads those below it and combines all; up to 16
//                ranks, very short vectors
//     doubling   in step k a rank takes the sum of 2^k ranks from the rank 2^k below, as in
//                recursive_doubling; through slots or, where these are too short, through windows
//     chain      a rank takes the prefix of the rank below it chunk by chunk, and puts its own prefix into
//                its window for the rank above; long vectors
//
// Cost: after the last arrival
//     slots      one line transfer; rank r reads r vectors, but waits for the work of no other rank
//     doubling   log2(p) transfers of n bytes, one after the other; at most log2(p) ranks read a sum
//     chain      n bytes at memory speed, and p chunks; each rank combines one vector, because it takes the
//                prefix that the rank below it has made
// The length and the number of ranks decide which way runs: doubling takes log2(p) n and a chain n + p
// chunks. In an exscan, doubling combines twice in each step: for the sum that others take, and for the
// rank's own prefix. A chain combines once, because a rank keeps the prefix that it took.
// Other sizes: any p.
// Order: rank order. Slots and the chain combine from left to right, doubling as recursive_doubling does.
// Source: ours; doubling is from Hillis and Steele 1986. The idea of arrival order is from Alizadeh et al.
// 2022.
#include <algorithm>
#include <bit>
#include <limits>

#include "base/copy.hpp"
#include "collectives/board/board_round.hpp"
#include "collectives/board/immediate.hpp"
#include "collectives/board/readers.hpp"
#include "collectives/scan/scan.hpp"

namespace offbeat::scan_algorithms {
namespace {

// -- slots

class ShortScan {
 public:
  static constexpr int most_ranks = most_ranks_without_tree;
  static constexpr bool all_meet = false;
  // The last rank reads p - 1 vectors. Beyond a few lines of each, doubling is faster in the simulator.
  static std::size_t most_bytes(int ranks) {
    const auto p = static_cast<std::size_t>(ranks);
    return 4 * BoardShape::inline_bytes / (p * p);
  }

  ShortScan(Board& board, const Call& call)
      : board_(board), call_(call), rank_(board.rank), sequence_(board.sequence.tag) {}

  // The last rank puts nothing, because no rank is above it. On a board of two ranks, the other one may
  // already use this slot for the next call.
  void put_own_data() {
    if (rank_ + 1 == board_.size) return;
    Board::InlineSlot& mine = board_.inline_slot(sequence_, rank_);
    if (call_.input.data != nullptr) copy_to_shared(mine.data, call_.input.data, call_.input.bytes());
    mine.sequence.store(sequence_, std::memory_order_release);
  }
  [[nodiscard]] Reading reading_of(int rank) const {
    if (rank >= rank_) return {};
    return {&board_.inline_slot(sequence_, rank), Board::InlineSlot::bytes_with(call_.input.bytes())};
  }
  [[nodiscard]] bool has_arrived(int rank) const {
    return rank >= rank_ ||
           board_.inline_slot(sequence_, rank).sequence.load(std::memory_order_acquire) == sequence_;
  }
  // Returns the data of `rank`. take_result() never reads the data of higher ranks.
  [[nodiscard]] const void* data(int rank) const {
    return rank == rank_ ? static_cast<const void*>(call_.input.data)
                         : board_.inline_slot(sequence_, rank).data;
  }
  void take_result(const void* const* data) {
    const int operands = rank_ + (is_exclusive(call_) ? 0 : 1);
    if (call_.output.data == nullptr || operands == 0) return;
    if (operands > 1) {
      (*call_.op)(call_.output.data, data, static_cast<std::size_t>(operands), call_.output.count);
    } else if (data[0] != call_.output.data) {
      offbeat::copy(call_.output.data, data[0], call_.output.bytes());
    }
  }

 private:
  Board& board_;
  const Call& call_;
  const int rank_;
  const std::uint64_t sequence_;
};

// -- doubling

// Doubling describes the steps of one rank. Sum k of a rank combines the 2^k ranks that end with it, or all
// ranks up to it if there are fewer. Sum 0 is its own vector.
struct Doubling {
  int rank;
  int ranks;

  // Returns how many sums need a place on the rank that has most.
  [[nodiscard]] int most_sums() const { return std::bit_width(static_cast<unsigned>(ranks - 1)); }
  [[nodiscard]] int source(int step) const { return rank - (1 << step); }
  [[nodiscard]] bool has_source(int step) const { return source(step) >= 0; }
  // Returns which sum of the source a step takes. A sum that includes all ranks up to the source is final.
  [[nodiscard]] int sum_of_source(int step) const {
    return std::min<int>(step, std::bit_width(static_cast<unsigned>(source(step))));
  }
  // Returns true if a rank above takes this sum.
  [[nodiscard]] bool is_needed_above(int sum) const { return rank + (1 << sum) < ranks; }
};

// The steps of doubling through slots, written once for both drivers (waits.hpp). Sum k of a rank is at
// offset k times the length of the vector.
class DoublingInSlots {
 public:
  static constexpr bool all_meet = false;
  using Operands = NoOperands;
  static std::size_t most_bytes(int ranks) {
    return BoardShape::inline_bytes / static_cast<std::size_t>(Doubling{0, ranks}.most_sums());
  }

  DoublingInSlots(Board& board, const Call& call, Operands&)
      : board_(board),
        beginning_(board, board.sequence, ReadersBefore(board, board.sequence, board.slot_readers), all_meet),
        call_(call),
        steps_{board.rank, board.size},
        sequence_(board.sequence.tag),
        has_data_(call.input.data != nullptr && call.input.count > 0),
        sum_(call.input.data) {}

  template <class Waits>
  [[nodiscard]] bool advance(Waits& waits) {
    return resumable_sections_.run(
        [&] { return beginning_.advance(waits); },
        [&] { note_readers(board_.sequence, board_.slot_readers, {.powers_above = true}); },
        [&] { return begin(waits); }, [&] { return run_steps(waits); });
  }
  [[nodiscard]] static bool has_served() { return true; }

 private:
  // Puts the rank's own vector into its slot. Rank 0 has nothing else to do.
  template <class Waits>
  bool begin(Waits& waits) {
    if (!waits.touch()) return false;
    if (has_data_ && steps_.is_needed_above(0))
      copy_to_shared(place(board_.rank, 0), call_.input.data, call_.input.bytes());
    show();
    const bool is_complete = board_.rank == 0 && !is_exclusive(call_);
    if (has_data_ && is_complete && call_.output.data != call_.input.data)
      offbeat::copy(call_.output.data, call_.input.data, call_.input.bytes());
    return true;
  }
  // Makes the next sums, step by step.
  template <class Waits>
  bool run_steps(Waits& waits) {
    for (; steps_.has_source(sum_count_ - 1); step_sections_ = {}) {
      if (!step_sections_.run([&] { return take_result(waits); }, [&] { return waits.touch(); }))
        return false;
      show();
    }
    return true;
  }
  template <class Waits>
  bool take_result(Waits& waits) {
    const int source = steps_.source(sum_count_ - 1);
    const auto has_arrived = [this](int rank) { return this->has_arrived(rank); };
    const auto sum = [&] {
      return Reading{&slot(source), Board::InlineSlot::bytes_with(call_.input.bytes())};
    };
    if (!waits.until([&] { return has_arrived(source); }, has_arrived)) return false;
    if (!waits.charge_fetch(source, sum)) return false;
    if (has_data_) combine(place(source, sum_of_source()));
    return true;
  }
  // Returns true if `rank` has put the sum that this step would take from it.
  [[nodiscard]] bool has_arrived(int rank) const {
    return Board::has_steps(slot(rank), sequence_, sum_of_source() + 1);
  }
  // Announces that one more sum is there.
  void show() {
    if (steps_.is_needed_above(sum_count_)) {
      slot(board_.rank)
          .steps.store(Board::word_of_steps(sequence_, sum_count_ + 1), std::memory_order_release);
      board_.bell().ring();
    }
    ++sum_count_;
  }
  void combine(const std::byte* theirs) {
    const auto add_to = [&](void* result, const void* mine) {
      const void* const pair[] = {theirs, mine};
      (*call_.op)(result, pair, 2, call_.input.count);
    };
    const bool is_needed_above = steps_.is_needed_above(sum_count_);
    if (!is_exclusive(call_)) {
      std::byte* const result = is_needed_above ? place(board_.rank, sum_count_) : call_.output.data;
      add_to(result, sum_);
      sum_ = result;
      if (is_needed_above && !steps_.has_source(sum_count_))
        offbeat::copy(call_.output.data, result, call_.output.bytes());
      return;
    }
    // This comes before the output is written, because the output may be the input.
    if (is_needed_above) {
      add_to(place(board_.rank, sum_count_), sum_);
      sum_ = place(board_.rank, sum_count_);
    }
    if (sum_count_ == 1) {
      offbeat::copy(call_.output.data, theirs, call_.output.bytes());
    } else {
      add_to(call_.output.data, call_.output.data);
    }
  }

  [[nodiscard]] Board::InlineSlot& slot(int rank) const { return board_.inline_slot(sequence_, rank); }
  [[nodiscard]] std::byte* place(int rank, int sum) const {
    return slot(rank).data + static_cast<std::size_t>(sum) * call_.input.bytes();
  }
  [[nodiscard]] int sum_of_source() const { return steps_.sum_of_source(sum_count_ - 1); }

  Board& board_;
  ResumableSections resumable_sections_;
  RoundBeginning<ReadersBefore> beginning_;
  const Call& call_;
  const Doubling steps_;
  const std::uint64_t sequence_;
  const bool has_data_;
  const void* sum_;
  int sum_count_ = 0;  // how many sums this rank has
  ResumableSections step_sections_;
};

constexpr Immediate doubling_in_slots{.most_ranks = Board::most_ranks,
                                      .most_bytes = DoublingInSlots::most_bytes,
                                      .run = run_spinning<DoublingInSlots>,
                                      .run_in_steps = run_in_steps<DoublingInSlots>};

// Begins a round in which only a few ranks above this one read its window.
[[nodiscard]] Task begin(Endpoint net, Collective collective, Board::Readers readers) {
  Board& board = *net.board();
  co_await net.end_round();
  board.round.next(collective, false);
  co_await begin_round(board, ReadersBefore(board, board.round, board.window_readers));
  note_readers(board.round, board.window_readers, readers);
}

// Runs doubling through windows. Sum k of a rank is at offset k times the length of the vector.
Task run_in_doubling_steps(Endpoint net, Call call) {
  Board& board = *net.board();
  co_await begin(net, call.collective, {.powers_above = true});
  const std::uint64_t tag = board.round.tag;
  const Doubling steps{net.rank, net.size};
  const std::size_t count = call.input.count;
  const auto place = [&](int rank, int sum) {
    const Vector window{board.window(tag, rank), board.shape().window_bytes / call.input.width,
                        call.input.width};
    return window.slice(static_cast<std::size_t>(sum) * count, count);
  };
  // If a later scan runs as a chain, its ranks write to the same words. Each word must have the same writer
  // there: if another rank wrote to it two rounds later, a rank that still waits for this round would miss
  // the mark.
  const auto word = [&](int rank) -> Board::Word& {
    return BoardRound::node_phase_word(board.step(tag, 0), rank);
  };
  const auto has_arrived = [&](int rank, int sum) {
    const Board::Mark mark(word(rank).load(std::memory_order_acquire));
    return mark.round == tag && mark.holder > sum;
  };
  if (steps.is_needed_above(0)) {
    co_await net.put(place(net.rank, 0), call.input);
    co_await board.announce(word(net.rank), {tag, 1});
  }
  if (net.rank == 0 && !is_exclusive(call)) co_await net.copy(call.output, call.input);
  ConstVector sum = call.input;
  for (int step = 0; steps.has_source(step); ++step) {
    const int source = steps.source(step);
    Patience::Wait wait(board.patience);
    while (!has_arrived(source, steps.sum_of_source(step))) co_await board.pause(wait);
    const ConstVector theirs = place(source, steps.sum_of_source(step));
    co_await board.charge_fetch(source, nullptr, sizeof(Board::Word));
    co_await board.charge_fetch(source, theirs.data, theirs.bytes());
    const bool is_needed_above = steps.is_needed_above(step + 1);
    const Vector mine = is_needed_above ? place(net.rank, step + 1) : call.output;
    if (is_needed_above || !is_exclusive(call)) {
      Computation next = net.reduce(*call.op, mine, theirs, sum);
      if (is_needed_above && !is_exclusive(call) && !steps.has_source(step + 1))
        next.second_destination = call.output;
      co_await next;
      sum = mine;
    }
    if (is_needed_above) co_await board.announce(word(net.rank), {tag, step + 2});
    if (!is_exclusive(call)) continue;
    if (step == 0) {
      co_await net.copy(call.output, theirs);
    } else {
      co_await net.reduce(*call.op, call.output, theirs, call.output);
    }
  }
  board.announce_contribution();
}

// -- chain

Task pass_prefix_on(const BoardRound& round) {
  const Endpoint& net = round.net;
  Board& board = round.board;
  const bool is_last = net.rank + 1 == net.size;
  for (std::size_t chunk = 0; chunk < round.chunks; ++chunk) {
    const Board::Step step = round.step(chunk);
    const ConstVector input = round.chunk_of(round.call.input, chunk);
    const Vector output = round.chunk_of(round.call.output, chunk);
    const Vector mine = round.chunk_on_board(net.rank, chunk);
    const auto copy_to_output = [&](ConstVector source) {
      Computation copy = net.copy(output, source);
      copy.past_cache = round.past_cache;
      return copy;
    };
    if (net.rank == 0) {
      co_await net.put(mine, input);
      co_await board.announce(BoardRound::node_phase_word(step, net.rank), round.mark());
      if (!is_exclusive(round.call)) co_await copy_to_output(input);
      continue;
    }
    const int below = net.rank - 1;
    const Board::Word& word = BoardRound::node_phase_word(step, below);
    Patience::Wait wait(board.patience);
    while (!round.is_marked(word)) co_await board.pause(wait);
    const ConstVector prefix = round.chunk_on_board(below, chunk);
    co_await board.charge_fetch(below, nullptr, sizeof(Board::Word));
    co_await board.charge_fetch(below, prefix.data, prefix.bytes());
    if (is_last && !is_exclusive(round.call)) {
      co_await net.reduce(*round.call.op, output, prefix, input);
    } else if (!is_last) {
      Computation next = net.reduce(*round.call.op, mine, prefix, input);
      next.past_cache = round.past_cache;
      if (!is_exclusive(round.call)) next.second_destination = output;
      co_await next;
      co_await board.announce(BoardRound::node_phase_word(step, net.rank), round.mark());
    }
    // This comes after the sum, because the output may be the input.
    if (is_exclusive(round.call)) co_await copy_to_output(prefix);
  }
  board.announce_contribution();
}

Task run_as_chain(Endpoint net, Call call) {
  // A chunk is 1/(start_up_divisor * ranks) of the vector, within limits. So the first chunk reaches the last
  // rank after about 1/start_up_divisor of the time that one rank needs for the whole vector.
  constexpr std::size_t start_up_divisor = 8;
  constexpr std::size_t longest_chunk = std::size_t{64} << 10;
  const std::size_t width = call.input.width;
  const std::size_t window = net.board()->shape().window_bytes / width;
  const std::size_t ranks = static_cast<std::size_t>(net.size);
  const std::size_t bytes =
      std::clamp(call.input.bytes() / (start_up_divisor * ranks), BoardShape::smallest_chunk, longest_chunk);
  const std::size_t chunk = std::max<std::size_t>(1, (bytes + width - 1) / width);
  const bool past_cache =
      call.input.data != call.output.data && 4 * ranks * call.input.bytes() >= last_level_cache_bytes();
  const int above = net.rank + 1 < net.size ? net.rank + 1 : -1;
  for (std::size_t first = 0; first < call.input.count; first += window) {
    co_await begin(net, call.collective, {.single_readers = {above, -1}});
    const std::size_t length = std::min(window, call.input.count - first);
    const BoardRound round(
        net, call.with_input_and_output(call.input.slice(first, length), call.output.slice(first, length)),
        chunk, past_cache);
    round.prefetch_input(0);
    co_await pass_prefix_on(round);
  }
}

// Returns true if doubling is faster than a chain. Each step of a doubling takes as long as the whole vector,
// each rank of a chain as long as a chunk.
bool takes_doubling_steps(int ranks, std::size_t bytes, std::size_t window_bytes) {
  const auto steps = static_cast<std::size_t>(Doubling{0, ranks}.most_sums());
  return steps * bytes <=
         std::min(window_bytes, static_cast<std::size_t>(ranks) * BoardShape::smallest_chunk);
}

Task run(Endpoint net, Call call, const Expression&) {
  return takes_doubling_steps(net.size, call.input.bytes(), net.board()->shape().window_bytes)
             ? run_in_doubling_steps(net, call)
             : run_as_chain(net, call);
}

// Returns Algorithm::lease. Each sum of a doubling has a place of its own.
std::size_t lease(const Call& call, int rank, int ranks) {
  if (rank + 1 == ranks) return 0;
  const auto sums = static_cast<std::size_t>(Doubling{rank, ranks}.most_sums());
  constexpr auto unlimited = std::numeric_limits<std::size_t>::max();
  const bool may_double = takes_doubling_steps(ranks, call.input.bytes(), unlimited);
  return (may_double ? sums : 1) * call.input.bytes();
}

}  // namespace

const Algorithm arrival_prefix{
    .name = "arrival_prefix",
    .summary =
        "each rank takes what the ranks below it have put, and waits for no rank above; ranks on one node",
    .cost = "n bytes at memory speed after the last arrival; log2(p) times n, or p chunks, on many ranks",
    .serves = {Collective::scan, Collective::exscan},
    .needs = {.board = OnBoard::one_node},
    .source = "offbeat",
    .immediate = &immediate<ShortScan, &doubling_in_slots>,
    .lease = lease,
    .run = run,
};

}  // namespace offbeat::scan_algorithms
