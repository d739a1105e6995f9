// SPDX-License-Identifier: BSD-3-Clause
// A board for communicators of the same ranks, one after the other: the shared memory and this rank's view
// of it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "mpi/host.hpp"
#include "mpi/host_turn.hpp"
#include "mpi/window_budget.hpp"
#include "node/board.hpp"
#include "node/cores.hpp"
#include "node/membership.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {

class SetUp;

// For who waits for messages only, and knows what the launcher says.
[[nodiscard]] Patience patience_without_board(const Settings& settings);

// The present user of a board: one communicator.
struct BoardClient {
  HostTurn* turn = nullptr;  // null: there is no communicator at present
  // Leaders tell each other of failures there, with a tag; negative: nobody does.
  MPI_Comm messages = MPI_COMM_NULL;
  int failure_tag = -1;
  // Throws CommunicationError when the program's communicator can no longer be used.
  void (*check)(void* state) = nullptr;
  void* state = nullptr;
};

class NodeBoard {
 public:
  // Collective, with the same outcome on all ranks: null unless the ranks of every node could all map their
  // memory. If not, one line says why. `world_ranks`: of all ranks of the communicator. Throws
  // CommunicationError.
  static std::unique_ptr<NodeBoard> create(SetUp& set_up, const Locality& locality,
                                           const std::vector<int>& world_ranks, const Settings& settings,
                                           WindowBudget& budget);
  ~NodeBoard() { budget_.remove(*this); }

  // Where one collective at a time is carried out. A communicator's blocking collectives are carried out on
  // the first stage, those that go on while the program computes on one of the others.
  class Stage {
   public:
    Stage(NodeBoard& owner, int index);
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    // A collective that uses windows begins, and ends.
    void begin_use(std::size_t bytes) noexcept {
      board.begin_use();
      owner_.last_use_.store(owner_.budget_.now(), std::memory_order_relaxed);
      const std::size_t used = std::min(bytes, board.shape().window_bytes);
      if (used > kept_bytes_.load(std::memory_order_relaxed)) [[unlikely]]
        keep(used);
    }
    void end_use() noexcept { board.end_use(); }

    Board board;

   private:
    friend class NodeBoard;
    void keep(std::size_t used) noexcept;

    NodeBoard& owner_;
    std::atomic<std::size_t> kept_bytes_{0};  // of each window
    bool reported_ = false;                   // a stall
  };
  static constexpr int stages = 4;

  [[nodiscard]] Stage& stage(int index) { return stages_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] Board& board() { return stage(0).board; }

  // For the budget.
  [[nodiscard]] std::uint64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }
  // False: they are in use.
  [[nodiscard]] bool give_pages_back() noexcept;
  std::size_t kept_bytes = 0;  // of this rank's windows

  // From now on for this communicator.
  void serve(const BoardClient& client) { client_ = client; }
  // Its communicator is gone, and this rank has left its last collective.
  void rest();

  // This rank cannot go on: so nobody can. Whoever waits on the board of any node gets an error of the class
  // of `code`, and one line names the rank where it began, and why; null: no line.
  void give_up(const char* why, int code) noexcept;
  // Whether a rank has, as far as this one can know. The host moves no messages for it where there is one
  // node: MPICH does not call the delete functions of a communicator to which a message has just come.
  [[nodiscard]] bool is_given_up() noexcept;
  // Lets the host move the program's other messages.
  void let_host_move() noexcept { static_cast<void>(look_for_failure()); }

 private:
  NodeBoard(const Host& host, SharedMemory memory, const BoardShape& shape, const Locality& locality,
            const std::vector<int>& world_ranks, WindowBudget& budget);

  // When all ranks of the node have their board. `work_space`: of as many elements as there are of them.
  void look_at_cores(const Settings& settings, std::span<CoreSet> work_space);
  // Lets the host move messages, and hears of failures on other nodes. An error code of the host.
  int look_for_failure() noexcept;
  int take_turn() noexcept;
  // The same for a rank that waits. Throws CommunicationError if a rank has given up.
  void progress();
  [[nodiscard]] int world_rank() const { return world_ranks_[static_cast<std::size_t>(member_)]; }
  [[nodiscard]] std::string call(const Board& board) const;
  // Names the ranks that have not entered the collective in which this rank waits.
  void report_stall(Stage& stage, double waited_s, bool over);

  const Host* host_;
  BoardClient client_;
  WindowBudget& budget_;
  std::atomic<std::uint64_t> last_use_{0};
  SharedMemory memory_;
  const BoardShape shape_;
  const int member_;
  std::array<Stage, stages> stages_;
  const CoreSet cores_ = CoreSet::of_this_process();  // as the others are told
  std::vector<int> world_ranks_;                      // of the ranks of the board
  std::string host_name_;
  std::vector<int> other_leaders_;  // on the lowest rank of the node, those of the other nodes
  bool has_other_nodes_;
  std::atomic_flag is_looking_{};  // for a failure
  std::uint64_t notice_ = 0;       // of a failure, to other nodes: what stands in Board::broken
  bool was_told_ = false;
};

}  // namespace offbeat
