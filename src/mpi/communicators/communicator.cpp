// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/communicator.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "mpi/communicators/set_up.hpp"
#include "mpi/process/runtime.hpp"
#include "node/device_memory.hpp"

namespace offbeat {
namespace {

struct Reason {
  const char* text;  // lives as long as the exception; null if the program itself revoked the communicator
  int code;          // an error code of the host MPI
};

Reason reason_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return {"no memory", MPI_ERR_NO_MEM};
  } catch (const CommunicationError& error) {
    if (error.code == FaultTolerance::revoked) return {nullptr, error.code};
    return {error.what(), error.code == MPI_SUCCESS ? MPI_ERR_OTHER : error.code};
  } catch (const std::exception& error) {
    return {error.what(), MPI_ERR_OTHER};
  } catch (...) {
    return {"an error", MPI_ERR_OTHER};
  }
}

}  // namespace

void Communicator::break_down() {
  if (std::exchange(is_broken_, true)) return;
  const Reason reason = reason_of(std::current_exception());
  const bool is_meant_for_the_program =
      reason.code == FaultTolerance::revoked || reason.code == FaultTolerance::process_failed;
  if (is_meant_for_the_program) failure_ = reason.code;
  if (!has_board()) return;
  NodeBoard& board = *place_->board;
  // A rank that finds another process dead has not failed itself.
  const int dead = reason.code == FaultTolerance::process_failed
                       ? process_.fault_tolerance().first_lost(handle())
                       : MPI_UNDEFINED;
  if (dead != MPI_UNDEFINED) {
    board.give_up(dead, "its process has died", reason.code);
  } else {
    board.give_up(board.world_rank(), reason.text, reason.code);
  }
}

Communicator::Communicator(Runtime& process, MPI_Comm handle)
    : process_(process),
      origin_(nullptr),
      handle_(handle),
      selection_(&process.selection),
      board_size_{process.settings.window_bytes, NodeBoard::stages_of_communicator},
      host_pipelines_(process.host) {
  const Host& host = process.host;
  rank_ = host.rank_in(handle);
  size_ = host.size_of(handle);
  why_native_ = why_never_served(host, handle);
  is_one_rank_ = why_native_ == "one rank";
  if (why_native_.empty()) {
    transport_ = std::make_unique<MpiTransport>(host, patience_without_board(process.settings));
    transport_->lateness = &lateness_;
    messages_ = std::make_shared<PrivateCommunicator>(host);
  }
  const FaultTolerance& faults = process.fault_tolerance();
  may_be_revoked_ = is_one_rank_ ? faults.can_revoke() : why_native_.empty() && faults.is_on();
  apply();
}

Communicator::Communicator(const Communicator& origin, const BoardSize& board_size)
    : process_(origin.process_),
      origin_(&origin),
      handle_(origin.handle_),
      selection_(origin.selection_),
      rank_(origin.rank_),
      size_(origin.size_),
      may_be_revoked_(origin.may_be_revoked_),
      board_size_(board_size),
      host_pipelines_(process_.host),
      why_native_(origin.why_native_) {
  if (origin.serves()) {
    transport_ = std::make_unique<MpiTransport>(process_.host, patience_without_board(process_.settings));
    transport_->lateness = &lateness_;
    messages_ = std::make_shared<PrivateCommunicator>(process_.host);
  }
  apply();
}

Communicator::~Communicator() {
  process_.forget(*this);
  if (!is_broken_ && !(has_board() && place_->board->is_given_up())) return;
  if (place_) place_->spoil();
  if (messages_ != nullptr) messages_->keep_for_ever();
  host_pipelines_.keep_for_ever();
}

// -- plans

void Communicator::leave_to_host(std::string_view why) {
  why_native_ = why;
  transport_.reset();
  apply();
}

CommunicatorPlans::Which Communicator::which_plans() const {
  using enum CommunicatorPlans::Which;
  if (!serves()) return native;
  return has_board() ? with_board : without_board;
}

void Communicator::apply() {
  is_verbose_ = process_.settings.verbose > 0 && launcher_rank() == 0;
  announcements_.forget();
  adaptation_.forget();
  plans_.use(which_plans(), [&](Collective collective) { return are_provided(requested_.with(collective)); });
  begins_with_ = Means::host_pipeline;
  const bool has_stage = origin_ != nullptr || !has_board() || place_->board->stages() > 1;
  if (has_stage) begins_with_ = begins_with_ | Means::board;
  if (process_.progress.moves_messages() && has_tags(stage_)) begins_with_ = begins_with_ | Means::messages;
}

