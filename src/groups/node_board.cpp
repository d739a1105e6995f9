// SPDX-License-Identifier: BSD-3-Clause
#include "groups/node_board.hpp"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "groups/operation.hpp"
#include "groups/set_up.hpp"
#include "node/cores.hpp"

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

// HandOut passes the leader's memory file to all ranks of a node. If that fails, they get none.
class HandOut {
 public:
  // Creates the leader's file, which by_offer() passes on. `shape` has the number of stages that is wanted. A
  // rank that has no room for them may have room for one stage, because /dev/shm may be small, and address
  // space limited.
  HandOut(const Locality& locality, BoardShape shape, Refusals& refusals)
      : locality_(locality),
        refusals_(refusals),
        offers_(static_cast<std::size_t>(locality.membership.nodes())),
        lists_(offers_.size() == 1 ? 0 : 2 * static_cast<std::size_t>(locality.membership.ranks())) {
    if (shape.stages > 1 && !has_address_space_for(shape.total_bytes())) shape.stages = 1;
    if (!has_address_space_for(shape.total_bytes())) {
      refusals.add("RLIMIT_AS", ENOMEM);
      return;
    }
    stages_ = shape.stages;
    if (locality.member > 0) return;
    if (locality.ranks_of_own_node().size() > static_cast<std::size_t>(Board::most_ranks)) {
      refusals.add("a board", E2BIG);
      return;
    }
    file_ = make_memory(shape.total_bytes(), refusals);
    if (file_ || shape.stages == 1) return;
    stages_ = shape.stages = 1;
    file_ = make_memory(shape.total_bytes(), refusals);
  }

  // Returns how many stages this rank has room for, as far as it knows; 0 for none.
  [[nodiscard]] int stages() const { return stages_; }

  // Both functions are collective. `bytes` is the least size of the file. A rank needs only the offer of its
  // leader. But only the communicator connects the two, so every rank gets the offers of all nodes.
  const Descriptor& by_offer(SetUp& set_up, std::size_t bytes) {
    const Membership& all = locality_.membership;
    const MemoryOffer mine = locality_.member == 0 ? offer_of(file_) : MemoryOffer{};
    set_up.gather_from(
        all.nodes(), [&](int node) { return all.rank(node, 0); }, mine, offers_.data(), lists_);
    if (locality_.member > 0) file_ = accept(of_leader(), bytes, refusals_);
    return file_;
  }

  // Call this after by_offer() if ranks cannot open the leader's file.
  const Descriptor& by_socket(SetUp& set_up, std::size_t bytes) {
    std::vector<Mailbox::Address> addresses;
    const auto ranks = static_cast<std::size_t>(locality_.membership.ranks());
    if (!set_up.all(run_unless_out_of_memory([&] { addresses.resize(ranks); }))) return file_;
    const auto address_of = [&](int rank) -> const Mailbox::Address& {
      return addresses[static_cast<std::size_t>(rank)];
    };
    Mailbox mailbox(refusals_);
    set_up.gather(mailbox.address(), addresses.data());
    if (locality_.member > 0) mailbox.listen_to(address_of(locality_.ranks_of_own_node().front()), refusals_);
    static_cast<void>(set_up.all(true));  // from here on, all listen
    if (locality_.member == 0) {
      for (const int rank : locality_.ranks_of_own_node().subspan(1))
        mailbox.send(file_, address_of(rank), refusals_);
    }
    static_cast<void>(set_up.all(true));  // from here on, everything is sent
    if (locality_.member > 0) file_ = mailbox.take(of_leader(), bytes, refusals_);
    return file_;
  }

 private:
  [[nodiscard]] const MemoryOffer& of_leader() const {
    return offers_[static_cast<std::size_t>(locality_.node)];
  }

  const Locality& locality_;
  Refusals& refusals_;
  std::vector<MemoryOffer> offers_;  // from the leader of each node
  std::vector<int> lists_;           // work space
  Descriptor file_;                  // the leader keeps it open until all ranks have it
  int stages_ = 0;
};

std::string host_name() {
  char name[256] = "?";
  gethostname(name, sizeof name - 1);
  return name;
}

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

// Says why there is no board.
std::string why_not_text(const Refusals& refusals, std::size_t ranks) {
  std::string why;
  for (const Refusal& refusal : refusals) {
    why += (why.empty() ? "" : "; ") + std::string(refusal.call) + ": " + std::strerror(refusal.code);
  }
  return "no shared memory for " + std::to_string(ranks) + " ranks on " + host_name() + " (" + why + ")";
}

