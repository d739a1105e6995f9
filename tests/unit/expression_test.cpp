// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/repertoire.hpp"

namespace offbeat {
namespace {

struct Good {
  std::string text;
  std::string canonical;
  int lanes;
};

TEST(Expression, TheHostTakesTheLinesOfAGrid) {
  const Expression expression = parse_expression(Collective::allreduce, "grid(4x2, native, native(ring))");
  EXPECT_TRUE(expression.runs_on_host());
  EXPECT_TRUE(expression.is_host_grid());
  EXPECT_TRUE(expression.names_host_algorithm());
  EXPECT_FALSE(expression.same_bits_every_run());
  EXPECT_EQ(expression.why_unsuitable({.ranks = 8}), "");
  EXPECT_EQ(expression.why_unsuitable({.ranks = 7}), "needs at least 8 ranks");
  for (const int ranks : {9, 16})
    EXPECT_EQ(expression.why_unsuitable({.ranks = ranks}),
              "needs exactly 8 ranks, because a grid of native does not fold surplus ranks");
  EXPECT_FALSE(parse_expression(Collective::allreduce, "grid(4x2, ring)").runs_on_host());
}

TEST(Expression, TheHostTakesVectorsInSegments) {
  for (const Collective collective : {Collective::allreduce, Collective::bcast, Collective::reduce}) {
    const Expression expression = parse_expression(collective, "pipeline(4, native)");
    EXPECT_TRUE(expression.runs_on_host());
    EXPECT_FALSE(expression.is_native());
    EXPECT_FALSE(expression.same_bits_every_run());
    EXPECT_EQ(expression.why_unsuitable({.ranks = 2}), "");
  }
  for (const Collective collective : {Collective::allgather, Collective::reduce_scatter})
    EXPECT_THROW(static_cast<void>(parse_expression(collective, "pipeline(4, native)")), ExpressionError);
  EXPECT_FALSE(parse_expression(Collective::allreduce, "pipeline(4, ring)").runs_on_host());
}

TEST(Expression, LearnsIfAPartDoes) {
  const auto learns = [](const char* text) { return parse_expression(Collective::allreduce, text).learns(); };
  EXPECT_TRUE(learns("arrival_owners"));
  EXPECT_TRUE(learns("hierarchy(arrival_tree, pipeline(4, arrival_owners))"));
  EXPECT_FALSE(learns("hierarchy(arrival_tree, straggler(0))"));
}

TEST(Expression, HasACanonicalSpelling) {
  const Good cases[] = {
      {"ring", "ring", 1},
      {"  ring  ", "ring", 1},
      {"pipeline(4,ring)", "pipeline(4, ring)", 4},
      {"pipeline( 32MiB , ring )", "pipeline(32MiB, ring)", 16},
      {"pipeline(1024KiB, ring)", "pipeline(1MiB, ring)", 16},
      {"pipeline(1000B, ring)", "pipeline(1000B, ring)", 16},
      {"ring_segmented(8192)", "ring_segmented(8KiB)", 2},
      {"grid(32x32,ring_segmented(8KiB))", "grid(32x32, ring_segmented(8KiB))", 2},
      {"grid(8x4, ring, rabenseifner)", "grid(8x4, ring, rabenseifner)", 1},
      {"grid(2x3x4, ring, linear, binomial)", "grid(2x3x4, ring, linear, binomial)", 1},
      {"pipeline(4, pipeline(8, ring_segmented(1KiB)))", "pipeline(4, pipeline(8, ring_segmented(1KiB)))",
       64},
      {"recursive_multiplying( 8 )", "recursive_multiplying(8)", 7},
      {"straggler( 0 )", "straggler(0)", 1},
      {"pipeline(2,ring_prereduced(31))", "pipeline(2, ring_prereduced(31))", 2},
      {"native", "native", 1},
      {"native( ring )", "native(ring)", 1},
      {"pipeline(4, native(recursive_doubling))", "pipeline(4, native(recursive_doubling))", 4},
      {"pipeline(4,native)", "pipeline(4, native)", 4},
      {"pipeline(1MiB, native)", "pipeline(1MiB, native)", 16},
      {"grid(2x2,native)", "grid(2x2, native)", 1},
      {"grid(4x2, native(ring), native(recursive_doubling))",
       "grid(4x2, native(ring), native(recursive_doubling))", 1},
  };
  for (const Good& good : cases) {
    const Expression expression = parse_expression(Collective::allreduce, good.text);
    EXPECT_EQ(expression.canonical_text(), good.canonical);
    EXPECT_EQ(expression.lanes(), good.lanes) << good.text;
    EXPECT_EQ(parse_expression(Collective::allreduce, expression.canonical_text()).canonical_text(),
              good.canonical);
  }
}

struct Bad {
  std::string text;
  std::size_t column;
  std::string says;
};

TEST(Expression, ErrorsPointAtTheColumn) {
  const Bad cases[] = {
      {"", 1, "expected an algorithm"},
      {"rng", 1, "did you mean 'ring'?"},
      {"quicksort", 1, "unknown algorithm 'quicksort'"},
      {"pipeline(4, rng)", 13, "did you mean 'ring'?"},
      {"pipeline", 9, "needs arguments: pipeline(SEGMENTS|BYTES, ALGORITHM)"},
      {"pipeline(", 10, "expected a number of segments"},
      {"pipeline(4", 11, "expected ','"},
      {"pipeline(4, ring", 17, "expected ')'"},
      {"pipeline(4; ring)", 11, "expected ',', found ';'"},
      {"pipeline(0, ring)", 10, "must be at least 1"},
      {"pipeline(65, ring)", 10, "at most 64 segments; for a segment size add a unit, for example 65B"},
      {"recursive_multiplying(0)", 23, "K is between 2 and 1024"},
      {"recursive_multiplying(1)", 23, "K is between 2 and 1024"},
      {"recursive_multiplying(1025)", 23, "K is between 2 and 1024"},
      {"pipeline(64, recursive_multiplying(64))", 1, "at most 1024 are possible"},
      {"straggler", 10, "needs arguments: straggler(RANK)"},
      {"straggler(-1)", 11, "expected the number of the rank that is late, such as 0"},
      {"ring_prereduced(99999999999)", 17, "ranks have numbers up to 2147483646"},
      {"pipeline(4MB, ring)", 11, "unknown unit 'MB'"},
      {"pipeline(99999999999999999999, ring)", 10, "too large"},
      {"pipeline(99999999999999999GiB, ring)", 10, "too large"},
      {"native()", 8, "expected the name of one of the host's algorithms, such as ring"},
      {"native(Ring)", 8, "have no capital letters"},
      {"native(ring", 12, "expected ')' in native(NAME)"},
      {"native(ring, 4)", 12, "expected ')', found ',' in native(NAME)"},
      {"grid(2x2, native, ring)", 11, "native cannot share a grid with other algorithms"},
      {"pipeline(2, grid(2x2, native))", 13, "grid(2x2, native) cannot be a part"},
      {"grid(2x2, grid(2x2, native))", 11, "grid(2x2, native) cannot be a part"},
      {"grid(2x2, pipeline(4, native))", 11, "pipeline(4, native) cannot be a part"},
      {"pipeline(2, pipeline(4, native))", 13, "pipeline(4, native) cannot be a part"},
      {"pipeline(4, arrival_tree)", 13, "arrival_tree cannot be a part"},
      {"ring(4)", 5, "ring takes no arguments"},
      {"ring ring", 6, "unexpected 'ring'"},
      {"ring,", 5, "unexpected ','"},
      {"grid(4, ring)", 6, "at least two dimensions"},
      {"grid(4x, ring)", 8, "expected dimensions"},
      {"grid(4x0, ring)", 8, "must be at least 1"},
      {"grid(100000x100000, ring)", 6, "too large"},
      {"grid(4x4, ring, ring, ring)", 11,
       "expected 1 algorithm or one for each of the 2 dimensions, found 3"},
      {"pipeline(64, pipeline(64, ring))", 1, "at most 1024"},
      {"pipeline(64, pipeline(64, pipeline(64, pipeline(64, pipeline(64, pipeline(4, ring))))))", 1,
       "at most 1024"},
      {"hierarchy(ring, ring)", 11,
       "ring cannot be the part on a node; one of arrival_tree, arrival_shares, arrival_leader, "
       "arrival_chain can"},
      {"hierarchy(arrival_tree, native)", 25, "native cannot be a part"},
      {"lanes", 6, "lanes needs arguments: lanes(NODE_ALGORITHM, ALGORITHM)"},
      {"lanes(ring, ring)", 7, "ring cannot be the part on a node"},
      {"hierarchy(arrival_direct, ring)", 11, "unknown algorithm"},
      {"pipeline(2, lanes(arrival_tree, ring))", 13, "lanes cannot be a part of another algorithm"},
      {"(", 1, "expected an algorithm, found '('"},
      {"\xff", 1, "expected an algorithm"},
  };
  for (const Bad& bad : cases) {
    try {
      static_cast<void>(parse_expression(Collective::allreduce, bad.text));
      ADD_FAILURE() << "accepted: " << bad.text;
    } catch (const ExpressionError& error) {
      EXPECT_EQ(error.column, bad.column) << bad.text << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(bad.says), std::string::npos)
          << bad.text << ": " << error.what();
    }
  }
}

TEST(Expression, AHierarchyWantsAnAlgorithmOfItsCollectiveForTheBoard) {
  const auto error_of = [](Collective collective, const std::string& text) -> std::string {
    try {
      static_cast<void>(parse_expression(collective, text));
    } catch (const ExpressionError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of(Collective::bcast, "hierarchy(binomial, binomial)"),
            "column 11: binomial cannot be the part on a node; arrival_direct can");
  EXPECT_EQ(error_of(Collective::barrier, "hierarchy(native, dissemination)"),
            "column 11: native cannot be the part on a node; arrival_counter can");
  EXPECT_EQ(error_of(Collective::gather, "hierarchy(arrival_direct, arrival_direct)"),
            "column 27: arrival_direct cannot be a part of another algorithm");
  EXPECT_EQ(error_of(Collective::bcast, "pipeline(2, hierarchy(arrival_direct, chain))"),
            "column 13: hierarchy cannot be a part of another algorithm");
  EXPECT_EQ(error_of(Collective::reduce, "hierarchy(arrival_tree, pipeline(2, chain))"), "accepted");
}

TEST(Expression, EveryCollectiveHasAHierarchyUnlessOnlyTheRootKnowsLengths) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const auto& algorithms = repertoire(collective_at(k)).algorithms;
    const auto is_hierarchy = [](const Algorithm* each) { return each->name == "hierarchy"; };
    const bool has_hierarchy = served_collectives.contain(collective_at(k)) &&
                               !collectives_with_lists_at_root.contain(collective_at(k));
    EXPECT_EQ(std::ranges::any_of(algorithms, is_hierarchy), has_hierarchy) << name_of(collective_at(k));
  }
}

