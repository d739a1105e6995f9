// SPDX-License-Identifier: BSD-3-Clause
// The language of cost formulas.
#include "models/formula.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <string>

#include "base/error.hpp"

namespace offbeat {
namespace {

constexpr std::array<int, 2> dimensions{3, 5};
const FormulaInput input{.p = 12,
                         .n = 1000,
                         .m = 10,
                         .a = 2,
                         .b = 0.5,
                         .c = 0.25,
                         .a_within = 7,
                         .b_within = 11,
                         .w = 1,
                         .o = 6,
                         .nodes = 4,
                         .s = 3,
                         .radix = 3,
                         .segment_bytes = 256,
                         .dimensions = dimensions};

double value(const std::string& text) { return Formula(text)(input); }

std::string error_of(const std::string& text) {
  try {
    value(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Formula, HasArithmeticFromLeftToRight) {
  EXPECT_EQ(value("7"), 7);
  EXPECT_EQ(value("0.25 + 2 * 3"), 6.25);
  EXPECT_EQ(value("10 - 2 - 3"), 5);
  EXPECT_EQ(value("-2 + 5"), 3);
  EXPECT_EQ(value("24/2/3"), 4);
  EXPECT_EQ(value("2^3 2"), 16);
  EXPECT_EQ(value("2(3 + 4)"), 14);
  EXPECT_EQ(value("2n(p-1)/p b"), 2 * 1000.0 * 11 / 12 * 0.5);
  EXPECT_EQ(value("(p-1)(a + nb + nc)"), 11 * (2 + 500 + 250));
  EXPECT_EQ(value("a' + nb'"), 7 + 11000);
  EXPECT_EQ(value("s nodes + K + BYTES"), 12 + 3 + 256);
  EXPECT_EQ(value("q"), 8);
  EXPECT_EQ(value("D"), 15);
  EXPECT_EQ(value("oo"), 36);
}

TEST(Formula, HasFunctionsAndRelations) {
  EXPECT_EQ(value("log2(q) + log2 q"), 6);
  EXPECT_EQ(value("ceil(log2 p) a"), 8);
  EXPECT_EQ(value("floor(p/5) + max(a, p) + min(a, p)"), 16);
  EXPECT_EQ(value("pow2(nodes + 3)"), 4);
  EXPECT_EQ(value("[p>q] 5 + [p<q] 7 + [p=12] + [p<=12] + [p>=13]"), 7);
  int ones = 0;
  for (unsigned k = 0; k < 12; ++k) ones += std::popcount(k);
  EXPECT_EQ(value("ones(p)"), ones);
}

TEST(Formula, HasSums) {
  EXPECT_EQ(value("sum(k < 4: 2^k) a"), 30);
  EXPECT_EQ(value("sum(r in radices(9, K): a + r)"), 2 * 5);
  EXPECT_EQ(value("product(11, K)"), 9);
  EXPECT_EQ(value("last(24, 4)"), 3);
  EXPECT_EQ(value("sum(d in dimensions: d d)"), 34);
  EXPECT_EQ(value("sum(d in dimensions: sum(k < d: d + k))"), 3 * 3 + 3 + 5 * 5 + 10);
}

TEST(Formula, HasDefinitionsAndThenWords) {
  const Formula formula("x + g, x = 2 g, g = n/4, ranks on a node, y = 3");
  EXPECT_EQ(formula(input), 750);
  EXPECT_TRUE(formula.defines('x'));
  EXPECT_FALSE(formula.defines('y')) << "it comes after words";
  EXPECT_EQ(formula.value_of('g', input), 250);
  EXPECT_EQ(value("s + p, s = 2"), 14) << "a definition hides a name";
}

TEST(Formula, FoldsSurplusRanks) {
  const double move = 500;
  const double combine = 250;
  EXPECT_EQ(value("fold(p)"), 0);
  EXPECT_EQ(value("fold(q)"), 2 + move + combine + 2 + move);
  EXPECT_EQ(value("fold(3)"), 3 * (2 + move + combine) + 2 + 3 * move + 2 * 2) << "one after the other";
  FormulaInput eager = input;
  eager.w = 0;
  EXPECT_EQ(Formula("fold(3)")(eager), 2 + 3 * move + combine + 2 + 3 * move) << "they wait at the leader";
}

TEST(Formula, AsksForTheCostOfParts) {
  struct Parts final : CostOfParts {
    [[nodiscard]] double time(std::size_t dimension, double ranks, double bytes) const override {
      return 1000.0 * static_cast<double>(dimension) + 10 * ranks + bytes;
    }
    [[nodiscard]] double busy(double ranks, double) const override { return ranks; }
    [[nodiscard]] double steps(double, double bytes) const override { return bytes; }
  };
  const Parts parts;
  EXPECT_EQ(Formula("T(4, 2) + U(5, 0) + N(0, 6)")(input, &parts), 53);
  EXPECT_EQ(Formula("sum(d in dimensions: T(d, 0))")(input, &parts), 30 + 1050);
  EXPECT_EQ(Formula("T_ALGORITHM(nodes, n/s), s ranks")(input, &parts), 40 + 1000.0 / 3);
  EXPECT_NE(error_of("T(1, 2)").find("there is none"), std::string::npos);
}

TEST(Formula, NamesTheColumnOfAnError) {
  EXPECT_EQ(error_of("(p-1"), "formula '(p-1', column 5: expected ')'");
  EXPECT_EQ(error_of("a + "), "formula 'a + ', column 5: expected a number or a name");
  EXPECT_EQ(error_of("a + nb; more"), "formula 'a + nb; more', column 7: unexpected '; more'");
  EXPECT_NE(error_of("[p]").find("column 3: expected <"), std::string::npos);
  EXPECT_NE(error_of("max(a)").find("column 6: expected ','"), std::string::npos);
  EXPECT_NE(error_of("sum(k: k)").find("expected 'in dimensions'"), std::string::npos);
  EXPECT_EQ(error_of("z"), "formula 'z': 'z' has no value");
  EXPECT_EQ(error_of("a, z = y"), "formula 'a, z = y': 'y' has no value");
  EXPECT_EQ(error_of("x, x = 2y, y = x"), "formula 'x, x = 2y, y = x': 'x' has no value");
  EXPECT_EQ(error_of("sum(k < 2: k) + k"), "formula 'sum(k < 2: k) + k': 'k' has no value");
  EXPECT_NE(error_of(std::string(100, '(') + "a").find("nested too deeply"), std::string::npos);
}

}  // namespace
}  // namespace offbeat