Patience patience_for(const Settings& settings, bool shares_cores) {
  Patience patience{.shares_cores = shares_cores, .stall = {.after_s = settings.stall_s}};
  switch (settings.wait) {
    case WaitPolicy::automatic:
      break;
    case WaitPolicy::spin:
      patience.shares_cores = false;
      patience.yields_to_threads = false;
      break;
    case WaitPolicy::sleep:
      patience.sleep_after_s = 0;
      [[fallthrough]];
    case WaitPolicy::yield:
      patience.shares_cores = true;
  }
  return patience;
}

int quota() {
  static const int cores = core_quota();
  return cores;
}

// Guesses whether ranks share cores, without asking them: from the launcher's count of ranks on this node,
// the processors and the CPU quota.
bool seems_to_share_cores() {
  static const bool does = launcher_ranks_on_node() > std::min(get_nprocs(), quota());
  return does;
}

}  // namespace

// Everything that can fail on one rank alone happens before a vote.
std::unique_ptr<NodeBoard> NodeBoard::create(SetUp& set_up, const Locality& locality, const RankNames& names,
                                             const Settings& settings, WindowBudget& budget,
                                             const BoardSize& size, std::string& why_not) {
  BoardShape shape{.ranks = static_cast<int>(locality.ranks_of_own_node().size()),
                   .window_bytes = size.window_bytes,
                   .stages = size.stages,
                   .compares_calls = size.compares_calls,
                   .ring_bytes = size.ring_bytes};
  Refusals refusals;
  std::optional<HandOut> memory_of_node;
  std::vector<CoreSet> cores;
  const bool is_ready = run_unless_out_of_memory([&] {
    memory_of_node.emplace(locality, shape, refusals);
    cores.resize(locality.ranks_of_own_node().size());
  });
  if (!is_ready) refusals.add("malloc", ENOMEM);
  shape.stages = set_up.least(is_ready ? memory_of_node->stages() : 0);
  int first = shape.stages > 0 ? 0 : set_up.first_without(is_ready && memory_of_node->stages() > 0);
  for (; shape.stages > 0; shape.stages = shape.stages > 1 ? 1 : 0) {
    for (const auto way : {&HandOut::by_offer, &HandOut::by_socket}) {
      const Descriptor& file = ((*memory_of_node).*way)(set_up, shape.total_bytes());
      std::unique_ptr<NodeBoard> mine;
      const bool is_made = run_unless_out_of_memory([&] {
        SharedMemory memory = SharedMemory::map(file, shape.total_bytes(), refusals);
        if (!memory) return;
        mine.reset(new NodeBoard(std::move(memory), shape, size, locality, names, budget));
      });
      if (locality.member == 0 && mine != nullptr && can_give_pages_back(file)) mine->board().open_gate();
      if (!is_made) refusals.add("malloc", ENOMEM);
      first = set_up.first_without(mine != nullptr);
      if (first == locality.membership.ranks()) {
        mine->meet_others(settings, cores);
        return mine;
      }
    }
  }
  if (first == set_up.rank)
    run_unless_out_of_memory([&] { why_not = why_not_text(refusals, locality.ranks_of_own_node().size()); });
  return nullptr;
}

Patience patience_without_board(const Settings& settings) {
  Patience patience = patience_for(settings, seems_to_share_cores());
  patience.stall.after_s = 0;  // without a board, no rank can tell which one is late
  return patience;
}

NodeBoard::Stage::Stage(NodeBoard& owner, int index)
    : board(owner.memory_.data(), owner.shape_, owner.locality_.member, {}, index), owner_(owner) {
  board.patience.turn = {.call =
                             [](void* state) {
                               auto* stage = static_cast<Stage*>(state);
                               stage->owner_.progress(*stage);
                             },
                         .state = this};
  board.patience.stall = {
      .call =
          [](void* state, double waited_s, bool over) {
            auto* stage = static_cast<Stage*>(state);
            run_unless_out_of_memory([&] { stage->owner_.report_stall(*stage, waited_s, over); });
          },
      .state = this};
}

// The budget makes other boards give their pages back, but never this one, because it is in use.
void NodeBoard::Stage::keep(std::size_t used) noexcept {
  const std::size_t before = kept_bytes_.exchange(used, std::memory_order_relaxed);
  owner_.budget_.add(owner_, 2 * (used - before));
}

