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

[[nodiscard]] bool may_be_revoked(const FaultTolerance& faults, std::string_view why_native) {
  return why_native == only_one_rank_reason ? faults.can_revoke() : why_native.empty() && faults.is_enabled();
}

}  // namespace

Communicator::Communicator(Runtime& process, MPI_Comm handle)
    : Communicator(process, handle, why_never_served(process.host, handle)) {}

Communicator::Communicator(Runtime& process, MPI_Comm handle, std::string_view why_native)
    : OperationsOwner(process.host.rank_in(handle), process.host.size_of(handle), WhenHostEnds::go_on_if_can),
      process_(process),
      life_(process.fault_tolerance(), handle, may_be_revoked(process.fault_tolerance(), why_native)),
      is_one_rank_(why_native == only_one_rank_reason),
      why_native_(why_native),
      means_(process, life_, {process.settings.window_bytes, NodeBoard::stages_of_communicator}, serves()),
      plans_(process.selection),
      counters_(process.counters.add()),
      timer_(*counters_, process.settings.counters) {
  put_plans_into_use();
  name_counters();
}

Communicator::Communicator(const Communicator& origin, const BoardSize& board_size)
    : OperationsOwner(origin.rank_, origin.size_, WhenHostEnds::go_on_if_can),
      process_(origin.process_),
      life_(&origin.life_),
      why_native_(origin.why_native_),
      means_(process_, life_, board_size, serves()),
      plans_(process_.selection),
      timer_(process_.counters.sums(), false) {
  put_plans_into_use();
}

Communicator::~Communicator() {
  process_.forget(*this);
  if (life_.is_broken() || was_left_out_ || (means_.have_board() && means_.node_board().is_given_up()))
    means_.forbid_reuse();
}

void Communicator::break_down() {
  const std::optional<CommunicatorLife::Failure> failure = life_.record_failure(std::current_exception());
  if (!failure) return;
  if (means_.have_network()) means_.shared().network->spoil();
  if (!means_.have_board()) return;
  NodeBoard& board = means_.node_board();
  // A rank that finds another process dead has not failed itself.
  int failed = failure->lost_rank;
  bool has_died = failure->has_died;
  if (failure->code == FaultTolerance::process_failed) {
    failed = life_.first_dead_process();
    has_died = failed != MPI_UNDEFINED;
  }
  board.give_up(failed != MPI_UNDEFINED ? failed : board.named_rank(),
                has_died ? "its process has died" : failure->text, failure->code);
}

// -- plans

void Communicator::leave_to_host(std::string_view why) {
  why_native_ = why;
  put_plans_into_use();
}

void Communicator::put_plans_into_use() {
  is_verbose_ = process_.settings.verbose > 0 && process_.host.rank_in(MPI_COMM_WORLD) == 0;
  announcements_.forget();
  const bool have_agreed = serves() && plans_.agreed() != nullptr;
  const Plans& plans = have_agreed ? means_.shared().choose(*plans_.agreed()) : process_.selection.native();
  plans_.use(plans, [&](Collective collective) { return has_means_for(requested_.with(collective)); });
  adaptation_.use(plans);
  means_for_begin_ = means_.means_of_operations();
}

Choice Communicator::choose_from_rows(Collective collective, std::size_t bytes, std::size_t width) {
  if (RowTrial* const recent = adaptation_.recent(collective, CallForm::blocking, bytes, width))
    return {recent->next(), recent};
  const Plan& plan = plans_.of(collective).plan();
  if (plan.empty()) return {};
  const PlanRow& row = plan.row_for(bytes, width);
  if (&row == &plan.without_host && !has_messages(collective)) return {};
  if (!row.has_choice()) return {ChosenAlternative::from_alternative(row)};
  RowTrial* const trial = break_on_error(
      collective, bytes, [&] { return &adaptation_.trial(collective, row, CallForm::blocking, bytes); });
  return {trial->next(), trial};
}

Choice Communicator::choose_without_deciding_trials(Collective collective, std::size_t bytes,
                                                    std::size_t width) {
  const bool may_be_due =
      !plans_.is_up_to_date(collective) && plans_.are_current() && has_means_for({collective});
  return may_be_due ? choose_from_rows(collective, bytes, width) : choose(collective, bytes, width);
}

