// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/shadows.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "mpi/communicators/set_up.hpp"
#include "mpi/communicators/team.hpp"
#include "mpi/host/tuned_preference.hpp"

namespace offbeat {
namespace {

// A name that needs a shadow.
struct NeededShadow {
  const Expression* named;
  const HostAlgorithm* algorithm;
};

// Returns the names of each collective in the plans, without those that `has` a shadow.
template <class Has>
std::array<std::vector<NeededShadow>, collectives.size()> needed_shadows(const TeamPlans& plans,
                                                                         const NamedHostAlgorithms& offer,
                                                                         Has&& has) {
  std::array<std::vector<NeededShadow>, collectives.size()> found;
  for (std::size_t k = 0; k < found.size(); ++k) {
    for (const Plans* some : {&plans.with_board, &plans.without_board}) {
      for (const Expression* named : some->by_collective[k].native_names()) {
        const bool is_known =
            has(named) || std::ranges::find(found[k], named, &NeededShadow::named) != found[k].end();
        const HostAlgorithm* algorithm = offer.find(collective_at(k), false, named->host_algorithm());
        if (!is_known && algorithm != nullptr) found[k].push_back({named, algorithm});
      }
    }
  }
  return found;
}

}  // namespace

// Every step that may fail on one rank alone is followed by a vote. Nothing else may make a communicator
// while the variables are set: no other thread is in MPI, and no MPI_Comm_idup is under way on any rank.
bool Shadows::make(MpiSetUp& set_up, HostVariables& variables, const OwnCommunicator& own,
                   const TeamPlans& plans) {
  const Host& host = set_up.host();
  std::array<std::vector<NeededShadow>, collectives.size()> names;
  std::vector<std::shared_ptr<PrivateCommunicator>> made;
  PrivateCommunicator model(host);
  const bool is_ready = run_unless_out_of_memory([&] {
    names = needed_shadows(plans, variables.offer(), [&](const Expression* named) {
      return std::ranges::find(entries_, named, &Entry::named) != entries_.end();
    });
    std::size_t total = 0;
    std::size_t most = 0;
    for (const auto& each : names) {
      total += each.size();
      most = std::max(most, each.size());
    }
    for (std::size_t k = 0; k < most; ++k) made.push_back(std::make_shared<PrivateCommunicator>(host));
    entries_.reserve(entries_.size() + total);
  });
  const TunedPreference preference(host);
  const auto may_make_one = [&] {
    return HostVariables::may_set_for_communicators() && PrivateCommunicator::may_be_created(host, own);
  };
  if (!set_up.all(is_ready)) return false;
  if (made.empty()) return true;
  if (!set_up.all(may_make_one()) || !model.create(set_up.communicator(), 0)) return false;
  for (std::size_t k = 0; k < made.size(); ++k) {
    if (!set_up.all(may_make_one())) return false;
    for (const auto& each : names) {
      if (k < each.size()) variables.set(*each[k].algorithm);
    }
    const bool is_made = made[k]->duplicate(model.handle(), preference.info());
    variables.restore();
    if (!is_made) return false;
    for (const auto& each : names) {
      if (k < each.size()) entries_.push_back({each[k].named, made[k]});
    }
  }
  return true;
}

}  // namespace offbeat
