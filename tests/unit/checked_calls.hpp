// SPDX-License-Identifier: BSD-3-Clause
// The vectors of all ranks for one call of any collective but barrier, and what must be true of them
// afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "collectives/repertoire.hpp"
#include "simulator/simulator.hpp"
#include "vectors.hpp"

namespace offbeat {

struct Case {
  Collective collective;
  std::size_t count;  // elements of a block, or of the vector
  int root = 0;
  Operation operation = Operation::int_sum;  // of those that combine
  bool in_place = false;
  bool one_way = false;  // in an alltoallv: no rank gives anything to a higher one
  Bits origin = 0;       // of the values, so that two calls can have different ones

  [[nodiscard]] std::string text() const {
    return std::string(name_of(collective)) + " of " + std::to_string(count) + ", root " +
           std::to_string(root) + (in_place ? ", in place" : "") + (one_way ? ", one way" : "");
  }
};

class CheckedCalls {
 public:
  CheckedCalls(int ranks, const Case& what)
      : ranks_(ranks), what_(what), per_rank_(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) lay_out(rank);
    clear();
  }

  // As before the collective.
  void clear() {
    for (int rank = 0; rank < ranks_; ++rank) fill(rank);
  }

  [[nodiscard]] Call args(int rank) {
    OfRank& mine = of(rank);
    Call call(what_.collective);
    const std::size_t width = combines() ? sizeof(Bits) : 1;
    auto* input = reinterpret_cast<std::byte*>(mine.input.data() + guard);
    auto* output = reinterpret_cast<std::byte*>(mine.output.data() + guard);
    const std::size_t scale = sizeof(Bits) / width;
    call.input = {mine.input_count > 0 ? input : nullptr, mine.input_count * scale, width};
    call.output = {mine.output_count > 0 ? output : nullptr, mine.output_count * scale, width};
    if (what_.collective == Collective::bcast) {
      call.output = {output, what_.count * scale, width};
      if (rank == what_.root) call.input = call.output;
    }
    if (combines() && !takes(rank)) call.output.count = what_.count;
    if (what_.in_place) share(rank, call);
    if (combines()) call.op = &reduction(what_.operation);
    call.root = what_.root;
    if (!mine.send_counts.empty()) call.input_blocks = {mine.send_counts.data(), mine.send_begins.data()};
    if (!mine.receive_counts.empty()) {
      call.output_blocks = {mine.receive_counts.data(), mine.receive_begins.data()};
      call.output.count =
          std::accumulate(mine.receive_counts.begin(), mine.receive_counts.end(), std::size_t{0});
    }
    return call;
  }