// A driver copies from and to the pages that it found here. So nobody may give them back.
void NodeBoard::Stage::register_windows(const StandInCopies& vectors) noexcept {
  const DeviceCopies* const copies = vectors.on_device();
  const DeviceMemory* const memory = copies != nullptr ? copies->device_in_use() : nullptr;
  if (memory == nullptr || registration_) return;
  registration_.emplace(*memory, board.windows(), board.shape().windows_bytes());
  if (!*registration_) return;
  board.keep_pages();
  if (board.shape().window_bytes > kept_bytes_.load(std::memory_order_relaxed))
    keep(board.shape().window_bytes);
}

bool NodeBoard::give_pages_back() noexcept {
  return board().give_pages_back([this](std::byte* pages, std::size_t bytes) {
    SharedMemory::give_back(pages, bytes);
    for (int k = 0; k < stages(); ++k) stage(k).kept_bytes_.store(0, std::memory_order_relaxed);
    kept_bytes = 0;
  });
}

NodeBoard::NodeBoard(SharedMemory memory, const BoardShape& shape, const BoardSize& size,
                     const Locality& locality, const RankNames& names, WindowBudget& budget)
    : budget_(budget),
      memory_(std::move(memory)),
      shape_(shape),
      size_(size),
      locality_(locality),
      space_(names.space),
      everyone_(names.everyone),
      host_name_(host_name()) {
  stages_.reserve(static_cast<std::size_t>(stages()));
  for (int k = 0; k < stages(); ++k) stages_.push_back(std::make_unique<Stage>(*this, k));
  ranks_.reserve(locality.ranks_of_own_node().size());
  for (const int rank : locality.ranks_of_own_node())
    ranks_.push_back(names.numbers[static_cast<std::size_t>(rank)]);
  peers_.reserve(locality.ranks_of_own_node().size());
  // Only windows of at least a huge page get huge pages. Smaller windows would share one with windows of
  // other ranks, near the core that touched it first.
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  if (shape.window_bytes >= huge_page) memory_.prefer_huge_pages();
  // meet_others() of the other ranks reads this. They write nothing here before they have read it.
  static_assert(sizeof mine_ <= BoardShape::inline_bytes);
  std::memcpy(board().inline_slot(0, locality_.member).data, &mine_, sizeof mine_);
}

void NodeBoard::meet_others(const Settings& settings, std::span<CoreSet> work_space) {
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    Introduction other = mine_;
    // On a board of two ranks, the other one may already be in its first collective and use this rank's slot.
    if (rank != locality_.member) std::memcpy(&other, board().inline_slot(0, rank).data, sizeof other);
    work_space[static_cast<std::size_t>(rank)] = other.cores;
    peers_.emplace_back(other.process);
  }
  // All ranks compute this from equal data, because it decides how messages are cut.
  const int at_once = std::clamp(union_of(work_space).count(), 1, shape_.ranks);
  // A finding of one communicator also holds for its parts on this node, because the other ranks are still
  // there.
  static std::atomic<bool> cores_are_shared{false};
  if (seems_to_share_cores() || shape_.ranks > quota() || must_share_cores(work_space))
    cores_are_shared = true;
  const Patience chosen = patience_for(settings, cores_are_shared);
  for (int k = 0; k < stages(); ++k) {
    Board& board = stage(k).board;
    board.concurrent_ranks = at_once;
    board.patience.shares_cores = chosen.shares_cores;
    board.patience.yields_to_threads = chosen.yields_to_threads;
    board.patience.sleep_after_s = chosen.sleep_after_s;
    board.patience.stall.after_s = chosen.stall.after_s;
  }
}

void NodeBoard::rest() {
  client_.reset();
  for (int k = 0; k < stages(); ++k) stage(k).board.waiters = nullptr;
  board().current_call_number = 0;
  board().presence(locality_.member).entered.store(0, std::memory_order_relaxed);
}

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
    throw CommunicationError("the MPI can no longer look for messages", code);
  // The program may use groups without MPI in threads that must not call MPI.
  operations_under_way.advance(client_ != nullptr ? HostCalls::messages : HostCalls::none);
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
  const double now_s = monotonic_s();
  if (stage.record_ != nullptr) {
    if (const auto mismatch = find_mismatch(stage.board, locality_, *stage.record_, *stage.call_))
      throw BoardError(Trouble::mismatch, mismatch->rank, mismatch->text);
    if (stage.deadline_s_ > 0 && now_s > stage.deadline_s_) report_timeout(stage);
  }
  constexpr double between_peer_looks_s = 0.1;
  if (client_ != nullptr && client_->detects_dead_processes()) return;
  if (now_s - stage.last_peer_look_s_ < between_peer_looks_s) return;
  // The first look of a wait does nothing: most waits are over by then.
  const bool is_first = now_s - stage.last_peer_look_s_ > 4 * between_peer_looks_s;
  stage.last_peer_look_s_ = now_s;
  if (is_first) {
    stage.dead_since_s_ = 0;
  } else {
    look_at_peers(stage, now_s);
  }
}

