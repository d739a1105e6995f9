// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "collectives/allreduce/allreduce.hpp"
#include "collectives/allreduce/arrival_tree_inline.hpp"
#include "mpi/return_errors.hpp"
#include "mpi/runtime.hpp"

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

}  // namespace

namespace {

const char* text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return "no memory";
  } catch (const std::exception& error) {
    return error.what();  // lives as long as `failure`
  } catch (...) {
    return "an error";
  }
}

}  // namespace

// After an error ranks no longer agree on what was sent: nobody can serve this communicator again, not even
// the host. Who waits on the board is told.
template <class Body>
void Context::or_break(Body&& body) {
  try {
    body();
  } catch (...) {
    is_broken_ = true;
    if (board_ != nullptr) board_->give_up(text_of(std::current_exception()));
    throw;
  }
}

Context::Context(const Host& host, MPI_Comm communicator, const Settings& settings,
                 const Selection& selection)
    : host_(&host), settings_(&settings), selection_(&selection), private_communicator_(MPI_COMM_NULL) {
  int inter = 0;
  host.Comm_test_inter(communicator, &inter);
  host.Comm_rank(communicator, &rank_);
  host.Comm_size(communicator, &size_);
  if (inter != 0) {
    why_native_ = "inter-communicator";
  } else if (size_ == 1) {
    why_native_ = "one rank";
  } else {
    transport_ = std::make_unique<MpiTransport>(host, patience_without_board(settings));
    settings_hash_ = settings.agreement();
    if (is_board_open() && is_board_wanted()) node_lists_.emplace(size_);
  }
  table_ = choices(false);
  apply();
}

// After a failure messages are left over, and for MPICH that is a reason to end the job in MPI_Comm_free:
// then the communicator is kept.
Context::~Context() {
  const bool is_broken = is_broken_ || (board_ != nullptr && board_->is_given_up());
  if (private_communicator_ != MPI_COMM_NULL && !is_broken) host_->Comm_free(&private_communicator_);
}

namespace {

// From the group, not by MPI_Comm_dup: that would call the attribute copy functions of the program. It fails
// on all ranks or on none, because they agree on the context id. Null: the host has none left.
MPI_Comm create_private_communicator(const Host& host, MPI_Comm communicator) {
  MPI_Comm created = MPI_COMM_NULL;
  MPI_Group group;
  if (host.Comm_group(communicator, &group) != MPI_SUCCESS) return MPI_COMM_NULL;
  const int code = host.Comm_create(communicator, group, &created);
  host.Group_free(&group);
  if (code != MPI_SUCCESS) return MPI_COMM_NULL;
  host.Comm_set_errhandler(created, MPI_ERRORS_RETURN);
  return created;
}

}  // namespace

// The environment is per rank, and decisions taken from it must be equal: compare it once.
bool Context::start(Context* mine, const Host& host, MPI_Comm communicator) {
  int inter = 0;
  int size = 1;
  host.Comm_test_inter(communicator, &inter);
  host.Comm_size(communicator, &size);
  if (inter != 0 || size == 1) return mine != nullptr;

  enum { largest, smallest, no_context, no_communicator, values };  // one maximum gives them all
  std::uint64_t vote[values] = {0, 0, 1, 0};
  const ReturnErrors scope(host, communicator);
  MPI_Comm created = create_private_communicator(host, communicator);
  if (created == MPI_COMM_NULL) vote[no_communicator] = 1;
  if (mine != nullptr) {
    mine->private_communicator_ = created;
    mine->transport_->use(created);
    vote[largest] = mine->settings_hash_;
    vote[smallest] = ~mine->settings_hash_;
    vote[no_context] = 0;
  }
  const int code = host.Allreduce(MPI_IN_PLACE, vote, values, MPI_UINT64_T, MPI_MAX, communicator);
  if (code != MPI_SUCCESS || vote[no_context] != 0) {
    if (mine == nullptr && created != MPI_COMM_NULL) host.Comm_free(&created);
    return false;
  }
  if (vote[no_communicator] != 0) {
    mine->leave_to_host("the MPI has no communicator left for offbeat");
  } else if (vote[largest] != ~vote[smallest]) {
    mine->leave_to_host("the ranks have different settings");
    if (mine->rank_ == 0) {
      try_to([&] {
        say("ranks have different OFFBEAT_ settings: the host MPI serves this communicator of " +
            std::to_string(size) + " ranks");
      });
    }
  } else if (mine->node_lists_) {
    mine->find_board();
  }
  return true;
}

void Context::leave_to_host(std::string_view why) {
  why_native_ = why;
  transport_.reset();
  apply();
}

ChoiceTable Context::choices(bool with_board) const {
  return selection_->table({.ranks = size_, .nodes = nodes_ ? nodes_->count() : 1, .board = with_board});
}

bool Context::is_board_open() const {
  return transport_ != nullptr && settings_->window_bytes > 0 && !board_tried_;
}

// Before anything is known of nodes.
bool Context::is_board_wanted() const {
  return selection_->table({.ranks = size_, .board = true}).any_on_board();
}

