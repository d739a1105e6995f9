// SPDX-License-Identifier: BSD-3-Clause
// Persistent requests have a Communicator of their own, and share boards.
#include <algorithm>
#include <memory>

#include "mpi/communicators/communicator.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {

// Most persistent calls are short. Their boards have small windows, and therefore stages for more requests.
BoardSize Communicator::size_of_board_for(const Call& call) const {
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t most = process_.settings.window_bytes;
  // This is the smallest window that has a channel for each rank.
  const std::size_t small = std::max(std::size_t{64} << 10, 2 * ranks * BoardShape::smallest_chunk);
  const std::size_t length = call.length(size_) * (roles_of(call.collective).is_personalised ? ranks : 1);
  const bool is_in_immediate_row = !has_unknown_length(call.collective) && length <= small &&
                                   call.output.width * ranks <= small && 2 * small <= most;
  if (!is_in_immediate_row) return {most, NodeBoard::stages_of_communicator};
  const auto times = static_cast<int>(std::min<std::size_t>(most / small, NodeBoard::most_stages));
  return {small, std::min(times * NodeBoard::stages_of_communicator, NodeBoard::most_stages)};
}

bool Communicator::has_stage_for(const RequestStages& request_stages, Collective collective) const {
  if (request_stages.means.place == nullptr ||
      request_stages.plans->generation() != process_.selection.generation())
    return false;
  const Plans& plans = request_stages.means.choose(*request_stages.plans);
  const bool lacks_tags =
      (plans.need(Means::messages, {collective}) || plans.need(Means::network, {collective})) &&
      !CommunicatorMeans::have_tags(request_stages.next);
  return request_stages.means.satisfy_plans(*request_stages.plans, {collective}) && !lacks_tags &&
         !plans.need(Means::host_pipeline);
}

Communicator::RequestStages Communicator::request_stages() const {
  const int stages = means_.have_board() ? means_.node_board().stages() : NodeBoard::stages_of_communicator;
  if (!serves() || means_.shared().place == nullptr || stages == 1) return {};
  return {means_.shared(), plans_.agreed(), 1, stages};
}

void Communicator::use(const RequestStages& request_stages) {
  means_.use_shared_means(request_stages.means, request_stages.next);
  plans_.agree_on(request_stages.plans);
  put_plans_into_use();
}

// If the ranks have nothing to agree on, a rank without memory takes its stage first. Then only this rank
// fails.
std::unique_ptr<Communicator> Communicator::make_for_request(const Call& call) {
  const BoardSize size = size_of_board_for(call);
  if (!serves()) return std::make_unique<Communicator>(*this, size);
  RequestStages& shared = request_stages_[size.window_bytes < process_.settings.window_bytes ? 0 : 1];
  if (has_stage_for(shared, call.collective)) {
    life_.require_intact();  // after a failure this rank may have taken fewer stages than the others
    const RequestStages mine = shared;
    if (++shared.next == shared.end) shared = {};
    auto made = std::make_unique<Communicator>(*this, size);
    made->use(mine);
    return made;
  }
  std::unique_ptr<Communicator> made;
  if (!life_.is_broken())
    static_cast<void>(run_unless_out_of_memory([&] { made = std::make_unique<Communicator>(*this, size); }));
  if (!start(made.get(), process_, life_.handle(), call.collective)) return nullptr;
  shared = made->request_stages();
  return made;
}

}  // namespace offbeat
