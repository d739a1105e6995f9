// SPDX-License-Identifier: BSD-3-Clause
// native(NAME): the list of names, what a host offers, and the plans that name something.
#include "selection/host_algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "selection/plan.hpp"
#include "selection/selection.hpp"

namespace offbeat {
namespace {

Plan plan_of(const std::string& rules, const NamedHostAlgorithms& offer, int ranks = 4) {
  const ParsedRules parsed = parse_rules("a", rules);
  EXPECT_TRUE(parsed.errors.empty()) << parsed.errors.front().text("a");
  return make_plan(Collective::barrier, {.host = HostMpi::open_mpi,
                                         .placement = {.ranks = ranks},
                                         .rules = {&parsed.rules, nullptr},
                                         .offer = &offer});
}

TEST(HostAlgorithms, EachNameIsListedOnceForEachCall) {
  const auto& all = host_algorithms();
  EXPECT_GT(all.size(), 200U);
  for (const HostAlgorithm& each : all) {
    const auto is_same = [&](const HostAlgorithm& other) {
      return other.host == each.host && other.collective == each.collective &&
             other.is_nonblocking == each.is_nonblocking &&
             (other.name == each.name || other.number == each.number);
    };
    EXPECT_EQ(std::ranges::count_if(all, is_same), 1)
        << name_of(each.host) << " " << name_of(each.collective) << " " << each.name;
    const std::string text = "native(" + std::string(each.name) + ")";
    EXPECT_EQ(parse_expression(each.collective, text).canonical_text(), text);
  }
}

TEST(HostAlgorithms, LinesOfOneCallContinueOneAnother) {
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::mpich);
  const HostAlgorithm* smp = offer.find(Collective::allreduce, false, "smp");
  ASSERT_NE(smp, nullptr);
  EXPECT_EQ(smp->number, 8);
  const HostAlgorithm* rabenseifner = offer.find(Collective::allreduce, false, "rabenseifner");
  ASSERT_NE(rabenseifner, nullptr);
  EXPECT_EQ(rabenseifner->name_in_host_mpi, "reduce_scatter_allgather");
  EXPECT_EQ(offer.find(Collective::allreduce, false, "ccl"), nullptr) << "it is not offered";
  EXPECT_EQ(offer.find(Collective::allreduce, true, "ring")->name_in_host_mpi, "tsp_ring");
}

TEST(HostAlgorithms, ANameCanHaveALaterSpelling) {
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  const HostAlgorithm* bruck = offer.find(Collective::allgather, false, "bruck");
  ASSERT_NE(bruck, nullptr);
  EXPECT_EQ(bruck->name_in_host_mpi, "bruck");
  EXPECT_EQ(bruck->later_name, "bruck-k-fanout");
  EXPECT_EQ(bruck->number, 2);
  EXPECT_EQ(offer.find(Collective::allgather, false, "direct")->later_name, "");
}

TEST(HostAlgorithms, ARuleWithAnUnknownNameFallsToTheNext) {
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  const Plan plan = plan_of("barrier * * * * native(none_such)\nbarrier * * * * native(tree)\n", offer);
  ASSERT_EQ(plan.rows.size(), 1U);
  EXPECT_EQ(plan.rows[0].expression->canonical_text(), "native(tree)");
  EXPECT_EQ(plan.rows[0].form, RowForm::by_name);
  EXPECT_EQ(plan.rows[0].needs, Means::by_name);
  EXPECT_EQ(plan.rows[0].origin, "a:2");
  EXPECT_EQ(plan.native_names(), std::vector<const Expression*>{plan.rows[0].expression});
}

TEST(HostAlgorithms, AnAlternativeWithAnUnknownNameIsLeftOut) {
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  const Plan plan = plan_of("barrier * * * * native(none_such) | dissemination | native(tree)\n", offer);
  ASSERT_EQ(plan.rows.size(), 1U);
  EXPECT_EQ(plan.rows[0].expression->canonical_text(), "dissemination");
  EXPECT_EQ(plan.rows[0].alternatives.size(), 2U);
  EXPECT_EQ(plan.native_names().size(), 1U);
}

TEST(HostAlgorithms, AnAlgorithmForTwoRanksRunsOnTwoOnly) {
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  EXPECT_EQ(plan_of("barrier * * * * native(two_proc)\n", offer, 2).rows[0].form, RowForm::by_name);
  EXPECT_EQ(plan_of("barrier * * * * native(two_proc)\n", offer, 3).rows[0].form, RowForm::native);
}

TEST(HostAlgorithms, AHostThatOffersNothingIsNative) {
  const NamedHostAlgorithms offer{
      .host = "a host", .reason_for_none = "it is shy", .reason_for_no_blocking = {}, .algorithms = {}};
  EXPECT_EQ(plan_of("barrier * * * * native(tree)\n", offer).rows[0].form, RowForm::native);
  const UserChoice fixed{interned_expression(Collective::barrier, "native(tree)"), "a setting"};
  const Plan plan =
      make_plan(Collective::barrier, {.placement = {.ranks = 4}, .fixed = &fixed, .offer = &offer});
  EXPECT_EQ(plan.rows[0].form, RowForm::native);
  EXPECT_EQ(plan.rows[0].reason, "native(tree) cannot run under a host: it is shy");
}

TEST(HostAlgorithms, AFixedChoiceWithAnUnknownNameSaysWhichNamesThereAre) {
  NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  const UserChoice fixed{interned_expression(Collective::barrier, "native(none_such)"), "a setting"};
  const Plan plan =
      make_plan(Collective::barrier, {.placement = {.ranks = 4}, .fixed = &fixed, .offer = &offer});
  EXPECT_EQ(plan.rows[0].expression->canonical_text(), "native");
  EXPECT_EQ(plan.rows[0].reason,
            "native(none_such) names no barrier that Open MPI has; it has: linear, double_ring, "
            "recursive_doubling, bruck, two_proc, tree");
}

TEST(HostAlgorithms, TheSegmentsOfAPipelineAreNonBlockingCalls) {
  const Expression ring = parse_expression(Collective::allreduce, "pipeline(4, native(ring))");
  EXPECT_EQ(ring.host_algorithm(), "ring");
  for (const HostMpi host : {HostMpi::mpich, HostMpi::open_mpi})
    EXPECT_EQ(nameable_algorithms_of_any_version(host).why_not(Collective::allreduce, false, ring, 4), "");
  const Expression segmented = parse_expression(Collective::allreduce, "pipeline(4, native(ring_segmented))");
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  EXPECT_EQ(
      offer.why_not(Collective::allreduce, false, segmented, 4),
      "names no iallreduce that Open MPI has; it has: ring, binomial, rabenseifner, recursive_doubling");
}

TEST(HostAlgorithms, TheLinesOfAGridAreBlockingCalls) {
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  const auto why_not = [&](std::string_view text) {
    return offer.why_not(Collective::allreduce, true, parse_expression(Collective::allreduce, text), 8);
  };
  EXPECT_EQ(why_not("grid(4x2, native(ring))"), "");
  EXPECT_EQ(why_not("grid(4x2, native, native(recursive_doubling))"), "");
  EXPECT_TRUE(
      why_not("grid(4x2, native(ring), native(none_such))")
          .starts_with("has native(none_such), which names no allreduce that Open MPI has; it has: "));
}

TEST(HostAlgorithms, NonBlockingCallsHaveNamesOfTheirOwn) {
  const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  const auto plan = [&](const std::string& rules, CallForm calls) {
    const ParsedRules parsed = parse_rules("a", rules);
    return make_plan(Collective::allreduce, {.host = HostMpi::open_mpi,
                                             .calls = calls,
                                             .placement = {.ranks = 4},
                                             .rules = {&parsed.rules, nullptr},
                                             .offer = &offer});
  };
  for (const std::string call : {"allreduce", "iallreduce"}) {
    const std::string rules =
        call + " * * * * native(nonoverlapping)\n" + call + " * * * * native(binomial)\n";
    const Plan begun = plan(rules, CallForm::nonblocking);
    ASSERT_EQ(begun.rows.size(), 1U);
    EXPECT_EQ(begun.rows[0].expression->canonical_text(), "native(binomial)")
        << "no iallreduce has the other";
    EXPECT_EQ(begun.rows[0].form, RowForm::by_name);
    EXPECT_EQ(begun.rows[0].needs, Means()) << "it runs on the communicator of the program";
  }
  const Plan blocking =
      plan("allreduce * * * * native(binomial) | native(nonoverlapping)\n", CallForm::blocking);
  EXPECT_EQ(blocking.rows[0].expression->canonical_text(), "native(nonoverlapping)");
}

TEST(HostAlgorithms, AChoiceHoldsForTheCallsThatHaveItsName) {
  Selection selection(HostMpi::open_mpi);
  selection.set_host_algorithms_function([]() -> const NamedHostAlgorithms& {
    static const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
    return offer;
  });
  const auto what_runs = [&](CallForm form) {
    const auto plans = std::make_unique<const Plans>(selection.plans({.ranks = 4, .nodes = 4}));
    const PlanRow& row = plans->of(Collective::allreduce, form).row_for(8);
    return row.expression->canonical_text() + (row.form == RowForm::by_name ? "" : " " + row.reason);
  };
  selection.choose_for_every_length(Collective::allreduce, "native(nonoverlapping)", "a test");
  EXPECT_EQ(what_runs(CallForm::blocking), "native(nonoverlapping)");
  EXPECT_EQ(what_runs(CallForm::nonblocking),
            "native native(nonoverlapping) names no iallreduce that Open MPI has; it has: ring, binomial, "
            "rabenseifner, recursive_doubling");
  selection.choose_for_every_length(Collective::allreduce, "native(binomial)", "a test");
  EXPECT_EQ(what_runs(CallForm::blocking).substr(0, 50),
            "native native(binomial) names no allreduce that Op");
  EXPECT_EQ(what_runs(CallForm::nonblocking), "native(binomial)");
}

TEST(HostAlgorithms, ASwitchOfBlockingCallsDoesNotConcernTheOthers) {
  NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  offer.reason_for_no_blocking = "its switch is off";
  std::erase_if(offer.algorithms, [](const HostAlgorithm* each) { return !each->is_nonblocking; });
  const auto why_not = [&](Collective collective, bool is_nonblocking, std::string_view text) {
    return offer.why_not(collective, is_nonblocking, parse_expression(collective, text), 4);
  };
  EXPECT_EQ(why_not(Collective::allreduce, true, "native(ring)"), "");
  EXPECT_EQ(why_not(Collective::allreduce, false, "pipeline(2, native(ring))"), "");
  EXPECT_EQ(why_not(Collective::allreduce, false, "native(ring)"),
            "cannot run under Open MPI: its switch is off");
  EXPECT_EQ(why_not(Collective::barrier, true, "native(tree)"),
            "names no ibarrier that Open MPI has; it has: none");
}

// Counts how often the offer was asked for.
int asked = 0;
const NamedHostAlgorithms& count_offer() {
  static const NamedHostAlgorithms offer = nameable_algorithms_of_any_version(HostMpi::open_mpi);
  ++asked;
  return offer;
}

TEST(HostAlgorithms, TheHostIsAskedOnlyOnceSomethingIsNamed) {
  Selection selection(HostMpi::open_mpi);
  selection.set_host_algorithms_function(count_offer);
  asked = 0;
  EXPECT_EQ(selection.plan(Collective::barrier, {.ranks = 4, .nodes = 4}).needs().contain(Means::by_name),
            false);
  EXPECT_EQ(selection.hash_of_user_rules(), 0U);
  EXPECT_EQ(asked, 0);
  selection.choose_for_every_length(Collective::barrier, "native(tree)", "a test");
  EXPECT_TRUE(selection.plan(Collective::barrier, {.ranks = 4, .nodes = 4}).needs().contain(Means::by_name));
  EXPECT_NE(selection.hash_of_user_rules(), 0U) << "all ranks must have the same names";
  EXPECT_GT(asked, 0);
}

TEST(HostAlgorithms, MpichListsItsValuesInADescription) {
  const std::vector<std::string_view> known{"auto", "nb", "smp", "ring", "sched_ring"};
  const std::string_view lines =
      "Variable to select - an algorithm\nauto - Internal - selection\nnb         - Force nonblocking\n"
      "ring - Force ring\nsched_ring - Force\n";
  EXPECT_EQ(position_in_description(lines, "auto", known), 0);
  EXPECT_EQ(position_in_description(lines, "nb", known), 1);
  EXPECT_EQ(position_in_description(lines, "ring", known), 2);
  EXPECT_EQ(position_in_description(lines, "sched_ring", known), 3);
  EXPECT_EQ(position_in_description(lines, "smp", known), std::nullopt);
  EXPECT_EQ(position_in_description(lines, "tree", {}), std::nullopt);
}

TEST(HostAlgorithms, ADescriptionWithoutLinesIsReadIfAllItsNamesAreKnown) {
  const std::string_view jammed =
      "Variable to select bcast algorithmauto - Internal (with a FILE)nb       - Force Binomial Treesmp     "
      "- "
      "Force smp algorithmsched_ring - Force ring algorithmring   - Force ring algorithm";
  const std::vector<std::string_view> known{"auto", "nb", "smp", "ring", "sched_ring"};
  EXPECT_EQ(position_in_description(jammed, "nb", known), 1);
  EXPECT_EQ(position_in_description(jammed, "smp", known), 2);
  EXPECT_EQ(position_in_description(jammed, "sched_ring", known), 3);
  EXPECT_EQ(position_in_description(jammed, "ring", known), 4);
  EXPECT_EQ(position_in_description(jammed, "ring", {"auto", "nb", "ring"}), std::nullopt);
}

}  // namespace
}  // namespace offbeat