MeasuredCall Communicator::begin_measured_request(RowTrial& row, const Call& call) {
  MeasuredCall measured = row.begin_request(call, rank_, size_);
  if (row.is_due()) plans_.mark_outdated();
  return measured;
}

void Communicator::decide_trial(RowTrial& row) {
  const bool is_pinned = break_on_error(row.collective(), 0, [&] {
    return row.decide(
        [&](std::span<std::uint64_t> times) { combine_over_ranks(times, combine_times(row.collective())); });
  });
  if (is_pinned && is_verbose_) Announcements::say_pinned(row, size_);
}

void Communicator::combine_over_ranks(std::span<std::uint64_t> times, CombineTimes how) {
  const MPI_Op op = how == CombineTimes::shortest ? MPI_MIN : MPI_MAX;
  if (!means_.have_board() || means_.team().locality().membership.nodes() > 1) {
    MpiSetUp(process_.host, life_.handle(), process_.settings, Collective::allreduce, false)
        .combine(times, op);
    return;
  }
  const Expression& expression = *interned_expression(Collective::allreduce, "arrival_tree");
  auto* const data = reinterpret_cast<std::byte*>(times.data());
  const Call call{Collective::allreduce,
                  {data, times.size(), sizeof(std::uint64_t)},
                  {data, times.size(), sizeof(std::uint64_t)},
                  process_.types().find_predefined(MPI_UINT64_T, op)};
  const Immediate* immediate = immediate_form(*expression.algorithm, size_, times.size_bytes());
  run({&expression, immediate != nullptr ? immediate->run : nullptr}, call, times.size_bytes());
}

// -- calls

void Communicator::check(const CallSignature& mine) {
  if (!serves()) return;
  life_.require_intact();
  record_call_on_board(mine.collective, 0);
  std::string mismatch;
  break_on_error([&] {
    // On several nodes the check on the board only serves to name late ranks. Its ranks must not stop at a
    // mismatch and leave the other nodes waiting.
    if (means_.have_board()) mismatch = find_mismatch(means_.node_board().board(), mine);
    if (!means_.have_board() || means_.team().locality().membership.nodes() > 1) {
      MpiSetUp set_up(process_.host, life_.handle(), process_.settings, mine.collective, false);
      mismatch = find_mismatch(set_up, mine);
    }
  });
  if (mismatch.empty()) return;
  if (rank_ == 0) say(mismatch);
  throw CommunicationError(mismatch, MPI_ERR_ARG);
}

bool Communicator::is_inter() const { return why_native_ == inter_communicator_reason; }

bool Communicator::may_have_stand_ins(const ChosenAlternative& chosen, Collective collective) {
  return chosen && offbeat::may_have_stand_ins(*chosen.expression->algorithm,
                                               chosen.immediate_form != nullptr, collective);
}

void Communicator::run_task(const Expression& expression, const Call& call, const StandInCopies* stand_ins) {
  if (expression.is_host_grid()) [[unlikely]]
    return means_.host_grids().allreduce(expression, call, process_.host, process_.types());
  if (expression.runs_on_host()) [[unlikely]]
    return host_pipeline(expression, call).run();
  NodeBoard::Stage* const stage = means_.stage(means_.index());
  if (stage != nullptr) stage->begin_use(expression.lease(call, rank_, size_, stage->board.size));
  if (stage != nullptr && stand_ins != nullptr) stage->register_windows(*stand_ins);
  Task task = expression.algorithm->run(endpoint(means_.transport(), call, expression), call, expression);
  means_.lateness().begin_call();
  means_.transport().drive(task, stand_ins);
  if (stage != nullptr) stage->end_use();
}

// This call is complete. If a rank has failed meanwhile, the next call deals with it.
void Communicator::give_turn() {
  if (means_.have_board()) TurnDue::give([&] { means_.node_board().let_host_move(); });
}

bool Communicator::has_messages(Collective collective) {
  life_.require_intact();
  if (means_.have_messages()) return true;
  bool are_found = false;
  break_on_error([&] {
    MpiSetUp set_up(process_.host, life_.handle(), process_.settings, collective, false);
    are_found = means_.provide_messages(set_up);
  });
  return are_found;
}

ChosenAlternative Communicator::choose_without_host(ChosenAlternative chosen, const Call& call,
                                                    std::size_t bytes) {
  announce(call.collective, bytes);
  if ((chosen && !chosen.expression->runs_on_host()) || !serves()) return chosen;
  if (!has_messages(call.collective)) return {};
  return ChosenAlternative::from_alternative(plans_.of(call.collective).plan().without_host);
}

