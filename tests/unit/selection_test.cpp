// SPDX-License-Identifier: BSD-3-Clause
#include "selection/selection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "collectives/repertoire.hpp"

// Blocks of memory that this process has taken and not given back.
static std::atomic<long> blocks{0};

// Not inlined: g++ 12 would take malloc and delete for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  ++blocks;
  return block;
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  if (block != nullptr) --blocks;
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

namespace offbeat {
namespace {

PlanRow row(const Selection& selection, const Placement& placement, std::size_t bytes) {
  return selection.plan(Collective::allreduce, placement).row_for(bytes);
}

std::string chosen(const Selection& selection, int ranks, std::size_t bytes) {
  return row(selection, {ranks}, bytes).expression->canonical_text();
}

TEST(Selection, OneExpressionForEverySize) {
  Selection selection;
  selection.choose_for_every_length(Collective::allreduce, "ring", "a test");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 30, ~std::size_t{0}}) {
    EXPECT_EQ(chosen(selection, 4, bytes), "ring");
  }
  EXPECT_EQ(row(selection, {4}, 8).reason, "a test");
}

TEST(Selection, APlanSaysWhatRunsWhereNodesDifferInSize) {
  Selection selection;
  const auto what_runs = [&](Collective collective, bool equal_nodes) {
    const Placement placement{.ranks = 32, .nodes = 2, .board = true, .equal_nodes = equal_nodes};
    const Plan plan = selection.plan(collective, placement);
    const PlanRow& row = plan.row_for(1 << 20);
    EXPECT_EQ(row.reason.ends_with("lanes needs nodes of equal size"), !equal_nodes) << row.reason;
    EXPECT_EQ(row.alternatives.front().expression, row.expression);
    return row.expression->canonical_text();
  };
  for (const Collective collective : {Collective::reduce_scatter, Collective::reduce_scatter_block}) {
    EXPECT_EQ(what_runs(collective, true), "lanes(arrival_shares, recursive_halving)");
    EXPECT_EQ(what_runs(collective, false), "hierarchy(arrival_shares, recursive_halving)");
  }
  for (const Collective collective : {Collective::allgather, Collective::alltoall}) {
    selection.choose_for_every_length(collective, "lanes(arrival_direct, linear)", "a test");
    EXPECT_EQ(what_runs(collective, true), "lanes(arrival_direct, linear)");
    EXPECT_EQ(what_runs(collective, false), "hierarchy(arrival_direct, linear)");
  }
  // In these the smallest node decides how many lanes there are.
  const Placement unequal{.ranks = 12, .nodes = 4, .board = true, .equal_nodes = false};
  for (const Collective collective : {Collective::allreduce, Collective::bcast}) {
    const std::string node = collective == Collective::bcast ? "arrival_direct" : "arrival_tree";
    EXPECT_EQ(parse_expression(collective, "lanes(" + node + ", binomial)").why_unsuitable(unequal), "");
  }
  for (const std::string text : {"lanes(arrival_tree, binomial)", "hierarchy(arrival_tree, binomial)"})
    EXPECT_EQ(parse_expression(Collective::reduce, text).why_unsuitable(unequal),
              text.front() == 'l' ? "needs nodes of equal size" : "");
}

// The network is offbeat's own, so `native` of the built-in rules does not count. A choice of the user does.
TEST(Selection, CallsThatGoByOurNetworkAreNotNative) {
  Selection selection(HostMpi::intel, std::size_t{1} << 20, Adapt::on);
  selection.choose_for_every_length(Collective::scatter, "native", "a test");
  const Placement two_nodes{.ranks = 4, .nodes = 2, .board = true, .in_rank_order = true};
  const std::unique_ptr<Plans> plans(new Plans(selection.plans(two_nodes, true, true)));
  for (const Collective collective : {Collective::allreduce, Collective::reduce, Collective::alltoallv}) {
    const Plan& begun = plans->of(collective, CallForm::nonblocking);
    for (const PlanRow& each : begun.rows) {
      EXPECT_FALSE(each.expression->runs_on_host()) << name_of(collective) << ' ' << each.bytes.least;
      EXPECT_TRUE(each.needs.contain(Means::network) && !each.has_choice()) << each.needs.text();
    }
    EXPECT_FALSE(plans->of(collective).needs().contain(Means::network)) << name_of(collective);
  }
  EXPECT_EQ(plans->of(Collective::gather, CallForm::nonblocking).row_for(8).reason,
            "the host cannot advance it while the program computes");
  EXPECT_TRUE(plans->of(Collective::scatter, CallForm::nonblocking).row_for(8).expression->is_native());
}

