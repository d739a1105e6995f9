// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/host_grids.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "mpi/communicators/set_up.hpp"
#include "mpi/host/tuned_preference.hpp"
#include "selection/plan.hpp"

namespace offbeat {

// Every step that may fail on one rank alone is followed by a vote.
bool HostGrids::make(MpiSetUp& set_up, HostVariables* variables, const OwnCommunicator& own,
                     const Plans& plans, bool& names_hold) {
  variables_ = variables;
  std::vector<Grid> made;
  std::vector<int> ranks;
  const bool is_ready = run_unless_out_of_memory([&] {
    for (const PlanRow& row : plans.by_collective[index_of(Collective::allreduce)].rows) {
      for (const Alternative& each : row.alternatives) {
        const auto is_same = [&](const Grid& grid) { return grid.expression == each.expression; };
        if (!each.expression->is_host_grid() || std::ranges::any_of(grids_, is_same) ||
            std::ranges::any_of(made, is_same))
          continue;
        Grid& grid = made.emplace_back(each.expression);
        for (std::size_t k = 0; k < each.expression->dimensions.size(); ++k)
          grid.lines.push_back({std::make_shared<PrivateCommunicator>(set_up.host())});
      }
    }
    grids_.reserve(grids_.size() + made.size());
    ranks.reserve(static_cast<std::size_t>(set_up.size));
  });
  if (!set_up.all(is_ready)) return false;
  names_hold = true;
  for (Grid& grid : made) {
    int stride = 1;
    for (std::size_t k = 0; k < grid.lines.size(); ++k) {
      const int size = grid.expression->dimensions[k];
      const int first = set_up.rank - set_up.rank / stride % size * stride;
      ranks.clear();
      for (int member = 0; member < size; ++member) ranks.push_back(first + member * stride);
      if (!make_line(set_up, own, ranks, grid.expression->part_of_dimension(k), grid.lines[k], names_hold))
        return false;
      stride *= size;
    }
    grids_.push_back(std::move(grid));
  }
  return true;
}

bool HostGrids::make_line(MpiSetUp& set_up, const OwnCommunicator& own, const std::vector<int>& ranks,
                          const Expression& part, Line& line, bool& names_hold) {
  const auto may_make_one = [&] { return PrivateCommunicator::may_be_created(set_up.host(), own); };
  if (!set_up.all(may_make_one()) ||
      !set_up.all(line.communicator->create_part(set_up.communicator(), ranks)))
    return false;
  if (part.name_in_host.empty() || variables_ == nullptr) return true;
  const NamedHostAlgorithms& offer = variables_->offer();
  const HostAlgorithm* algorithm = offer.find(Collective::allreduce, false, part.name_in_host);
  if (!offer.needs_communicators) {
    line.named = algorithm;
    return true;
  }
  std::shared_ptr<PrivateCommunicator> named;
  const bool may_name =
      run_unless_out_of_memory([&] { named = std::make_shared<PrivateCommunicator>(set_up.host()); });
  bool is_named = false;
  if (set_up.all(may_name && HostVariables::may_set_for_communicators() && may_make_one())) {
    const TunedPreference preference(set_up.host());
    if (algorithm != nullptr) variables_->set(*algorithm);
    is_named = named->duplicate(line.communicator->handle(), preference.info());
    variables_->restore();
    is_named = set_up.all(is_named);
  }
  if (is_named) line.communicator = std::move(named);
  names_hold = names_hold && is_named;
  return true;
}

void HostGrids::allreduce(const Expression& grid, const Call& call, const Host& host,
                          const Types& types) const {
  const auto mine = std::ranges::find(grids_, &grid, &Grid::expression);
  const Types::Handles handles = types.handles_of(*call.op);
  // A count of the host is an int.
  const auto longest = static_cast<std::size_t>(std::numeric_limits<int>::max() / handles.length);
  bool is_in_place = call.input.data == call.output.data;
  for (const Line& line : mine->lines) {
    for (std::size_t first = 0; first < call.output.count; first += longest) {
      const Vector output = call.output.slice(first, std::min(longest, call.output.count - first));
      const void* input = is_in_place ? MPI_IN_PLACE : call.input.slice(first, output.count).data;
      const int count = static_cast<int>(output.count) * handles.length;
      const MPI_Comm communicator = line.communicator->handle();
      const auto function =
          host.collectives.find<Collective::allreduce, Form::blocking, CountKind::int_counts>(
              input, static_cast<void*>(output.data), count, handles.type, handles.op, communicator);
      if (line.named != nullptr) {
        variables_->restore();
        variables_->set(*line.named);
      }
      const int code = function(input, output.data, count, handles.type, handles.op, communicator);
      if (line.named != nullptr) variables_->restore();
      if (code != MPI_SUCCESS) throw CommunicationError("a collective of the host failed", code);
    }
    is_in_place = true;
  }
}

}  // namespace offbeat
