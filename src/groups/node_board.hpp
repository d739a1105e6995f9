// SPDX-License-Identifier: BSD-3-Clause
// NodeBoard is the board of a group, or one that communicators of the same ranks use in turn: the shared
// memory and this rank's view of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "base/spin_lock.hpp"
#include "groups/call_record.hpp"
#include "groups/window_budget.hpp"
#include "node/board.hpp"
#include "node/cores.hpp"
#include "node/device_copies.hpp"
#include "node/membership.hpp"
#include "node/peer_process.hpp"
#include "node/shared_memory.hpp"
#include "transport/stand_in.hpp"

namespace offbeat {

class SetUp;

// Returns the patience of a rank that waits only for messages, and knows of its node only what the launcher
// says.
[[nodiscard]] Patience patience_without_board(const Settings& settings);

// The size that a board should have. It is equal on all ranks.
struct BoardSize {
  std::size_t window_bytes = 0;
  int stages = 1;
  bool compares_calls = false;
  std::size_t ring_bytes = 0;
  bool operator==(const BoardSize&) const = default;
};

// How messages for people name the ranks of a board.
struct RankNames {
  std::span<const int> numbers;  // of the ranks of the communicator or group, in their order
  std::string_view space;        // follows a number: " of MPI_COMM_WORLD"; empty for a group
  std::string_view everyone;     // "communicator" or "group"
};

// What a rank tells the other nodes when it ends all use of a board.
struct FailureNotice {
  std::uint64_t word = 0;                       // of Board::broken; 0: there is no notice
  char reason[BoardShape::failure_text_bytes];  // why, on the board of a group; set only if there is a notice
};

// BoardClient stands for what the present user of a board has besides the board: the host MPI, or the network
// of a group. A group of one node has none.
class BoardClient {
 public:
  BoardClient() = default;
  BoardClient(const BoardClient&) = delete;
  BoardClient& operator=(const BoardClient&) = delete;
  virtual ~BoardClient() = default;

  // Throws CommunicationError if the user can no longer use its ranks. Called in each turn of a wait.
  virtual void check() = 0;
  // Returns true if this is a host MPI, which must not be called from everywhere.
  [[nodiscard]] virtual bool is_host() const { return true; }
  // Returns an error if a rank of another node is lost, so that a wait is in vain.
  [[nodiscard]] virtual std::optional<BoardError> find_loss() { return std::nullopt; }
  // Returns the ranks of other nodes from which this rank waits for messages, as far as that is known.
  [[nodiscard]] virtual std::vector<int> awaited_ranks() { return {}; }
  // Returns true if failures of other nodes come as messages.
  [[nodiscard]] virtual bool gets_failure_messages() const = 0;
  // Lets the host move messages. Sets `told` if another node has told of a failure. Returns an error code of
  // the host, 0 for success.
  [[nodiscard]] virtual int take_turn(FailureNotice& told) noexcept = 0;
  virtual void tell_other_nodes(const FailureNotice& failure) noexcept = 0;
  // Returns true if check() reports dead processes.
  [[nodiscard]] virtual bool detects_dead_processes() const = 0;
  // Returns the class of an error code. Classes have equal numbers on all ranks.
  [[nodiscard]] virtual int error_class(int code) noexcept = 0;
};

class NodeBoard {
 public:
  // Creates a board. Collective, with equal outcomes on all ranks. Unless all ranks of every node could map
  // their memory, it returns null. One rank then sets `why_not`; it is empty on all others. The board refers
  // to `locality`. Throws CommunicationError.
  static std::unique_ptr<NodeBoard> create(SetUp& set_up, const Locality& locality, const RankNames& names,
                                           const Settings& settings, WindowBudget& budget,
                                           const BoardSize& size, std::string& why_not);
  ~NodeBoard() { budget_.remove(*this); }

  // A stage carries out one collective at a time. The blocking collectives of a communicator use the first
  // stage, and collectives that proceed while the program computes use the others. Persistent requests share
  // boards, and each has a stage of its own there.
  class Stage {
   public:
    Stage(NodeBoard& owner, int index);
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    // Call these before and after a collective that uses windows. `leased` is a number of bytes
    // (Expression::lease).
    void begin_use(std::size_t leased) noexcept {
      board.begin_use();
      owner_.last_use_.store(owner_.budget_.now(), std::memory_order_relaxed);
      const std::size_t used = std::min(leased, board.shape().window_bytes);
      if (used > kept_bytes_.load(std::memory_order_relaxed)) [[unlikely]]
        keep(used);
    }
    void end_use() noexcept { board.end_use(); }
    // Makes the windows known to the driver of a device whose vectors are copied from and to them, once. Call
    // it between the two. The board then keeps the pages of its windows.
    void register_windows(const StandInCopies& vectors) noexcept;