TEST(Selection, AnEmptyExpressionRestoresTheStart) {
  Selection selection;
  selection.set_initial_choice(Collective::allreduce, "ring", "environment");
  const std::uint64_t generation = selection.generation();
  selection.choose_for_every_length(Collective::allreduce, "linear", "call");
  EXPECT_NE(selection.generation(), generation);
  EXPECT_EQ(chosen(selection, 4, 8), "linear");
  selection.choose_for_every_length(Collective::allreduce, "", "call");
  EXPECT_EQ(chosen(selection, 4, 8), "ring");
}

TEST(Selection, WithoutAStartAnEmptyExpressionRestoresTheRules) {
  Selection selection;
  const std::string before = chosen(selection, 4, 8);
  selection.choose_for_every_length(Collective::allreduce, "linear", "call");
  EXPECT_EQ(chosen(selection, 4, 8), "linear");
  selection.choose_for_every_length(Collective::allreduce, "", "call");
  EXPECT_EQ(chosen(selection, 4, 8), before);
}

TEST(Selection, TheDefaultsRepeatTheirBitsOnEveryRun) {
  const Selection selection;
  constexpr Placement placements[] = {{.ranks = 4, .board = true},
                                      {.ranks = 8, .nodes = 2, .board = true},
                                      {.ranks = 8, .nodes = 2},
                                      {.ranks = 8, .nodes = 8, .board = true},
                                      {.ranks = 4}};
  for (const Placement& placement : placements) {
    for (const Plan& plan : selection.plans(placement).by_collective) {
      for (const PlanRow& row : plan.rows) {
        for (const Alternative& each : row.alternatives)
          EXPECT_TRUE(each.expression->is_native() || each.expression->same_bits_every_run())
              << each.expression->canonical_text();
      }
    }
  }
}

TEST(Selection, WhatCannotRunBecomesNativeAndSaysWhy) {
  Selection selection;
  selection.choose_for_every_length(Collective::allreduce, "grid(4x4, ring)", "a test");
  EXPECT_EQ(chosen(selection, 16, 8), "grid(4x4, ring)");
  EXPECT_EQ(chosen(selection, 8, 8), "native");
  EXPECT_EQ(chosen(selection, 8, max_length), "native");
  EXPECT_EQ(row(selection, {8}, 8).reason, "grid(4x4, ring) needs at least 16 ranks");
}

TEST(Selection, ABadExpressionChangesNothing) {
  Selection selection;
  const std::uint64_t generation = selection.generation();
  EXPECT_THROW(selection.choose_for_every_length(Collective::allreduce, "rng", "a test"), ExpressionError);
  EXPECT_EQ(selection.generation(), generation);
}

TEST(Selection, AChoiceThatIsMadeAgainTakesNoFurtherMemory) {
  Selection selection;
  const auto choose_all = [&] {
    for (const char* text : {"pipeline(1024KiB, ring)", "pipeline( 1MiB,ring )", "grid(2x2, ring)", ""})
      selection.choose_for_every_length(Collective::allreduce, text, "a test");
  };
  choose_all();
  const long before = blocks;
  for (int k = 0; k < 100; ++k) choose_all();
  EXPECT_EQ(blocks, before);
}

