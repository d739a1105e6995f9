// SPDX-License-Identifier: BSD-3-Clause
// The board: shared memory of the ranks of one communicator on one node, on which collectives meet.
//
// Layout, each part on cache lines or pages of its own:
//
//   presence       ranks         to which collective a rank has come, and on which core it is
//   bell           1             wakes who sleeps (patience.hpp)
//   broken         1             who failed, if somebody did
//   gate           1             closed while the windows give their pages back
//   stages         as many as there may be collectives under way at a time; of each
//     inline slots   2 x ranks     a sequence number and up to inline_bytes of data beside it
//     signs          ranks         how far a rank has come in its rounds
//     arrivals       2             who came to a round, in this order
//     steps          2 x chunks    how far the combination of each chunk has come: words, each on its own
//     line windows        ranks x 2     where a rank puts chunks for others to read
//
// Vectors are aligned as their elements want it: a window begins a page, and a chunk is a whole number of
// elements away from it.
//
// Everything that belongs to a round exists twice and is used in turn: round R of a stage uses half R mod 2.
// A rank that ends round R + 1 has seen every rank begin it, so every rank has ended round R, and half R mod
// 2 is free for round R + 2, without a barrier.
//
// Memory orders, all that is relied on. Words carry the number of their round or only grow, so none is ever
// reset.
// - A word is written with release after the data that it announces, and read with acquire before them. Once
//   it is seen, its holder may be read again in any order: it stands until this half comes round again.
// - What takes a place or leaves a mark (arrive, exchange) does both: who comes second sees all that the
//   first did.
// - So every rank's reads of round R come before its words of round R + 1, and these before the writes of
//   round R + 2.
// - That memory is zero, and whatever is written while a board is made, is seen by all through the host's
//   messages.
// - Presence and broken order nothing: one is for messages to people, and to yield where it helps, the other
//   ends all use. The bell has its reasons in patience.hpp.
// The unit tests run the board under ThreadSanitizer, which knows of no other order either (./test
// --sanitize).
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>

#include "base/collective.hpp"
#include "node/patience.hpp"

namespace offbeat {

struct BoardShape {
  int ranks = 1;
  std::size_t window_bytes = 0;  // of each half of each rank; a multiple of the page size
  int stages = 1;

  static constexpr std::size_t inline_bytes = 4096;
  static constexpr std::size_t smallest_chunk = 4096;
  static constexpr std::size_t line = 64;

  [[nodiscard]] std::size_t most_chunks() const { return window_bytes / smallest_chunk; }
  [[nodiscard]] std::size_t lines(int count) const { return static_cast<std::size_t>(count) * line; }
  [[nodiscard]] std::size_t bell_offset() const { return lines(ranks); }
  [[nodiscard]] std::size_t broken_offset() const { return bell_offset() + line; }
  [[nodiscard]] std::size_t gate_offset() const { return broken_offset() + line; }
  [[nodiscard]] std::size_t stages_offset() const;
  [[nodiscard]] std::size_t total_bytes() const;
  // Of the first stage, and all that stands before it.
  [[nodiscard]] std::size_t bytes_without_windows() const { return stages_offset() + windows_offset(); }

  // Within a stage.
  [[nodiscard]] std::size_t signs_offset() const {
    return 2 * static_cast<std::size_t>(ranks) * (inline_bytes + line);
  }
  [[nodiscard]] std::size_t round_words_offset() const { return signs_offset() + lines(ranks); }
  [[nodiscard]] std::size_t round_words_bytes() const;  // of one half
  [[nodiscard]] std::size_t steps_offset() const;
  [[nodiscard]] int words_of_step() const { return ranks + 2; }
  [[nodiscard]] std::size_t step_bytes() const { return lines(words_of_step()); }  // of one chunk
  [[nodiscard]] std::size_t windows_offset() const;
  [[nodiscard]] std::size_t windows_bytes() const {
    return 2 * static_cast<std::size_t>(ranks) * window_bytes;
  }
  [[nodiscard]] std::size_t stage_bytes() const { return windows_offset() + windows_bytes(); }
};

// The simulator's replacement for real time; null in production.
class BoardInSimulation {
 public:
  // Resume `waiter` when the transfer of a cache line is over.
  virtual void touch(int rank, std::coroutine_handle<> waiter) = 0;
  // Resume `waiter` after the next touch by any rank.
  virtual void pause(int rank, std::coroutine_handle<> waiter) = 0;

  bool phantom = false;  // vectors without data: there are no windows either

 protected:
  ~BoardInSimulation() = default;
};

// Where a rank has other things to do while it waits for the board.
class BoardWaiters {
 public:
  [[nodiscard]] virtual bool others_can_run() const = 0;
  // Resume `waiter` soon: it looks again. `begins`: for something that it has not waited for before.
  virtual void wait_for_board(std::coroutine_handle<> waiter, bool begins) = 0;