    // Makes waits on this stage compare the calls of the ranks, and end with an error at `deadline_ns` of
    // monotonic_ns(), which is `timeout_s` seconds after the call began; 0: never. `mine` and `call` must
    // live until stop_watching().
    void watch(const CallRecord& mine, const Call& call, std::int64_t deadline_ns,
               double timeout_s) noexcept {
      deadline_ns_ = deadline_ns;
      timeout_s_ = timeout_s;
      record_ = &mine;
      call_ = &call;
    }
    // Ends the wait of the present call earlier, because a call that waits for its end has less time.
    void end_earlier(std::int64_t deadline_ns, double timeout_s) noexcept {
      if (deadline_ns == 0 || (deadline_ns_ > 0 && deadline_ns_ <= deadline_ns)) return;
      deadline_ns_ = deadline_ns;
      timeout_s_ = timeout_s;
    }
    void stop_watching() noexcept { record_ = nullptr; }
    // Names the ranks for which the present call waits, or says that it is over after all.
    void report_stall(std::int64_t waited_ns, bool over) { owner_.report_stall(*this, waited_ns, over); }
    [[nodiscard]] std::uint64_t next_number() noexcept { return ++number_; }

    Board board;

   private:
    friend class NodeBoard;
    void keep(std::size_t used) noexcept;

    NodeBoard& owner_;
    std::uint64_t number_ = 0;            // of the last call on this stage, if calls are compared
    const CallRecord* record_ = nullptr;  // of the present call; null: nothing is watched
    const Call* call_ = nullptr;
    double timeout_s_ = 0;
    std::int64_t deadline_ns_ = 0;             // of the present call; 0: none
    std::atomic<std::uint64_t> last_look_{0};  // of ProcessorClock
    std::atomic<std::int64_t> last_peer_look_ns_{0};
    std::atomic<std::int64_t> dead_since_ns_{0};    // when a dead rank was seen whose part may be done
    std::atomic<std::size_t> kept_bytes_{0};        // how much of each window has been used
    std::optional<HostRegistration> registration_;  // of the windows; ends before their memory
    bool reported_ = false;                         // true if a stall was reported
  };
  static constexpr int stages_of_communicator = 4;
  static constexpr int most_stages = 16;
  // Returns the number of stages, which is 1 if there is no memory for more. It is equal on the boards of all
  // nodes.
  [[nodiscard]] int stages() const { return shape_.stages; }
  // Returns the size that was wanted when the board was made.
  [[nodiscard]] const BoardSize& size() const { return size_; }

  // Returns a stage: index < stages().
  [[nodiscard]] Stage& stage(int index) { return *stages_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] Board& board() { return stage(0).board; }

  // The budget uses the following members.
  [[nodiscard]] std::uint64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }
  // Gives back the pages that no rank uses and the system takes, and subtracts them from `kept_bytes`.
  void give_pages_back() noexcept;
  std::size_t kept_bytes = 0;           // in this rank's windows
  std::size_t kept_for_good_bytes = 0;  // elsewhere

  // The host MPI of the present user. Null: the user is a group of one node, or there is none at present.
  [[nodiscard]] BoardClient* client() const { return client_.get(); }
  void serve(std::unique_ptr<BoardClient> client) { client_ = std::move(client); }
  // Ends the service for the present communicator. Call this when it is gone and this rank has left its last
  // collective. The team keeps the board for the next communicator of the same ranks.
  void rest();

  // Says that this rank's process may end from now on. It is an error for those who still wait for it, but
  // its end alone is none.
  void leave() noexcept { board().presence(locality_.member).left.store(1, std::memory_order_release); }

