// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/phantom_calls.hpp"

#include <string>

#include "base/error.hpp"
#include "reduction/reduction.hpp"

namespace offbeat {
namespace {

constexpr int root = 0;
const Reduction sum(ElementType::float32, ReduceOp::sum);

bool has_lists(Collective collective) {
  return collective == Collective::allgatherv || collective == Collective::alltoallv ||
         collective == Collective::reduce_scatter || collectives_with_lists_at_root.contain(collective);
}

}  // namespace

PhantomCalls::PhantomCalls(Collective collective, std::size_t bytes, int ranks)
    : collective_(collective),
      width_(facts_of(collective).has_operation ? sizeof(float) : 1),
      count_(bytes / width_),
      ranks_(static_cast<std::size_t>(ranks)),
      input_(input_count(root) * width_),  // on the root, which has the longest input
      output_(output_count(root) * width_) {
  if (!served_collectives.contain(collective))
    throw UsageError("offbeat has no algorithms for " + std::string(name_of(collective)));
  if (bytes % width_ != 0)
    throw UsageError(std::to_string(bytes) + " bytes are not a whole number of elements of 4 bytes");
  if (!has_lists(collective)) return;
  const bool is_cut = collective == Collective::reduce_scatter;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const std::size_t of_rank = is_cut ? count_ / ranks_ + (rank < count_ % ranks_ ? 1 : 0) : count_;
    block_begins_.push_back(rank == 0 ? 0
                                      : block_begins_.back() + static_cast<std::ptrdiff_t>(counts_.back()));
    counts_.push_back(of_rank);
  }
}

std::size_t PhantomCalls::input_count(int rank) const {
  const Roles who = roles_of(collective_);
  if (!moves_data(collective_) || !who.gives(rank, root)) return 0;
  return who.is_personalised && collective_ != Collective::reduce_scatter ? count_ * ranks_ : count_;
}

std::size_t PhantomCalls::output_count(int rank) const {
  const Roles who = roles_of(collective_);
  if (!moves_data(collective_) || !who.takes(rank, root)) return 0;
  if (collective_ == Collective::reduce_scatter && !counts_.empty())
    return counts_[static_cast<std::size_t>(rank)];
  const bool keeps_apart = !facts_of(collective_).has_operation && !who.root_gives;
  return keeps_apart ? count_ * ranks_ : count_;
}

Call PhantomCalls::call_of_rank(int rank) const {
  Call call{collective_};
  auto* const from = static_cast<std::byte*>(input_.data());
  auto* const to = static_cast<std::byte*>(output_.data());
  call.input = {from, input_count(rank), width_};
  call.output = {to, output_count(rank), width_};
  if (call.input.count == 0) call.input.data = nullptr;
  if (call.output.count == 0) call.output.data = nullptr;
  if (collective_ == Collective::bcast && rank == root) call.input = call.output;
  if (facts_of(collective_).has_operation && !roles_of(collective_).takes(rank, root))
    call.output.count = count_;
  if (facts_of(collective_).has_operation) call.op = &sum;
  call.root = root;
  const BlockList lists{counts_.data(), block_begins_.data()};
  if (collective_ == Collective::alltoallv || collective_ == Collective::reduce_scatter)
    call.input_blocks = lists;
  if (collective_ == Collective::alltoallv || collective_ == Collective::allgatherv)
    call.output_blocks = lists;
  if (collective_ == Collective::scatterv && rank == root) call.input_blocks = lists;
  if (collective_ == Collective::gatherv && rank == root) call.output_blocks = lists;
  return call;
}

}  // namespace offbeat
