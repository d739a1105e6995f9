// SPDX-License-Identifier: BSD-3-Clause
// How the ranks of a board notice that they cannot go on, and how they tell each other.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "groups/node_board.hpp"
#include "groups/operations_under_way.hpp"
#include "node/call_counters.hpp"
#include "node/counters_of_job.hpp"
#include "node/whereabouts.hpp"

namespace offbeat {
namespace {

// Failure is the value of Board::broken. It is never 0.
class Failure {
 public:
  // `error_class` is a class of the host MPI, whose classes have equal numbers on all ranks. `rank` is a
  // number that people know.
  Failure(int rank, int error_class)
      : word_(static_cast<std::uint64_t>(static_cast<std::uint32_t>(error_class)) << 32 |
              (static_cast<std::uint32_t>(rank) + 1)) {}
  // On the board of a group: the rank `writer` of the board has written the reason.
  Failure(const BoardError& error, int writer)
      : Failure(error.rank, static_cast<int>(error.trouble) | writer << 8) {}
  explicit Failure(std::uint64_t word) : word_(word) {}
  // What another node has told, with the text of its reason.
  static BoardError told(const FailureNotice& notice) {
    const Failure theirs(notice.word);
    return {theirs.trouble(), theirs.rank(),
            std::string(notice.reason, strnlen(notice.reason, sizeof notice.reason))};
  }
  [[nodiscard]] std::uint64_t word() const { return word_; }
  [[nodiscard]] int rank() const { return static_cast<int>(word_ & 0xffffffff) - 1; }
  [[nodiscard]] int error_class() const { return static_cast<int>(word_ >> 32); }
  [[nodiscard]] Trouble trouble() const { return static_cast<Trouble>(word_ >> 32 & 0xff); }
  [[nodiscard]] int writer() const { return static_cast<int>(word_ >> 40); }

 private:
  std::uint64_t word_;
};

// Returns "rank 3", "ranks 3, 5 and 7" or "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 40 more".
std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t most_named = 8;
  const std::size_t named = std::min(ranks.size(), most_named);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t k = 0; k < named; ++k) {
    const bool last = k > 0 && k + 1 == ranks.size();
    text += (k == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[k]);
  }
  if (ranks.size() > named) text += " and " + std::to_string(ranks.size() - named) + " more";
  return text;
}

}  // namespace

// One thread at a time gives the host a turn; the others need not wait for it or repeat it.
int NodeBoard::look_for_failure() noexcept {
  if (client_ == nullptr || is_looking_.test_and_set(std::memory_order_acquire)) return 0;
  FailureNotice told;
  const int code = client_->take_turn(told);
  if (told.word != 0) [[unlikely]] {
    std::uint64_t none = 0;
    if (!size_.compares_calls)
      board().broken().compare_exchange_strong(none, told.word, std::memory_order_relaxed);
    else
      run_ignoring_exceptions([&] { mark_broken(Failure::told(told)); });
  }
  is_looking_.clear(std::memory_order_release);
  return code;
}

bool NodeBoard::is_given_up() noexcept {
  if (client_ != nullptr && client_->gets_failure_messages() && look_for_failure() != 0) return true;
  return board().broken().load(std::memory_order_relaxed) != 0;
}

void NodeBoard::progress() {
  if (client_ != nullptr) client_->check();
  if (const int code = look_for_failure(); code != 0)
    throw CommunicationError("the network can no longer look for messages", code);
  // The program may use groups without MPI in threads that must not call MPI.
  operations_under_way.advance(client_ != nullptr && client_->is_host() ? HostCalls::messages
                                                                        : HostCalls::none);
  const std::uint64_t broken = board().broken().load(std::memory_order_acquire);
  if (broken == 0) return;
  if (size_.compares_calls) throw failure();
  const Failure failed(broken);
  throw CommunicationError("rank " + std::to_string(failed.rank()) + std::string(space_) + " has failed",
                           failed.error_class());
}

void NodeBoard::progress(Stage& stage) {
  progress();
  // The looks below make system calls, which a short wait should not pay for.
  constexpr std::uint64_t us_between_looks = 4000;
  const std::uint64_t now = ProcessorClock::now();
  if (now - stage.last_look_.load(std::memory_order_relaxed) <
      us_between_looks * ProcessorClock::ticks_per_us())
    return;
  stage.last_look_.store(now, std::memory_order_relaxed);
  look_around(stage);
}

bool NodeBoard::has_come(const Stage& stage, int member) const {
  const Board& board = stage.board;
  if (stage.record_ != nullptr) return has_begun_call(board, member, stage.record_->number);
  return board.presence(member).entered.load(std::memory_order_relaxed) >= board.current_call_number;
}

