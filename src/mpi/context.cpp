// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <new>
#include <set>
#include <utility>

#include "collectives/allreduce/allreduce.hpp"
#include "collectives/allreduce/arrival_tree_inline.hpp"
#include "base/error.hpp"
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
  } else if (!create_private_communicator(communicator)) {
    why_native_ = "the MPI has no communicator left for offbeat";
  } else {
    why_native_ = start_transport();
  }
  refresh();
}

Context::~Context() {
  if (private_communicator_ != MPI_COMM_NULL) host_->Comm_free(&private_communicator_);
}

// From the group, not by MPI_Comm_dup: that would call the attribute copy functions of the program. It fails
// on all ranks or on none, because they agree on the context id.
bool Context::create_private_communicator(MPI_Comm communicator) {
  const ReturnErrors scope(*host_, communicator);
  MPI_Group group;
  if (host_->Comm_group(communicator, &group) != MPI_SUCCESS) return false;
  const int code = host_->Comm_create(communicator, group, &private_communicator_);
  host_->Group_free(&group);
  if (code != MPI_SUCCESS) {
    private_communicator_ = MPI_COMM_NULL;
    return false;
  }
  host_->Comm_set_errhandler(private_communicator_, MPI_ERRORS_RETURN);
  return true;
}

// The environment is per rank, and decisions taken from it must be equal: compare it once. What may fail on
// one rank alone is done before, so that all ranks know.
std::string Context::start_transport() {
  enum { largest, smallest, failures, values };  // one maximum gives them all
  std::uint64_t vote[values] = {0, 0, 1};
  try {
    transport_ =
        std::make_unique<MpiTransport>(*host_, private_communicator_, patience_without_board(*settings_));
    const std::uint64_t mine = settings_->agreement();
    vote[largest] = mine;
    vote[smallest] = ~mine;
    vote[failures] = 0;
  } catch (const std::bad_alloc&) {  // this rank's vote stays "failed"
  }
  const int code = host_->Allreduce(MPI_IN_PLACE, vote, values, MPI_UINT64_T, MPI_MAX, private_communicator_);
  if (code == MPI_SUCCESS && vote[failures] == 0 && vote[largest] == ~vote[smallest]) return {};
  transport_.reset();
  if (code != MPI_SUCCESS || vote[failures] != 0) return "offbeat could not start on all ranks";
  if (rank_ == 0) {
    say("ranks have different OFFBEAT_ settings: the host MPI serves this communicator of " +
        std::to_string(size_) + " ranks");
  }
  return "the ranks have different settings";
}

ChoiceTable Context::choices() const {
  return selection_->table(
      {.ranks = size_, .nodes = nodes_ ? nodes_->count() : 1, .board = board_ != nullptr});
}

// The first table knows nothing of nodes; if it would use a board, find out where the ranks are.
void Context::refresh() {
  const bool board_possible = transport_ != nullptr && settings_->window_bytes > 0 && !board_tried_;
  if (board_possible && selection_->table({.ranks = size_, .board = true}).any_on_board()) {
    board_tried_ = true;
    node_lists_ = find_nodes(*host_, private_communicator_, *settings_);
    nodes_.emplace(node_lists_->leaders, node_lists_->here, rank_, size_);
    board_ = NodeBoard::create(*host_, private_communicator_, *nodes_, *settings_);
    if (board_ != nullptr) {
      board_->board().waiters = transport_.get();
      transport_->use(board_->board());
      transport_->nodes = &*nodes_;
    }
  }
  table_ = choices();
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
  const std::string range =
      index == 0 ? "0 B" : "from " + size_text(smallest) + " to below " + size_text(smallest * 2);
  const Expression* expression = runnable_[index];
  const std::string algorithm = expression != nullptr ? expression->text() : "native";
  const bool varies = expression != nullptr && !expression->every_run();
  const std::string line = "allreduce " + range + ", ranks: " + std::to_string(size_) + ": " + algorithm +
                           " (" + (why_native_.empty() ? choice.reason : why_native_) +
                           (varies ? "; bits differ from run to run)" : ")");
  const std::lock_guard lock(mutex);
  if (said.emplace(size_, line).second) say(line);
}

void Context::check(const CallSignature& mine) {
  complete_open();
  enter_board(0);
  // On several nodes the board only names who is late; its ranks must not leave the others alone with a
  // mismatch.
  std::string mismatch;
  if (board_ != nullptr) mismatch = find_mismatch(board_->board(), mine);
  if (board_ == nullptr || nodes_->count() > 1) mismatch = find_mismatch(*host_, private_communicator_, mine);
  if (mismatch.empty()) return;
  if (rank_ == 0) say(mismatch);
  throw CommunicationError(mismatch, MPI_ERR_ARG);
}

void Context::require_intact() const {
  if (is_broken_)
    throw CommunicationError("an earlier collective on this communicator failed", MPI_ERR_OTHER);
}

// After an error ranks no longer agree on what was sent: nobody can serve this communicator again, not even
// the host.
template <class Body>
void Context::or_break(Body&& body) {
  try {
    body();
  } catch (...) {
    is_broken_ = true;
    throw;
  }
}

void Context::complete_open() {
  while (open_ != nullptr) static_cast<void>(advance(*open_));
}

void Context::enter_board(std::size_t bytes) {
  if (board_ != nullptr) board_->board().enter(intercepted.value() + other_calls_, bytes);
}

void Context::run(const Expression& expression, Allreduce args) {
  if (open_ != nullptr) [[unlikely]] complete_open();
  if (args.output.count == 0) return;
  enter_board(args.output.bytes());
  if (expression.algorithm == &allreduce_algorithms::arrival_tree &&
      fits_inline(board_->board(), args.output.bytes())) {
    arrival_tree_inline(board_->board(), args);
    return;
  }
  Task task = allreduce(Endpoint(*transport_, rank_, size_, expression.lanes()), args, expression);
  or_break([&] { transport_->drive(task); });
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