TEST(Selection, AnExpressionOutlivesItsSelectionAndIsOneForAllSpellings) {
  const auto expression = [](const char* text) {
    Selection selection;
    selection.choose_for_every_length(Collective::allreduce, text, "a test");
    return row(selection, {4}, 8).expression;
  };
  const Expression* first = expression("pipeline(1024KiB, ring)");
  EXPECT_EQ(expression("pipeline( 1MiB,ring )"), first);
  EXPECT_EQ(first->canonical_text(), "pipeline(1MiB, ring)");
  EXPECT_NE(expression("pipeline(1, ring)"), first);
  EXPECT_EQ(interned_expression(Collective::allreduce, "pipeline(1MiB,ring)"), first);
}

TEST(Selection, TheDefaultChangesExactlyAtItsLimits) {
  const Selection selection;
  EXPECT_EQ(chosen(selection, 4, 4095), "recursive_multiplying(7)");
  EXPECT_EQ(chosen(selection, 4, 4096), "recursive_doubling");
  EXPECT_EQ(chosen(selection, 4, 32767), "recursive_doubling");
  EXPECT_EQ(chosen(selection, 4, 32768), "rabenseifner");
  const auto on_nodes = [&](std::size_t bytes, int nodes = 2) {
    return row(selection, {.ranks = 4 * nodes, .nodes = nodes, .board = true}, bytes)
        .expression->canonical_text();
  };
  EXPECT_EQ(on_nodes(512, 8), "hierarchy(arrival_tree, recursive_multiplying(8))");
  EXPECT_EQ(on_nodes(512, 9), "nap");
  EXPECT_EQ(on_nodes(513, 9), "hierarchy(arrival_tree, recursive_multiplying(4))");
  EXPECT_EQ(on_nodes(513), "hierarchy(arrival_tree, recursive_multiplying(7))");
  EXPECT_EQ(on_nodes(4095), "hierarchy(arrival_tree, recursive_multiplying(7))");
  EXPECT_EQ(on_nodes(4096), "hierarchy(arrival_tree, recursive_doubling)");
  EXPECT_EQ(on_nodes(16383), "hierarchy(arrival_tree, recursive_doubling)");
  EXPECT_EQ(on_nodes(16384), "hierarchy(arrival_tree, arrival_owners)");
  EXPECT_EQ(on_nodes(16384, 8), "hierarchy(arrival_tree, arrival_owners)");
  EXPECT_EQ(on_nodes(262143, 9), "native");
  EXPECT_EQ(on_nodes(262144, 9), "lanes(arrival_tree, arrival_owners)");
  EXPECT_EQ(on_nodes(262144, 16), "lanes(arrival_tree, rabenseifner)");
  EXPECT_EQ(on_nodes(262144, 17), "native");
  const auto on_a_node_each = [&](std::size_t bytes, int nodes = 8) {
    return row(selection, {.ranks = nodes, .nodes = nodes, .board = true}, bytes)
        .expression->canonical_text();
  };
  EXPECT_EQ(on_a_node_each(512), "recursive_multiplying(8)");
  EXPECT_EQ(on_a_node_each(512, 9), "recursive_multiplying(7)");
  EXPECT_EQ(on_a_node_each(513), "recursive_multiplying(7)");
  EXPECT_EQ(on_a_node_each(4095), "recursive_multiplying(7)");
  EXPECT_EQ(on_a_node_each(4096), "arrival_owners");
  EXPECT_EQ(on_a_node_each(2048, 9), "recursive_multiplying(7)");
  EXPECT_EQ(on_a_node_each(2049, 9), "recursive_multiplying(4)");
  EXPECT_EQ(on_a_node_each(4097, 9), "native");
  EXPECT_EQ(on_a_node_each((2 << 20) - 1), "arrival_owners");
  EXPECT_EQ(on_a_node_each(2 << 20), "ring");
  EXPECT_EQ(on_a_node_each(32767, 15), "native");
  EXPECT_EQ(on_a_node_each(32768, 15), "arrival_owners");
  EXPECT_EQ(on_a_node_each((1 << 20) - 1, 16), "native");
  EXPECT_EQ(on_a_node_each(1 << 20, 16), "arrival_owners");
  EXPECT_EQ(on_a_node_each(32768, 17), "native");
  EXPECT_EQ(on_a_node_each(1 << 20, 127), "arrival_owners");
  EXPECT_EQ(on_a_node_each(1 << 20, 128), "native");
  EXPECT_EQ(on_a_node_each(512, 1023), "recursive_multiplying(7)");
  EXPECT_EQ(on_a_node_each(512, 1024), "recursive_multiplying(4)");
  EXPECT_EQ(on_a_node_each(4096, 4096), "recursive_multiplying(4)");
  EXPECT_EQ(on_a_node_each(4097, 4096), "native");
}

