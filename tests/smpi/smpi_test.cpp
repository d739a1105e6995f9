// SPDX-License-Identifier: BSD-3-Clause
// The times of offbeat's simulator against those of SMPI, which runs the same algorithms (allreduce.cpp) on
// the same machine: 10 Gbit/s, 1 us within a node and 2 us between nodes, whose ranks share its link.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "simulator/phantom_calls.hpp"
#include "simulator/simulator.hpp"

namespace offbeat {
namespace {

constexpr double bytes_per_second = 1.25e9;
constexpr std::size_t eager_bytes = 65536;

struct Case {
  int nodes;
  int ranks_per_node;
  std::size_t bytes;
  std::vector<std::string> expressions;

  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

#ifdef OFFBEAT_SMPIRUN

// A folder that is removed again: smpirun leaves files where it runs.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "offbeat-smpi-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path path;
};

// As SimGrid has it: up and down each half of the latency, and what is not in its model of a network for
// clusters left out.
constexpr const char* platform = R"(<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="world" routing="Full">
<cluster id="cluster" prefix="n" radical="0-%d" suffix="" speed="10Gf" core="%d" bw="1.25GBps" lat="1us"
 loopback_bw="1.25GBps" loopback_lat="1us"/></zone></platform>
)";
constexpr const char* options =
    " --cfg=smpi/privatization:no --cfg=network/model:CM02 --cfg=network/TCP-gamma:0"
    " --cfg=network/crosstraffic:0 --cfg=smpi/simulate-computation:no --cfg=smpi/wtime:0"
    " --cfg=surf/precision:1e-9 --cfg=smpi/async-small-thresh:65536"
    " --cfg=smpi/send-is-detached-thresh:65536 --log=root.thresh:warning ";

std::vector<double> by_smpi(const Case& each) {
  const Folder folder;
  char text[1000];
  std::snprintf(text, sizeof text, platform, each.nodes - 1, each.ranks_per_node);
  std::ofstream(folder.path / "platform.xml") << text;
  {
    std::ofstream hosts(folder.path / "hosts");
    for (int node = 0; node < each.nodes; ++node) hosts << 'n' << node << ':' << each.ranks_per_node << '\n';
  }
  std::string command = "cd " + folder.path.string() + " && timeout 200 " OFFBEAT_SMPIRUN " -np " +
                        std::to_string(each.ranks()) + " -platform platform.xml -hostfile hosts" + options +
                        OFFBEAT_SMPI_PROGRAM " " + std::to_string(each.ranks_per_node) + " " +
                        std::to_string(each.bytes);
  for (const std::string& expression : each.expressions) command += " '" + expression + "'";
  std::FILE* output = popen((command + " 2>&1").c_str(), "r");
  std::vector<double> seconds;
  std::string said;
  while (std::fgets(text, sizeof text, output) != nullptr) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (end != text && *end == '\n') seconds.push_back(value);
    said += text;
  }
  EXPECT_EQ(pclose(output), 0) << command << '\n' << said;
  return seconds;
}

double by_offbeat(const Case& each, const std::string& text) {
  const SimulatedMachine machine{.intra_alpha = 1e-6,
                                 .intra_beta = 1 / bytes_per_second,
                                 .inter_alpha = 2e-6,
                                 .inter_beta = 1 / bytes_per_second,
                                 .injection_rate = bytes_per_second,
                                 .envelope_bytes = 16,
                                 .eager_bytes = eager_bytes,
                                 .ranks_per_node = each.ranks_per_node};
  const Expression expression = parse_expression(Collective::allreduce, text);
  const PhantomCalls calls(Collective::allreduce, each.bytes, each.ranks());
  Simulator simulator(each.ranks(), machine, {.phantom = true});
  return simulator
      .run([&](int rank, Endpoint net) { return carry_out(net, calls.call_of_rank(rank), expression); }, {},
           expression.lanes())
      .last_exit;
}

void expect_agreement(const Case& each) {
  const std::vector<double> times = by_smpi(each);
  ASSERT_EQ(times.size(), each.expressions.size());
  for (std::size_t k = 0; k < times.size(); ++k) {
    const double ours = by_offbeat(each, each.expressions[k]);
    EXPECT_NEAR(ours, times[k], 0.01 * times[k])
        << each.expressions[k] << ", " << each.nodes << " nodes of " << each.ranks_per_node << " ranks, "
        << each.bytes << " bytes: offbeat " << ours << " s, SMPI " << times[k] << " s";
  }
}

#else

void expect_agreement(const Case&) {
  GTEST_SKIP() << "SimGrid's SMPI is not installed (Debian: libsimgrid-dev)";
}

#endif

TEST(Smpi, AgreesOn1024Ranks) {
  for (const std::size_t bytes : {8u, 1024u, 65536u})
    expect_agreement({32, 32, bytes, {"recursive_doubling", "smp", "nap", "rabenseifner"}});
}

// Short messages: in SMPI all that a rank has sent shares its link, here one message leaves after the other.
TEST(Smpi, AgreesOnNumbersThatAreNoPowersOfTwo) {
  expect_agreement({9, 5, 8, {"recursive_doubling", "smp", "nap", "rabenseifner", "binomial"}});
}

TEST(Smpi, AgreesOnRings) { expect_agreement({8, 16, 65536, {"ring"}}); }

}  // namespace
}  // namespace offbeat
