// SPDX-License-Identifier: BSD-3-Clause
// The board is memory that the ranks of one communicator on one node share, and on which their collectives
// meet.
//
// board_shape.hpp describes its layout, and board_awaitables.hpp what an algorithm awaits on it.
//
// Everything that belongs to a round exists twice, and the halves are used in turn: round R of a stage uses
// half R mod 2. A rank that ends round R + 1 has seen every rank begin it. So every rank has ended round R,
// and half R mod 2 is free for round R + 2, without a barrier. Short slots exist more often (short_slot()).
//
// These are the memory orders, and all that the code relies on. Words carry the number of their round or only
// grow, so none is ever reset.
// - A word is written with release after the data that it announces, and read with acquire before them. A
//   rank that has seen a word may read its holder again with any order, because the word stands until its
//   half is reused.
// - Operations that take a place or leave a mark (arrive, exchange) do both: the rank that comes second sees
//   all that the first one did.
// - So every rank's reads of round R precede its words of round R + 1, and these precede the writes of round
//   R + 2. A rank that reads the sign of another one may rely on it in all later rounds.
// - Through the host's messages all ranks see that memory is zero, and whatever is written while a board is
//   made.
// - The words entered, core, contributed and broken order nothing. The first three serve messages for people
//   and useful yielding, the last one ends all use. patience.hpp describes the bell, and begin_use the gate.
// The unit tests run the board under ThreadSanitizer, which knows of no other order either (./test
// --sanitize).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/collective.hpp"
#include "node/board_shape.hpp"
#include "node/board_waiting.hpp"
#include "node/patience.hpp"
#include "node/round_number.hpp"
#include "patterns/radix_tree.hpp"

namespace offbeat {

class Board {
 public:
  using Word = BoardWord;
  static_assert(Word::is_always_lock_free);

  // Makes one rank's view of one stage. `memory` has shape.total_bytes() bytes, is zero at the beginning and
  // shared by all ranks. The Board does not own it.
  Board(void* memory, const BoardShape& shape, int rank, Patience patience, int stage = 0)
      : rank(rank),
        size(shape.ranks),
        patience(patience),
        shape_(shape),
        memory_(static_cast<std::byte*>(memory)),
        stage_(stage_at(stage)) {
    this->patience.bell = &bell();
  }

  // A slot holds a vector of at most inline_bytes with its sequence number. The vector is aligned for every
  // type; its first 48 bytes are in the cache line of the number.
  struct alignas(BoardShape::line) InlineSlot {
    Word sequence;
    Word steps;  // counts steps in a collective in which a slot fills step by step; see has_steps()
    alignas(std::max_align_t) std::byte data[BoardShape::inline_bytes];
    // Returns the bytes of the number and of `bytes` bytes of data.
    [[nodiscard]] static constexpr std::size_t bytes_with(std::size_t bytes) {
      return offsetof(InlineSlot, data) + bytes;
    }
  };
  // On a board of two ranks, the ranks swap their slots each time. A core then writes to lines that it was
  // the last to read, and need not take them from the other core first. That halves the time of 4 KiB
  // (benchmarks/README.md). So no rank may read its own slot: the other rank, one collective ahead, may have
  // written to it.
  [[nodiscard]] InlineSlot& inline_slot(std::uint64_t sequence, int owner) const {
    const std::size_t half = sequence & 1;
    const auto index = static_cast<std::size_t>(owner);
    auto* slots = reinterpret_cast<InlineSlot*>(stage_);
    return slots[size == 2 ? index ^ half : half * static_cast<std::size_t>(size) + index];
  }

  // Returns the value of InlineSlot::steps after `steps` steps of a collective, and whether a slot has come
  // that far there. `number` is RoundNumber::tag.
  static constexpr int bits_of_steps = 8;
  [[nodiscard]] static std::uint64_t word_of_steps(std::uint64_t number, int steps) {
    return number << bits_of_steps | static_cast<std::uint64_t>(steps);
  }
  [[nodiscard]] static bool has_steps(const InlineSlot& slot, std::uint64_t number, int steps) {
    const std::uint64_t word = slot.steps.load(std::memory_order_acquire);
    return word >> bits_of_steps == number && word >= word_of_steps(number, steps);
  }