// What is chosen for calls of any length there, in the order of the lengths.
std::vector<std::string> all_chosen(const Selection& selection, Collective collective,
                                    const Placement& placement) {
  std::vector<std::string> texts;
  for (const PlanRow& row : selection.plan(collective, placement).rows) {
    const std::string text = row.expression->canonical_text();
    if (texts.empty() || texts.back() != text) texts.push_back(text);
  }
  return texts;
}
using Texts = std::vector<std::string>;

TEST(Selection, OtherCollectivesHaveOtherDefaultsBeyondMeasuredNodes) {
  const Selection selection;
  const auto bcasts = [&](const Placement& placement) {
    return all_chosen(selection, Collective::bcast, placement);
  };
  const Texts on_nodes{"native", "hierarchy(arrival_direct, pipeline(16KiB, chain))"};
  EXPECT_EQ(bcasts({.ranks = 8, .nodes = 4, .board = true}), on_nodes);
  EXPECT_EQ(bcasts({.ranks = 16, .nodes = 8, .board = true}), on_nodes);
  const Texts on_more{"native", "hierarchy(arrival_direct, pipeline(16KiB, binomial))", "native"};
  EXPECT_EQ(bcasts({.ranks = 34, .nodes = 8 + 1, .board = true}), on_more);
  EXPECT_EQ(bcasts({.ranks = 4 * 4097, .nodes = 4097, .board = true}), Texts{"native"});
}

TEST(Selection, SomeLimitsGrowWithTheNodes) {
  const Selection selection;
  const auto reduction = [&](int nodes, std::size_t bytes) {
    const Placement placement{.ranks = 2 * nodes, .nodes = nodes, .board = true};
    return selection.plan(Collective::reduce, placement).row_for(bytes).expression->canonical_text();
  };
  for (const int nodes : {2, 5, 8}) {
    const std::size_t limit = std::size_t{16384} * static_cast<std::size_t>(nodes);
    EXPECT_EQ(reduction(nodes, 1023), "native");
    EXPECT_EQ(reduction(nodes, 1024), "hierarchy(arrival_tree, binomial)");
    EXPECT_EQ(reduction(nodes, limit - 1), "hierarchy(arrival_tree, binomial)");
    EXPECT_EQ(reduction(nodes, limit), "hierarchy(arrival_tree, pipeline(16KiB, chain))");
  }
}

TEST(Selection, SomeDefaultsHoldWhereEachRankHasANode) {
  const Selection selection;
  const auto bcasts = [&](const Placement& placement) {
    return all_chosen(selection, Collective::bcast, placement);
  };
  const Texts alone{"native", "pipeline(16KiB, chain)"};
  EXPECT_EQ(bcasts({.ranks = 8, .nodes = 8, .board = true}), alone);
  EXPECT_EQ(bcasts({.ranks = 8, .nodes = 8}), alone);
  EXPECT_EQ(bcasts({.ranks = 8 + 1, .nodes = 8 + 1}), Texts{"native"});
  // Nobody has measured ranks of a node that have no shared memory.
  EXPECT_EQ(bcasts({.ranks = 8, .nodes = 4}), Texts{"native"});
  EXPECT_EQ(bcasts({.ranks = 8}), Texts{"native"});
  EXPECT_EQ(bcasts({.ranks = 1}), Texts{"native"});
}