Choice Communicator::choose_from_rows(Collective collective, std::size_t bytes, std::size_t width) {
  const Plan& plan = plans_.of(collective).plan();
  if (plan.empty()) return {};
  const PlanRow& row = plan.row_for(bytes, width);
  if (&row == &plan.without_host && !has_messages(collective)) return {};
  if (!row.has_choice()) return {Chosen::by(row)};
  RowTrial* const trial = or_break(collective, bytes, [&] {
    return &adaptation_.trial(*this, collective, row, CallForm::blocking, bytes);
  });
  trial->begin();
  return {Chosen::by(trial->next()), trial};
}

void Communicator::end_measured(RowTrial& row) {
  const std::uint64_t begun = std::exchange(row.begun_, 0);
  const std::size_t slot = row.trial_.count_call();
  if (slot != Trial::no_slot) row.trial_.set_time(slot, RowTrial::now() - begun);
  if (!row.trial_.is_due()) return;
  or_break(row.collective_, 0, [&] { combine(row.trial_.times(), combine_times(row.collective_)); });
  if (row.trial_.decide() && is_verbose_) announcements_.say_pinned(row, size_);
}

void Communicator::combine(std::span<std::uint64_t> times, CombineTimes how) {
  const MPI_Op op = how == CombineTimes::shortest ? MPI_MIN : MPI_MAX;
  if (!has_board() || place_->team().locality().membership.nodes() > 1) {
    SetUp(process_.host, handle(), process_.settings, Collective::allreduce, false).combine(times, op);
    return;
  }
  const Expression& expression = *interned_expression(Collective::allreduce, "arrival_tree");
  auto* const data = reinterpret_cast<std::byte*>(times.data());
  const Call call{Collective::allreduce,
                  {data, times.size(), sizeof(std::uint64_t)},
                  {data, times.size(), sizeof(std::uint64_t)},
                  process_.types().predefined(MPI_UINT64_T, op)};
  const Immediate* immediate = immediate_form(*expression.algorithm, size_);
  const bool is_short = immediate != nullptr && times.size_bytes() <= immediate->most_bytes(size_);
  run({&expression, is_short ? immediate->run : nullptr}, call, times.size_bytes());
}

// -- calls

void Communicator::check(const CallSignature& mine) {
  if (!serves()) return;
  require_intact();
  enter_board(mine.collective, 0);
  std::string mismatch;
  or_break([&] {
    // On several nodes the check on the board only serves to name late ranks. Its ranks must not stop at a
    // mismatch and leave the other nodes waiting.
    if (has_board()) mismatch = find_mismatch(place_->board->board(), mine);
    if (!has_board() || place_->team().locality().membership.nodes() > 1) {
      SetUp set_up(process_.host, handle(), process_.settings, mine.collective, false);
      mismatch = find_mismatch(set_up, mine);
    }
  });
  if (mismatch.empty()) return;
  if (rank_ == 0) say(mismatch);
  throw CommunicationError(mismatch, MPI_ERR_ARG);
}

void Communicator::report_earlier_failure() const {
  throw CommunicationError("an earlier collective on this communicator failed", failure_);
}

// The handle is null if a persistent request has outlived the program's communicator.
bool Communicator::asks_whether_revoked() const {
  return handle() != MPI_COMM_NULL && process_.fault_tolerance().is_revoked(handle());
}

void Communicator::check_processes() const {
  if (handle() == MPI_COMM_NULL) return;
  const FaultTolerance& faults = process_.fault_tolerance();
  if (faults.is_revoked(handle()))
    throw CommunicationError("the communicator was revoked", FaultTolerance::revoked);
  if (faults.has_lost_a_process(handle()))
    throw CommunicationError("a process of the communicator has died", FaultTolerance::process_failed);
}

// On the board of one node, an algorithm only copies from and to its vectors, except in its immediate form.
// An alltoallv of any length tries the immediate form first, but that leaves long vectors alone.
bool Communicator::may_have_stand_ins(const Chosen& chosen, Collective collective) {
  return chosen && chosen.expression->algorithm->needs.board == OnBoard::one_node &&
         (chosen.at_once == nullptr || collective == Collective::alltoallv);
}