TEST(Expression, AHierarchyIsUnsuitableWhereItsPartsAre) {
  for (const std::string name : {"hierarchy", "lanes"}) {
    const Expression grid = parse_expression(Collective::allreduce, name + "(arrival_tree, grid(2x2, ring))");
    EXPECT_EQ(grid.why_unsuitable({.ranks = 12, .nodes = 3, .board = true}), "needs at least 4 ranks");
    EXPECT_EQ(grid.why_unsuitable({.ranks = 12, .nodes = 4, .board = true}), "");
    EXPECT_EQ(grid.why_unsuitable({.ranks = 12, .nodes = 1, .board = true}), "");
    EXPECT_EQ(grid.why_unsuitable({.ranks = 12, .nodes = 4}),
              "needs shared memory between the ranks of a node");
    EXPECT_EQ(grid.why_unsuitable({.ranks = 4, .nodes = 4}), "");
  }
  const Expression cut =
      parse_expression(Collective::allgather, "hierarchy(arrival_direct, pipeline(2, bruck))");
  EXPECT_EQ(cut.why_unsuitable({.ranks = 12, .nodes = 4, .board = true}), "cannot cut blocks for bruck");
}

TEST(Expression, DeepNestingIsAnErrorNotACrash) {
  std::string text;
  for (int k = 0; k < 100000; ++k) text += "pipeline(1, ";
  EXPECT_THROW(static_cast<void>(parse_expression(Collective::allreduce, text)), ExpressionError);
}