void NodeBoard::look_around(Stage& stage) {
  const std::int64_t now_ns = monotonic_ns();
  if (stage.record_ != nullptr) {
    if (const auto mismatch = find_mismatch(stage.board, locality_, *stage.record_, *stage.call_))
      throw BoardError(Trouble::mismatch, mismatch->rank, mismatch->text);
    if (stage.deadline_ns_ > 0 && now_ns > stage.deadline_ns_) report_timeout(stage);
  }
  constexpr std::int64_t between_peer_looks_ns = 100 * ns_per_ms;
  if (now_ns - stage.last_peer_look_ns_ < between_peer_looks_ns) return;
  // The first look of a wait does nothing: most waits are over by then.
  const bool is_first = now_ns - stage.last_peer_look_ns_ > 4 * between_peer_looks_ns;
  stage.last_peer_look_ns_ = now_ns;
  if (is_first) {
    stage.dead_since_ns_ = 0;
    return;
  }
  // Calls that proceed while the program computes use several stages in turn, and the last sign of another
  // rank's call may be on any of them.
  if (std::ranges::any_of(stages_, [](const auto& each) { return each->board.shows_other_collective(); }))
    throw BoardError(
        Trouble::mismatch, named_rank(),
        "mismatched collectives: another rank has made another one, or a rank was left out of an "
        "earlier one");
  if (client_ != nullptr) {
    if (const auto loss = client_->find_loss()) throw *loss;
  }
  if (client_ == nullptr || !client_->detects_dead_processes()) look_at_peers(stage, now_ns);
}

// A rank that has died before it came to this call is missing forever. One that has died later may have done
// its part, so this rank waits a little longer: what it waits for may be there at its next look, or come from
// another rank.
void NodeBoard::look_at_peers(Stage& stage, std::int64_t now_ns) {
  constexpr std::int64_t patience_with_dead_ns = 500 * ns_per_ms;
  for (int member = 0; member < shape_.ranks; ++member) {
    if (member == locality_.member) continue;
    if (has_left(member)) {
      if (stage.record_ != nullptr && !has_come(stage, member)) throw has_left_error(member);
      continue;
    }
    if (!has_died(member)) continue;
    if (stage.dead_since_ns_ == 0) stage.dead_since_ns_ = now_ns;
    if (has_come(stage, member) && now_ns - stage.dead_since_ns_ < patience_with_dead_ns) continue;
    throw has_died_error(member);
  }
}

std::string NodeBoard::name_of(int member) const {
  return "rank " + std::to_string(number_of(member)) + std::string(space_);
}

BoardError NodeBoard::has_left_error(int member) const {
  return {Trouble::rank, number_of(member), name_of(member) + " has left the group"};
}

BoardError NodeBoard::has_died_error(int member) const {
  return {Trouble::death, number_of(member), "the process of " + name_of(member) + " has died"};
}

std::optional<BoardError> NodeBoard::find_loss(int member) {
  if (has_left(member)) return has_left_error(member);
  if (has_died(member)) return has_died_error(member);
  return std::nullopt;
}

void NodeBoard::report_timeout(const Stage& stage) const {
  std::vector<int> missing;
  for (int member = 0; member < shape_.ranks; ++member) {
    if (member != locality_.member && !has_come(stage, member)) missing.push_back(number_of(member));
  }
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g", stage.timeout_s_);
  throw BoardError(Trouble::timeout, missing.empty() ? named_rank() : missing.front(),
                   call(stage.board) + ": rank " + std::to_string(named_rank()) + " has waited " + limit +
                       " s for " + awaited(missing, "ranks that have begun it"));
}

std::string NodeBoard::awaited(const std::vector<int>& missing, std::string_view nobody) const {
  if (!missing.empty()) return rank_list(missing);
  if (locality_.membership.nodes() == 1) return std::string(nobody);
  const std::vector<int> elsewhere = client_ != nullptr ? client_->awaited_ranks() : std::vector<int>();
  return elsewhere.empty() ? "ranks on other nodes" : rank_list(elsewhere) + " on other nodes";
}

void NodeBoard::give_up(int failed, const char* why, int code) noexcept {
  const Failure mine(failed, client_ != nullptr ? client_->error_class(code) : code);
  std::uint64_t none = 0;
  const bool is_first =
      board().broken().compare_exchange_strong(none, mine.word(), std::memory_order_relaxed);
  board().bell().ring();
  // Only the rank that failed first tells other nodes. The other ranks of its node, and nodes that were told,
  // need not.
  if (!is_first) return;
  if (why != nullptr)
    run_unless_out_of_memory([&] {
      say(call(board()) + ": rank " + std::to_string(failed) + std::string(space_) + " has failed: " + why +
          "; this " + std::string(everyone_) + " can no longer be used");
    });
  if (client_ == nullptr || !client_->gets_failure_messages()) return;
  client_->tell_other_nodes({.word = mine.word(), .reason = {}});
}

