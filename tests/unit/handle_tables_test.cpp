// SPDX-License-Identifier: BSD-3-Clause
#include "base/handle_tables.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

// Outgrown tables are never freed.
extern "C" const char* __lsan_default_suppressions() { return "leak:offbeat::SharedHandleTable"; }

namespace offbeat {
namespace {

TEST(SharedHandleTable, FindsWhatIsThere) {
  SharedHandleTable<int> table;
  std::vector<int> values(500);
  std::unordered_map<Handle, int*> expected;
  std::mt19937 random(1);
  EXPECT_EQ(table.find(7), nullptr);
  for (int step = 0; step < 20'000; ++step) {
    const Handle handle = 1 + random() % values.size();
    if (expected.contains(handle)) {
      table.erase(handle);
      expected.erase(handle);
    } else {
      table.reserve();
      table.insert(handle, values[handle - 1]);
      expected[handle] = &values[handle - 1];
    }
    const Handle other = 1 + random() % values.size();
    EXPECT_EQ(table.find(other), expected.contains(other) ? expected[other] : nullptr);
  }
  std::size_t count = 0;
  table.for_each([&](int&) { ++count; });
  EXPECT_EQ(count, expected.size());
}

TEST(SharedHandleTable, ReadersFindWhatStaysWhileOthersComeAndGo) {
  constexpr Handle kept = 64;
  SharedHandleTable<Handle> table;
  std::vector<Handle> values(20 * kept);
  for (Handle handle = 1; handle < values.size(); ++handle) values[handle] = handle;
  for (Handle handle = 1; handle <= kept; ++handle) {
    table.reserve();
    table.insert(handle, values[handle]);
  }
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!is_over) {
      for (Handle handle = 1; handle <= kept; ++handle) {
        const Handle* found = table.find(handle);
        if (found == nullptr || *found != handle) ++wrong;
      }
    }
  });
  for (int round = 0; round < 20; ++round) {
    for (Handle handle = kept + 1; handle < values.size(); ++handle) {
      table.reserve();
      table.insert(handle, values[handle]);
    }
    for (Handle handle = kept + 1; handle < values.size(); ++handle) table.erase(handle);
  }
  is_over = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
}

TEST(SharedHandleTable, InsertsWithoutMemoryThatWasReserved) {
  SharedHandleTable<int> table;
  int value = 0;
  for (int i = 0; i < 1000; ++i) table.reserve();
  for (int i = 0; i < 500; ++i) table.cancel_reservation();
  for (Handle handle = 1; handle <= 500; ++handle) table.insert(handle, value);
  EXPECT_EQ(table.find(500), &value);
}

}  // namespace
}  // namespace offbeat