TEST(Selection, BetweenNodesAHostKeepsWhatItIsKnownToBeFasterAt) {
  const Placement nodes{.ranks = 8, .nodes = 4, .board = true};
  const Placement node{.ranks = 8, .board = true};
  EXPECT_EQ(all_chosen(Selection(HostMpi::open_mpi), Collective::scatter, nodes), Texts{"native"});
  EXPECT_EQ(all_chosen(Selection(HostMpi::open_mpi), Collective::reduce, nodes),
            all_chosen(Selection(), Collective::reduce, nodes));
  const Placement node_each{.ranks = 8, .nodes = 8};
  EXPECT_EQ(all_chosen(Selection(HostMpi::intel), Collective::alltoall, node_each), Texts{"native"});
  EXPECT_NE(all_chosen(Selection(HostMpi::intel), Collective::alltoall, nodes), Texts{"native"});
  for (const Collective collective : {Collective::reduce, Collective::gather, Collective::scatter}) {
    EXPECT_EQ(all_chosen(Selection(HostMpi::intel), collective, nodes), Texts{"native"});
    EXPECT_NE(all_chosen(Selection(), collective, nodes), Texts{"native"});
    EXPECT_EQ(all_chosen(Selection(HostMpi::intel), collective, node).front(),
              all_chosen(Selection(), collective, node).front());
  }
}

TEST(Selection, NeighboursDiffer) {
  for (const Placement& placement : {Placement{.ranks = 8}, Placement{.ranks = 8, .nodes = 8},
                                     Placement{.ranks = 8, .nodes = 4, .board = true},
                                     Placement{.ranks = 40, .nodes = 20, .board = true}}) {
    for (const Plan& plan : Selection(HostMpi::intel).plans(placement).by_collective) {
      const auto same = [](const PlanRow& a, const PlanRow& b) {
        return a.expression == b.expression && a.form == b.form && a.origin == b.origin;
      };
      EXPECT_EQ(std::ranges::adjacent_find(plan.rows, same), plan.rows.end());
    }
  }
}

TEST(Selection, ANodeOfOneRankHasNoBoard) {
  Selection selection;
  constexpr Placement spread{.ranks = 8, .nodes = 8, .board = true};
  EXPECT_EQ(row(selection, spread, 8).expression->canonical_text(), "recursive_multiplying(8)");
  EXPECT_FALSE(selection.plans(spread).need(Means::board, {Collective::allreduce}));
  EXPECT_TRUE(
      selection.plans({.ranks = 8, .nodes = 7, .board = true}).need(Means::board, {Collective::allreduce}));
  selection.choose_for_every_length(Collective::allreduce, "hierarchy(arrival_tree, ring)", "a test");
  EXPECT_EQ(row(selection, spread, 8).expression->canonical_text(), "hierarchy(arrival_tree, ring)");
  EXPECT_FALSE(selection.plans(spread).need(Means::board, {Collective::allreduce}));
}

TEST(Selection, TheRowsOfAPlanFollowOneAnotherToAnyLength) {
  const Selection selection;
  for (const bool board : {false, true}) {
    for (const int nodes : {1, 2, 9}) {
      const Plans plans = selection.plans({.ranks = 2 * nodes, .nodes = nodes, .board = board});
      for (const Plan& plan : plans.by_collective) {
        std::size_t next = 0;
        for (const PlanRow& row : plan.rows) {
          EXPECT_EQ(row.bytes.least, next);
          EXPECT_FALSE(row.bytes.is_empty());
          next = row.bytes.most + 1;
        }
        EXPECT_EQ(next, 0U);  // the last row holds for any length
      }
    }
  }
}