  // A short slot holds a short vector in a collective with a root, in which some ranks wait for nobody. Each
  // rank has several and uses them in turn, so that such a rank can be that many calls ahead. If ranks share
  // cores, a core switches ranks once per several calls instead of once per call.
  struct alignas(BoardShape::line) ShortSlot {
    Word sequence;
    alignas(std::max_align_t) std::byte data[BoardShape::short_bytes];
  };
  [[nodiscard]] ShortSlot& short_slot(std::uint64_t sequence, int owner) const {
    const std::size_t turn = sequence & static_cast<std::size_t>(shape_.short_slots() - 1);
    auto* slots = reinterpret_cast<ShortSlot*>(stage_ + shape_.short_slots_in_stage());
    return slots[turn * static_cast<std::size_t>(size) + static_cast<std::size_t>(owner)];
  }

  // A tree line holds short data with their sequence number, for the children of a rank in a tree. The
  // children of each level have their own line. A line is aligned like a slot.
  struct alignas(BoardShape::line) TreeLine {
    static constexpr std::size_t most_bytes = 48;
    Word sequence;
    alignas(std::max_align_t) std::byte data[most_bytes];
  };
  [[nodiscard]] TreeLine& tree_line(std::uint64_t sequence, int owner, int level) const {
    const std::size_t index =
        (sequence & 1) * static_cast<std::size_t>(size) + static_cast<std::size_t>(owner);
    auto* lines = reinterpret_cast<TreeLine*>(stage_ + shape_.tree_lines_in_stage());
    return lines[index * BoardShape::tree_levels + static_cast<std::size_t>(level)];
  }

  // The bell that a rank rings after it has written a word for which others may wait.
  [[nodiscard]] Bell& bell() const { return *reinterpret_cast<Bell*>(memory_ + shape_.bell_offset()); }

  // A word that is 0 until a rank that cannot go on leaves a value there. If it is not 0, no rank may wait on
  // this board again. Only a rank that has waited long should read it.
  [[nodiscard]] Word& broken() const { return *reinterpret_cast<Word*>(memory_ + shape_.broken_offset()); }

  // A text of one rank that ends with a zero byte. That rank writes it before `broken`. Read it only if
  // `broken` names the rank.
  [[nodiscard]] char* failure_text(int owner) const {
    return reinterpret_cast<char*>(memory_ + shape_.failure_texts_offset()) +
           static_cast<std::size_t>(owner) * BoardShape::failure_text_bytes;
  }

  // A mark is the value of a word. It says that the window of `holder` has a partial result of this round,
  // which is a tag, or a number in the words of Signs.
  struct Mark {
    std::uint64_t round;
    int holder;
    explicit Mark(std::uint64_t word) : round(word >> 16), holder(static_cast<int>(word & 0xffff)) {}
    Mark(std::uint64_t round, int holder) : round(round), holder(holder) {}
    [[nodiscard]] std::uint64_t word() const { return round << 16 | static_cast<std::uint64_t>(holder); }
  };

  // Presence holds facts about one rank that the others may read. Only that rank writes them.
  struct alignas(BoardShape::line) Presence {
    Word entered;  // the number of its collective on this communicator, for the report of a stall
    Word core;     // the core on which the rank was last seen, plus 1
    Word left;     // 1 if the rank has left the board for good, so that it may end
    // When the rank came to a call, for calls that are timed (groups/call_timer.hpp): ticks of ProcessorClock
    // whose low bits are those of the number of the call. Calls use these words in turn.
    static constexpr std::uint64_t low_bits = 255;
    std::array<Word, 4> arrivals;
    [[nodiscard]] Word& arrival(std::uint64_t number) { return arrivals[number % arrivals.size()]; }
  };
  static_assert(sizeof(Presence) == BoardShape::line);
  [[nodiscard]] Presence& presence(int owner) const {
    return *reinterpret_cast<Presence*>(memory_ + shape_.bytes_of_lines(owner));
  }
  void enter(std::uint64_t number, Collective collective, std::size_t bytes) {
    current_call_number = number;
    current = collective;
    current_bytes = bytes;
    presence(rank).entered.store(number, std::memory_order_relaxed);
    if (patience.shares_cores) publish_core();
  }
  // Sets RoundNumber::history, the hash of the collectives before the one that this rank enters now.
  void set_history(std::uint64_t history) { sequence.history = round.history = history; }