// What this rank cannot do for want of memory is a vote against boards.
void Context::find_board() {
  board_tried_ = true;
  find_nodes(*host_, private_communicator_, *settings_, *node_lists_);
  nodes_.emplace(node_lists_->leaders, node_lists_->here, rank_, size_);
  std::optional<ChoiceTable> with_board;
  try_to([&] { with_board = choices(true); });
  board_ = NodeBoard::create(*host_, private_communicator_, *nodes_, *settings_, with_board.has_value());
  if (board_ == nullptr) return;
  board_->board().waiters = transport_.get();
  transport_->use(board_->board());
  transport_->nodes = &*nodes_;
  table_ = std::move(*with_board);
  apply();
}

void Context::refresh() {
  or_break([&] {
    if (is_board_open()) {
      bool is_wanted = false;
      const bool is_possible = on_all_ranks(try_to([&] {
        is_wanted = is_board_wanted();
        if (is_wanted) node_lists_.emplace(size_);
      }));
      if (is_possible && is_wanted) find_board();
    }
    table_ = choices(board_ != nullptr);
  });
  apply();
}

bool Context::on_all_ranks(bool mine) const {
  int failures = mine ? 0 : 1;
  const int code = host_->Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_MAX, private_communicator_);
  return code == MPI_SUCCESS && failures == 0;
}

void Context::apply() {
  for (std::size_t k = 0; k < runnable_.size(); ++k) {
    const Expression* chosen = table_.by_class[k].expression;
    runnable_[k] = transport_ == nullptr || chosen->is_native() ? nullptr : chosen;
  }
  unannounced_.fill(settings_->verbose > 0 && launcher_rank() == 0);
}

void Context::announce(std::size_t index) {
  unannounced_[index] = false;
  static std::mutex mutex;
  static std::set<std::pair<int, std::string>> said;
  const Choice& choice = table_.by_class[index];
  const std::size_t smallest = index == 0 ? 0 : std::size_t{1} << (index - 1);
  try_to([&] {
    const std::string range =
        index == 0 ? "0 B" : "from " + size_text(smallest) + " to below " + size_text(smallest * 2);
    const Expression* expression = runnable_[index];
    const std::string algorithm = expression != nullptr ? expression->text() : "native";
    const bool varies = expression != nullptr && !expression->every_run();
    const std::string line = "allreduce " + range + ", ranks: " + std::to_string(size_) + ": " + algorithm +
                             " (" + std::string(why_native_.empty() ? choice.reason : why_native_) +
                             (varies ? "; bits differ from run to run)" : ")");
    const std::lock_guard lock(mutex);
    if (said.emplace(size_, line).second) say(line);
  });
}

void Context::check(const CallSignature& mine) {
  require_intact();
  complete_open();
  enter_board(0);
  std::string mismatch;
  or_break([&] {
    // On several nodes the board only names who is late; its ranks must not leave the others alone with a
    // mismatch.
    if (board_ != nullptr) mismatch = find_mismatch(board_->board(), mine);
    if (board_ == nullptr || nodes_->count() > 1)
      mismatch = find_mismatch(*host_, private_communicator_, mine);
  });
  if (mismatch.empty()) return;
  if (rank_ == 0) say(mismatch);
  throw CommunicationError(mismatch, MPI_ERR_ARG);
}

void Context::require_intact() const {
  if (is_broken_)
    throw CommunicationError("an earlier collective on this communicator failed", MPI_ERR_OTHER);
}

void Context::complete_open() {
  while (open_ != nullptr) static_cast<void>(advance(*open_));
}

void Context::enter_board(std::size_t bytes) {
  if (board_ != nullptr) board_->board().enter(intercepted.value() + other_calls_, bytes);
}

void Context::run(const Expression& expression, Allreduce args) {
  if (open_ != nullptr) [[unlikely]]
    complete_open();
  if (args.output.count == 0) return;
  enter_board(args.output.bytes());
  or_break([&] {
    if (expression.algorithm == &allreduce_algorithms::arrival_tree &&
        fits_inline(board_->board(), args.output.bytes())) {
      arrival_tree_inline(board_->board(), args);
      return;
    }
    Task task = allreduce(Endpoint(*transport_, rank_, size_, expression.lanes()), args, expression);
    transport_->drive(task);
  });
}

bool Context::begin(const Expression& fallback, Open& open, Allreduce args) {
  ++other_calls_;
  require_intact();
  complete_open();
  if (transport_ == nullptr || args.output.count == 0) {
    open.is_complete = true;
    return run_without_host(fallback, args);
  }
  const Expression* chosen = choose(args.output.count, args.output.width);
  const Expression& expression = chosen != nullptr ? *chosen : fallback;
  enter_board(args.output.bytes());
  open_ = &open;
  or_break([&] {
    open.task = allreduce(Endpoint(*transport_, rank_, size_, expression.lanes()), args, expression);
    transport_->begin(open.task);
  });
  return true;
}

bool Context::advance(Open& open) {
  if (open.is_complete) return true;
  require_intact();
  or_break([&] { open.is_complete = transport_->advance(open.task); });
  if (open.is_complete) open_ = nullptr;
  return open.is_complete;
}

bool Context::run_without_host(const Expression& fallback, Allreduce args) {
  ++other_calls_;
  require_intact();
  const Expression* chosen = choose(args.output.count, args.output.width);
  if (transport_ != nullptr) {
    run(chosen != nullptr ? *chosen : fallback, args);
    return true;
  }
  if (size_ > 1) return false;
  const ConstVector source = args.input;
  if (source.data != args.output.data) std::copy_n(source.data, source.bytes(), args.output.data);
  return true;
}

}  // namespace offbeat
