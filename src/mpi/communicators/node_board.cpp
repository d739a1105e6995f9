// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/node_board.hpp"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "mpi/communicators/set_up.hpp"
#include "mpi/operations/operation.hpp"
#include "node/cores.hpp"

namespace offbeat {
namespace {

// Failure is the value of Board::broken. It is never 0.
class Failure {
 public:
  // `error_class` is a class of the host MPI, whose classes have equal numbers on all ranks.
  Failure(int world_rank, int error_class)
      : word_(static_cast<std::uint64_t>(static_cast<std::uint32_t>(error_class)) << 32 |
              (static_cast<std::uint32_t>(world_rank) + 1)) {}
  explicit Failure(std::uint64_t word) : word_(word) {}
  [[nodiscard]] std::uint64_t word() const { return word_; }
  [[nodiscard]] int world_rank() const { return static_cast<int>(word_ & 0xffffffff) - 1; }
  [[nodiscard]] int error_class() const { return static_cast<int>(word_ >> 32); }

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
    if (locality.here().size() > static_cast<std::size_t>(Board::most_ranks)) {
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
    if (!set_up.all(try_to([&] { addresses.resize(ranks); }))) return file_;
    const auto address_of = [&](int rank) -> const Mailbox::Address& {
      return addresses[static_cast<std::size_t>(rank)];
    };
    Mailbox mailbox(refusals_);
    set_up.gather(mailbox.address(), addresses.data());
    if (locality_.member > 0) mailbox.listen_to(address_of(locality_.here().front()), refusals_);
    static_cast<void>(set_up.all(true));  // from here on, all listen
    if (locality_.member == 0) {
      for (const int rank : locality_.here().subspan(1)) mailbox.send(file_, address_of(rank), refusals_);
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

// Prints once per process, on the first rank that was refused the first time. The other ranks never print it.
void say_why_not(const Refusals& refusals, std::size_t ranks, bool is_first) {
  static std::atomic<bool> said{false};
  if (said.exchange(true) || !is_first) return;
  std::string why;
  for (const Refusal& refusal : refusals) {
    why += (why.empty() ? "" : "; ") + std::string(refusal.call) + ": " + std::strerror(refusal.code);
  }
  say("no shared memory for " + std::to_string(ranks) + " ranks on " + host_name() + " (" + why +
      "): messages are used instead");
}

Patience patience_for(const Settings& settings, bool shares_cores) {
  Patience patience{.shares_cores = shares_cores, .stall = {.after_s = settings.stall_s}};
  switch (settings.wait) {
    case WaitPolicy::automatic:
      break;
    case WaitPolicy::spin:
      patience.shares_cores = false;
      patience.gives_way = false;
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

// Guesses from what is known without asking the other ranks.
bool seems_to_share_cores() {
  static const bool does = launcher_ranks_on_node() > std::min(get_nprocs(), quota());
  return does;
}

}  // namespace

// Everything that can fail on one rank alone happens before a vote.
std::unique_ptr<NodeBoard> NodeBoard::create(SetUp& set_up, const Locality& locality,
                                             const std::vector<int>& world_ranks, const Settings& settings,
                                             WindowBudget& budget, const BoardSize& size) {
  BoardShape shape{.ranks = static_cast<int>(locality.here().size()),
                   .window_bytes = size.window_bytes,
                   .stages = size.stages};
  Refusals refusals;
  std::optional<HandOut> memory_of_node;
  std::vector<CoreSet> cores;
  const bool is_ready = try_to([&] {
    memory_of_node.emplace(locality, shape, refusals);
    cores.resize(locality.here().size());
  });
  if (!is_ready) refusals.add("malloc", ENOMEM);
  shape.stages = set_up.least(is_ready ? memory_of_node->stages() : 0);
  int first = shape.stages > 0 ? 0 : set_up.first_without(is_ready && memory_of_node->stages() > 0);
  for (; shape.stages > 0; shape.stages = shape.stages > 1 ? 1 : 0) {
    for (const auto way : {&HandOut::by_offer, &HandOut::by_socket}) {
      const Descriptor& file = ((*memory_of_node).*way)(set_up, shape.total_bytes());
      std::unique_ptr<NodeBoard> mine;
      const bool is_made = try_to([&] {
        SharedMemory memory = SharedMemory::map(file, shape.total_bytes(), refusals);
        if (!memory) return;
        mine.reset(
            new NodeBoard(set_up.host(), std::move(memory), shape, size, locality, world_ranks, budget));
      });
      if (locality.member == 0 && mine != nullptr && can_give_pages_back(file)) mine->board().open_gate();
      if (!is_made) refusals.add("malloc", ENOMEM);
      first = set_up.first_without(mine != nullptr);
      if (first == locality.membership.ranks()) {
        mine->look_at_cores(settings, cores);
        return mine;
      }
    }
  }
  try_to([&] { say_why_not(refusals, locality.here().size(), first == set_up.rank); });
  return nullptr;
}

Patience patience_without_board(const Settings& settings) {
  Patience patience = patience_for(settings, seems_to_share_cores());
  patience.stall.after_s = 0;  // without a board, no rank can tell which one is late
  return patience;
}

NodeBoard::Stage::Stage(NodeBoard& owner, int index)
    : board(owner.memory_.data(), owner.shape_, owner.locality_.member, {}, index), owner_(owner) {
  board.patience.turn = {.call = [](void* state) { static_cast<NodeBoard*>(state)->progress(); },
                         .state = &owner};
  board.patience.stall = {.call =
                              [](void* state, double waited_s, bool over) {
                                auto* stage = static_cast<Stage*>(state);
                                try_to([&] { stage->owner_.report_stall(*stage, waited_s, over); });
                              },
                          .state = this};
}

// The budget makes other boards give their pages back, but never this one, because it is in use.
void NodeBoard::Stage::keep(std::size_t used) noexcept {
  const std::size_t before = kept_bytes_.exchange(used, std::memory_order_relaxed);
  owner_.budget_.add(owner_, 2 * (used - before));
}

bool NodeBoard::give_pages_back() noexcept {
  return board().give_pages_back([this](std::byte* pages, std::size_t bytes) {
    SharedMemory::give_back(pages, bytes);
    for (int k = 0; k < stages(); ++k) stage(k).kept_bytes_.store(0, std::memory_order_relaxed);
    kept_bytes = 0;
  });
}

NodeBoard::NodeBoard(const Host& host, SharedMemory memory, const BoardShape& shape, const BoardSize& size,
                     const Locality& locality, const std::vector<int>& world_ranks, WindowBudget& budget)
    : host_(&host),
      budget_(budget),
      memory_(std::move(memory)),
      shape_(shape),
      size_(size),
      locality_(locality),
      host_name_(host_name()) {
  stages_.reserve(static_cast<std::size_t>(stages()));
  for (int k = 0; k < stages(); ++k) stages_.push_back(std::make_unique<Stage>(*this, k));
  world_ranks_.reserve(locality.here().size());
  for (const int rank : locality.here()) world_ranks_.push_back(world_ranks[static_cast<std::size_t>(rank)]);
  // Only windows of at least a huge page get huge pages. Smaller windows would share one with windows of
  // other ranks, near the core that touched it first.
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  if (shape.window_bytes >= huge_page) memory_.prefer_huge_pages();
  // look_at_cores() of the other ranks reads this. They write nothing here before they have read it.
  std::memcpy(board().inline_slot(0, locality_.member).data, &cores_, sizeof cores_);
}

void NodeBoard::look_at_cores(const Settings& settings, std::span<CoreSet> work_space) {
  for (int rank = 0; rank < shape_.ranks; ++rank) {
    CoreSet& cores = work_space[static_cast<std::size_t>(rank)];
    // On a board of two ranks, the other one may already be in its first collective and use this rank's slot.
    if (rank == locality_.member) {
      cores = cores_;
    } else {
      std::memcpy(&cores, board().inline_slot(0, rank).data, sizeof cores);
    }
  }
  // All ranks compute this from equal data, because it decides how messages are cut.
  const int at_once = std::clamp(together(work_space).count(), 1, shape_.ranks);
  // A finding of one communicator also holds for its parts on this node, because the other ranks are still
  // there.
  static std::atomic<bool> cores_are_shared{false};
  if (seems_to_share_cores() || shape_.ranks > quota() || must_share_cores(work_space))
    cores_are_shared = true;
  const Patience chosen = patience_for(settings, cores_are_shared);
  for (int k = 0; k < stages(); ++k) {
    Board& board = stage(k).board;
    board.at_once = at_once;
    board.patience.shares_cores = chosen.shares_cores;
    board.patience.gives_way = chosen.gives_way;
    board.patience.sleep_after_s = chosen.sleep_after_s;
    board.patience.stall.after_s = chosen.stall.after_s;
  }
}

void NodeBoard::rest() {
  turn_.reset();
  client_ = {};
  for (int k = 0; k < stages(); ++k) stage(k).board.waiters = nullptr;
  board().entered = 0;
  board().presence(locality_.member).entered.store(0, std::memory_order_relaxed);
}

// One thread at a time gives the host a turn; the others need not wait for it or repeat it.
int NodeBoard::look_for_failure() noexcept {
  if (!turn_ || is_looking_.test_and_set(std::memory_order_acquire)) return MPI_SUCCESS;
  const int code = take_turn();
  is_looking_.clear(std::memory_order_release);
  return code;
}

int NodeBoard::take_turn() noexcept {
  int code = turn_->take();
  if (code != MPI_SUCCESS || client_.failure_tag < 0) return code;
  int is_told = 0;
  code = host_->Iprobe(MPI_ANY_SOURCE, client_.failure_tag, client_.messages, &is_told, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS || is_told == 0) return code;
  std::uint64_t told = 0, none = 0;
  code = host_->Recv(&told, sizeof told, MPI_BYTE, MPI_ANY_SOURCE, client_.failure_tag, client_.messages,
                     MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS) board().broken().compare_exchange_strong(none, told, std::memory_order_relaxed);
  return code;
}

bool NodeBoard::is_given_up() noexcept {
  if (client_.failure_tag >= 0 && look_for_failure() != MPI_SUCCESS) return true;
  return board().broken().load(std::memory_order_relaxed) != 0;
}

void NodeBoard::progress() {
  if (client_.check != nullptr) client_.check(client_.state);
  if (const int code = look_for_failure(); code != MPI_SUCCESS)
    throw CommunicationError("the MPI can no longer look for messages", code);
  operations_under_way.advance(HostCalls::messages);
  const std::uint64_t broken = board().broken().load(std::memory_order_relaxed);
  if (broken == 0) return;
  const Failure failure(broken);
  throw CommunicationError("rank " + std::to_string(failure.world_rank()) + " of MPI_COMM_WORLD has failed",
                           failure.error_class());
}

void NodeBoard::give_up(int failed, const char* why, int code) noexcept {
  Board::Word& broken = board().broken();
  // A thread of offbeat calls this only for lack of memory, and then asks the host for nothing.
  int error_class = code;
  if (code != MPI_ERR_NO_MEM && code != MPI_ERR_OTHER) host_->Error_class(code, &error_class);
  const Failure mine(failed, error_class);
  std::uint64_t none = 0;
  const bool is_first = broken.compare_exchange_strong(none, mine.word(), std::memory_order_relaxed);
  board().bell().ring();
  // Only the rank that failed first tells other nodes. The other ranks of its node, and nodes that were told,
  // need not.
  if (!is_first) return;
  if (why != nullptr)
    try_to([&] {
      say(call(board()) + ": rank " + std::to_string(failed) + " of MPI_COMM_WORLD has failed: " + why +
          "; this communicator can no longer be used");
    });
  if (client_.failure_tag < 0) return;
  // All ranks of the other nodes get the notice, because it is unknown which of them have left the collective
  // and look no more.
  notice_ = mine.word();
  const Membership& all = locality_.membership;
  for (int rank = 0; rank < all.ranks(); ++rank) {
    if (all.node_of(rank) == locality_.node) continue;
    MPI_Request request;
    if (host_->Isend(&notice_, sizeof notice_, MPI_BYTE, rank, client_.failure_tag, client_.messages,
                     &request) == MPI_SUCCESS) {
      host_->Request_free(&request);
    }
  }
}

std::string NodeBoard::call(const Board& board) const {
  return std::string(name_of(board.current)) + " number " + std::to_string(board.entered) +
         " on this communicator, " + std::to_string(board.current_bytes) + " bytes, " +
         std::to_string(board.size) + " ranks on " + host_name_;
}

void NodeBoard::report_stall(Stage& stage, double waited_s, bool over) {
  const Board& board = stage.board;
  std::vector<int> missing;
  bool lower_rank_waits = false;
  for (int rank = 0; rank < board.size; ++rank) {
    if (board.presence(rank).entered.load(std::memory_order_relaxed) < board.entered) {
      missing.push_back(world_ranks_[static_cast<std::size_t>(rank)]);
    } else if (rank < board.rank) {
      lower_rank_waits = true;
    }
  }
  // The first rank that waits prints one line for the node. It also prints when the wait is over.
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
  say(call(board) + ": rank " + std::to_string(world_rank()) + " has waited " + time + " for " + whom +
      " (ranks of MPI_COMM_WORLD)");
}

}  // namespace offbeat