 protected:
  ~BoardWaiters() = default;
};

class Board {
 public:
  using Word = std::atomic<std::uint64_t>;
  static_assert(Word::is_always_lock_free);

  // One rank's view of one stage in `memory`: shape.total_bytes() bytes, zero at the beginning, shared by
  // all. Owns nothing.
  Board(void* memory, const BoardShape& shape, int rank, Patience patience, int stage = 0)
      : rank(rank),
        size(shape.ranks),
        patience(patience),
        shape_(shape),
        memory_(static_cast<std::byte*>(memory)),
        stage_(memory_ + shape.stages_offset() + static_cast<std::size_t>(stage) * shape.stage_bytes()) {
    this->patience.bell = &bell();
  }

  // A vector of at most inline_bytes with its sequence number. The vector is aligned for every type; the
  // first 48 bytes of it are in the line of the number.
  struct alignas(BoardShape::line) InlineSlot {
    Word sequence;
    alignas(std::max_align_t) std::byte data[BoardShape::inline_bytes];
  };
  // Two ranks swap their slots each time: a core then writes to lines that it has read last, and not to lines
  // that the other one has read, which it would have to be asked for first. That halves the time of 4 KiB
  // (benchmarks/README.md). So nobody may read its own slot: the other rank, one collective ahead, may have
  // written to it.
  [[nodiscard]] InlineSlot& inline_slot(std::uint64_t sequence, int owner) const {
    const std::size_t half = sequence & 1;
    const auto index = static_cast<std::size_t>(owner);
    auto* slots = reinterpret_cast<InlineSlot*>(stage_);
    return slots[size == 2 ? index ^ half : half * static_cast<std::size_t>(size) + index];
  }

  // To be rung by who wrote a word that others may wait for.
  [[nodiscard]] Bell& bell() const { return *reinterpret_cast<Bell*>(memory_ + shape_.bell_offset()); }

  // 0, or what was left by a rank that cannot go on: nobody may wait on this board again. To be looked at
  // only by who has waited long.
  [[nodiscard]] Word& broken() const { return *reinterpret_cast<Word*>(memory_ + shape_.broken_offset()); }

  // The value of a word: a partial result of this round stands in the window of `holder`.
  struct Mark {
    std::uint64_t round;
    int holder;
    explicit Mark(std::uint64_t word) : round(word >> 16), holder(static_cast<int>(word & 0xffff)) {}
    Mark(std::uint64_t round, int holder) : round(round), holder(holder) {}
    [[nodiscard]] std::uint64_t word() const { return round << 16 | static_cast<std::uint64_t>(holder); }
  };

  // Facts about one rank that the others may read. Only that rank writes them.
  struct alignas(BoardShape::line) Presence {
    Word entered;  // the number of its collective on this communicator, for the report of a stall
    Word core;     // on which it was last seen, + 1
    Word begun;    // how many collectives that use windows, on all stages
    Word ended;
  };
  [[nodiscard]] Presence& presence(int owner) const {
    return *reinterpret_cast<Presence*>(memory_ + shape_.lines(owner));
  }
  void enter(std::uint64_t number, Collective collective, std::size_t bytes) {
    entered = number;
    current = collective;
    current_bytes = bytes;
    presence(rank).entered.store(number, std::memory_order_relaxed);
    if (patience.shares_cores) show_core();
  }

  // How far each rank has come on this stage. Only that rank writes there.
  struct alignas(BoardShape::line) Signs {
    Word contributed;  // the last round in which it has done all that others need from it
    Word round;        // the last one begun in which not all ranks meet
    Word sequence;     // the same for immediate collectives
  };
  [[nodiscard]] Signs& signs(int owner) const {
    return *reinterpret_cast<Signs*>(stage_ + shape_.signs_offset() + shape_.lines(owner));
  }
  void contributed(std::uint64_t round) {
    if (patience.shares_cores) signs(rank).contributed.store(round, std::memory_order_relaxed);
  }

  // The numbers of rounds, or of immediate collectives, equal on all ranks: each takes the next one. If not
  // all ranks meet in it, each then announces it in `sign`; and it begins when is_free(): all ranks have
  // begun the one before, if they did not meet in that.
  struct Numbers {
    Word Signs::*sign;
    std::uint64_t present = 0;
    std::uint64_t apart = none;         // the last one in which not all ranks meet
    std::uint64_t apart_before = none;  // and the one before that

    void next(bool all_meet) {
      ++present;
      if (all_meet) return;
      apart_before = apart;
      apart = present;
    }
    [[nodiscard]] bool is_apart() const { return apart == present; }
    [[nodiscard]] bool follows_apart() const { return (is_apart() ? apart_before : apart) + 1 == present; }

