// SPDX-License-Identifier: BSD-3-Clause
// Endpoints that linger, and a fork while another thread has a lock of libfabric's networks.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/settings.hpp"
#include "base/time.hpp"
#include "groups/fabric_lingering.hpp"
#include "groups/fabric_network.hpp"
#include "groups/group_process.hpp"

namespace offbeat {
namespace {

// Forks again and again while a thread uses a lock, and uses it in each child. A child that finds it locked
// is killed by its alarm.
template <class Use>
std::string trouble_in_children(Use use) {
  static_cast<void>(GroupProcess::fork_generation());  // links the handlers of fork()
  const std::jthread other([&](const std::stop_token& end) {
    while (!end.stop_requested()) use();
  });
  for (int time = 0; time < 200; ++time) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      use();
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return "no child";
    if (status != 0) return "child " + std::to_string(time) + " has status " + std::to_string(status);
  }
  return "";
}

TEST(FabricForks, AChildFindsTheListOfNetworksUnlocked) {
  const Settings settings;
  EXPECT_EQ(trouble_in_children([&] { const FabricNetwork network(settings); }), "");
}

TEST(FabricForks, AChildFindsTheLingeringEndpointsUnlocked) {
  EXPECT_EQ(trouble_in_children([] { LingeringEndpoints::of_process().poll(); }), "");
}

// A signal handler may call exit() while its thread has the lock.
TEST(FabricForks, AnExitHandlerDoesNotWaitForeverForTheLingeringEndpoints) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    LingeringEndpoints endpoints;
    endpoints.prepare_fork();  // locks
    endpoints.wait();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Counts the completion queues that are closed.
int closed = 0;

TEST(LingeringEndpoints, AreNotClosedBeforeTheirTimeHoweverManyThereAre) {
  fi_ops ends{};
  ends.close = [](fid*) { return ++closed, 0; };
  fi_ops_cq reads{};
  reads.read = [](fid_cq*, void*, std::size_t) -> ssize_t { return -FI_EAGAIN; };
  std::array<fid_cq, 20> queues{};
  LingeringEndpoints endpoints;
  const std::int64_t begin_ns = monotonic_ns();
  for (fid_cq& each : queues) {
    each.fid.ops = &ends;
    each.ops = &reads;
    auto endpoint = std::make_unique<FabricEndpoint>();
    endpoint->completions.reset(&each);
    endpoints.add(std::move(endpoint));
    EXPECT_TRUE(closed == 0 || monotonic_ns() - begin_ns > ns_per_s) << closed;
  }
  EXPECT_GT(closed, 0);
  EXPECT_LT(closed, 20);
}

// What a thread that waits for messages does.
TEST(FabricForks, AChildFindsANetworkUnlocked) {
  const Settings settings;
  FabricNetwork network(settings);
  EXPECT_EQ(trouble_in_children([&] { static_cast<void>(network.awaited_ranks()); }), "");
}

}  // namespace
}  // namespace offbeat
