// SPDX-License-Identifier: BSD-3-Clause
// A communicator gets its plans and means here, before offbeat serves it and after the plans have changed.
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "mpi/communicators/agreement.hpp"
#include "mpi/communicators/communicator.hpp"
#include "mpi/communicators/set_up.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {

bool Communicator::start(Communicator* mine, Runtime& process, MPI_Comm handle, Collective collective) {
  const bool is_never_served =
      mine != nullptr ? !mine->serves() : !why_never_served(process.host, handle).empty();
  if (is_never_served) return mine != nullptr;
  try {
    MpiSetUp set_up(process.host, handle, process.settings, collective, true);
    std::optional<Agreement> agreed =
        agree(set_up, process, mine != nullptr ? &mine->means_.board_size() : nullptr);
    if (!agreed) return false;
    if (!agreed->why_native.empty()) {
      mine->leave_to_host(agreed->why_native);
      return true;
    }
    mine->means_.take_agreed_means(*agreed);
    mine->identify_counters();
    mine->plans_.agree_on(std::move(agreed->plans));
    mine->create_missing(set_up, {collective});
    return true;
  } catch (const CommunicationError&) {  // the host reports it in the call itself
    return false;
  }
}

void Communicator::name_counters() {
  counters_->rank = static_cast<std::uint32_t>(rank_);
  counters_->size = static_cast<std::uint32_t>(size_);
  char name[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  if (process_.host.Comm_get_name(life_.handle(), name, &length) == MPI_SUCCESS)
    copy_text(name, counters_->name);
}

// Two communicators of the same ranks have different places.
void Communicator::identify_counters() {
  if (counters_ == nullptr) return;  // this works apart
  const auto bytes_of = [](const int& first, std::size_t count) {
    return std::string_view(reinterpret_cast<const char*>(&first), count * sizeof first);
  };
  const int place = means_.place();
  const std::vector<int>& ranks = means_.team().world_ranks();
  counters_->identity = fnv1a(bytes_of(ranks.front(), ranks.size()), fnv1a(bytes_of(place, 1))) | 1;
}

bool Communicator::has_means_for(Collectives collectives) const {
  return !serves() || plans_.agreed() == nullptr || means_.satisfy_plans(*plans_.agreed(), collectives);
}

void Communicator::create_missing(MpiSetUp& set_up, Collectives collectives) {
  if (means_.create_missing(set_up, *plans_.agreed(), collectives)) {
    put_plans_into_use();
  } else {
    leave_to_host("the MPI has no communicator, or the process no memory, left for offbeat");
  }
}

// The ranks have made the same calls here, so all of them refresh in one and the same call.
void Communicator::add_requested_collective(Collective collective) {
  requested_.add(collective);
  if (!has_means_for({collective})) put_plans_into_use();
}

void Communicator::update_plans(Collective collective) {
  if (!serves() || plans_.agreed() == nullptr) {
    put_plans_into_use();
    return;
  }
  const Collectives wanted = requested_.with(collective);
  if (adaptation_.is_any_due()) {
    adaptation_.for_each_due_trial([&](RowTrial& row) { decide_trial(row); });
    plans_.mark_as_before();
    if (plans_.is_up_to_date(collective)) return;
  }
  // All ranks get equal answers here: they agree on the plans and on what already exists.
  if (plans_.are_current() && has_means_for(wanted)) {
    put_plans_into_use();
    return;
  }
  break_on_error([&] {
    MpiSetUp set_up(process_.host, life_.handle(), process_.settings, collective, false);
    std::shared_ptr<const TeamPlans> plans;
    // If any rank lacks memory, all keep their present plans and try again in the next call.
    if (!set_up.all(run_unless_out_of_memory([&] { plans = means_.team().plans(process_.selection); })))
      return;
    // The first name may have been chosen after the ranks compared what they have.
    if (process_.selection.names_host_algorithms()) {
      const std::uint64_t mine = process_.selection.hash_of_user_rules();
      std::uint64_t of_first = mine;
      set_up.broadcast(of_first);
      if (!set_up.all(mine == of_first)) return leave_to_host("the ranks' MPIs have different algorithms");
    }
    plans_.agree_on(std::move(plans));
    create_missing(set_up, wanted);
  });
}

}  // namespace offbeat