   private:
    static constexpr std::uint64_t none = ~std::uint64_t{1};
  };
  // Without announcing or waiting for anything.
  [[nodiscard]] static bool may_begin(const Numbers& numbers) {
    return !numbers.is_apart() && !numbers.follows_apart();
  }
  [[nodiscard]] bool is_free(const Numbers& numbers) const {
    return !numbers.follows_apart() || have_begun(numbers);
  }

  // Whether one of the ranks for which has_come(rank) does not hold was last seen on this core.
  template <class HasCome>
  [[nodiscard]] bool core_is_wanted(HasCome&& has_come) const {
    const std::uint64_t core = this_core();
    for (int other = 0; other < size; ++other) {
      if (other != rank && presence(other).core.load(std::memory_order_relaxed) == core && !has_come(other)) {
        return true;
      }
    }
    return false;
  }

  // The words of one chunk in one round, each on its own line. They mean what the algorithm wants them to
  // mean.
  class Step {
   public:
    // 0 <= index < BoardShape::words_of_step().
    [[nodiscard]] Word& word(int index) const {
      return *reinterpret_cast<Word*>(memory_ + static_cast<std::size_t>(index) * BoardShape::line);
    }

   private:
    friend class Board;
    explicit Step(std::byte* memory) : memory_(memory) {}
    std::byte* memory_;
  };
  [[nodiscard]] Step step(std::uint64_t round, std::size_t chunk) const {
    return Step(stage_ + shape_.steps_offset() +
                ((round & 1) * shape_.most_chunks() + chunk) * shape_.step_bytes());
  }
  // The words of a round, close together: 0 <= index <= ranks.
  [[nodiscard]] Word& round_word(std::uint64_t round, int index) const {
    auto* words = reinterpret_cast<Word*>(stage_ + shape_.round_words_offset() +
                                          (round & 1) * shape_.round_words_bytes());
    return words[index];
  }

  static constexpr int most_ranks = 1 << 16;

  [[nodiscard]] std::byte* window(std::uint64_t round, int owner) const {
    if (simulation != nullptr && simulation->phantom) return nullptr;
    return stage_ + shape_.windows_offset() +
           (static_cast<std::size_t>(owner) * 2 + (round & 1)) * shape_.window_bytes;
  }
  [[nodiscard]] const BoardShape& shape() const { return shape_; }