TEST(Selection, AHostKeepsWhatItIsKnownToBeFasterAt) {
  const Selection selection(HostMpi::intel);
  const auto chosen_for = [](const Selection& by, const Placement& placement, std::size_t bytes) {
    return by.plan(Collective::gather, placement).row_for(bytes).expression->canonical_text();
  };
  const Placement two{.ranks = 2, .nodes = 1, .board = true};
  EXPECT_EQ(chosen_for(selection, two, (2 << 20) - 1), "arrival_direct");
  EXPECT_EQ(chosen_for(selection, two, 2 << 20), "native");
  EXPECT_EQ(chosen_for(selection, two, max_length), "native");
  const Placement more{.ranks = 3, .nodes = 1, .board = true};
  EXPECT_EQ(chosen_for(selection, more, (1 << 20) - 1), "arrival_direct");
  EXPECT_EQ(chosen_for(selection, more, 1 << 20), "native");
  const auto scatter_on = [&](int ranks, std::size_t bytes) {
    const Placement placement{.ranks = ranks, .nodes = 1, .board = true};
    return selection.plan(Collective::scatter, placement).row_for(bytes).expression->canonical_text();
  };
  EXPECT_EQ(scatter_on(4, 1 << 20), "arrival_direct");
  EXPECT_EQ(scatter_on(5, (1 << 20) - 1), "arrival_direct");
  EXPECT_EQ(scatter_on(5, 1 << 20), "native");
  // Nothing is known of other hosts, and of several nodes.
  EXPECT_EQ(chosen_for(Selection(), two, 2 << 20), "arrival_direct");
  EXPECT_EQ(chosen_for(Selection(), more, 2 << 20), "arrival_direct");
  EXPECT_NE(chosen_for(selection, {.ranks = 2, .nodes = 2, .board = false}, 1 << 20),
            chosen_for(selection, two, 1 << 20));
}

std::vector<std::string> forms(const Plan& plan) {
  std::vector<std::string> texts;
  for (const PlanRow& row : plan.rows) {
    texts.push_back(std::to_string(row.bytes.least) + " " + row.expression->canonical_text() + " " +
                    std::string(name_of(row.form)) + " " + row.needs.text());
  }
  return texts;
}

TEST(Plan, AnyRowMayHaveAnImmediateForm) {
  Selection selection;
  selection.set_initial_choice(parse_rules("a test",
                                           "allreduce * * * ..<64 native\n"
                                           "allreduce * 1 * ..4KiB arrival_tree\n"
                                           "allreduce * 1 * ..1MiB pipeline(4, native)")
                                   .rules);
  const Plan plan = selection.plan(Collective::allreduce, {.ranks = 4, .nodes = 1, .board = true});
  const Texts expected{"0 native native nothing", "64 arrival_tree immediate board",
                       "2049 arrival_tree task board", "4097 pipeline(4, native) task host pipeline",
                       "1048577 arrival_tree task board"};
  EXPECT_EQ(forms(plan), expected);
  EXPECT_EQ(plan.row_for(63).reason, "a test:1");
  EXPECT_EQ(plan.row_for(1 << 21).origin.substr(0, 14), "built-in rules");
}

TEST(Plan, AGridOfTheHostNeedsItsRanks) {
  Selection selection;
  selection.set_initial_choice(parse_rules("a test", "allreduce * * * * grid(4x2, native) | ring").rules);
  const Plan fits = selection.plan(Collective::allreduce, {.ranks = 8, .nodes = 8});
  EXPECT_EQ(forms(fits), Texts{"0 grid(4x2, native) task a communicator for each dimension"});
  EXPECT_EQ(forms(selection.plan(Collective::allreduce, {.ranks = 9, .nodes = 9})),
            Texts{"0 ring task messages"});
  selection.refuse_host_grids();
  EXPECT_EQ(forms(selection.plan(Collective::allreduce, {.ranks = 8, .nodes = 8})),
            Texts{"0 ring task messages"});
}