// A rank that has died before it came to this call is missing forever. One that has died later may have done
// its part, so this rank waits a little longer: what it waits for may be there at its next look, or come from
// another rank.
void NodeBoard::look_at_peers(Stage& stage, double now_s) {
  constexpr double patience_with_dead_s = 0.5;
  for (int member = 0; member < shape_.ranks; ++member) {
    if (member == locality_.member) continue;
    const std::string name =
        "rank " + std::to_string(ranks_[static_cast<std::size_t>(member)]) + std::string(space_);
    if (has_left(member)) {
      if (stage.record_ != nullptr && !has_come(stage, member))
        throw BoardError(Trouble::rank, ranks_[static_cast<std::size_t>(member)],
                         name + " has left the group");
      continue;
    }
    if (!peers_[static_cast<std::size_t>(member)].is_dead()) continue;
    if (stage.dead_since_s_ == 0) stage.dead_since_s_ = now_s;
    if (has_come(stage, member) && now_s - stage.dead_since_s_ < patience_with_dead_s) continue;
    throw BoardError(Trouble::rank, ranks_[static_cast<std::size_t>(member)],
                     "the process of " + name + " has died");
  }
}

std::optional<BoardError> NodeBoard::find_loss(int member) {
  const int number = ranks_[static_cast<std::size_t>(member)];
  const std::string name = "rank " + std::to_string(number) + std::string(space_);
  if (has_left(member)) return BoardError(Trouble::rank, number, name + " has left the group");
  if (peers_[static_cast<std::size_t>(member)].is_dead())
    return BoardError(Trouble::rank, number, "the process of " + name + " has died");
  return std::nullopt;
}

void NodeBoard::report_timeout(const Stage& stage) const {
  std::vector<int> missing;
  for (int member = 0; member < shape_.ranks; ++member) {
    if (member != locality_.member && !has_come(stage, member))
      missing.push_back(ranks_[static_cast<std::size_t>(member)]);
  }
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g", stage.timeout_s_);
  throw BoardError(Trouble::timeout, missing.empty() ? named_rank() : missing.front(),
                   call(stage.board) + ": rank " + std::to_string(named_rank()) + " has waited " + limit +
                       " s for " +
                       (!missing.empty()                   ? rank_list(missing)
                        : locality_.membership.nodes() > 1 ? "ranks on other nodes"
                                                           : "ranks that have begun it"));
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
      char* const reason = board().failure_text(locality_.member);
      reason[text.copy(reason, BoardShape::failure_text_bytes - 1)] = '\0';
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
  const char* const reason = stages_.front()->board.failure_text(found.writer());
  return {found.trouble(), found.rank(),
          std::string(reason, strnlen(reason, BoardShape::failure_text_bytes))};
}

std::string NodeBoard::call(const Board& board) const {
  return std::string(name_of(board.current)) + " number " + std::to_string(board.current_call_number) +
         " on this " + std::string(everyone_) + ", " + std::to_string(board.current_bytes) + " bytes, " +
         std::to_string(board.size) + " ranks on " + host_name_;
}

void NodeBoard::report_stall(Stage& stage, double waited_s, bool over) {
  const Board& board = stage.board;
  std::vector<int> missing;
  bool lower_rank_waits = false;
  for (int rank = 0; rank < board.size; ++rank) {
    if (board.presence(rank).entered.load(std::memory_order_relaxed) < board.current_call_number) {
      missing.push_back(ranks_[static_cast<std::size_t>(rank)]);
    } else if (rank < board.rank) {
      lower_rank_waits = true;
    }
  }
  // Only the lowest rank that waits on this node prints a line. It prints another one when its wait ends.
  if (over ? !stage.reported_ : lower_rank_waits) return;
  stage.reported_ = !over;

  const std::string time = std::to_string(std::lround(waited_s)) + " s";
  if (over) {
    const bool has_failed = board.broken().load(std::memory_order_relaxed) != 0;
    say(call(board) + (has_failed ? ": failed after " : ": complete after ") + time);
    return;
  }
  const std::string whom = !missing.empty()                   ? rank_list(missing) + " on " + host_name_
                           : locality_.membership.nodes() > 1 ? "ranks on other nodes"
                                                              : "ranks that have entered it";
  say(call(board) + ": rank " + std::to_string(named_rank()) + " has waited " + time + " for " + whom +
      (space_.empty() ? "" : " (ranks" + std::string(space_) + ")"));
}

}  // namespace offbeat