// Each rank writes its own reason, and nobody else does. It is complete before `broken` names it, and never
// changes afterwards.
bool NodeBoard::mark_broken(const BoardError& error) noexcept {
  bool is_first = false;
  {
    const std::lock_guard lock(reason_lock_);
    Board::Word& broken = board().broken();
    if (broken.load(std::memory_order_acquire) == 0) {
      const std::string_view text(error.what());
      char* const failure_text = board().failure_text(locality_.member);
      failure_text[text.copy(failure_text, BoardShape::failure_text_bytes - 1)] = '\0';
      std::uint64_t none = 0;
      is_first = broken.compare_exchange_strong(none, Failure(error, locality_.member).word(),
                                                std::memory_order_acq_rel);
    }
  }
  board().bell().ring();
  return is_first;
}

BoardError NodeBoard::break_off(const BoardError& error) {
  const bool is_first = mark_broken(error);
  if (is_first && client_ != nullptr) {
    FailureNotice notice{.word = board().broken().load(std::memory_order_acquire), .reason = {}};
    std::memcpy(notice.reason, board().failure_text(locality_.member), sizeof notice.reason);
    client_->tell_other_nodes(notice);
  }
  return failure();
}

BoardError NodeBoard::failure() const {
  const Failure found(stages_.front()->board.broken().load(std::memory_order_acquire));
  const char* const failure_text = stages_.front()->board.failure_text(found.writer());
  return {found.trouble(), found.rank(),
          std::string(failure_text, strnlen(failure_text, BoardShape::failure_text_bytes))};
}

namespace {

// Returns where the program of a late rank is, or an empty text. `number` is its rank in the world.
std::string where_text(int number) {
  const std::uint64_t job = CounterFile::of_process(true).job();
  if (job == 0) return {};
  for (const MappedCounters& each : counters_of_job(job)) {
    if (each.header().rank != number || each.header().pid == getpid()) continue;
    const std::string where = ask_where(each);
    return where.empty() ? where : "; rank " + std::to_string(number) + " is in " + where;
  }
  return {};
}

}  // namespace

std::string NodeBoard::call(const Board& board) const {
  return std::string(offbeat::name_of(board.current)) + " number " +
         std::to_string(board.current_call_number) + " on this " + std::string(everyone_) + ", " +
         std::to_string(board.current_bytes) + " bytes, " + std::to_string(board.size) + " ranks on " +
         host_name_;
}

void NodeBoard::report_stall(Stage& stage, std::int64_t waited_ns, bool over) {
  const Board& board = stage.board;
  const auto entered = [&](int rank) { return board.presence(rank).entered.load(std::memory_order_relaxed); };
  // If ranks are many calls apart, all of them wait for those furthest behind. A rank that has entered call 0
  // has entered no call yet, or has freed its communicator.
  std::uint64_t least = board.current_call_number;
  for (int rank = 0; rank < board.size && stage.record_ == nullptr; ++rank)
    least = std::min(least, entered(rank));
  std::vector<int> missing;
  bool lower_rank_waits = false;
  for (int rank = 0; rank < board.size; ++rank) {
    const std::uint64_t number = entered(rank);
    const bool is_missing = stage.record_ != nullptr ? rank != board.rank && !has_come(stage, rank)
                                                     : number < board.current_call_number;
    if (is_missing) {
      if (stage.record_ != nullptr || least == 0 || number <= least) missing.push_back(number_of(rank));
    } else if (rank < board.rank) {
      lower_rank_waits = true;
    }
  }
  // Only the lowest rank that waits on this node prints a line. It prints another one when its wait ends.
  if (over ? !stage.reported_ : lower_rank_waits) return;
  stage.reported_ = !over;

  const std::string time = seconds_text(waited_ns);
  if (over) {
    const bool has_failed = board.broken().load(std::memory_order_relaxed) != 0;
    say(call(board) + (has_failed ? ": failed after " : ": complete after ") + time);
    return;
  }
  const std::string whom =
      awaited(missing, "ranks that have entered it") + (missing.empty() ? "" : " on " + host_name_);
  std::string line = call(board) + ": rank " + std::to_string(named_rank()) + " has waited " + time +
                     " for " + whom + (space_.empty() ? "" : " (ranks" + std::string(space_) + ")");
  // Numbers without a space are those of a group, which may have other ranks than the world.
  const bool are_of_world =
      !space_.empty() || CounterFile::of_process(true).is_rank(named_rank(), locality_.membership.ranks());
  if (!missing.empty() && are_of_world) line += where_text(missing.front());
  say(line);
}

}  // namespace offbeat
