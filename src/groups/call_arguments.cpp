// SPDX-License-Identifier: BSD-3-Clause
#include "groups/call_arguments.hpp"

#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat {

Collective served_collective(std::string_view name) {
  const auto collective = collective_named(name);
  if (!collective || repertoire(*collective).algorithms.empty())
    throw UsageError("unknown collective '" + printable(name) + "'");
  return *collective;
}

void PreparedCall::Lists::read(const std::size_t* their_counts, const std::size_t* their_begins, int ranks,
                               std::size_t scale) {
  const auto blocks = static_cast<std::size_t>(ranks);
  counts.resize(blocks);
  begins.resize(blocks);
  for (std::size_t k = 0; k < blocks; ++k) {
    counts[k] = their_counts[k] * scale;
    begins[k] = static_cast<std::ptrdiff_t>(their_begins != nullptr ? their_begins[k] * scale : total);
    total += counts[k];
  }
}

PreparedCall::PreparedCall(const CallArguments& arguments, int rank, int ranks)
    : reduction_(arguments.reduction), call_{arguments.collective} {
  const Collective collective = arguments.collective;
  if (!moves_data(collective)) return;
  const CollectiveFacts& known = facts_of(collective);
  const Roles who = roles_of(collective);
  if (known.has_root && (arguments.root < 0 || arguments.root >= ranks))
    throw UsageError("root " + std::to_string(arguments.root) + " of " + std::to_string(ranks) + " ranks");

  // If the collective combines nothing, elements are bytes.
  const bool combines = known.has_operation;
  const std::size_t width = combines ? reduction_.width : 1;
  const std::size_t scale = combines ? 1 : width_of(arguments.type);
  const auto require = [&](const std::size_t* list, const char* name) {
    if (list == nullptr) throw UsageError(std::string(known.name) + " needs " + name);
  };
  const std::size_t block = arguments.count * scale;
  const auto all_blocks = block * static_cast<std::size_t>(ranks);
  has_gaps_ = arguments.input_begins != nullptr || arguments.output_begins != nullptr;
  const bool gives = who.gives(rank, arguments.root);
  const bool takes = who.takes(rank, arguments.root);
  // The numbers of elements that this rank gives and takes.
  std::size_t given = 0;
  std::size_t taken = 0;
  switch (collective) {
    case Collective::allgatherv:
      require(arguments.output_counts, "output_counts");
      output_lists_.read(arguments.output_counts, arguments.output_begins, ranks, scale);
      given = output_lists_.counts[static_cast<std::size_t>(rank)];
      taken = output_lists_.total;
      break;
    case Collective::alltoallv:
      require(arguments.input_counts, "input_counts");
      require(arguments.output_counts, "output_counts");
      input_lists_.read(arguments.input_counts, arguments.input_begins, ranks, scale);
      output_lists_.read(arguments.output_counts, arguments.output_begins, ranks, scale);
      given = input_lists_.total;
      taken = output_lists_.total;
      if (input_lists_.counts[static_cast<std::size_t>(rank)] !=
          output_lists_.counts[static_cast<std::size_t>(rank)])
        throw UsageError("input_counts and output_counts differ for the block of this rank");
      break;
    case Collective::reduce_scatter:
      require(arguments.input_counts, "input_counts");
      input_lists_.read(arguments.input_counts, nullptr, ranks, scale);
      given = input_lists_.total;
      taken = input_lists_.counts[static_cast<std::size_t>(rank)];
      break;
    default:
      given = gives ? (who.is_personalised ? all_blocks : block) : 0;
      // On a rank that takes nothing, the output still tells how long the call is.
      taken = !combines && !who.root_gives ? all_blocks : block;
  }
  if (takes && arguments.output == nullptr && taken > 0)
    throw UsageError("there are elements, but no output");

  call_.input = {static_cast<const std::byte*>(arguments.input), given, width};
  call_.output = {takes ? static_cast<std::byte*>(arguments.output) : nullptr, taken, width};
  call_.op = combines ? &reduction_ : nullptr;
  call_.root = known.has_root ? arguments.root : 0;
  if (!input_lists_.counts.empty()) call_.input_blocks = input_lists_.blocks();
  if (!output_lists_.counts.empty()) call_.output_blocks = output_lists_.blocks();

  if (collective == Collective::bcast) {
    if (gives) call_.input = call_.output;
    return;
  }
  const bool is_in_place = arguments.input == nullptr || arguments.input == arguments.output;
  if (!is_in_place || !gives || given == 0) return;
  const bool gives_only = !takes && known.has_root;
  if (gives_only || who.is_personalised || arguments.output == nullptr)
    throw UsageError("there are elements, but no separate input");
  if (combines) {
    call_.input.data = static_cast<const std::byte*>(arguments.output);  // also where rank 0 takes nothing
  } else {
    call_.input = call_.output_blocks.block_of(call_.output, rank, ranks);
  }
}

void PreparedCall::stage(bool may_stay) {
  if (!devices::may_have_memory()) return;
  if (has_gaps_ && (DeviceMemory::at(call_.input.data) || DeviceMemory::at(call_.output.data)))
    throw UsageError("in GPU memory, blocks must follow one another: pass no list of begins");
  staged_.emplace().stage_vectors(call_, may_stay);
}

}  // namespace offbeat
