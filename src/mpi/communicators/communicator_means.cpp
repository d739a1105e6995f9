// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/communicator_means.hpp"

#include <atomic>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/line_of_node.hpp"
#include "mpi/communicators/mpi_board_client.hpp"
#include "mpi/communicators/set_up.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {
namespace {

// Prints this only once, because a program may make many communicators.
void say_once_that_names_do_not_hold() {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  run_unless_out_of_memory([&] {
    say_once_on_node(
        "native(NAME) is plain native on some communicators: the MPI has no communicator left, or an "
        "MPI_Comm_idup may be under way");
  });
}

// Prints the reason once on each node, on a rank that was refused the board.
void say_once_why_no_board(const std::string& why) {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true) || why.empty()) return;
  run_unless_out_of_memory([&] { say_once_on_node(why + ": messages are used instead"); });
}

}  // namespace

CommunicatorMeans::CommunicatorMeans(Runtime& process, const CommunicatorLife& life,
                                     const BoardSize& board_size, bool is_served)
    : process_(process), life_(life), board_size_(board_size), host_pipelines_(process.host) {
  shared_.is_board_settled = process.settings.window_bytes == 0;
  shared_.is_network_settled = life.may_be_revoked();
  if (!is_served) return;
  transport_ = std::make_unique<MpiTransport>(process.host, patience_without_board(process.settings));
  transport_->lateness = &lateness_;
  shared_.messages = std::make_shared<PrivateCommunicator>(process.host);
}

void CommunicatorMeans::make_host_turn() {
  host_turn_.emplace(process_.host, process_.own_communicator().handle);
}

BoardTransport& CommunicatorMeans::transport_of(int index) {
  const auto at = static_cast<std::size_t>(index);
  if (have_network()) {
    if (network_transports_[at] == nullptr)
      network_transports_[at] = std::make_unique<NetworkTransport>(*shared_.network->network,
                                                                   team().locality(), network_tag(index));
    return *network_transports_[at];
  }
  auto& transport = transports_[at];
  if (transport == nullptr)
    transport = std::make_unique<MpiTransport>(process_.host, patience_without_board(process_.settings));
  return *transport;
}

void CommunicatorMeans::prepare(BoardTransport& transport, int index) {
  if (transport.needs_host()) return prepare_mpi(static_cast<MpiTransport&>(transport), index);
  if (NodeBoard::Stage* mine = stage(index)) return transport.use(mine->board);
  static_cast<NetworkTransport&>(transport).call_turn_in_waits(turn_without_board());
}

TurnCall CommunicatorMeans::turn_without_board() {
  return {.call =
              [](void* self) {
                auto& mine = *static_cast<CommunicatorMeans*>(self);
                if (mine.is_giving_turn_.test_and_set(std::memory_order_acquire)) return;
                static_cast<void>(mine.host_turn_->give_turn());
                mine.is_giving_turn_.clear(std::memory_order_release);
              },
          .state = this};
}

void CommunicatorMeans::prepare_mpi(MpiTransport& transport, int index) {
  transport.use(team());
  if (life_.may_be_revoked()) {
    transport.call_turn_in_waits(
        {.call = [](void* life) { static_cast<const CommunicatorLife*>(life)->require_live_processes(); },
         .state = const_cast<CommunicatorLife*>(&life_)});
  }
  if (have_messages()) transport.use(shared_.messages->handle(), shared_.tag_base + index * most_lanes);
  if (NodeBoard::Stage* mine = stage(index)) transport.use(mine->board);
}

// Operations have no bell, because the thread that runs one may not be the one that the bell would wake.
Patience CommunicatorMeans::patience_of(int index) {
  NodeBoard::Stage* const mine = stage(index);
  Patience patience = mine != nullptr ? mine->board.patience : transport_->patience();
  patience.bell = nullptr;
  if (have_network()) {
    if (mine == nullptr) patience.turn = turn_without_board();
    patience.sleep = shared_.network->network->sleep();
  }
  // The kernel may have put this rank off its core for the progress thread.
  if (process_.progress.has_working_thread()) patience.shares_cores = true;
  return patience;
}

// Communicators of a team can share one host communicator for messages, as long as the tags suffice.
void CommunicatorMeans::take_agreed_means(Agreement& agreed) {
  shared_.place = std::move(agreed.place);
  const int base = MpiTransport::tags * shared_.place->index();
  const bool tags_suffice = base <= process_.highest_tag() - MpiTransport::tags;
  if (tags_suffice && agreed.messages != nullptr) shared_.messages = std::move(agreed.messages);
  shared_.tag_base = tags_suffice ? base : 0;
  new_messages_number_ = tags_suffice ? agreed.new_messages_number : 0;
}

bool CommunicatorMeans::satisfy_plans(const TeamPlans& plans, Collectives some) const {
  return !needs_shadows(plans) && !needs_host_grids(plans, some) && shared_.satisfy_plans(plans, some) &&
         (host_pipelines() != MPI_COMM_NULL || !shared_.choose(plans).need(Means::host_pipeline));
}

