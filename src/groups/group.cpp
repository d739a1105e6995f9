// SPDX-License-Identifier: BSD-3-Clause
#include "groups/group.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "groups/algorithm_text.hpp"
#include "groups/group_process.hpp"
#include "groups/observation.hpp"
#include "node/board_awaitables.hpp"

namespace offbeat {
namespace {

const Algorithm lone_copy{
    .name = "copy", .summary = "a call in a group of one rank", .cost = "", .serves = {}, .source = ""};

Task do_nothing() { co_return; }

constinit thread_local const Expression* last_algorithm_of_thread = nullptr;

// Waits until all ranks have begun the call, in which they meet.
void wait_for_records(Board& board, std::uint64_t number) {
  for (int rank = 0; rank < board.size; ++rank) {
    Patience::Wait wait(board.patience);
    while (rank != board.rank && !has_begun_call(board, rank, number)) wait.pause();
  }
}

bool is_empty_call(const Call& call, std::size_t bytes) {
  return bytes == 0 && skips_empty_calls(call.collective);
}

void copy_alone(const Call& call) {
  const ConstVector from = call.input_blocks.block_of(call.input, 0, 1);
  const Vector to = call.output_blocks.block_of(call.output, 0, 1);
  const bool has_both = from.bytes() > 0 && to.data != nullptr;
  if (from.data != to.data && has_both) std::memmove(to.data, from.data, from.bytes());
}

}  // namespace

const Expression copied_in_group{.algorithm = &lone_copy, .dimensions = {}, .parts = {}, .name_in_host = {}};

// -- calls

void Group::require_own_process() const {
  if (fork_generation_ != GroupProcess::fork_generation()) [[unlikely]]
    throw UsageError("this group belongs to the parent process; a child of fork() makes its own");
}

void Group::require_intact() const {
  if (when_host_ends_ == WhenHostEnds::fail && operations_under_way.has_host_ended())
    throw UsageError("this group of several machines cannot be used after MPI_Finalize");
  if (board_ == nullptr) {
    if (is_broken_alone_.load(std::memory_order_acquire)) throw *failure_alone_;
  } else if (board_->board().broken().load(std::memory_order_acquire) != 0) [[unlikely]] {
    throw board_->failure();
  }
}

// The host runs no call of a group, not even where a rule gives it one.
Plans Group::current_plans() const {
  Plans plans = network_ == nullptr
                    ? process_.selection.plans_without_mpi(size_)
                    : process_.selection.plans({.ranks = size_,
                                                .nodes = membership_.nodes(),
                                                .board = true,
                                                .in_rank_order = membership_.is_in_rank_order(),
                                                .equal_nodes = membership_.has_equal_nodes()},
                                               false);
  for (Plan& plan : plans.by_collective)
    for (PlanRow& row : plan.rows)
      if (row.expression->runs_on_host()) static_cast<Alternative&>(row) = plan.without_host;
  return plans;
}

void Group::renew(Plans& plans) const {
  // Plans are too long for the stack of a thread.
  const std::unique_ptr<Plans> present(new Plans(current_plans()));
  plans = std::move(*present);
}

const Expression* Group::last_algorithm() { return last_algorithm_of_thread; }

Alternative Group::choose(Plans& plans, const Call& call, std::size_t bytes) {
  if (plans.generation != process_.selection.generation()) [[unlikely]]
    renew(plans);
  const PlanRow& row = plans.of(call.collective).row_for(bytes);
  if (row.expression->is_native()) [[unlikely]]
    throw UsageError("no algorithm without MPI for this call");
  if (process_.settings.verbose > 0 && rank_ == 0) [[unlikely]]
    announce(call.collective, row);
  return row;
}

void Group::announce(Collective collective, const PlanRow& row) {
  static std::array<std::atomic<const Expression*>, collectives.size()> said{};
  if (said[index_of(collective)].exchange(row.expression) == row.expression) return;
  run_unless_out_of_memory([&] {
    say(std::string(offbeat::name_of(collective)) + " in a group of " + std::to_string(size_) +
        " ranks: " + row.expression->canonical_text() + " (" + row.reason + ")");
  });
}

// In an alltoallv a rank trusts the lengths of the others when it reads their slots.
bool Group::compares_first(Collective collective) const {
  return collective == Collective::alltoallv || process_.settings.check;
}

void Group::require_fit(const NodeBoard::Stage& stage, const CallRecord& mine, const Call& call) const {
  if (all_fit(stage.board, *locality_, mine, call)) [[likely]]
    return;
  if (const auto mismatch = find_mismatch(stage.board, *locality_, mine, call))
    throw BoardError(Trouble::mismatch, mismatch->rank, mismatch->text);
}

void Group::run(const CallArguments& arguments, const CallOptions& options) {
  if (options.as_begun) {
    CallOptions waited_for = options;
    waited_for.done = nullptr;
    return begin_and_wait(arguments, waited_for);
  }
  require_own_process();
  require_intact();
  PreparedCall prepared(arguments, rank_, size_);
  process_.count(arguments.collective);
  timer_.of(arguments.collective).calls.increment();
  Observation observation(log_, [&] { return observed(arguments, rank_, size_, true); });
  if (board_ == nullptr) {
    prepared.stage(false);
    prepared.fetch_input();
    copy_alone(prepared.call());
    prepared.deliver_output();
    last_algorithm_of_thread = &copied_in_group;
  } else {
    run_on_board(prepared, record_of(arguments, prepared.call(), size_), options);
  }
  const Expression* const ran = last_algorithm_of_thread;
  observation.returns(true, [&] { return algorithm_text(ran); });
  operations_under_way.settle_unless_in_sequel();
  last_algorithm_of_thread = ran;  // a sequel may have begun another call
}

void Group::begin_and_wait(const CallArguments& arguments, const CallOptions& options) {
  auto prepared = prepare_to_begin(arguments);
  Observation observation(log_, [&] { return observed(arguments, rank_, size_, true); });
  const auto request = begin_request(arguments, std::move(prepared), options, nullptr, 0);
  const Expression* const ran = last_algorithm_of_thread;
  request->wait_for_call();
  observation.returns(true, [&] { return algorithm_text(ran); });
  last_algorithm_of_thread = ran;  // a sequel may have begun another call
}

void Group::run_on_board(PreparedCall& prepared, const CallRecord& unnumbered, const CallOptions& options) {
  const Call& call = prepared.call();
  const std::size_t bytes = call.length(size_);
  const Alternative row = choose(plans_of_runs_, call, bytes);
  prepared.stage(may_have_stand_ins(*row.expression->algorithm, row.immediate != nullptr, call.collective));
  NodeBoard::Stage& stage = board_->stage(0);
  Board& board = stage.board;
  CallRecord record = unnumbered;
  record.number = stage.next_number();
  write_record(board, *locality_, record, call);
  const std::uint64_t number = count_call();
  board.enter(number, call.collective, bytes);
  const auto find_board = [&] { return board_.get(); };
  timer_.begin(call.collective, number, find_board);
  timer_.of(call.collective).bytes.add(bytes);
  stage.watch(record, call, options.deadline_ns(), options.timeout_s);
  try {
    prepared.fetch_input();
    if (compares_first(call.collective)) {
      wait_for_records(board, record.number);
      require_fit(stage, record, call);
    }
    const bool is_over =
        is_empty_call(call, bytes) || (row.immediate != nullptr && row.immediate->run(board, call));
    if (!is_over) run_task(stage, *row.expression, call, prepared.stand_ins());
    require_fit(stage, record, call);
    prepared.deliver_output();
    stage.stop_watching();
    timer_.of(call.collective).served.increment();
    timer_.end(call.collective, find_board, row.expression);
  } catch (...) {
    stage.stop_watching();
    break_down();
    throw board_->failure();
  }
  last_algorithm_of_thread = row.expression;
}

void Group::run_task(NodeBoard::Stage& stage, const Expression& expression, const Call& call,
                     const StandInCopies* stand_ins) {
  stage.begin_use(expression.lease(call, rank_, size_, size_));
  if (stand_ins != nullptr) stage.register_windows(*stand_ins);
  BoardTransport& transport = *transports_.front();
  transport.serve(call.collective);
  Task task =
      expression.algorithm->run(Endpoint(transport, rank_, size_, expression.lanes()), call, expression);
  transport.drive(task, stand_ins);
  stage.end_use();
}

void Group::break_down() {
  std::optional<BoardError> error;
  try {
    throw;
  } catch (const BoardError& known) {
    error = known;
  } catch (const std::bad_alloc&) {
    error.emplace(Trouble::rank, rank_, "rank " + std::to_string(rank_) + " has no memory left");
  } catch (const std::exception& other) {
    error.emplace(Trouble::rank, rank_, "rank " + std::to_string(rank_) + " has failed: " + other.what());
  }
  break_off(*error);
}

void Group::break_off(const BoardError& failure) {
  if (board_ != nullptr) {
    static_cast<void>(board_->break_off(failure));
    return;
  }
  std::call_once(breaks_alone_, [&] {
    failure_alone_ = failure;
    is_broken_alone_.store(true, std::memory_order_release);
  });
}

void Group::break_down_with_host() {
  run_ignoring_exceptions([&] {
    break_off(BoardError(
        Trouble::rank, rank_,
        "rank " + std::to_string(rank_) + " has called MPI_Finalize before a call in this group was over"));
  });
}

void Group::break_down_in(Operation& operation) {
  const bool is_message = operation.plan().stage == nullptr;
  if (!is_message) operation.plan().stage->stop_watching();
  break_down();
}

void Group::give_up(std::string_view why) {
  require_own_process();
  constexpr std::size_t most_bytes = 150;
  std::string text = "rank " + std::to_string(rank_) + " has given up";
  if (!why.empty()) text += ": " + printable(why, most_bytes);
  break_off(BoardError(Trouble::rank, rank_, text));
}

// -- calls that proceed while the program computes

// No bell rings for a collective, because another thread may run it. A message may need many waits, so naps
// without a bell would cost too much. A wait gives no turns: only the code that advances the operation does,
// because an error there belongs to the operation.
Patience Group::patience_of(int index) {
  const bool has_stage = index != OperationPlan::no_index;
  Patience patience = board_->stage(has_stage ? index : 0).board.patience;
  if (has_stage) patience.bell = nullptr;
  patience.stall = {};  // calls and messages report their own
  if (network_ != nullptr && network_->sleep().call != nullptr) {
    patience.sleep = network_->sleep();
    patience.bell = nullptr;
  }
  patience.turn = {};
  if (process_.progress.does_all_work()) patience.shares_cores = true;
  return patience;
}

void Group::prepare(BoardTransport& transport, int index) { transport.use(board_->stage(index).board); }

Task Group::start_task(Operation& operation, Endpoint net) {
  auto& request = static_cast<CollectiveRequest&>(operation);
  NodeBoard::Stage& stage = *operation.plan().stage;
  const Call& call = operation.call();
  request.record_.number = stage.next_number();
  write_record(stage.board, *locality_, request.record_, call);
  stage.watch(request.record_, call, request.deadline_ns_, request.options_.timeout_s);
  if (const std::uint64_t began = request.time_.began.ticks; began != 0)
    board_->show_arrival(operation.plan().number, began);
  Task task =
      is_empty_call(call, call.length(size_)) ? do_nothing() : OperationsOwner::start_task(operation, net);
  if (!compares_first(call.collective)) return task;
  return compare_first(stage, *locality_, request.record_, net, call, std::move(task));
}

Task Group::compare_first(NodeBoard::Stage& stage, const Locality& where, const CallRecord& mine, Endpoint,
                          Call call, Task rest) {
  Board& board = stage.board;
  for (int rank = 0; rank < board.size; ++rank) {
    Patience::Wait wait(board.patience);
    while (rank != board.rank && !has_begun_call(board, rank, mine.number)) co_await board.pause(wait);
  }
  if (const auto mismatch = find_mismatch(board, where, mine, call))
    throw BoardError(Trouble::mismatch, mismatch->rank, mismatch->text);
  co_await rest;
}

void Group::check_end(Operation& operation) {
  auto& request = static_cast<CollectiveRequest&>(operation);
  NodeBoard::Stage& stage = *operation.plan().stage;
  require_fit(stage, request.record_, operation.call());
  request.end_time();
  stage.stop_watching();
}

std::unique_ptr<GroupRequest> Group::begin(const CallArguments& arguments, const CallOptions& options) {
  auto prepared = prepare_to_begin(arguments);
  Observation observation(log_, [&] { return observed(arguments, rank_, size_, false); });
  auto request = begin_request(arguments, std::move(prepared), options, log_, observation.number());
  observation.returns(false, [] { return algorithm_text(last_algorithm_of_thread); });
  const Expression* const ran = last_algorithm_of_thread;
  // From here on, a request with a `done` may be gone.
  look_after_calls(options.done != nullptr);
  last_algorithm_of_thread = ran;  // a sequel may have begun another call
  return request;
}

void Group::look_after_calls(bool is_urgent) {
  operations_under_way.settle_unless_in_sequel();
  if (operations_under_way.any()) process_.progress.ensure(is_urgent);
}

void Group::wait_until(bool (*is_over)(void* state), void* state) {
  const BegunTimer::Wait waits(*begun_timer_);
  while (!is_over(state)) {
    const Patience patience = board_ != nullptr ? patience_of(0) : Patience{};
    Patience::Wait wait(patience);
    // Another thread may have ended operations whose sequels it has not called yet.
    while (!operations_under_way.advance(HostCalls::all) && !is_over(state)) {
      operations_under_way.settle_in_any_thread();
      wait.pause();
    }
    operations_under_way.settle_in_any_thread();
  }
}

std::unique_ptr<PreparedCall> Group::prepare_to_begin(const CallArguments& arguments) const {
  require_own_process();
  require_intact();
  return std::make_unique<PreparedCall>(arguments, rank_, size_);
}

std::unique_ptr<GroupRequest> Group::begin_request(const CallArguments& arguments,
                                                   std::unique_ptr<PreparedCall> prepared,
                                                   const CallOptions& options, GroupCallLog* log,
                                                   std::uint64_t number_in_log) {
  const CallRecord record = record_of(arguments, prepared->call(), size_);
  const std::size_t bytes = prepared->call().length(size_);
  std::unique_lock order(order_, std::defer_lock);
  if (board_ != nullptr) order.lock();
  Alternative row;
  if (board_ != nullptr) row = choose(plans_of_begun_, prepared->call(), bytes);
  prepared->stage(board_ != nullptr && may_have_stand_ins(*row.expression->algorithm,
                                                          row.immediate != nullptr, arguments.collective));
  PreparedCall& staged = *prepared;
  std::unique_ptr<CollectiveRequest> request(
      new CollectiveRequest(*this, std::move(prepared), bytes, record, options, log, number_in_log,
                            begun_timer_->begin(arguments.collective, options.as_begun)));
  process_.count(arguments.collective);
  CollectiveCounters& counters = timer_.of(arguments.collective);
  counters.calls.increment();
  counters.served.increment();
  counters.bytes.add(bytes);
  if (board_ == nullptr) {
    counters.since.set(0);
    staged.fetch_input();
    copy_alone(request->call());
    staged.deliver_output();
    last_algorithm_of_thread = &copied_in_group;
    if (options.done == nullptr) return request;
    operations_under_way.add_complete(*request.release());
    return nullptr;
  }
  try {
    staged.begin_fetch();
  } catch (...) {
    request->end_time_of_failed();
    break_down();
    throw board_->failure();
  }
  OperationPlan plan{.expression = row.expression,
                     .immediate = row.immediate,
                     .stand_ins = staged.stand_ins(),
                     .number = count_call(),
                     .history = take_history(request->call().collective)};
  plan.index = board_->stages() == 1 ? 0 : 1 + static_cast<int>(begun_++ % (board_->stages() - 1));
  plan.stage = &board_->stage(plan.index);
  plan.transport = transports_[static_cast<std::size_t>(plan.index)].get();
  request->prepare(plan);
  last_algorithm_of_thread = row.expression;
  GroupRequest* const under_way = options.done != nullptr ? request.release() : request.get();
  // A short copy takes less time than the progress thread needs to notice it.
  constexpr std::size_t short_bytes = 4096;
  put_under_way(*under_way, bytes < short_bytes);
  return request;
}

void Group::put_under_way(GroupRequest& request, bool is_short) {
  if (process_.progress.does_all_work()) {
    operations_under_way.announce(request);
    if (is_short) operations_under_way.advance(HostCalls::messages);
  } else {
    const OperationsUnderWay::Lock lock(operations_under_way);
    accept(request);
    request.advance_first();
  }
}

// -- messages

void Group::check_and_count(const MessageArguments& arguments) {
  require_own_process();
  require_intact();
  const bool may_be_any = !arguments.is_send && arguments.peer == Message::any_rank;
  if (!may_be_any && (arguments.peer < 0 || arguments.peer >= size_))
    throw UsageError("rank " + std::to_string(arguments.peer) + " of " + std::to_string(size_) + " ranks");
  if (arguments.peer == rank_) throw UsageError("a rank cannot send to itself");
  if (size_ == 1) throw UsageError("a group of one rank has no messages");
  if (arguments.tag < 0) throw UsageError("a tag must not be negative");
  if (arguments.bytes > 0 && arguments.data == nullptr) throw UsageError("there are bytes, but no data");
  messages().require_possible(arguments.tag, arguments.bytes);
  process_.count_message(arguments.is_send);
}

void Group::transfer(const MessageArguments& arguments, const CallOptions& options) {
  check_and_count(arguments);
  MessageRequest request(*this, messages(), *board_, arguments, {.timeout_s = options.timeout_s},
                         process_.settings.stall_s);
  request.prepare({.index = OperationPlan::no_index});
  {
    const OperationsUnderWay::Lock lock(operations_under_way);
    accept(request);
    request.advance_first();
  }
  request.wait_for_call();
  operations_under_way.settle_unless_in_sequel();
}

std::unique_ptr<GroupRequest> Group::begin_transfer(const MessageArguments& arguments,
                                                    const CallOptions& options) {
  check_and_count(arguments);
  std::unique_ptr<GroupRequest> request(
      new MessageRequest(*this, messages(), *board_, arguments, options, process_.settings.stall_s));
  request->prepare({.index = OperationPlan::no_index});
  GroupRequest* const under_way = options.done != nullptr ? request.release() : request.get();
  put_under_way(*under_way, true);
  look_after_calls(options.done != nullptr);
  return request;
}

// -- choices and counts

void select_for_groups(Collective collective, std::string_view expression) {
  GroupProcess::get().selection.choose_for_every_length(collective, expression, "offbeat_select");
}

std::uint64_t calls_of_groups(Collective collective) {
  const GroupProcess* const process = GroupProcess::find();
  return process != nullptr ? process->calls(collective) : 0;
}

}  // namespace offbeat