void Communicator::run(Chosen chosen, const Call& call, std::size_t bytes, const StandInCopies* stand_ins) {
  if (bytes == 0 && is_over_if_empty(call.collective)) return;
  enter_board(call.collective, bytes);
  or_break([&] {
    if (chosen.at_once != nullptr && chosen.at_once(*board_, call)) return;
    run_task(*chosen.expression, call, stand_ins);
  });
  if (ProgressDue::is_due_after_call()) [[unlikely]]
    give_progress();
}

void Communicator::run_task(const Expression& expression, const Call& call, const StandInCopies* stand_ins) {
  if (expression.runs_on_host()) [[unlikely]]
    return host_pipeline(expression, call).run();
  NodeBoard::Stage* const stage = stage_of_board(stage_);
  if (stage != nullptr) stage->begin_use(expression.lease(call, rank_, size_, stage->board.size));
  Task task = expression.algorithm->run(endpoint(*transport_, call, expression), call, expression);
  lateness_.begin_call();
  transport_->drive(task, stand_ins);
  if (stage != nullptr) stage->end_use();
}

// This call is complete. If a rank has failed meanwhile, the next call deals with it.
void Communicator::give_progress() {
  if (has_board()) ProgressDue::give([&] { place_->board->let_host_move(); });
}

bool Communicator::has_messages(Collective collective) {
  require_intact();
  if (messages_->handle() != MPI_COMM_NULL) return true;
  bool are_found = false;
  or_break([&] {
    SetUp set_up(process_.host, handle(), process_.settings, collective, false);
    are_found = find_messages(set_up);
  });
  return are_found;
}

Chosen Communicator::choose_without_host(const Call& call, std::size_t bytes) {
  const Chosen chosen = choose(call.collective, bytes, call.output.width);
  announce(call.collective, bytes);
  if ((chosen && !chosen.expression->runs_on_host()) || !serves()) return chosen;
  if (!has_messages(call.collective)) return {};
  return Chosen::by(plans_.of(call.collective).plan().without_host);
}

// If the board has only the stage for blocking collectives, an operation uses messages.
Chosen Communicator::choose_for_operation(const Call& call, std::size_t bytes) {
  const Chosen chosen = choose_without_host(call, bytes);
  if (!chosen || !has_board() || place_->board->stages() > 1) return chosen;
  if (!has_messages(call.collective)) return {};
  const Plan& plan = plans_.agreed()->without_board.of(call.collective);
  if (plan.empty()) return {};
  const PlanRow& row = plan.row_for(bytes);
  return Chosen::by(row.expression->runs_on_host() ? plan.without_host : row);
}

bool Communicator::run_without_host(Call call) {
  require_intact();
  const std::size_t bytes = call.length(size_);
  const Chosen chosen = is_one_rank_ ? Chosen{&copied_alone} : choose_without_host(call, bytes);
  if (!chosen) return false;
  count(call.collective);
  if (is_one_rank_) {
    copy_alone(call);
  } else {
    run(chosen, call, bytes);
  }
  count_served(call.collective);
  last_algorithm = chosen.expression;
  return true;
}

std::unique_ptr<Operation> Communicator::begin(const Call& call) {
  require_intact();
  const std::size_t bytes = call.length(size_);
  if (is_one_rank_ || (bytes == 0 && is_over_if_empty(call.collective))) {
    auto complete = std::make_unique<Operation>(*this, call, bytes);
    return run_without_host(call) ? std::move(complete) : nullptr;
  }
  const Chosen chosen = choose_for_operation(call, bytes);
  if (!chosen) return nullptr;
  count(call.collective);
  std::unique_ptr<Operation> operation;
  begin(operation, chosen, call, bytes, {});
  operation->rethrow_if_failed();
  count_served(call.collective);
  last_algorithm = chosen.expression;
  return operation;
}

Chosen Communicator::choose_to_begin(Collective collective, std::size_t bytes, std::size_t width) {
  if (!plans_.is_up_to_date(collective)) {
    // All ranks get equal answers here. If this function cannot continue, a blocking call brings the plans up
    // to date.
    if (!plans_.are_current() || !are_provided({collective})) return {};
    apply();
  }
  const Plan& plan = plans_.of(collective).plan();
  if (plan.empty()) return {};
  const PlanRow& row = plan.row_for(bytes, width);
  if (&row == &plan.without_host || !begins_with_.contain(row.needs)) return {};
  return Chosen::by(row);
}