bool CommunicatorMeans::create_missing(MpiSetUp& set_up, const TeamPlans& plans, Collectives some) {
  if (plans.with_board.need(Means::board, some)) provide_board(set_up);
  const Plans& present = shared_.choose(plans);
  if (present.need(Means::network, some)) provide_network(set_up);
  if (present.need(Means::messages, some) && !provide_messages(set_up)) return false;
  if (present.need(Means::host_pipeline) && !provide_host_pipelines(set_up)) return false;
  if (needs_host_grids(plans, some) && !provide_host_grids(set_up, plans)) return false;
  if (needs_shadows(plans)) provide_shadows(set_up, plans);
  put_new_means_into_use();
  return true;
}

void CommunicatorMeans::provide_shadows(MpiSetUp& set_up, const TeamPlans& plans) {
  shadows_generation_ = plans.generation();
  if (!shadows_.make(set_up, process_.host_variables(), process_.own_communicator(), plans) &&
      set_up.rank == 0)
    say_once_that_names_do_not_hold();
}

void CommunicatorMeans::provide_board(MpiSetUp& set_up) {
  if (std::exchange(shared_.is_board_settled, true)) return;
  if (!have_board()) {
    std::string why_not;
    shared_.place->board = NodeBoard::create(set_up, team().locality(),
                                             {team().world_ranks(), " of MPI_COMM_WORLD", "communicator"},
                                             process_.settings, process_.windows, board_size_, why_not);
    if (!have_board()) say_once_why_no_board(why_not);
  }
  put_new_means_into_use();
}

void CommunicatorMeans::provide_network(MpiSetUp& set_up) {
  if (std::exchange(shared_.is_network_settled, true)) return;
  shared_.network = team().network(set_up, process_.settings);
  const int last = NodeBoard::stages_of_communicator - 1;
  if (have_network() && stage(last) == nullptr) make_host_turn();
}

bool CommunicatorMeans::provide_messages(MpiSetUp& set_up) {
  if (!have_messages()) {
    if (!set_up.all(PrivateCommunicator::may_be_created(process_.host, process_.own_communicator())))
      return false;
    if (!shared_.messages->create(set_up.communicator(), new_messages_number_)) return false;
    if (new_messages_number_ != 0) team().offer_messages(shared_.messages);
  }
  put_new_means_into_use();
  return true;
}

bool CommunicatorMeans::provide_host_pipelines(MpiSetUp& set_up) {
  if (host_pipelines() != MPI_COMM_NULL) return true;
  return set_up.all(PrivateCommunicator::may_be_created(process_.host, process_.own_communicator())) &&
         host_pipelines_.create(set_up.communicator(), 0);
}

bool CommunicatorMeans::provide_host_grids(MpiSetUp& set_up, const TeamPlans& plans) {
  host_grids_generation_ = plans.generation();
  host_grids_have_board_ = have_board();
  HostVariables* variables =
      process_.selection.names_host_algorithms() ? &process_.host_variables() : nullptr;
  bool names_hold = false;
  const bool are_made =
      host_grids_.make(set_up, variables, process_.own_communicator(), shared_.choose(plans), names_hold);
  if (are_made && !names_hold && set_up.rank == 0) say_once_that_names_do_not_hold();
  return are_made;
}

void CommunicatorMeans::put_new_means_into_use() {
  prepare_mpi(*transport_, 0);
  if (!have_board()) return;
  board_ = &node_board().board();
  board_->waiters = transport_.get();
  auto* client = static_cast<MpiBoardClient*>(node_board().client());
  if (client == nullptr) {
    // All ranks have agreed to use the board by now, so a rank without memory for the client must take part
    // anyway. While it waits for the board it makes no call of the host: no turns, no messages of operations,
    // no notice of failures on other nodes.
    const bool is_made = run_unless_out_of_memory([&] {
      auto made = std::make_unique<MpiBoardClient>(process_.host, process_.fault_tolerance(),
                                                   process_.own_communicator().handle, team().locality());
      client = made.get();
      node_board().serve(std::move(made));
    });
    if (!is_made) return;
  }
  if (have_messages()) client->use(shared_.messages->handle(), shared_.tag_base + MpiTransport::failure_tag);
  if (have_network())
    static_cast<void>(run_unless_out_of_memory([&] { client->use(shared_.network, place()); }));
  if (life_.may_be_revoked()) {
    client->use([](void* life) { static_cast<const CommunicatorLife*>(life)->require_live_processes(); },
                const_cast<CommunicatorLife*>(&life_.program_communicator_life()));  // outlives the board
  }
}

Means CommunicatorMeans::means_of_operations() const {
  Means found = Means::host_pipeline;
  if (life_.serves_persistent_request() || !have_board() || node_board().stages() > 1)
    found = found | Means::board;
  if (process_.progress.moves_messages() && have_tags(index_)) found = found | Means::messages;
  if (have_network() && have_tags(index_)) found = found | Means::network;
  return found;
}

void CommunicatorMeans::use_shared_means(const SharedMeans& shared, int index) {
  shared_ = shared;
  index_ = index;
  if (have_network() && stage(index) == nullptr) make_host_turn();
  if (have_board()) board_ = &node_board().stage(index).board;
}

void CommunicatorMeans::forbid_reuse() {
  if (shared_.place != nullptr) shared_.place->forbid_reuse();
  if (shared_.messages != nullptr) shared_.messages->leak();
  if (shared_.network != nullptr) shared_.network->spoil();
  host_pipelines_.leak();
  host_grids_.leak();
  shadows_.leak();
}

}  // namespace offbeat
