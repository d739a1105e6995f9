// SPDX-License-Identifier: BSD-3-Clause
// NodeBoard is a board that communicators of the same ranks use in turn: the shared memory and this rank's
// view of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "mpi/communicators/window_budget.hpp"
#include "mpi/host/host.hpp"
#include "mpi/host/host_turn.hpp"
#include "node/board.hpp"
#include "node/cores.hpp"
#include "node/membership.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {

class SetUp;

// Returns the patience of a rank that waits only for messages, and knows of its node only what the launcher
// says.
[[nodiscard]] Patience patience_without_board(const Settings& settings);

// The size that a board should have. It is equal on all ranks.
struct BoardSize {
  std::size_t window_bytes = 0;
  int stages = 1;
  bool operator==(const BoardSize&) const = default;
};

// BoardClient is the present user of a board: one communicator, or the persistent requests that share a
// place.
struct BoardClient {
  // Failures are sent to ranks of other nodes with this tag; negative if there are no messages.
  MPI_Comm messages = MPI_COMM_NULL;
  int failure_tag = -1;
  // Throws CommunicationError if the program's communicator can no longer be used.
  void (*check)(void* state) = nullptr;
  void* state = nullptr;
};

class NodeBoard {
 public:
  // Creates a board. Collective, with equal outcomes on all ranks. Unless all ranks of every node could map
  // their memory, it returns null and prints one line that says why. `world_ranks` has all ranks of the
  // communicator. The board refers to `locality`. Throws CommunicationError.
  static std::unique_ptr<NodeBoard> create(SetUp& set_up, const Locality& locality,
                                           const std::vector<int>& world_ranks, const Settings& settings,
                                           WindowBudget& budget, const BoardSize& size);
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

    Board board;

   private:
    friend class NodeBoard;
    void keep(std::size_t used) noexcept;

    NodeBoard& owner_;
    std::atomic<std::size_t> kept_bytes_{0};  // how much of each window has been used
    bool reported_ = false;                   // true if a stall was reported
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
  // Returns false if the pages are in use.
  [[nodiscard]] bool give_pages_back() noexcept;
  std::size_t kept_bytes = 0;  // in this rank's windows

  // Makes the board serve this communicator from now on. `own` is a communicator of this rank alone, for
  // turns of the host.
  void serve(const BoardClient& client, MPI_Comm own) {
    client_ = client;
    if (!turn_) turn_.emplace(*host_, own);
  }
  // Ends the service for the present communicator. Call this when it is gone and this rank has left its last
  // collective. The team keeps the board for the next communicator of the same ranks.
  void rest();

  // Ends all use of the board, because this rank cannot go on and so no rank can. Every rank that waits on a
  // board of any node gets an error of the class of `code`. One line says that rank `failed` of
  // MPI_COMM_WORLD has failed, and why. If `why` is null, no line is printed.
  void give_up(int failed, const char* why, int code) noexcept;
  // Returns true if a rank has given up, as far as this rank can know. On one node the host gets no turn
  // here: MPICH does not call the delete functions of a communicator to which a message has just come.
  [[nodiscard]] bool is_given_up() noexcept;
  [[nodiscard]] int world_rank() const { return world_ranks_[static_cast<std::size_t>(locality_.member)]; }
  // Lets the host move the program's other messages.
  void let_host_move() noexcept { static_cast<void>(look_for_failure()); }

 private:
  NodeBoard(const Host& host, SharedMemory memory, const BoardShape& shape, const BoardSize& size,
            const Locality& locality, const std::vector<int>& world_ranks, WindowBudget& budget);

  // Call when all ranks of the node have their board. `work_space` has one element for each of them.
  void look_at_cores(const Settings& settings, std::span<CoreSet> work_space);
  // Lets the host move messages and checks for failures on other nodes. Returns an error code of the host.
  int look_for_failure() noexcept;
  int take_turn() noexcept;
  // Lets the host move messages, and advances operations, while this rank waits. Throws CommunicationError if
  // a rank has given up.
  void progress();
  [[nodiscard]] std::string call(const Board& board) const;
  // Names the ranks that have not entered the collective in which this rank waits.
  void report_stall(Stage& stage, double waited_s, bool over);

  const Host* host_;
  std::optional<HostTurn> turn_;  // empty while there is no communicator
  BoardClient client_;
  WindowBudget& budget_;
  std::atomic<std::uint64_t> last_use_{0};
  SharedMemory memory_;
  const BoardShape shape_;
  const BoardSize size_;
  const Locality& locality_;
  std::vector<std::unique_ptr<Stage>> stages_;
  const CoreSet cores_ = CoreSet::of_this_process();  // as this rank announced it to the others
  std::vector<int> world_ranks_;                      // the ranks of the board
  std::string host_name_;
  std::atomic_flag is_looking_{};  // set while a thread looks for a failure
  std::uint64_t notice_ = 0;       // the value of Board::broken, sent to other nodes
};

}  // namespace offbeat