  // Ends all use of the board, because this rank cannot go on and so no rank can. Every rank that waits on a
  // board of any node gets an error of the class of `code`. One line says that rank `failed` of
  // MPI_COMM_WORLD has failed, and why. If `why` is null, no line is printed.
  void give_up(int failed, const char* why, int code) noexcept;
  // Ends all use of the board of a group. Every rank that waits gets a BoardError. Only the first failure
  // counts; returns that.
  BoardError break_off(const BoardError& failure);
  // Returns what has ended all use of the board of a group.
  [[nodiscard]] BoardError failure() const;
  // Returns an error if this member of the node can send and receive nothing more: it has died or has left.
  [[nodiscard]] std::optional<BoardError> find_loss(int member);
  [[nodiscard]] bool has_left(int member) {
    return board().presence(member).left.load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] const Locality& locality() const { return locality_; }
  // Counts memory that a rank uses from now on until the board is destroyed.
  void keep_for_good(std::size_t bytes) noexcept { budget_.add_for_good(*this, bytes); }
  // Returns true if a rank has given up, as far as this rank can know. On one node the host gets no turn
  // here: MPICH does not call the delete functions of a communicator to which a message has just come.
  [[nodiscard]] bool is_given_up() noexcept;
  // Returns this rank's number as people know it.
  [[nodiscard]] int named_rank() const { return number_of(locality_.member); }
  // Shows the others when this rank came to call `number`, by ticks of ProcessorClock.
  void show_arrival(std::uint64_t number, std::uint64_t ticks) noexcept;
  struct Arrival {
    int number = 0;  // of the rank, as people know it
    std::uint64_t ticks = 0;
  };
  // Returns the last arrival in call `number`, or nothing if a rank has not shown when it came.
  [[nodiscard]] std::optional<Arrival> last_arrival(std::uint64_t number);
  // Lets the host move the program's other messages.
  void let_host_move() noexcept { static_cast<void>(look_for_failure()); }

 private:
  NodeBoard(SharedMemory memory, const BoardShape& shape, const BoardSize& size, const Locality& locality,
            const RankNames& names, WindowBudget& budget);

  // What a rank tells the others on the board when it is made.
  struct Introduction {
    CoreSet cores;
    ProcessIdentity process;
  };
  // Call when all ranks of the node have their board. `work_space` has one element for each of them, and
  // peers_ has room for them.
  void meet_others(const Settings& settings, std::span<CoreSet> work_space);
  // Lets the host move messages and checks for failures on other nodes. Returns an error code of the host.
  int look_for_failure() noexcept;
  // Marks the board of a group as broken. Returns false if it was so before.
  bool mark_broken(const BoardError& error) noexcept;
  // Lets the host move messages, and advances operations, while this rank waits. Throws CommunicationError if
  // a rank has given up. With a stage it also throws BoardError if the wait there is in vain.
  void progress();
  void progress(Stage& stage);
  // Throws BoardError if the wait is in vain: a rank has died or has left, has made another call, or has not
  // come in time.
  void look_around(Stage& stage);
  void look_at_peers(Stage& stage, std::int64_t now_ns);
  // Returns true if the process of this member of the node has ended.
  [[nodiscard]] bool has_died(int member) { return peers_[static_cast<std::size_t>(member)].is_dead(); }
  // These return the number and the name under which people know a member of the node, and errors that name
  // it.
  [[nodiscard]] int number_of(int member) const { return ranks_[static_cast<std::size_t>(member)]; }
  [[nodiscard]] std::string name_of(int member) const;
  [[nodiscard]] BoardError has_left_error(int member) const;
  [[nodiscard]] BoardError has_died_error(int member) const;
  [[noreturn]] void report_timeout(const Stage& stage) const;
  // Returns whom this rank waits for. `missing` are the ranks of its node that have not come.
  [[nodiscard]] std::string awaited(const std::vector<int>& missing, std::string_view nobody) const;
  // Returns true if the rank has begun the call in which this rank waits.
  [[nodiscard]] bool has_come(const Stage& stage, int member) const;
  [[nodiscard]] std::string call(const Board& board) const;
  // Names the ranks that have not entered the collective in which this rank waits.
  void report_stall(Stage& stage, std::int64_t waited_ns, bool over);

  std::unique_ptr<BoardClient> client_;
  WindowBudget& budget_;
  std::atomic<std::uint64_t> last_use_{0};
  SharedMemory memory_;
  const BoardShape shape_;
  const BoardSize size_;
  const Locality& locality_;
  std::vector<std::unique_ptr<Stage>> stages_;
  // As this rank announced it to the others.
  const Introduction mine_{CoreSet::of_this_process(), ProcessIdentity::of_this_process()};
  std::vector<int> ranks_;  // the ranks of the board as people know them
  const std::string_view space_;
  const std::string_view everyone_;
  std::vector<PeerProcess> peers_;  // the processes of the board's ranks
  std::string host_name_;
  std::atomic_flag is_looking_{};  // set while a thread looks for a failure
  SpinLock reason_lock_;           // guards this rank's reason
};

}  // namespace offbeat