  // An error in what some rank has; empty: there is none.
  [[nodiscard]] std::string problem(std::vector<std::vector<Bits>>& reference) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (std::string problem = this->problem(rank, reference); !problem.empty()) return problem;
    }
    return {};
  }
  // In what one rank has. `reference`: the results of the first run, which is set; all others must have its
  // bits. All ranks of an allreduce must have the same bits, too.
  [[nodiscard]] std::string problem(int rank, std::vector<std::vector<Bits>>& reference) const {
    const OfRank& mine = of(rank);
    const auto who = [&] { return what_.text() + ": rank " + std::to_string(rank) + ": "; };
    if (!what_.in_place && mine.input != mine.input_before) return who() + "its input was changed";
    if (!guards_stand(mine)) return who() + "something was written beside its output";
    const std::vector<Bits> result = result_of(rank);
    if (what_.operation != Operation::weave || !combines()) {
      if (result != expected_of(rank)) return who() + "wrong result";
    }
    reference.resize(p());
    std::vector<Bits>& first =
        reference[what_.collective == Collective::allreduce ? 0 : static_cast<std::size_t>(rank)];
    if (first.empty()) first = result;
    if (first != result) return who() + "other bits than in the first run";
    return {};
  }

  // All collectives of one vector, or block, on every rank have the bits of one tree; see problem().
  [[nodiscard]] std::vector<Bits> result_of(int rank) const {
    std::vector<Bits> result;
    const OfRank& mine = of(rank);
    for (const auto& [begin, count] : mine.result) {
      const auto first = mine.output.begin() + static_cast<std::ptrdiff_t>(guard + begin);
      result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(count));
    }
    return result;
  }

 private:
  static constexpr std::size_t guard = 4;
  static constexpr Bits guard_value = 0xA5A5A5A5;
  static constexpr Bits nothing = 0x5C5C5C5C;

  struct Range {
    std::size_t begin;
    std::size_t count;
  };
  struct OfRank {
    std::size_t input_count = 0;
    std::size_t output_count = 0;
    std::vector<std::size_t> send_counts, receive_counts;  // as Call wants them
    std::vector<std::ptrdiff_t> send_begins, receive_begins;
    std::vector<Range> result;  // of the output: what must be right
    std::vector<Bits> input, input_before, output;
  };

  [[nodiscard]] OfRank& of(int rank) { return of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const OfRank& of(int rank) const { return of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool combines() const { return facts_of(what_.collective).has_operation; }
  [[nodiscard]] bool takes(int rank) const { return roles_of(what_.collective).takes(rank, what_.root); }
  [[nodiscard]] std::size_t p() const { return per_rank_; }

  // Elements that `from` gives to `to`; some are 0.
  [[nodiscard]] std::size_t pair_count(int from, int to) const {
    const auto mixed = static_cast<std::size_t>(from * 7 + to * 3 + from * to);
    switch (what_.collective) {
      case Collective::allgatherv:
      case Collective::gatherv:
        return what_.count * static_cast<std::size_t>(from % 3) + static_cast<std::size_t>(from % 2);
      case Collective::reduce_scatter:
      case Collective::scatterv:
        return what_.count * static_cast<std::size_t>(to % 3) + static_cast<std::size_t>(to % 2);
      case Collective::alltoallv:
        return what_.one_way && from < to ? 0 : what_.count * (mixed % 3) + mixed % 2;
      default:
        return what_.count;
    }
  }

  void lay_out(int rank) {
    OfRank& mine = of_.emplace_back();
    const std::size_t n = what_.count;
    const bool is_root = rank == what_.root;
    const auto whole = [&](std::size_t count) {
      mine.output_count = count;
      if (count > 0) mine.result = {{0, count}};
    };
    switch (what_.collective) {
      case Collective::allreduce:
      case Collective::reduce:
      case Collective::scan:
      case Collective::exscan:
        mine.input_count = n;
        return takes(rank) ? whole(n) : void();
      case Collective::bcast:
        return whole(n);
      case Collective::gather:
        mine.input_count = n;
        return is_root ? whole(n * p()) : void();
      case Collective::scatter:
        if (is_root) mine.input_count = n * p();
        return whole(n);
      case Collective::allgather:
        mine.input_count = n;
        return whole(n * p());
      case Collective::alltoall:
        mine.input_count = n * p();
        return whole(n * p());
      case Collective::reduce_scatter_block:
        mine.input_count = n * p();
        return whole(n);
      case Collective::allgatherv:
        mine.input_count = pair_count(rank, 0);
        return lists(mine, rank, false, true);
      case Collective::gatherv:
        mine.input_count = pair_count(rank, 0);
        return is_root ? lists(mine, rank, false, true) : void();
      case Collective::scatterv:
        if (is_root) lists(mine, rank, true, false);
        return whole(pair_count(what_.root, rank));
      case Collective::alltoallv:
        return lists(mine, rank, true, true);
      case Collective::reduce_scatter:
        lists(mine, rank, true, false);
        return whole(pair_count(0, rank));
      default:
        throw std::logic_error("no test for this collective");
    }
  }

  // Blocks in backward order, with a gap after each; those of a reduce-scatter follow one another.
  void lists(OfRank& mine, int rank, bool sends, bool receives) const {
    const bool has_gaps = what_.collective != Collective::reduce_scatter;
    const std::size_t scale = combines() ? 1 : sizeof(Bits);
    const auto fill_in = [&](std::vector<std::size_t>& counts, std::vector<std::ptrdiff_t>& begins,
                             auto count_of) {
      counts.resize(p());
      begins.resize(p());
      std::size_t begin = 0;
      for (std::size_t k = 0; k < p(); ++k) {
        const std::size_t peer = has_gaps ? p() - 1 - k : k;
        counts[peer] = count_of(static_cast<int>(peer)) * scale;
        begins[peer] = static_cast<std::ptrdiff_t>(begin * scale);
        begin += counts[peer] / scale + (has_gaps ? 1 : 0);
      }
      return begin;
    };
    if (sends) {
      mine.input_count =
          fill_in(mine.send_counts, mine.send_begins, [&](int peer) { return pair_count(rank, peer); });
    }
    if (!receives) return;
    mine.output_count =
        fill_in(mine.receive_counts, mine.receive_begins, [&](int peer) { return pair_count(peer, rank); });
    for (std::size_t k = 0; k < p(); ++k) {
      mine.result.push_back(
          {static_cast<std::size_t>(mine.receive_begins[k]) / scale, mine.receive_counts[k] / scale});
    }
  }

  // Element k of what `from` gives to `to`.
  [[nodiscard]] Bits value(int from, int to, std::size_t k) const {
    const auto of_giver = static_cast<Bits>(from + 1) * 1009 + what_.origin;
    return of_giver + static_cast<Bits>(is_personalised() ? to * 65537 : 0) + static_cast<Bits>(k) * 13;
  }
  [[nodiscard]] bool is_personalised() const {
    switch (what_.collective) {
      case Collective::scatter:
      case Collective::scatterv:
      case Collective::alltoall:
      case Collective::alltoallv:
      case Collective::reduce_scatter:
      case Collective::reduce_scatter_block:
        return true;
      default:
        return false;
    }
  }

  void fill(int rank) {
    OfRank& mine = of(rank);
    std::size_t in_memory = mine.input_count;
    mine.output.assign(std::max(mine.output_count, in_memory) + 2 * guard, nothing);
    std::fill_n(mine.output.begin(), guard, guard_value);
    std::fill_n(mine.output.begin() + static_cast<std::ptrdiff_t>(guard + mine.output_count), guard,
                guard_value);
    mine.input.assign(in_memory + 2 * guard, guard_value);
    if (is_personalised()) {
      for (int to = 0; to < ranks_ && in_memory > 0; ++to) {
        const std::size_t begin =
            mine.send_counts.empty()
                ? static_cast<std::size_t>(to) * what_.count
                : static_cast<std::size_t>(mine.send_begins[static_cast<std::size_t>(to)]) /
                      (combines() ? 1 : sizeof(Bits));
        for (std::size_t k = 0; k < pair_count(rank, to); ++k)
          mine.input[guard + begin + k] = value(rank, to, k);
      }
    } else {
      for (std::size_t k = 0; k < in_memory; ++k) mine.input[guard + k] = value(rank, 0, k);
    }
    mine.input_before = mine.input;
    if (what_.collective == Collective::bcast && rank == what_.root) {
      for (std::size_t k = 0; k < what_.count; ++k) mine.output[guard + k] = value(rank, 0, k);
    }
    if (!what_.in_place) return;
    // Where the call will look for it.
    switch (what_.collective) {
      case Collective::allreduce:
      case Collective::reduce:
      case Collective::scan:
      case Collective::exscan:
        if (mine.output_count > 0)
          std::copy_n(mine.input.begin() + guard, in_memory, mine.output.begin() + guard);
        break;
      case Collective::alltoall:
        std::copy_n(mine.input.begin() + guard, in_memory, mine.output.begin() + guard);
        break;
      case Collective::allgather:
      case Collective::gather:
        if (mine.output_count > 0) {
          std::copy_n(mine.input.begin() + guard, in_memory,
                      mine.output.begin() +
                          static_cast<std::ptrdiff_t>(guard + static_cast<std::size_t>(rank) * what_.count));
        }
        break;
      case Collective::allgatherv:
      case Collective::gatherv:
        if (mine.receive_begins.empty()) break;
        std::copy_n(mine.input.begin() + guard, in_memory,
                    mine.output.begin() + static_cast<std::ptrdiff_t>(guard) +
                        mine.receive_begins[static_cast<std::size_t>(rank)] /
                            static_cast<std::ptrdiff_t>(sizeof(Bits)));
        break;
      default:
        break;
    }
  }

  // MPI_IN_PLACE, as Call has it.
  void share(int rank, Call& call) const {
    switch (what_.collective) {
      case Collective::alltoall:
        call.input = call.output;
        break;
      case Collective::allreduce:
      case Collective::reduce:
      case Collective::scan:
      case Collective::exscan:
        if (takes(rank)) call.input = call.output;
        break;
      case Collective::allgather:
        call.input = call.output.slice(static_cast<std::size_t>(rank) * call.input.count, call.input.count);
        break;
      case Collective::gather:
        if (rank == what_.root)
          call.input = call.output.slice(static_cast<std::size_t>(rank) * call.input.count, call.input.count);
        break;
      case Collective::allgatherv:
      case Collective::gatherv: {
        const OfRank& mine = of(rank);
        if (mine.receive_counts.empty()) break;
        call.input = BlockList{mine.receive_counts.data(), mine.receive_begins.data()}.block_of(call.output,
                                                                                                rank, ranks_);
        break;
      }
      default:
        break;
    }
  }

  [[nodiscard]] bool guards_stand(const OfRank& mine) const {
    for (std::size_t k = 0; k < guard; ++k) {
      if (mine.output[k] != guard_value || mine.output[guard + mine.output_count + k] != guard_value)
        return false;
    }
    // Gaps between blocks.
    std::vector<bool> is_result(mine.output_count, false);
    for (const auto& [begin, count] : mine.result) {
      for (std::size_t k = 0; k < count; ++k) is_result[begin + k] = true;
    }
    for (std::size_t k = 0; k < mine.output_count; ++k) {
      if (!is_result[k] && mine.output[guard + k] != nothing) return false;
    }
    return true;
  }

  [[nodiscard]] std::vector<Bits> expected_of(int rank) const {
    std::vector<Bits> expected;
    if (of(rank).result.empty()) return expected;
    if (combines()) {
      const int block = is_personalised() ? rank : 0;
      const int givers = what_.collective == Collective::scan     ? rank + 1
                         : what_.collective == Collective::exscan ? rank
                                                                  : ranks_;
      for (std::size_t k = 0; k < pair_count(0, block); ++k) {
        Bits result = value(0, block, k);
        for (int from = 1; from < givers; ++from) {
          const Bits next = value(from, block, k);
          result = what_.operation == Operation::compose ? Compose::of(result, next) : result + next;
        }
        expected.push_back(result);
      }
      return expected;
    }
    const bool has_one_giver = roles_of(what_.collective).root_gives;
    for (int from = has_one_giver ? what_.root : 0; from < ranks_; ++from) {
      for (std::size_t k = 0; k < pair_count(from, rank); ++k) expected.push_back(value(from, rank, k));
      if (has_one_giver) break;
    }
    return expected;
  }

  const int ranks_;
  const Case what_;
  const std::size_t per_rank_;
  std::vector<OfRank> of_;
};

// All collectives that CheckedCalls knows.
inline constexpr Collective checked_collectives[] = {Collective::allreduce,
                                                     Collective::bcast,
                                                     Collective::reduce,
                                                     Collective::allgather,
                                                     Collective::allgatherv,
                                                     Collective::alltoall,
                                                     Collective::alltoallv,
                                                     Collective::gather,
                                                     Collective::gatherv,
                                                     Collective::scatter,
                                                     Collective::scatterv,
                                                     Collective::reduce_scatter,
                                                     Collective::reduce_scatter_block,
                                                     Collective::scan,
                                                     Collective::exscan};

// Its operands stay in rank order, whatever the algorithm is.
inline bool is_prefix(Collective collective) {
  return collective == Collective::scan || collective == Collective::exscan;
}

// The algorithm for the ranks of one node.
inline Expression expression_on_board(Collective collective) {
  Expression expression;
  for (const Algorithm* algorithm : repertoire(collective).algorithms) {
    if (expression.algorithm == nullptr && algorithm->needs.board == OnBoard::one_node)
      expression.algorithm = algorithm;
  }
  return expression;
}

// Whether a call with this algorithm can be in place. On the board an alltoall puts each part of a block
// before it takes one; by messages its input is copied first (copy_input_if_needed in
// mpi/interpose/blocking_carrier.hpp).
inline bool works_in_place(Collective collective, const Expression& expression) {
  return collective != Collective::alltoall || expression.algorithm->needs.board == OnBoard::one_node;
}

// Every root where there are up to 17 ranks, five of them where there are more.
inline std::vector<int> roots_of(Collective collective, int ranks) {
  if (!facts_of(collective).has_root) return {0};
  std::vector<int> roots;
  for (int root = 0; root < ranks; ++root) {
    const bool is_taken = ranks <= 17 || root < 2 || root == ranks / 2 || root >= ranks - 2;
    if (is_taken) roots.push_back(root);
  }
  return roots;
}

// Awkward lengths x roots x operations x in place or not x adversarial timing, by messages. The simulator
// throws where messages are lost or ranks wait for ever.
inline void expect_right_calls(Collective collective, const Expression& expression, int ranks,
                               SimulatedMachine machine = awkward_machine(),
                               std::size_t board_window_bytes = 0) {
  const bool combines = facts_of(collective).has_operation;
  for (const std::size_t count : {0, 1, 2, 7, 100, 700, 3000, 9000}) {
    if (count == 700 && ranks > 17) continue;
    // Several rounds.
    if (count >= 3000 && (board_window_bytes == 0 || ranks > 5)) continue;
    for (const int root : roots_of(collective, ranks)) {
      for (const auto operation : {Operation::int_sum, Operation::weave, Operation::compose}) {
        if (operation == Operation::weave && !combines) continue;
        if (operation == Operation::compose && !is_prefix(collective)) continue;
        std::vector<std::vector<Bits>> reference;  // of the first run; all others must agree
        for (const bool in_place : {false, true}) {
          if (in_place && !works_in_place(collective, expression)) continue;
          CheckedCalls checked(ranks, {collective, count, root, operation, in_place});
          for (const std::uint64_t seed : {0, 1, 2}) {  // 0: no adversary
            checked.clear();
            SimulationOptions options{.board_window_bytes = board_window_bytes};
            if (seed > 0) options.adversary = Adversary{seed * 7919 + static_cast<std::uint64_t>(ranks)};
            Simulator simulator(ranks, machine, options);
            simulator.run(
                [&](int rank, Endpoint net) { return carry_out(net, checked.args(rank), expression); }, {},
                expression.lanes());
            ASSERT_EQ(checked.problem(reference), "") << "seed " << seed;
          }
        }
      }
    }
  }
}

}  // namespace offbeat
