// SPDX-License-Identifier: BSD-3-Clause
#include "selection/rules.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace offbeat {
namespace {

std::vector<std::string> errors(std::string_view text) {
  std::vector<std::string> lines;
  for (const RuleError& error : parse_rules("a", text).errors) lines.push_back(error.text("a"));
  return lines;
}

Rule rule(std::string_view text) {
  const ParsedRules parsed = parse_rules("a", text);
  EXPECT_TRUE(parsed.errors.empty()) << parsed.errors.front().text("a");
  EXPECT_EQ(parsed.rules.rules.size(), 1U) << text;
  return parsed.rules.rules.front();
}

Range<std::size_t> bytes(const std::string& range, int nodes = 1) {
  return rule("allreduce * * * " + range + " ring").bytes.on_nodes(nodes);
}
Range<int> nodes(const std::string& range) { return rule("allreduce * " + range + " * * ring").nodes; }

using Bytes = Range<std::size_t>;

TEST(Rules, BothEndsOfARangeBelongToIt) {
  EXPECT_EQ(nodes("8"), (Range<int>{8, 8}));
  EXPECT_EQ(nodes("2..8"), (Range<int>{2, 8}));
  EXPECT_EQ(nodes("..4"), (Range<int>{1, 4}));
  EXPECT_EQ(nodes("9.."), (Range<int>{9}));
  EXPECT_EQ(nodes("*"), (Range<int>{1}));
  EXPECT_EQ(nodes("2..<8"), (Range<int>{2, 7}));
  EXPECT_EQ(bytes("16KiB..1MiB"), (Bytes{16384, 1048576}));
  EXPECT_EQ(bytes("..<4KiB"), (Bytes{0, 4095}));
  EXPECT_EQ(bytes("..512"), (Bytes{0, 512}));
  EXPECT_EQ(bytes("512B..2GiB"), (Bytes{512, std::size_t{2} << 30}));
  EXPECT_EQ(bytes("8"), (Bytes{8, 8}));
  EXPECT_EQ(bytes("*"), Bytes{});
}

TEST(Rules, ARangeOfBytesMayGrowWithTheNodes) {
  EXPECT_EQ(bytes("16KiB/node..", 4), (Bytes{65536}));
  EXPECT_EQ(bytes("..<1KiB/node", 3), (Bytes{0, 3071}));
  EXPECT_EQ(bytes("1KiB/node..16KiB", 16), (Bytes{16384, 16384}));
  EXPECT_TRUE(bytes("1KiB/node..16KiB", 17).is_empty());
  EXPECT_EQ(ByteLimit({max_length / 2, true}).on_nodes(3), max_length);
}

TEST(Rules, RanksPerNodeAreRoundedUp) {
  EXPECT_EQ(ranks_per_node({.ranks = 8, .nodes = 2}), 4);
  EXPECT_EQ(ranks_per_node({.ranks = 7, .nodes = 2}), 4);
  EXPECT_EQ(ranks_per_node({.ranks = 9, .nodes = 8}), 2);
  EXPECT_EQ(ranks_per_node({.ranks = 8, .nodes = 8}), 1);
}

TEST(Rules, ALineHasSixFieldsAndAReason) {
  const Rule one =
      rule("  alltoall\tintel 1  2   512KiB..   native |arrival_direct # either may win: see 3 \r\n");
  EXPECT_EQ(one.collective, Collective::alltoall);
  EXPECT_EQ(one.host, HostMpi::intel);
  EXPECT_EQ(one.reason, "either may win: see 3");
  ASSERT_EQ(one.alternatives.size(), 2U);
  EXPECT_EQ(one.text(), "alltoall intel 1 2 512KiB.. native | arrival_direct");
  EXPECT_TRUE(parse_rules("a", "\n# only a comment\n   \n").rules.rules.empty());
}

TEST(Rules, AStarIsEveryCollective) {
  const ParsedRules parsed = parse_rules("a", "* * * * * native");
  EXPECT_EQ(parsed.rules.rules.size(), static_cast<std::size_t>(served_collectives.count()));
  EXPECT_EQ(errors("* * * * * rabenseifner").size(), 1U);
}

TEST(Rules, AnIBeforeACollectiveIsItsNonBlockingCalls) {
  const Rule one = rule("ibcast * 1 * 64KiB.. native");
  EXPECT_EQ(one.collective, Collective::bcast);
  EXPECT_EQ(one.form, CallForm::nonblocking);
  EXPECT_EQ(one.text(), "ibcast * 1 * 64KiB.. native");
  EXPECT_TRUE(one.fits(HostMpi::intel, {2}, CallForm::nonblocking));
  EXPECT_FALSE(one.fits(HostMpi::intel, {2}, CallForm::blocking));
  const Rule other = rule("bcast * * * * native");
  for (const CallForm form : {CallForm::blocking, CallForm::nonblocking})
    EXPECT_TRUE(other.fits(HostMpi::intel, {2}, form));
}

TEST(Rules, AnErrorNamesLineAndField) {
  const auto is_error = [](std::string_view text, std::string_view expected) {
    const std::vector<std::string> found = errors(text);
    ASSERT_EQ(found.size(), 1U) << text;
    EXPECT_TRUE(found.front().starts_with(expected)) << found.front();
  };
  is_error("\n\nalreduce * * * * ring", "a:3: collective: 'alreduce' (did you mean 'allreduce'?); expected");
  is_error("ialreduce * * * * ring", "a:1: collective: 'ialreduce'");
  is_error("iallreduce * * * * rng", "a:1: algorithm: column 20: unknown algorithm 'rng'");
  is_error("alltoallw * * * * ring", "a:1: collective: 'alltoallw'");
  is_error("allreduce itel * * * ring", "a:1: host: 'itel' (did you mean 'intel'?); expected");
  is_error("allreduce * 0 * * ring", "a:1: nodes: '0' is less than 1; expected");
  is_error("allreduce * 8..2 * * ring", "a:1: nodes: '8..2' is an empty range; expected");
  is_error("allreduce * 4..<4 * * ring", "a:1: nodes: '4..<4' is an empty range; expected");
  is_error("allreduce * * .. * ring", "a:1: ppn: '..' has no ends; expected");
  is_error("allreduce * * -2 * ring", "a:1: ppn: '-2' is not understood; expected");
  is_error("allreduce * * 99999999999 * ring", "a:1: ppn: '99999999999' is too large; expected");
  is_error("allreduce * * * 4kb.. ring", "a:1: bytes: '4kb' has an unknown unit (B, KiB, MiB or GiB);");
  is_error("allreduce * * * 1MiB..1KiB ring", "a:1: bytes: '1MiB..1KiB' is an empty range; expected");
  is_error("allreduce * * * ..<0 ring", "a:1: bytes: '..<0' is an empty range; expected");
  is_error("allreduce * * * ..< ring", "a:1: bytes: '..<' has no upper end; expected");
  is_error("allreduce * * * 99999999999GiB ring", "a:1: bytes: '99999999999GiB' is too large; expected");
  is_error("allreduce * * * *", "a:1: algorithm: missing");
  is_error("allreduce # * * * *", "a:1: host: missing");
  is_error("allreduce * * * * rng", "a:1: algorithm: column 19: unknown algorithm 'rng'");
  is_error("allreduce * * * * ring | pipeline(4, rng)", "a:1: algorithm: column 38: unknown algorithm 'rng'");
  is_error("allreduce * * * * ring | ", "a:1: algorithm: column 25: expected an algorithm");
  is_error("allreduce * * * * ring | ring", "a:1: algorithm: column 25: ring occurs twice");
  is_error("allreduce * * * * \x1b[2J", "a:1: algorithm: column 19: expected an algorithm, found '\\x1b'");
}

TEST(Rules, OneReadingShowsAllErrors) {
  EXPECT_EQ(errors("allreduce mpi 0 x 1Ki rng\nallreduce * * * * ring\nbcast").size(), 6U);
}

TEST(Rules, TheBuiltInOnesAreRight) {
  const ParsedRules parsed = parse_rules("rules.txt", built_in_rules_text());
  for (const RuleError& error : parsed.errors) ADD_FAILURE() << error.text("rules.txt");
  EXPECT_EQ(built_in_rules().rules.size(), parsed.rules.rules.size());
  for (const Rule& each : parsed.rules.rules) EXPECT_FALSE(each.reason.empty()) << "line " << each.line;
}

TEST(Rules, TheHashIsOfWhatDecides) {
  const auto hash = [](std::string_view text) { return parse_rules("a", text).rules.hash(0); };
  const std::uint64_t one = hash("allreduce * 1 * ..1024 ring  # why");
  EXPECT_EQ(hash("\n\nallreduce  *  1..1 *  ..1KiB  ring # because"), one);
  for (const std::string_view other :
       {"iallreduce * 1 * ..1024 ring", "reduce * 1 * ..1024 chain", "allreduce intel 1 * ..1024 ring",
        "allreduce * 2 * ..1024 ring", "allreduce * 1 1 ..1024 ring", "allreduce * 1 * ..<1024 ring",
        "allreduce * 1 * ..1024/node ring", "allreduce * 1 * ..1024 ring | linear",
        "allreduce * 1 * ..1024 linear", ""}) {
    EXPECT_NE(hash(other), one) << other;
  }
}

TEST(Rules, TooManyAreOneError) {
  std::string text;
  for (std::size_t k = 0; k < most_rules + 2; ++k) text += "allreduce * * * * ring\n";
  EXPECT_EQ(errors(text), std::vector<std::string>{"a:4097: a file has at most 4096 rules"});
}

// Texts made of what rules are made of, mostly wrong: the parser ends, and what it takes it can write and
// read again.
TEST(Rules, RandomTexts) {
  const std::vector<std::vector<std::string>> fields{
      {"allreduce", "bcast", "alltoall", "*"},
      {"*", "intel", "mpich", "openmpi", "other"},
      {"*", "1", "8", "2..8", "9..", "..4", "..<9", "2147483647"},
      {"*", "1", "2..", "..<2"},
      {"*", "0", "8", "..512", "16KiB..", "16KiB/node..", "..<1MiB", "4KiB..<64KiB/node",
       "18446744073709551615"},
      {"native", "ring", "arrival_tree", "pipeline(4, ring)", "hierarchy(arrival_tree, ring)",
       "native | ring", "grid(2x2, ring)|linear", "arrival_direct # why"}};
  const std::vector<std::string> odd{"..",        "..<",  "<",   "0",   "-1",  "/node", "1KiB/nod",
                                     "pipeline(", ")",    "|",   "#",   "\n",  "",      "\t",
                                     "\x01",      "\xff", "1e9", "0x8", "8..2"};
  std::mt19937 random(7);
  const auto one_of = [&](const std::vector<std::string>& all) { return all[random() % all.size()]; };
  std::size_t understood = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (const std::vector<std::string>& field : fields) {
      const auto luck = random() % 40;
      text += luck == 0 ? one_of(odd) : luck == 1 ? one_of(fields[random() % fields.size()]) : one_of(field);
      text += luck == 2 ? "" : " ";
    }
    for (const Rule& each : parse_rules("a", text).rules.rules) {
      ++understood;
      const Rule again = rule(each.text());
      ASSERT_EQ(again.text(), each.text()) << text;
      ASSERT_EQ(again.bytes, each.bytes) << text;
      ASSERT_EQ(again.alternatives, each.alternatives) << text;
    }
  }
  EXPECT_GT(understood, 1000U);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 300, ' ');
    for (char& byte : text) byte = static_cast<char>(random());
    static_cast<void>(parse_rules("a", text));
  }
}