TEST(Plan, SaysWhatARowNeeds) {
  const Selection selection;
  EXPECT_EQ(selection.plan(Collective::allreduce, {.ranks = 8, .nodes = 2, .board = true}).needs(),
            Means::board | Means::messages);
  EXPECT_EQ(selection.plan(Collective::allreduce, {.ranks = 8, .nodes = 8, .board = true}).needs(),
            Means::messages);
  EXPECT_EQ(selection.plan(Collective::bcast, {.ranks = 8, .nodes = 1, .board = true}).needs(), Means::board);
  EXPECT_TRUE(selection.plan(Collective::bcast, {.ranks = 8, .nodes = 1}).needs().empty());
}

TEST(Plan, ARuleThatCannotRunFallsToTheNext) {
  Selection selection(HostMpi::other, max_length, Adapt::any);
  selection.set_initial_choice(parse_rules("a test",
                                           "allreduce * * * ..8 arrival_leader\n"
                                           "allreduce * * * ..8 grid(4x4, ring) | ring\n"
                                           "allreduce * * * ..8 linear")
                                   .rules);
  const auto chosen_on = [&](const Placement& placement) {
    return row(selection, placement, 8).expression->canonical_text();
  };
  EXPECT_EQ(chosen_on({.ranks = 16, .nodes = 1, .board = true}), "arrival_leader");
  EXPECT_EQ(chosen_on({.ranks = 16, .nodes = 1}), "grid(4x4, ring)");
  EXPECT_EQ(chosen_on({.ranks = 8, .nodes = 2, .board = true}), "ring");
  EXPECT_EQ(row(selection, {.ranks = 16, .nodes = 2}, 8).alternatives.size(), 2U);
  EXPECT_EQ(row(selection, {.ranks = 8, .nodes = 2}, 8).alternatives.size(), 1U);
}

TEST(Plan, NonBlockingCallsMayHaveOneOfTheirOwn) {
  constexpr auto nonblocking = CallForm::nonblocking;
  constexpr Placement messages_only{.ranks = 4};
  Selection selection;
  const Plans alike = selection.plans(messages_only);
  EXPECT_EQ(&alike.of(Collective::bcast, nonblocking), &alike.of(Collective::bcast));
  selection.set_initial_choice(parse_rules("a test", "ibcast * * * ..8 chain\nbcast * * * * native").rules);
  const Plans plans = selection.plans(messages_only);
  const auto text = [&](CallForm form, std::size_t bytes) {
    return plans.of(Collective::bcast, form).row_for(bytes).expression->canonical_text();
  };
  EXPECT_EQ(text(CallForm::blocking, 8), "native");
  EXPECT_EQ(text(nonblocking, 8), "chain");
  EXPECT_EQ(text(nonblocking, 9), "native");
  EXPECT_TRUE(plans.need(Means::messages, {Collective::bcast}));
  EXPECT_EQ(&plans.of(Collective::barrier, nonblocking), &plans.of(Collective::barrier));
}

std::vector<std::string> alternatives(Adapt adapt, std::string_view collective, std::string_view algorithms) {
  Selection selection(HostMpi::other, max_length, adapt);
  selection.set_initial_choice(
      parse_rules("a test", std::string(collective) + " * * * * " + std::string(algorithms)).rules);
  std::vector<std::string> texts;
  const Plan plan = selection.plan(*collective_named(collective), {.ranks = 4, .board = true});
  for (const Alternative& each : plan.rows.back().alternatives)
    texts.push_back(each.expression->canonical_text());
  return texts;
}

TEST(Plan, AlternativesOfAnOperationMustGiveTheSameBits) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(alternatives(Adapt::on, "bcast", "chain | native"), (Texts{"chain", "native"}));
  EXPECT_EQ(alternatives(Adapt::off, "bcast", "chain | native"), (Texts{"chain"}));
  EXPECT_EQ(alternatives(Adapt::on, "reduce", "chain | native | binomial | pipeline(4, chain)"),
            (Texts{"chain", "pipeline(4, chain)"}));
  EXPECT_EQ(alternatives(Adapt::on, "reduce", "native | pipeline(4, native)"), (Texts{"native"}));
  EXPECT_EQ(alternatives(Adapt::on, "allreduce", "ring | pipeline(2, ring)"), (Texts{"ring"}));
  EXPECT_EQ(alternatives(Adapt::any, "allreduce", "ring | pipeline(2, ring)"),
            (Texts{"ring", "pipeline(2, ring)"}));
}