// If the board has only the stage for blocking collectives, an operation uses messages.
ChosenAlternative Communicator::choose_for_operation(const Call& call, std::size_t bytes) {
  const ChosenAlternative chosen = choose_without_host(
      choose_without_deciding_trials(call.collective, bytes, call.output.width), call, bytes);
  if (!chosen || !means_.have_board() || means_.node_board().stages() > 1) return chosen;
  if (!has_messages(call.collective)) return {};
  const Plan& plan = plans_.agreed()->without_board.of(call.collective);
  if (plan.empty()) return {};
  const PlanRow& row = plan.row_for(bytes);
  return ChosenAlternative::from_alternative(row.expression->runs_on_host() ? plan.without_host : row);
}

bool Communicator::run_without_host(PreparedCall& prepared) {
  life_.require_intact();
  const Call& call = prepared.call();
  const std::size_t bytes = call.length(size_);
  const ChosenAlternative chosen =
      is_one_rank_ ? ChosenAlternative{&copy_on_single_rank, nullptr}
                   : choose_without_host(choose(call.collective, bytes, call.output.width), call, bytes);
  if (!chosen) return false;
  begin_blocking(call.collective);
  count_bytes(call.collective, bytes);
  break_on_error(call.collective, bytes, [&] {
    prepared.stage(!is_one_rank_ && may_have_stand_ins(chosen, call.collective));
    prepared.fetch_input();
  });
  if (is_one_rank_) {
    copy_alone(call);
  } else {
    run(chosen, call, bytes, prepared.stand_ins());
  }
  break_on_error([&] { prepared.deliver_output(); });
  count_served(call.collective);
  end_blocking(call.collective, chosen.expression);
  last_algorithm = chosen.expression;
  return true;
}

std::unique_ptr<Operation> Communicator::begin(PreparedCall& prepared) {
  life_.require_intact();
  const Call& call = prepared.call();
  const std::size_t bytes = call.length(size_);
  if (is_one_rank_ || (bytes == 0 && skips_empty_calls(call.collective))) {
    auto complete = std::make_unique<Operation>(*this, call, bytes);
    return run_without_host(prepared) ? std::move(complete) : nullptr;
  }
  const ChosenAlternative chosen = choose_for_operation(call, bytes);
  if (!chosen) return nullptr;
  count(call.collective);
  count_bytes(call.collective, bytes);
  break_on_error(call.collective, bytes, [&] {
    prepared.stage(may_have_stand_ins(chosen, call.collective));
    prepared.begin_fetch();
  });
  std::unique_ptr<Operation> operation;
  begin(operation, chosen, call, bytes, {}, prepared.stand_ins());
  operation->rethrow_if_failed();
  count_served(call.collective);
  last_algorithm = chosen.expression;
  return operation;
}

Choice Communicator::choose_to_begin(Collective collective, std::size_t bytes, std::size_t width) {
  if (!plans_.is_up_to_date(collective)) {
    // All ranks get equal answers here. If this function cannot continue, a blocking call brings the plans up
    // to date.
    if (!plans_.are_current() || !has_means_for({collective})) return {};
    if (!adaptation_.is_any_due()) put_plans_into_use();
  }
  const Plan& plan = plans_.of(collective).nonblocking();
  if (plan.empty()) return {};
  const PlanRow& row = plan.row_for(bytes, width);
  if (&row == &plan.without_host || !means_for_begin_.contain(row.needs)) return {};
  // Alternatives of a persistent request are not measured: it has few starts, and the ranks never compare
  // times for it.
  const bool is_measured =
      row.has_choice() && !life_.serves_persistent_request() && means_for_begin_.contain(row.needs_of_all());
  if (!is_measured) return {ChosenAlternative::from_alternative(row)};
  RowTrial* const trial = break_on_error(
      collective, bytes, [&] { return &adaptation_.trial(collective, row, CallForm::nonblocking, bytes); });
  return {trial->next(), trial};
}

