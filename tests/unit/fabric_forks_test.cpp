// SPDX-License-Identifier: BSD-3-Clause
// A fork while another thread has a lock of libfabric's networks.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stop_token>
#include <string>
#include <thread>

#include "base/settings.hpp"
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

// What a thread that waits for messages does.
TEST(FabricForks, AChildFindsANetworkUnlocked) {
  const Settings settings;
  FabricNetwork network(settings);
  EXPECT_EQ(trouble_in_children([&] { static_cast<void>(network.awaited_ranks()); }), "");
}

}  // namespace
}  // namespace offbeat