TEST(Expression, ErrorsShowWhatCannotBePrintedAndAreShort) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(parse_expression(Collective::allreduce, text));
    } catch (const ExpressionError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of("\x1b[2J"), "column 1: expected an algorithm, found '\\x1b'");
  EXPECT_EQ(error_of("ring \x1b[2J\n"), "column 6: unexpected '\\x1b[2J\\n'");
  EXPECT_EQ(error_of("pipeline(4\x07, ring)"),
            "column 11: expected ',', found '\\x07' in pipeline(SEGMENTS|BYTES, ALGORITHM)");
  for (const std::string before : {"", "ring ", "pipeline(4", "ring_segmented(4", "grid(4x"})
    EXPECT_LT(error_of(before + std::string(100000, 'x')).size(), 400U) << before;
}

// Pieces of expressions in any order, and random bytes: an expression, or an error that can be printed.
TEST(Expression, RandomTextIsAnExpressionOrAnErrorInOneLine) {
  std::mt19937 random(3);
  const std::string_view pieces[] = {"ring",
                                     "pipeline",
                                     "grid",
                                     "hierarchy",
                                     "lanes",
                                     "arrival_tree",
                                     "ring_segmented",
                                     "native",
                                     "(",
                                     "(",
                                     ")",
                                     ")",
                                     ",",
                                     ",",
                                     "4",
                                     "2x2",
                                     "8KiB",
                                     " ",
                                     "x",
                                     "B",
                                     "99999999999999999999"};
  int accepted = 0;
  for (int k = 0; k < 50000; ++k) {
    std::string text;
    for (std::size_t left = 1 + random() % 8; left > 0; --left) {
      if (random() % 16 == 0) text += static_cast<char>(random());
      text += pieces[random() % std::size(pieces)];
    }
    try {
      const std::string canonical = parse_expression(Collective::allreduce, text).canonical_text();
      EXPECT_EQ(parse_expression(Collective::allreduce, canonical).canonical_text(), canonical);
      ++accepted;
    } catch (const ExpressionError& error) {
      ASSERT_EQ(printable(error.what(), 1000), error.what());
      ASSERT_LE(error.column, text.size() + 1);
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(Expression, ACollectiveOfTheHostHasNoAlgorithms) {
  EXPECT_FALSE(collective_named("alreduce").has_value());
  EXPECT_TRUE(repertoire(Collective::alltoallw).algorithms.empty());
  EXPECT_THROW(static_cast<void>(parse_expression(Collective::alltoallw, "ring")), UsageError);
}

TEST(Expression, TheServedCollectivesAreThoseThatHaveAlgorithms) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    EXPECT_EQ(served_collectives.contain(collective), !repertoire(collective).algorithms.empty())
        << name_of(collective);
  }
}

TEST(Expression, EveryAlgorithmServesTheCollectiveThatListsIt) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    for (const Algorithm* algorithm : repertoire(collective).algorithms)
      EXPECT_TRUE(algorithm->serves.contain(collective)) << name_of(collective) << ": " << algorithm->name;
  }
}