// Readers of the counters then see the wait as they see a blocking call.
void Communicator::show_wait(const Operation* awaited) noexcept {
  if (counters_ == nullptr) return;
  if (awaited == nullptr) {
    counters_->awaited_number.set(0);
    counters_->of(collective_at(counters_->awaited_collective.value())).since.set(0);
    return;
  }
  const Collective collective = awaited->call().collective;
  counters_->of(collective).since.set(ProcessorClock::now());
  counters_->awaited_collective.set(index_of(collective));
  counters_->awaited_number.set(awaited->plan().number);
}

void Communicator::announce_begun(Collective collective, std::size_t bytes) {
  if (!is_verbose_) return;
  const PlanInUse& mine = plans_.of(collective);
  const auto form = &mine.nonblocking() == &mine.plan() ? CallForm::blocking : CallForm::nonblocking;
  announcements_.say_choice(collective, form, mine.nonblocking(), bytes, size_, why_native_);
}

void Communicator::begin(std::unique_ptr<Operation>& operation, ChosenAlternative chosen, const Call& call,
                         std::size_t bytes, Sequel sequel, const StandInCopies* stand_ins) {
  const Expression& expression = *chosen.expression;
  const bool sends_messages = expression.algorithm->needs.board != OnBoard::one_node;
  record_call_on_board(call.collective, bytes);
  break_on_error([&] {
    operation = std::make_unique<Operation>(*this, call, bytes, sequel);
    OperationPlan plan{.expression = &expression,
                       .stand_ins = stand_ins,
                       .number = calls_,
                       .history = take_history(call.collective)};
    if (chosen.immediate_form != nullptr)
      plan.immediate = immediate_form(*expression.algorithm, size_, bytes);
    plan.index = means_.next_index();
    plan.stage = means_.stage(plan.index);
    plan.transport = &means_.transport_of(plan.index);
    plan.advances_in_thread = sends_messages && !plan.transport->needs_host();
    operation->prepare(plan);
  });
  if (process_.progress.has_working_thread()) {
    // The progress thread takes the operation from here. But a short copy takes less time than the thread
    // needs to notice that there is one.
    constexpr std::size_t short_bytes = 4096;
    operations_under_way.announce(*operation);
    if (bytes < short_bytes || sends_messages) operations_under_way.advance(HostCalls::messages);
  } else {
    const OperationsUnderWay::Lock lock(operations_under_way);
    accept(*operation);
    operation->advance_first();
  }
  if (operations_under_way.any()) process_.progress.ensure(sends_messages && means_.have_network());
}

HostPipeline Communicator::host_pipeline(const Expression& expression, const Call& call) const {
  HostVariables* variables = expression.host_algorithm().empty() ? nullptr : &process_.host_variables();
  return {process_.host, process_.types(), means_.host_pipelines(), call, expression, variables};
}

bool Communicator::copies_alone(Collective collective) const {
  return is_one_rank_ && !process_.selection.is_left_to_host(collective) &&
         process_.settings.gpu != GpuPolicy::native && !devices::has_level_zero();
}

bool Communicator::copies_alone(const Call& call) const {
  if (!copies_alone(call.collective)) return false;
  const ConstVector from = call.input_blocks.block_of(call.input, 0, 1);
  const Vector to = call.output_blocks.block_of(call.output, 0, 1);
  return from.bytes() <= to.bytes();
}

void Communicator::copy_alone(const Call& call) {
  const ConstVector from = call.input_blocks.block_of(call.input, 0, 1);
  const Vector to = call.output_blocks.block_of(call.output, 0, 1);
  const bool has_both = from.bytes() > 0 && to.data != nullptr;
  if (from.data != to.data && has_both) std::memmove(to.data, from.data, from.bytes());
}

void Communicator::add_reference() {
  const OperationsUnderWay::Lock lock(operations_under_way);
  life_.begin_use();
}

void Communicator::remove_reference() noexcept {
  const OperationsUnderWay::Lock lock(operations_under_way);
  if (life_.end_use()) operations_under_way.add_abandoned(*this);
}

bool Communicator::abandon() {
  const OperationsUnderWay::Lock lock(operations_under_way);
  if (!life_.abandon()) return false;
  if (!is_watched()) return true;
  operations_under_way.add_abandoned(*this);
  return false;
}

void Communicator::abandon(std::unique_ptr<Communicator> communicator) noexcept {
  Communicator* const mine = communicator.release();
  if (!mine->abandon()) return;
  const OperationsUnderWay::Lock lock(operations_under_way);
  operations_under_way.add_abandoned(*mine);
}

}  // namespace offbeat