// -- files

class RulesFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "rulesXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string with(const std::string& text) {
    const std::string path = folder_ / "my.rules";
    std::ofstream(path) << text;
    return path;
  }
  static std::string refusal(const std::string& path) {
    try {
      static_cast<void>(read_rules(path));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  std::filesystem::path folder_;
};

TEST_F(RulesFile, IsRead) {
  EXPECT_EQ(read_rules(with("allreduce * * * * ring")).rules.size(), 1U);
  EXPECT_TRUE(read_rules(with("")).rules.empty());
  EXPECT_EQ(read_rules(with("\xEF\xBB\xBF"
                            "allreduce * * * * ring"))
                .rules.size(),
            1U)
      << "a byte order mark";
}

TEST_F(RulesFile, IsRefusedWithItsFirstError) {
  const std::string path = with("allreduce * * * * ring\nbcast * * * * rng\nbcast");
  EXPECT_TRUE(refusal(path).starts_with(path + ":2: algorithm: column 15: unknown algorithm 'rng'"))
      << refusal(path);
  EXPECT_TRUE(refusal(path).ends_with("; `offbeat rules check` shows 1 more")) << refusal(path);
}

TEST_F(RulesFile, IsARegularFileOfBoundedSize) {
  const std::string none = folder_ / "none";
  EXPECT_EQ(refusal(none), none + ": No such file or directory");
  EXPECT_EQ(refusal(folder_), folder_.string() + ": not a regular file");
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(refusal(fifo), fifo + ": not a regular file");
  EXPECT_EQ(refusal("/dev/zero"), "/dev/zero: not a regular file");
  EXPECT_EQ(refusal(""), ": No such file or directory");
  const std::string large = with(std::string((most_rules_mib << 20) + 1, '#'));
  EXPECT_EQ(refusal(large), large + ": longer than 1 MiB");
  EXPECT_EQ(refusal(with(std::string(most_rules_mib << 20, '#'))), "");
}

}  // namespace
}  // namespace offbeat