  // A record describes one call of one rank, so that ranks can compare their calls
  // (groups/call_record.hpp). Only boards that compare calls have records. The head changes before and after
  // the other words.
  struct Record {
    Word head;  // the number of the call on this stage, and what kind of call it is
    Word root;
    Word count;
    Word lists;
  };
  [[nodiscard]] Record& record(int owner, std::uint64_t number) const {
    auto* records = reinterpret_cast<Record*>(stage_ + shape_.records_in_stage() +
                                              shape_.bytes_of_lines(BoardShape::lines_of_records * owner));
    return records[number % BoardShape::records_of_rank];
  }
  // The bytes that `giver` has for `taker` in an alltoallv. They are a part of the giver's record.
  [[nodiscard]] Word& alltoallv_length(std::uint64_t number, int giver, int taker) const {
    auto* lengths = reinterpret_cast<Word*>(stage_ + shape_.alltoallv_lengths_in_stage());
    const auto ranks = static_cast<std::size_t>(size);
    return lengths[(number % BoardShape::records_of_rank * ranks + static_cast<std::size_t>(giver)) * ranks +
                   static_cast<std::size_t>(taker)];
  }

  // A channel carries bytes from one rank to another one, through a ring (groups/channel.hpp). Its words
  // count bytes since the beginning.
  struct ChannelWords {
    alignas(BoardShape::line) Word written;  // by the sender
    alignas(BoardShape::line) Word read;     // by the receiver
    Word received;                           // those of short messages that are received
  };
  [[nodiscard]] ChannelWords& channel_words(int from, int to) const {
    return reinterpret_cast<ChannelWords*>(memory_ + shape_.channels_offset())[pair_index(from, to)];
  }
  [[nodiscard]] std::byte* ring(int from, int to) const {
    return memory_ + shape_.rings_offset() + pair_index(from, to) * shape_.ring_bytes;
  }

  using Signs = RoundSigns;
  using RoundNumber = offbeat::RoundNumber;
  [[nodiscard]] Signs& signs(int owner) const {
    return *reinterpret_cast<Signs*>(stage_ + shape_.signs_in_stage() + shape_.bytes_of_lines(owner));
  }
  // Says that this rank has done all that others need from it in the present round.
  void announce_contribution() {
    if (patience.shares_cores) signs(rank).contributed_round.store(round.present, std::memory_order_relaxed);
  }

  // Returns true if a round may begin without announcing or waiting for anything.
  [[nodiscard]] static bool may_begin(const RoundNumber& number) {
    return !number.is_partial() && !number.previous_was_partial();
  }
  [[nodiscard]] bool is_free(RoundNumber& number, std::uint64_t turns = 2) const {
    return !number.previous_was_partial() || all_have_begun(number, number.first_after_last_use(turns));
  }

  // Returns true if rank `other` has begun the round before the present one. Only valid if not all ranks met
  // in that round.
  [[nodiscard]] bool began_previous_round(const RoundNumber& number, int other) const {
    const Mark begun((signs(other).*number.sign).load(std::memory_order_acquire));
    return begun.round + 1 >= number.present;
  }

  // Returns true if another rank has made other collectives on this stage than this rank, as far as the board
  // shows. A rank that waits on any stage asks this now and then, because it may wait in vain.
  [[nodiscard]] bool shows_other_collective() const;

  // The ranks that read what this rank wrote in an immediate collective or in a round, if they are few
  // (collectives/board/readers.hpp).
  struct Readers {
    std::uint64_t number = 0;
    RadixTree tree{};
    bool parent = false;        // the parent in `tree` reads
    bool children = false;      // the children in `tree` read
    bool powers_below = false;  // the ranks 1, 2, 4 ... below this one read, around the end
    bool powers_above = false;  // the ranks 1, 2, 4 ... above this one read, up to the last one
    int butterfly_bits = 0;     // those read that take data from this rank in this RadixButterfly, if not 0
    std::array<int, 2> single_readers{-1, -1};  // these ranks read; -1 for none
  };

  // Returns true if a rank for which has_come(rank) is false was last seen on this core.
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

  // A step has the words of one chunk in one round, each on its own cache line. The algorithm decides what
  // they mean.
  class Step {
   public:
    // Returns word `index`, with 0 <= index < BoardShape::words_per_step().
    [[nodiscard]] Word& word(int index) const {
      return *reinterpret_cast<Word*>(memory_ + static_cast<std::size_t>(index) * BoardShape::line);
    }

