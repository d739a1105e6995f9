// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicator.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "mpi/runtime.hpp"
#include "mpi/set_up.hpp"

namespace offbeat {
namespace {

std::string size_text(std::size_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

// Of calls of `least` to `most` bytes.
std::string range_text(std::size_t least, std::size_t most) {
  if (most == any_length) return least == 0 ? " of any length" : " from " + size_text(least);
  return (least == 0 ? " up to " : " from " + size_text(least) + " to ") + size_text(most);
}

struct Reason {
  const char*
      text;  // lives as long as the exception; null: the program knows, it has revoked the communicator
  int code;  // of the host MPI
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
  is_broken_ = true;
  const Reason reason = reason_of(std::current_exception());
  const bool is_meant_for_the_program =
      reason.code == FaultTolerance::revoked || reason.code == FaultTolerance::process_failed;
  if (is_meant_for_the_program) failure_ = reason.code;
  if (has_board()) place_->board->give_up(reason.text, reason.code);
}

Communicator::Communicator(Runtime& process, MPI_Comm handle)
    : process_(process), handle_(handle), selection_(&process.selection) {
  const Host& host = process.host;
  rank_ = host.rank_in(handle);
  size_ = host.size_of(handle);
  why_native_ = why_never_served(host, handle);
  is_one_rank_ = why_native_ == "one rank";
  if (why_native_.empty()) {
    transport_ = std::make_unique<MpiTransport>(host, patience_without_board(process.settings));
    messages_ = std::make_shared<PrivateCommunicator>(host);
    may_be_revoked_ = process.fault_tolerance().is_on();
  }
  apply();
}

Communicator::~Communicator() {
  if (!is_broken_ && !(has_board() && place_->board->is_given_up())) return;
  if (place_) place_->spoil();
  if (messages_ != nullptr) messages_->keep_for_ever();
}

// -- choices

void Communicator::leave_to_host(std::string_view why) {
  why_native_ = why;
  transport_.reset();
  apply();
}

const ChoiceTable& Communicator::table() const {
  if (!serves() || choices_ == nullptr) return selection_->native();
  return has_board() ? choices_->with_board : choices_->without_board;
}

void Communicator::apply() {
  is_verbose_ = process_.settings.verbose > 0 && launcher_rank() == 0;
  const std::uint64_t generation =
      choices_ != nullptr ? choices_->without_board.generation : selection_->generation();
  for (std::size_t k = 0; k < of_.size(); ++k) {
    const Choices& choices = table().by_collective[k];
    OfCollective& mine = of_[k];
    mine.generation = is_provided(collective_at(k)) ? generation : 0;
    mine.choices = choices.empty() ? nullptr : &choices;
    mine.announced = 0;
    mine.immediate_below = 0;
    if (choices.empty() || board_ == nullptr) continue;
    const Choice& first = choices.front();
    const Immediate* immediate = first.expression->algorithm->immediate;
    if (immediate == nullptr || size_ > immediate->most_ranks) continue;
    const std::size_t most = immediate->most_bytes_of_all / static_cast<std::size_t>(size_);
    mine.immediate_below = std::min(first.most_bytes, most) + 1;
    mine.at_once = first.expression;
    mine.run_at_once = immediate->run;
  }
}

const Expression* Communicator::choose_from_list(const OfCollective& mine, Collective collective,
                                                 std::size_t bytes, std::size_t width) {
  if (mine.choices == nullptr) return nullptr;
  const Choice& choice = choice_for(*mine.choices, bytes);
  if (is_verbose_) announce(collective, choice);
  const Algorithm& algorithm = *choice.expression->algorithm;
  if (algorithm.run == nullptr) return nullptr;
  if (width > BoardShape::smallest_chunk && algorithm.needs.board != OnBoard::no) return nullptr;
  return choice.expression;
}

void Communicator::announce(Collective collective, const Choice& choice) {
  OfCollective& mine = of(collective);
  const Choices& choices = *mine.choices;
  const std::ptrdiff_t index = &choice - choices.data();
  const std::uint64_t bit = std::uint64_t{1} << std::min<std::ptrdiff_t>(index, 63);
  if ((mine.announced & bit) != 0) return;
  mine.announced |= bit;
  // Never destroyed: a program may call MPI while it exits.
  static std::mutex mutex;
  static auto* said = new std::set<std::pair<int, std::string>>;
  try_to([&] {
    const std::size_t least = index == 0 ? 0 : choices[static_cast<std::size_t>(index - 1)].most_bytes + 1;
    const std::string range = range_text(least, choice.most_bytes);
    const Expression& expression = *choice.expression;
    const bool varies = !expression.is_native() && !expression.every_run();
    const std::string why = why_native_.empty() ? choice.reason : std::string(why_native_);
    const std::string line = std::string(name_of(collective)) + range + ", ranks: " + std::to_string(size_) +
                             ": " + expression.text() + " (" + why +
                             (varies ? "; bits differ from run to run)" : ")");
    const std::lock_guard lock(mutex);
    if (said->emplace(size_, line).second) say(line);
  });
}

// -- calls

void Communicator::check(const CallSignature& mine) {
  if (!serves()) return;
  require_intact();
  enter_board(mine.collective, 0);
  std::string mismatch;
  or_break([&] {
    // On several nodes the board only names who is late; its ranks must not leave the others alone with a
    // mismatch.
    if (has_board()) mismatch = find_mismatch(place_->board->board(), mine);
    if (!has_board() || place_->team().locality().membership.nodes() > 1) {
      SetUp set_up(process_.host, handle_, process_.settings);
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

bool Communicator::asks_whether_revoked() const { return process_.fault_tolerance().is_revoked(handle_); }

void Communicator::check_processes() const {
  if (handle_ == MPI_COMM_NULL) return;
  const FaultTolerance& faults = process_.fault_tolerance();
  if (faults.is_revoked(handle_))
    throw CommunicationError("the communicator was revoked", FaultTolerance::revoked);
  if (faults.has_lost_a_process(handle_))
    throw CommunicationError("a process of the communicator has died", FaultTolerance::process_failed);
}

void Communicator::run(const Expression& expression, const Call& call) {
  if (call.output.count == 0 && moves_data(call.collective)) return;
  enter_board(call.collective, call.output.bytes());
  or_break([&] {
    const OfCollective& mine = of(call.collective);
    if (call.output.bytes() < mine.immediate_below) {
      mine.run_at_once(*board_, call);
      return;
    }
    NodeBoard::Stage* const stage = stage_of_board(0);
    if (stage != nullptr) stage->begin_use(call.output.bytes());
    Task task = carry_out(endpoint(*transport_, expression), call, expression);
    transport_->drive(task);
    if (stage != nullptr) stage->end_use();
  });
  if (ProgressDue::after_call(call.output.bytes())) [[unlikely]]
    give_progress();
}

// This call is complete, so a rank that has failed meanwhile is the next one's concern.
void Communicator::give_progress() {
  ProgressDue::give([&] {
    if (has_board()) place_->board->let_host_move();
  });
}

const Expression* Communicator::choose_without_host(const Call& call) {
  const Expression* chosen = choose(call.collective, call.output.count, call.output.width);
  if (chosen != nullptr || !serves()) return chosen;
  bool has_messages = false;
  or_break([&] {
    SetUp set_up(process_.host, handle_, process_.settings);
    has_messages = find_messages(set_up, set_up.all(PrivateCommunicator::may_be_created()));
  });
  return has_messages ? selection_->without_host(call.collective) : nullptr;
}

bool Communicator::run_without_host(Call call) {
  ++calls_;
  require_intact();
  if (is_one_rank_) {
    if (call.input.data != call.output.data)
      std::copy_n(call.input.data, call.input.bytes(), call.output.data);
    return true;
  }
  const Expression* expression = choose_without_host(call);
  if (expression != nullptr) run(*expression, call);
  return expression != nullptr;
}

std::unique_ptr<Operation> Communicator::begin(const Call& call) {
  require_intact();
  if (is_one_rank_ || (call.output.count == 0 && moves_data(call.collective))) {
    auto complete = std::make_unique<Operation>(*this, call);
    return run_without_host(call) ? std::move(complete) : nullptr;
  }
  ++calls_;
  const Expression* expression = choose_without_host(call);
  if (expression == nullptr) return nullptr;
  enter_board(call.collective, call.output.bytes());
  std::unique_ptr<Operation> operation;
  or_break([&] {
    operation = std::make_unique<Operation>(*this, call);
    operation->expression_ = expression;
    operation->number_ = calls_;
    operation->index_ = 1 + static_cast<int>(begun_++ % (NodeBoard::stages - 1));
    operation->stage_ = stage_of_board(operation->index_);
    operation->transport_.emplace(process_.host, patience_without_board(process_.settings));
    prepare(*operation->transport_, operation->index_);
  });
  {
    const OperationsUnderWay::Turn turn(operations_under_way);
    Operation*& last = last_on_stage_[static_cast<std::size_t>(operation->index_)];
    operation->before_ = last;
    if (last != nullptr) last->after_ = operation.get();
    last = operation.get();
    ++under_way_;
    operation->is_complete_.store(false, std::memory_order_relaxed);
    operations_under_way.add(*operation);
    operation->advance();
  }
  operation->rethrow_if_failed();
  return operation;
}

// In a turn.
void Communicator::forget(const Operation& operation) noexcept {
  Operation*& last = last_on_stage_[static_cast<std::size_t>(operation.index_)];
  if (last == &operation) last = nullptr;
  if (--under_way_ == 0 && is_abandoned_) delete this;
}

bool Communicator::abandon() {
  const OperationsUnderWay::Turn turn(operations_under_way);
  handle_ = MPI_COMM_NULL;
  may_be_revoked_ = false;
  is_abandoned_ = true;
  return under_way_ == 0;
}

}  // namespace offbeat