TEST(Expression, EveryAlgorithmSaysWhatPeopleWantToKnow) {
  for (const Algorithm* algorithm : repertoire(Collective::allreduce).algorithms) {
    EXPECT_FALSE(algorithm->summary.empty()) << algorithm->name;
    EXPECT_FALSE(algorithm->cost.empty()) << algorithm->name;
    EXPECT_TRUE(algorithm->run == nullptr || !algorithm->source.empty()) << algorithm->name;
  }
}

TEST(Expression, AGridThatIsTooLargeIsUnsuitableWhereverItStands) {
  EXPECT_EQ(parse_expression(Collective::allreduce, "pipeline(2, grid(4x4, ring))").why_unsuitable({15}),
            "needs at least 16 ranks");
  EXPECT_EQ(parse_expression(Collective::allreduce, "pipeline(2, grid(4x4, ring))").why_unsuitable({16}), "");
  EXPECT_EQ(parse_expression(Collective::allreduce, "grid(8x2, ring, grid(2x2, ring))").why_unsuitable({64}),
            "needs at least 4 ranks");
}

TEST(Expression, RepeatsItsBitsOnEveryRunIfAllItsPartsDo) {
  const auto same_bits_every_run = [](std::string_view text) {
    return parse_expression(Collective::allreduce, text).same_bits_every_run();
  };
  for (const char* text : {"ring", "arrival_tree", "pipeline(4, grid(2x2, ring, linear))",
                           "hierarchy(arrival_tree, pipeline(2, ring))", "lanes(arrival_tree, ring)"}) {
    EXPECT_TRUE(same_bits_every_run(text)) << text;
  }
  for (const char* text : {"native", "arrival_leader", "arrival_chain", "hierarchy(arrival_leader, ring)",
                           "hierarchy(arrival_chain, pipeline(2, ring))", "lanes(arrival_leader, ring)"}) {
    EXPECT_FALSE(same_bits_every_run(text)) << text;
  }
}

}  // namespace
}  // namespace offbeat