// Each alternative has its own form, so a row ends where one of the forms changes.
TEST(Plan, EachAlternativeHasItsForm) {
  Selection selection;
  selection.set_initial_choice(
      parse_rules("a test", "alltoall * * * * native | arrival_direct | linear").rules);
  const Plan plan = selection.plan(Collective::alltoall, {.ranks = 4, .board = true});
  ASSERT_EQ(plan.rows.size(), 2U);
  const auto forms = [](const PlanRow& row) {
    std::vector<RowForm> found;
    for (const Alternative& each : row.alternatives) found.push_back(each.form);
    return found;
  };
  EXPECT_EQ(forms(plan.rows[0]), (std::vector{RowForm::native, RowForm::immediate, RowForm::task}));
  EXPECT_EQ(forms(plan.rows[1]), (std::vector{RowForm::native, RowForm::task, RowForm::task}));
  EXPECT_EQ(plan.rows[0].form, RowForm::native);
  EXPECT_TRUE(plan.needs().contain(Means::board | Means::messages));
}

// 4 ranks on one node with windows of 1 MiB; a chunk of the board has at most 4 KiB.
TEST(Plan, ElementsThatABoardCannotTakeGoAnotherWay) {
  Selection selection(HostMpi::other, std::size_t{1} << 20);
  selection.set_initial_choice(parse_rules("a test", "bcast * * * ..64KiB binomial").rules);
  const auto chosen_for = [&](Collective collective, std::size_t bytes, std::size_t width, int ranks = 4) {
    const Plan plan = selection.plan(collective, {.ranks = ranks, .nodes = 1, .board = true});
    return plan.row_for(bytes, width).expression->canonical_text();
  };
  constexpr std::size_t long_call = std::size_t{2} << 20;
  EXPECT_EQ(chosen_for(Collective::allgather, long_call, 4096), "arrival_direct");
  EXPECT_EQ(chosen_for(Collective::allgather, long_call, 4096, 257), "native");
  EXPECT_EQ(chosen_for(Collective::allgather, long_call, 4097), "bruck");
  EXPECT_EQ(chosen_for(Collective::allreduce, long_call, std::size_t{1} << 20), "arrival_tree");
  EXPECT_EQ(chosen_for(Collective::allreduce, long_call, (std::size_t{1} << 20) + 1), "recursive_doubling");
  EXPECT_EQ(chosen_for(Collective::bcast, 8192, 4096, 257), "binomial");
  EXPECT_EQ(chosen_for(Collective::bcast, 8192, 8192), "binomial");
  EXPECT_EQ(chosen_for(Collective::allreduce, 8, 8, 257), "arrival_shares");
}

TEST(Plan, ASettingComesBeforeTheUsersRules) {
  Selection selection;
  selection.set_initial_choice(parse_rules("a test", "* * * * * native").rules);
  selection.set_initial_choice(Collective::allreduce, "ring", "OFFBEAT_ALLREDUCE");
  EXPECT_EQ(chosen(selection, 4, 8), "ring");
  EXPECT_EQ(row(selection, {4}, 8).origin, "OFFBEAT_ALLREDUCE");
  EXPECT_EQ(selection.plan(Collective::bcast, {.ranks = 4, .nodes = 1, .board = true}).rows.size(), 1U);
}

TEST(Selection, CollectivesAreChosenForOneByOne) {
  Selection selection;
  EXPECT_TRUE(selection.plan(Collective::alltoallw, {4}).empty());
  EXPECT_THROW(selection.choose_for_every_length(Collective::alltoallw, "ring", "a test"), UsageError);
}

}  // namespace
}  // namespace offbeat
