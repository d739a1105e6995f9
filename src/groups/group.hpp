// SPDX-License-Identifier: BSD-3-Clause
// A Group is a set of processes that run collectives: those of one node on a board, without MPI. Between
// nodes a Network carries messages.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "groups/begun_timer.hpp"
#include "groups/call_arguments.hpp"
#include "groups/call_timer.hpp"
#include "groups/callback_set_up.hpp"
#include "groups/group_observer.hpp"
#include "groups/group_request.hpp"
#include "groups/network.hpp"
#include "groups/node_board.hpp"
#include "groups/operations_under_way.hpp"
#include "selection/selection.hpp"

namespace offbeat {

class GroupProcess;

class Group final : public OperationsOwner {
 public:
  // Makes a group. Collective. Throws BoardError (Trouble::set_up), on all ranks. `observer` sees its calls;
  // it may be null. make_mpi() returns the network of the host MPI, or null.
  using MakeNetwork = std::unique_ptr<Network> (*)();
  [[nodiscard]] static std::unique_ptr<Group> make(int rank, int size, const Exchange& exchange,
                                                   GroupObserver* observer, MakeNetwork make_mpi);
  // Ends all calls under way with an error. Waits for no other rank.
  static void free(std::unique_ptr<Group> group) noexcept;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  // Runs a call to its end. Throws UsageError if this rank's arguments are wrong, and BoardError if the ranks
  // can no longer use the group.
  void run(const CallArguments& arguments, const CallOptions& options);
  // Begins a call. Returns null if the end has a `done`, and throws like run(). Any thread may call this at
  // any time.
  [[nodiscard]] std::unique_ptr<GroupRequest> begin(const CallArguments& arguments,
                                                    const CallOptions& options);
  // Sends or receives a message, and waits for its end. Throws like run().
  void transfer(const MessageArguments& arguments, const CallOptions& options);
  // Begins to send or to receive a message. Returns and throws like begin().
  [[nodiscard]] std::unique_ptr<GroupRequest> begin_transfer(const MessageArguments& arguments,
                                                             const CallOptions& options);
  // Advances the calls under way until is_over(state) returns true. Any thread may call this.
  void wait_until(bool (*is_over)(void* state), void* state);
  // Ends all use of the group on all ranks: calls that wait fail, with `why` in the text of their error. Any
  // thread may call this.
  void give_up(std::string_view why);

  // Returns what this thread's last call in a group ran.
  [[nodiscard]] static const Expression* last_algorithm();

 private:
  friend class GroupMaker;  // in group_set_up.cpp
  friend class GroupRequest;
  friend class CollectiveRequest;
  Group(GroupProcess& process, int rank, int size);
  // Returns the plans of the algorithms that are chosen now, all of which run without a host.
  [[nodiscard]] Plans current_plans() const;
  void renew(Plans& plans) const;

  // What operations need.
  [[nodiscard]] Patience patience_of(int index) override;
  void prepare(BoardTransport& transport, int index) override;
  [[nodiscard]] HostCalls calls_of_operation(HostCalls calls) const override {
    // Every thread may call this host, but not from inside it.
    const bool needs_host = network_ != nullptr && network_->needs_host();
    return !needs_host || calls == HostCalls::if_threads ? HostCalls::all : calls;
  }
  [[nodiscard]] Task start_task(Operation& operation, Endpoint net) override;
  void check_end(Operation& operation) override;
  void require_intact() const override;
  void break_down() override;
  void break_down_with_host() override;
  void break_down_in(Operation& operation) override;
  void begin_use() noexcept override { ++in_use_; }
  [[nodiscard]] bool end_use() noexcept override {
    --in_use_;
    return false;  // free() waits instead
  }

