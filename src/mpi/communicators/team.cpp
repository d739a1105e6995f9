// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/team.hpp"

#include <algorithm>
#include <utility>

#include "node/device_memory.hpp"

namespace offbeat {

Team::Team(std::vector<int> world_ranks, int rank, std::uint64_t serial_number)
    : world_ranks_(std::move(world_ranks)),
      rank_(rank),
      serial_(serial_number),
      identities_(world_ranks_.size()),
      membership_(static_cast<int>(world_ranks_.size())) {}

void Team::find_nodes(MpiSetUp& set_up, const Settings& settings) {
  if (settings.node_ranks > 0) {
    membership_.group_by([&](int rank) { return rank / settings.node_ranks; });
  } else {
    static const NodeIdentity mine = NodeIdentity::of_this_process();
    set_up.gather(mine, identities_.data());
    membership_.group(identities_);
  }
  locality_.emplace(membership_, rank_);
  const bool copies_gpu_memory = copies_device_memory(settings.gpu) && devices::may_have_driver();
  host_takes_all_memory_ = set_up.all(!copies_gpu_memory || set_up.host().takes_gpu_memory());
  if (membership_.nodes() == 1) return;
  has_network_ = settings.wants_own_network();
  static const std::size_t mine = offbeat::longest_message_between_nodes(set_up.host());
  longest_between_nodes_ = static_cast<std::size_t>(set_up.least(static_cast<int>(mine)));
}

std::shared_ptr<const TeamPlans> Team::plans(const Selection& selection) {
  const std::lock_guard lock(mutex_);
  if (plans_ == nullptr || plans_->with_board.generation != selection.generation()) {
    const Placement placement{.ranks = membership_.ranks(),
                              .nodes = membership_.nodes(),
                              .board = false,
                              .in_rank_order = membership_.is_in_rank_order(),
                              .equal_nodes = membership_.has_equal_nodes()};
    Placement with_board = placement;
    with_board.board = true;
    // Plans are too long for the stack of a thread, so they are made where they stay.
    plans_.reset(
        new TeamPlans{.with_board = selection.plans(with_board, host_takes_all_memory_, has_network_),
                      .without_board = selection.plans(placement, host_takes_all_memory_, has_network_)});
  }
  return plans_;
}

std::shared_ptr<PrivateCommunicator> Team::messages() {
  const std::lock_guard lock(mutex_);
  return messages_.lock();
}

void Team::offer_messages(const std::shared_ptr<PrivateCommunicator>& messages) {
  const std::lock_guard lock(mutex_);
  messages_ = messages;
}

// Two communicators may be made at the same time in two threads, so the ranks compare what they have.
std::shared_ptr<TeamNetwork> Team::network(MpiSetUp& set_up, const Settings& settings) {
  std::shared_ptr<TeamNetwork> mine;
  {
    const std::lock_guard lock(mutex_);
    mine = network_.lock();
  }
  std::uint64_t id_of_first = mine != nullptr ? mine->id() : 0;
  set_up.broadcast(id_of_first);
  if (set_up.all(mine != nullptr && mine->id() == id_of_first && !mine->is_spoilt())) return mine;
  mine = TeamNetwork::make(set_up, settings, locality(), world_ranks_);
  const std::lock_guard lock(mutex_);
  network_ = mine;
  return mine;
}

// -- places

std::shared_ptr<Team::CommunicatorPlace> Team::choose_place(const std::shared_ptr<Team>& team,
                                                            PlaceKind which, const BoardSize& size) {
  auto place = std::make_shared<CommunicatorPlace>(team);
  const std::lock_guard lock(team->mutex_);
  std::vector<PlaceState>& places = team->places_;
  auto chosen = places.end();
  if (which == PlaceKind::free) {
    // A place that has a board of this size comes first. Boards of other sizes are left to other
    // communicators.
    chosen = std::ranges::find_if(places, [&](const PlaceState& each) {
      return !each.is_taken && each.idle_board != nullptr && each.idle_board->size() == size;
    });
    if (chosen == places.end()) {
      chosen = std::ranges::find_if(
          places, [](const PlaceState& each) { return !each.is_taken && each.idle_board == nullptr; });
    }
  }
  if (chosen == places.end()) chosen = places.emplace(places.end());
  team->prepare_place(static_cast<std::size_t>(chosen - places.begin()), *place, size);
  return place;
}

std::shared_ptr<Team::CommunicatorPlace> Team::take_place(const std::shared_ptr<Team>& team, int index,
                                                          const BoardSize& size) {
  auto place = std::make_shared<CommunicatorPlace>(team);
  const std::lock_guard lock(team->mutex_);
  const auto position = static_cast<std::size_t>(index);
  if (position >= team->places_.size()) team->places_.resize(position + 1);
  if (team->places_[position].is_taken) return nullptr;
  team->prepare_place(position, *place, size);
  return place;
}

void Team::prepare_place(std::size_t index, CommunicatorPlace& place, const BoardSize& size) {
  PlaceState& state = places_[index];
  state.is_taken = true;
  place.index_ = static_cast<int>(index);
  if (state.idle_board == nullptr) return;
  --idle_boards_;
  if (state.idle_board->size() == size) place.board = std::move(state.idle_board);
  state.idle_board.reset();
}

Team::CommunicatorPlace::~CommunicatorPlace() {
  if (index_ >= 0) team_->give_back(index_, std::move(board), is_reuse_forbidden_);
}

void Team::give_back(int index, std::unique_ptr<NodeBoard> board, bool is_spoilt) {
  if (is_spoilt) return;
  if (board != nullptr) board->rest();
  const std::lock_guard lock(mutex_);
  PlaceState& state = places_[static_cast<std::size_t>(index)];
  state.is_taken = false;
  if (board == nullptr || idle_boards_ == most_idle_boards) return;
  state.idle_board = std::move(board);
  ++idle_boards_;
}

// -- teams

std::shared_ptr<Team> Teams::find(const std::vector<int>& world_ranks) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      teams_, [&](const std::shared_ptr<Team>& team) { return team->world_ranks() == world_ranks; });
  if (found == teams_.end()) return nullptr;
  std::rotate(found, found + 1, teams_.end());
  return teams_.back();
}

void Teams::reserve() {
  const std::lock_guard lock(mutex_);
  teams_.reserve(teams_.size() + 64);
}

void Teams::add(std::shared_ptr<Team> team) {
  const std::lock_guard lock(mutex_);
  std::erase_if(teams_, [&](const std::shared_ptr<Team>& other) {
    return other->world_ranks() == team->world_ranks();
  });
  teams_.push_back(std::move(team));
  const auto is_idle = [](const std::shared_ptr<Team>& each) { return each.use_count() == 1; };
  auto idle = static_cast<std::size_t>(std::ranges::count_if(teams_, is_idle));
  std::erase_if(teams_, [&](const std::shared_ptr<Team>& each) {
    return idle > most_idle && is_idle(each) && idle-- > 0;
  });
}

std::uint64_t Teams::next_serial() {
  const std::lock_guard lock(mutex_);
  return ++serial_;
}

}  // namespace offbeat