   private:
    friend class Board;
    explicit Step(std::byte* memory) : memory_(memory) {}
    std::byte* memory_;
  };
  [[nodiscard]] Step step(std::uint64_t round, std::size_t chunk) const {
    return Step(stage_ + shape_.steps_in_stage() +
                ((round & 1) * shape_.most_chunks() + chunk) * shape_.step_bytes());
  }
  // Returns the word of one rank and chunk, for ranks that pass chunks on (relay.hpp).
  [[nodiscard]] Word& relay_word(std::uint64_t round, int owner, std::size_t chunk) const {
    const std::size_t row = (round & 1) * static_cast<std::size_t>(size) + static_cast<std::size_t>(owner);
    return *reinterpret_cast<Word*>(stage_ + shape_.relay_words_in_stage() +
                                    (row * shape_.most_chunks() + chunk) * BoardShape::line);
  }
  // Returns a word of a round: 0 <= index <= ranks. The words of a round lie close together.
  [[nodiscard]] Word& round_word(std::uint64_t round, int index) const {
    auto* words = reinterpret_cast<Word*>(stage_ + shape_.round_words_in_stage() +
                                          (round & 1) * shape_.round_words_bytes());
    return words[index];
  }

  static constexpr int most_ranks = 1 << 16;

  [[nodiscard]] std::byte* window(std::uint64_t round, int owner) const {
    return stage_ + shape_.windows_in_stage() +
           (static_cast<std::size_t>(owner) * 2 + (round & 1)) * shape_.window_bytes;
  }
  // Returns the windows of all ranks, which have shape().windows_bytes() bytes.
  [[nodiscard]] std::byte* windows() const { return stage_ + shape_.windows_in_stage(); }
  [[nodiscard]] const BoardShape& shape() const { return shape_; }