  void require_own_process() const;
  // Ends all use of the group. Later calls throw the first failure.
  void break_off(const BoardError& failure);
  // Returns how a call is carried out. run() and begin() each pass their own `plans`, because two threads may
  // be in these functions at once.
  [[nodiscard]] Alternative choose(Plans& plans, const Call& call, std::size_t bytes);
  [[nodiscard]] std::unique_ptr<PreparedCall> prepare_to_begin(const CallArguments& arguments) const;
  // `log` and `number_in_log` are of a call whose end an observer wants to know; null if none does.
  [[nodiscard]] std::unique_ptr<GroupRequest> begin_request(const CallArguments& arguments,
                                                            std::unique_ptr<PreparedCall> prepared,
                                                            const CallOptions& options, GroupCallLog* log,
                                                            std::uint64_t number_in_log);
  void begin_and_wait(const CallArguments& arguments, const CallOptions& options);
  void run_on_board(PreparedCall& prepared, const CallRecord& record, const CallOptions& options);
  void run_task(NodeBoard::Stage& stage, const Expression& expression, const Call& call,
                const StandInCopies* stand_ins);
  void require_fit(const NodeBoard::Stage& stage, const CallRecord& mine, const Call& call) const;
  // Returns true if the ranks must compare their calls before data move.
  [[nodiscard]] bool compares_first(Collective collective) const;
  [[nodiscard]] static Task compare_first(NodeBoard::Stage& stage, const Locality& where,
                                          const CallRecord& mine, Endpoint net, Call call, Task rest);
  // Checks the arguments of a message, and counts the message.
  void check_and_count(const MessageArguments& arguments);
  // Counts a call, for people. If another thread counts at the same time, one of the two may be lost.
  std::uint64_t count_call() {
    const std::uint64_t number = calls_.load(std::memory_order_relaxed) + 1;
    calls_.store(number, std::memory_order_relaxed);
    return number;
  }
  // Calls sequels that are due, and wakes the progress thread if calls are under way.
  void look_after_calls(bool is_urgent);
  // Begins a request that has a plan. From then on, one with a `done` may be gone.
  void put_under_way(GroupRequest& request, bool is_short);
  void announce(Collective collective, const PlanRow& row);

  GroupProcess& process_;
  Membership membership_;
  std::optional<Locality> locality_;  // null in a group of one rank
  const std::uint64_t fork_generation_;
  // Returns what carries the messages of the program. The group must have several ranks.
  [[nodiscard]] MessageCarrier& messages() const {
    if (network_ != nullptr) return *network_;
    return *rings_;
  }

  std::unique_ptr<Network> network_;       // null if the group has one node
  std::unique_ptr<NodeBoard> board_;       // null in a group of one rank
  std::unique_ptr<MessageCarrier> rings_;  // null if the group has several nodes, or one rank
  // What ended a group of one rank, which has no board.
  std::once_flag breaks_alone_;
  std::optional<BoardError> failure_alone_;
  std::atomic<bool> is_broken_alone_{false};
  Plans plans_of_runs_;
  Plans plans_of_begun_;  // guarded by order_
  // One for each stage of the board; the first is that of blocking calls.
  std::array<std::unique_ptr<BoardTransport>, NodeBoard::stages_of_communicator> transports_;
  std::atomic<std::uint64_t> calls_{0};
  const std::shared_ptr<CommunicatorCounters> counters_;
  const std::shared_ptr<BegunTimer> begun_timer_;
  CallTimer timer_;   // of blocking calls
  std::mutex order_;  // held while a call takes its place among those that were begun
  std::uint64_t begun_ = 0;
  int in_use_ = 0;               // operations under way
  GroupCallLog* log_ = nullptr;  // null: no observer wants the calls
};

// Chooses the algorithm of a collective for all groups of this process; "" returns to the choice of the
// start. Throws ExpressionError.
void select_for_groups(Collective collective, std::string_view expression);

// Returns how many calls of a collective the groups of this process have made.
[[nodiscard]] std::uint64_t calls_of_groups(Collective collective);

// The expression of a call in a group of one rank. It is not an algorithm that can be chosen.
extern const Expression copied_in_group;

}  // namespace offbeat