  // The pages of windows and steps that are not in use can be given back: a program makes any number of
  // communicators, and few of them are busy at a time. Whoever uses them says so before and after. Zeros are
  // as good as what stood there, because a word only tells of the round whose number it has.
  void begin_use() {
    const std::uint64_t number = presence(rank).begun.load(std::memory_order_relaxed) + 1;
    // In one order with the closing of the gate: one of the two sees the other.
    presence(rank).begun.store(number, std::memory_order_seq_cst);
    if (gate().load(std::memory_order_seq_cst) == gate_closed) [[unlikely]]
      wait_at_gate();
  }
  void end_use() {
    Word& ended = presence(rank).ended;
    ended.store(ended.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // By one rank before anybody uses a window: from then on pages may be given back.
  void open_gate() { gate().store(gate_open, std::memory_order_release); }
  // Unless a collective is under way, or a rank behind: calls give_back(pages, bytes) for each stage, while
  // no rank uses them. False: they are in use, or the gate was never opened.
  template <class GiveBack>
  bool give_pages_back(GiveBack&& give_back) {
    std::uint64_t is_open = gate_open;
    if (!gate().compare_exchange_strong(is_open, gate_closed, std::memory_order_seq_cst)) return false;
    const bool is_idle = is_between_uses();
    for (int stage = 0; is_idle && stage < shape_.stages; ++stage) {
      give_back(memory_ + shape_.stages_offset() + static_cast<std::size_t>(stage) * shape_.stage_bytes() +
                    shape_.steps_offset(),
                shape_.stage_bytes() - shape_.steps_offset());
    }
    open_gate();
    return is_idle;
  }

  // Awaitables. In production only a pause suspends, and only while other coroutines of this rank can run.
  class Arrival;
  class Meeting;
  class Announcement;
  class Touch;
  class Pause;

  // Take a place in the order of arrival at a word: 0 for the first. Every rank does, or none, and nothing
  // else is written there.
  [[nodiscard]] Arrival arrive(Word& word);
  // Leave a mark and get the one that stood there.
  [[nodiscard]] Meeting exchange(Word& word, Mark mark);
  // Everything this rank wrote before is visible to who reads the mark.
  [[nodiscard]] Announcement announce(Word& word, Mark mark);
  // In virtual time the code after it runs when one cache line has been transferred.
  [[nodiscard]] Touch touch();
  // Nothing to do until another rank gets further.
  [[nodiscard]] Pause pause(Patience::Wait& wait);

  Numbers sequence{.sign = &Signs::sequence};  // of immediate collectives
  Numbers round{.sign = &Signs::round};
  // The number of the current collective on this communicator, which one it is, and its length.
  std::uint64_t entered = 0;
  Collective current = Collective::allreduce;
  std::size_t current_bytes = 0;

  int rank;
  int size;
  int at_once = size;      // how many of its ranks can run at once; the same number on all of them
  bool came_last = false;  // in this round, of more than two: all the others wait for this one
  Patience patience;
  BoardInSimulation* simulation = nullptr;
  BoardWaiters* waiters = nullptr;

 private:
  static constexpr std::uint64_t gate_open = 1;  // 0: never to be closed
  static constexpr std::uint64_t gate_closed = 2;
  [[nodiscard]] Word& gate() const { return *reinterpret_cast<Word*>(memory_ + shape_.gate_offset()); }
  void wait_at_gate() const;
  // All others have begun the one before the present one.
  [[nodiscard]] bool have_begun(const Numbers& numbers) const;
  // All ranks have ended the same number of uses, and begun none since.
  [[nodiscard]] bool is_between_uses() const;

  static std::uint64_t this_core() { return static_cast<std::uint64_t>(sched_getcpu()) + 1; }
  void show_core() {
    const std::uint64_t core = this_core();
    if (core == shown_core_) return;  // others look at that line all the time
    shown_core_ = core;
    presence(rank).core.store(core, std::memory_order_relaxed);
  }

  BoardShape shape_;
  std::byte* memory_;
  std::byte* stage_;
  std::uint64_t shown_core_ = 0;
};

class Board::Arrival {
 public:
  Arrival(Board& board, Word& counter) : board_(board), counter_(counter) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) const { board_.simulation->touch(board_.rank, waiter); }
  // The counter is never reset: in each round that uses this half it grows by the number of ranks.
  [[nodiscard]] int await_resume() const {
    return static_cast<int>(counter_.fetch_add(1, std::memory_order_acq_rel) %
                            static_cast<std::uint64_t>(board_.size));
  }

 private:
  Board& board_;
  Word& counter_;
};

class Board::Touch {
 public:
  explicit Touch(Board& board) : board_(board) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) const { board_.simulation->touch(board_.rank, waiter); }
  void await_resume() const {}

 private:
  Board& board_;
};

class Board::Announcement {
 public:
  Announcement(Board& board, Word& word, std::uint64_t value) : board_(board), word_(word), value_(value) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) const { board_.simulation->touch(board_.rank, waiter); }
  void await_resume() const {
    word_.store(value_, std::memory_order_release);
    board_.bell().ring();
  }

 private:
  Board& board_;
  Word& word_;
  std::uint64_t value_;
};

class Board::Meeting {
 public:
  Meeting(Board& board, Word& word, std::uint64_t value) : board_(board), word_(word), value_(value) {}
  [[nodiscard]] bool await_ready() const { return board_.simulation == nullptr; }
  void await_suspend(std::coroutine_handle<> waiter) const { board_.simulation->touch(board_.rank, waiter); }
  [[nodiscard]] Mark await_resume() const { return Mark(word_.exchange(value_, std::memory_order_acq_rel)); }

 private:
  Board& board_;
  Word& word_;
  std::uint64_t value_;
};

class Board::Pause {
 public:
  Pause(Board& board, Patience::Wait& wait) : board_(board), wait_(wait) {}
  [[nodiscard]] bool await_ready() const {
    if (board_.simulation != nullptr) return false;
    if (board_.waiters != nullptr && board_.waiters->others_can_run()) return false;
    wait_.pause(board_.patience.shares_cores && board_.core_is_wanted([this](int other) {
      return board_.signs(other).contributed.load(std::memory_order_relaxed) >= board_.round.present;
    }));
    return true;
  }
  void await_suspend(std::coroutine_handle<> waiter) const {
    if (board_.simulation != nullptr) {
      board_.simulation->pause(board_.rank, waiter);
    } else {
      board_.waiters->wait_for_board(waiter, wait_.begins());
    }
  }
  void await_resume() const {}

 private:
  Board& board_;
  Patience::Wait& wait_;
};

inline Board::Arrival Board::arrive(Word& word) { return {*this, word}; }
inline Board::Announcement Board::announce(Word& word, Mark mark) { return {*this, word, mark.word()}; }
inline Board::Meeting Board::exchange(Word& word, Mark mark) { return {*this, word, mark.word()}; }
inline Board::Touch Board::touch() { return Touch(*this); }
inline Board::Pause Board::pause(Patience::Wait& wait) { return {*this, wait}; }

}  // namespace offbeat