void Communicator::begin(std::unique_ptr<Operation>& operation, Chosen chosen, const Call& call,
                         std::size_t bytes, Sequel sequel, const StandInCopies* stand_ins) {
  const Expression& expression = *chosen.expression;
  enter_board(call.collective, bytes);
  or_break([&] {
    operation = std::make_unique<Operation>(*this, call, bytes, sequel);
    operation->expression_ = &expression;
    if (chosen.at_once != nullptr) operation->immediate_ = immediate_form(*expression.algorithm, size_);
    operation->stand_ins_ = stand_ins;
    operation->number_ = calls_;
    operation->index_ = origin_ != nullptr
                            ? stage_
                            : 1 + static_cast<int>(begun_++ % (NodeBoard::stages_of_communicator - 1));
    operation->stage_ = stage_of_board(operation->index_);
    operation->transport_ = &transport_of(operation->index_);
  });
  operation->is_complete_.store(false, std::memory_order_relaxed);
  if (process_.progress.has_working_thread()) {
    // A short copy takes less time than the thread needs to notice that there is one.
    constexpr std::size_t short_bytes = 4096;
    const bool sends_messages = expression.algorithm->needs.board != OnBoard::one_node;
    operations_under_way.announce(*operation);
    if (bytes < short_bytes || sends_messages) operations_under_way.advance(HostCalls::messages);
  } else {
    const OperationsUnderWay::Turn turn(operations_under_way);
    accept(*operation);
    operation->advance(HostCalls::messages);
  }
  if (operations_under_way.any()) process_.progress.ensure();
}

HostPipeline Communicator::host_pipeline(const Expression& expression, const Call& call) const {
  return {process_.host, process_.types(), host_pipelines_.handle(), call, expression};
}

MpiTransport& Communicator::transport_of(int index) {
  auto& transport = transports_[static_cast<std::size_t>(index)];
  if (transport == nullptr)
    transport = std::make_unique<MpiTransport>(process_.host, patience_without_board(process_.settings));
  return *transport;
}

// No bell rings for an operation, because another thread may run it.
Patience Communicator::patience_of(int index) {
  NodeBoard::Stage* const stage = stage_of_board(index);
  Patience patience = stage != nullptr ? stage->board.patience : transport_of(index).patience();
  patience.bell = nullptr;
  // The working thread may have been interrupted on this core.
  if (process_.progress.has_working_thread()) patience.shares_cores = true;
  return patience;
}

bool Communicator::copies_alone(Collective collective) const {
  return is_one_rank_ && !selection_->is_left_to_host(collective) &&
         process_.settings.gpu != GpuPolicy::native && !devices::has_level_zero();
}

void Communicator::copy_alone(const Call& call) {
  const ConstVector from = call.input_blocks.of(call.input, 0, 1);
  const Vector to = call.output_blocks.of(call.output, 0, 1);
  const bool has_both = from.bytes() > 0 && to.data != nullptr;
  if (from.data != to.data && has_both) std::memmove(to.data, from.data, from.bytes());
}

void Communicator::accept(Operation& operation) noexcept {
  Operation*& last = last_on_stage_[static_cast<std::size_t>(operation.index_)];
  operation.before_ = last;
  if (last != nullptr) last->after_ = &operation;
  last = &operation;
  ++in_use_;
  if (operation.before_ == nullptr) operations_under_way.add(operation);
}

void Communicator::forget(const Operation* operation, int index) noexcept {
  Operation*& last = last_on_stage_[static_cast<std::size_t>(index)];
  if (last == operation) last = nullptr;
  if (--in_use_ == 0 && is_abandoned_) operations_under_way.add_abandoned(*this);
}

void Communicator::hold() {
  const OperationsUnderWay::Turn turn(operations_under_way);
  ++in_use_;
}

void Communicator::let_go() noexcept {
  const OperationsUnderWay::Turn turn(operations_under_way);
  if (--in_use_ == 0 && is_abandoned_) operations_under_way.add_abandoned(*this);
}

bool Communicator::abandon() {
  const OperationsUnderWay::Turn turn(operations_under_way);
  handle_ = MPI_COMM_NULL;
  may_be_revoked_ = false;
  is_abandoned_ = true;
  return in_use_ == 0;
}

void Communicator::abandon(std::unique_ptr<Communicator> communicator) noexcept {
  Communicator* const mine = communicator.release();
  if (!mine->abandon()) return;
  const OperationsUnderWay::Turn turn(operations_under_way);
  operations_under_way.add_abandoned(*mine);
}

}  // namespace offbeat
