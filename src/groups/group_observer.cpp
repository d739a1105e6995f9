// SPDX-License-Identifier: BSD-3-Clause
#include "groups/group_observer.hpp"

#include <cstddef>
#include <numeric>

namespace offbeat {

ObservedGroupCall observed(const CallArguments& arguments, int rank, int ranks, bool is_blocking) {
  const Collective collective = arguments.collective;
  if (!moves_data(collective)) return {.collective = collective, .is_blocking = is_blocking};
  const CollectiveFacts& known = facts_of(collective);
  const std::size_t width = width_of(arguments.type);
  std::size_t count = arguments.count;
  std::size_t blocks = 1;
  if (collective == Collective::allgatherv) {
    count = arguments.output_counts[rank];
  } else if (collective == Collective::alltoallv || collective == Collective::reduce_scatter) {
    count = std::accumulate(arguments.input_counts, arguments.input_counts + ranks, std::size_t{0});
  } else if (collective == Collective::alltoall || collective == Collective::reduce_scatter_block) {
    blocks = static_cast<std::size_t>(ranks);
  }
  const bool is_in_place =
      collective != Collective::bcast && (arguments.input == nullptr || arguments.input == arguments.output);
  return {.collective = collective,
          .is_blocking = is_blocking,
          .is_in_place = is_in_place,
          .root = known.has_root ? arguments.root : -1,
          .count = static_cast<std::int64_t>(count),
          .bytes = static_cast<std::int64_t>(count * blocks * width),
          .width = static_cast<std::uint32_t>(width),
          .type = name_of(arguments.type).data(),
          .operation = known.has_operation ? name_of(arguments.op).data() : ""};
}

}  // namespace offbeat