  // Calls of begin_use() and end_use() enclose the use of windows and steps, so that unused pages can be
  // given back. A program makes any number of communicators, and few of them are busy at a time. Each rank
  // announces every use before and after. Pages that were given back contain zeros, which do no harm, because
  // a word only counts if it has the number of its round.
  //
  // A stage has one collective at a time, though each may run in a different thread. So each count has one
  // writer at a time, and the only locked instruction is the store that the gate needs. A sum over the stages
  // would need such an instruction, too. And it would not suffice: two ranks may be on different stages and
  // have equal sums.
  void begin_use() noexcept {
    Word& begun = uses(rank).begun;
    // This store and the closing of the gate are in one total order, so one of the two ranks sees the other.
    begun.store(begun.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
    if (is_closed(gate().load(std::memory_order_seq_cst))) [[unlikely]]
      wait_at_gate();
  }
  void end_use() noexcept {
    Word& ended = uses(rank).ended;
    ended.store(ended.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Counts as such a use, too. Call it if other ranks may use windows in the same collective.
  void count_use_without_windows() noexcept {
    Word& count = uses(rank).without_windows;
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Keeps the pages for good: give_pages_back() then returns false. A rank calls this while it uses a window,
  // or in `give_back`.
  void keep_pages() noexcept { pages_kept().store(1, std::memory_order_relaxed); }
  // Allows pages to be given back from now on. One rank calls this before any rank uses a window.
  void open_gate() { gate().store(gate_open, std::memory_order_release); }
  // Calls give_back(stage, pages, bytes) for each stage while no rank uses the pages. Returns false if a
  // collective is under way, a rank is behind, or the gate was never opened.
  template <class GiveBack>
  bool give_pages_back(GiveBack&& give_back) {
    std::uint64_t is_open = gate_open;
    if (!gate().compare_exchange_strong(is_open, gate_closed_by(rank), std::memory_order_seq_cst))
      return false;
    bool is_idle = true;
    for (int stage = 0; stage < shape_.stages; ++stage) is_idle = is_idle && is_between_uses(stage);
    is_idle = is_idle && pages_kept().load(std::memory_order_relaxed) == 0;
    for (int stage = 0; is_idle && stage < shape_.stages; ++stage)
      give_back(stage, stage_at(stage) + shape_.steps_in_stage(),
                shape_.stage_bytes() - shape_.steps_in_stage());
    open_gate();
    return is_idle;
  }

  // The awaitables (board_awaitables.hpp).
  class Arrival;
  class MarkExchange;
  class Announcement;
  class Touch;
  class Fetch;
  class Pause;

  // Takes a place in the order of arrival at a word, 0 for the first. Either all ranks do so or none, and
  // nothing else is written to that word.
  [[nodiscard]] Arrival arrive(Word& word);
  // Leaves a mark and gets the previous one.
  [[nodiscard]] MarkExchange exchange(Word& word, Mark mark);
  // Writes a mark. A rank that reads the mark sees everything that this rank wrote before.
  [[nodiscard]] Announcement announce(Word& word, Mark mark);
  // Takes the time of one cache line's transfer, and that of writing `bytes` more bytes that another rank has
  // read; in virtual time only.
  [[nodiscard]] Touch touch(std::size_t bytes = 0);
  // Takes the time in which the lines come from `owner`, who wrote them, in virtual time only.
  [[nodiscard]] Fetch charge_fetch(int owner, const void* data, std::size_t bytes);
  // Pauses, because this rank has nothing to do until another rank gets further.
  [[nodiscard]] Pause pause(Patience::Wait& wait);
  // Pauses a rank that goes on when `condition()` is true. `condition` must live until then. Only the
  // simulator evaluates it, and spares a rank that would look in vain.
  template <class Condition>
  [[nodiscard]] Pause pause(Patience::Wait& wait, const Condition& condition);

  RoundNumber sequence{.sign = &Signs::sequence};  // counts immediate collectives
  RoundNumber round{.sign = &Signs::round};
  // The collective that this rank is in or entered last. Other ranks see only its number, in
  // presence(rank).entered.
  std::uint64_t current_call_number = 0;
  Collective current = Collective::allreduce;
  std::size_t current_bytes = 0;

  int rank;
  int size;
  int concurrent_ranks = size;  // how many ranks can have a core each; equal on all ranks
  Patience patience;
  BoardInSimulation* simulation = nullptr;
  BoardWaiters* waiters = nullptr;

 private:
  static constexpr std::uint64_t gate_open = 1;  // 0 before open_gate(): the gate may not be closed
  static constexpr std::uint64_t gate_closed_by(int rank) { return 2 + static_cast<std::uint64_t>(rank); }
  [[nodiscard]] static constexpr bool is_closed(std::uint64_t gate) { return gate > gate_open; }
  [[nodiscard]] static constexpr int closer_of(std::uint64_t gate) { return static_cast<int>(gate - 2); }
  [[nodiscard]] Word& gate() const { return *reinterpret_cast<Word*>(memory_ + shape_.gate_offset()); }
  [[nodiscard]] Word& pages_kept() const {
    return *reinterpret_cast<Word*>(memory_ + shape_.gate_offset() + sizeof(Word));
  }
  void wait_at_gate() const noexcept;
  [[nodiscard]] std::byte* stage_at(int stage) const {
    return memory_ + shape_.stages_offset() + static_cast<std::size_t>(stage) * shape_.stage_bytes();
  }
  [[nodiscard]] std::size_t pair_index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(size) + static_cast<std::size_t>(to);
  }
  // Counts the collectives of one rank on one stage, if any rank may use windows in them. Only that rank
  // writes the counts.
  struct alignas(BoardShape::line) UseCounts {
    Word begun;  // those in which this rank uses windows
    Word ended;
    Word without_windows;  // those in which it uses none
  };
  [[nodiscard]] static UseCounts& uses_of_stage(std::byte* stage, const BoardShape& shape, int owner) {
    return *reinterpret_cast<UseCounts*>(stage + shape.uses_in_stage() + shape.bytes_of_lines(owner));
  }
  [[nodiscard]] UseCounts& uses(int owner) const { return uses_of_stage(stage_, shape_, owner); }
  // Returns true if all ranks have begun an earlier round, and notes how far they are. In the rounds since
  // `round`, all of which are later than begun_by_all, not all ranks may have met.
  [[nodiscard]] bool all_have_begun(RoundNumber& number, std::uint64_t round) const;
  // Returns true if all ranks have ended one number of uses of a stage, and begun none since.
  [[nodiscard]] bool is_between_uses(int stage) const;

  static std::uint64_t this_core() { return static_cast<std::uint64_t>(sched_getcpu()) + 1; }
  void publish_core() {
    const std::uint64_t core = this_core();
    if (core == shown_core_) return;  // other ranks read that line all the time
    shown_core_ = core;
    presence(rank).core.store(core, std::memory_order_relaxed);
  }

  BoardShape shape_;
  std::byte* memory_;
  std::byte* stage_;
  std::uint64_t shown_core_ = 0;

 public:
  // call() says whether the process of a rank of the board has died. It is null if nobody knows.
  struct DeathCheck {
    bool (*call)(void* state, int rank) = nullptr;
    void* state = nullptr;
  };
  // The members from here on come last, so that those that every call reads are close together.
  DeathCheck has_died;
  // The ranks that read in the last immediate collective, and in the last round, of each half.
  std::array<Readers, 2> slot_readers;
  std::array<Readers, 2> window_readers;
};

}  // namespace offbeat
