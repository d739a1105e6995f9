// SPDX-License-Identifier: BSD-3-Clause
#include "node/device_copies.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "support/stub_gpu.h"

namespace offbeat {
namespace {

// The stub stays in the process. So each test asks for differences.
class DeviceCopiesTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::size_t size = std::size_t{1} << 20;

  void SetUp() override {
    devices::look_for_drivers();
    gpu = stub_load(GetParam());
    ASSERT_TRUE(devices::may_have_memory());
    there = static_cast<std::byte*>(gpu.allocate(size, STUB_DEVICE));
    memory = DeviceMemory::at(there);
    std::vector<std::byte> values(size);
    for (std::size_t k = 0; k < size; ++k) values[k] = std::byte(k * 7 + k / 251);
    gpu.write(there, values.data(), size);
    expected = values;
    window.emplace(memory, size);
    for (int kind = 0; kind < STUB_CALLS; ++kind) before[kind] = gpu.calls(static_cast<stub_call>(kind));
  }
  void TearDown() override {
    gpu.delay(0);
    gpu.allow(-1);
    for (int kind = 0; kind < STUB_CALLS; ++kind) gpu.fail(static_cast<stub_call>(kind), 0);
    gpu.release(there);
  }
  [[nodiscard]] static bool is_cuda() { return std::string(GetParam()) == STUB_CUDA; }
  [[nodiscard]] long calls(stub_call kind) const { return gpu.calls(kind) - before[kind]; }

  static Computation copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    return {.transport = nullptr,
            .reduction = nullptr,
            .destination = {to, bytes, 1},
            .operands = {from},
            .operand_count = 1};
  }
  static void finish(DeviceCopies& copies, Computation& computation) {
    if (copies.begin(computation)) return;
    while (!copies.advance()) sched_yield();
  }

  stub_gpu gpu{};
  std::byte* there = nullptr;
  DeviceMemory memory;
  std::optional<PinnedBlock> window;
  std::vector<std::byte> expected;
  long before[STUB_CALLS]{};
};
INSTANTIATE_TEST_SUITE_P(, DeviceCopiesTest, testing::Values(STUB_CUDA, STUB_HIP_6));

// The first part is there while the others are on their way.
TEST_P(DeviceCopiesTest, TheFirstPartIsUsedWhileOthersAreOnTheirWay) {
  gpu.allow(1);
  DeviceCopies copies;
  copies.use(memory, there, size);
  copies.prefetch({there, size, 1}, {window->data(), size, 1});
  EXPECT_EQ(calls(STUB_READ), 8);
  Computation first = copy(window->data(), there, 65536);
  ASSERT_TRUE(copies.uses_device_parts(first));
  finish(copies, first);
  EXPECT_EQ(std::memcmp(window->data(), expected.data(), 65536), 0);
  EXPECT_FALSE(copies.are_copies_complete());
  gpu.allow(-1);
  Computation last = copy(window->data() + size - 65536, there + size - 65536, 65536);
  finish(copies, last);
  EXPECT_EQ(std::memcmp(window->data(), expected.data(), size), 0);
  EXPECT_EQ(calls(STUB_READ), 8) << "what was brought is not copied again";
  EXPECT_EQ(calls(STUB_BLOCKING), 0);
}

TEST_P(DeviceCopiesTest, ACopyToTheDeviceEndsWhenTheRoundDoes) {
  gpu.delay(3000);
  DeviceCopies copies;
  copies.use(memory, there, size);
  std::memset(window->data(), 5, 1000);
  Computation result = copy(there, window->data(), 1000);
  EXPECT_TRUE(copies.begin(result));
  EXPECT_FALSE(copies.are_copies_complete());
  copies.wait_for_copies();
  std::byte value{};
  gpu.read(&value, there + 999, 1);
  EXPECT_EQ(value, std::byte{5});
  Computation urgent = copy(there, window->data(), 1000);
  urgent.source_changes = true;
  finish(copies, urgent);
  EXPECT_TRUE(copies.are_copies_complete());
}

TEST_P(DeviceCopiesTest, WhatWasWrittenIsReadAgain) {
  gpu.delay(1000);
  DeviceCopies copies;
  copies.use(memory, there, size);
  copies.prefetch({there, 4096, 1}, {window->data(), 4096, 1});
  std::byte* const source = window->data() + 8192;
  std::memset(source, 9, 4096);
  for (int k = 0; k < 3; ++k) {  // the last one ends later than a copy that waits for none
    Computation write = copy(there, source, 4096);
    EXPECT_TRUE(copies.begin(write));
  }
  std::byte* const target = window->data() + 16384;
  Computation read = copy(target, there, 4096);
  finish(copies, read);
  EXPECT_EQ(target[4095], std::byte{9});
}

TEST_P(DeviceCopiesTest, ARefusedRegistrationCostsOnlyTime) {
  gpu.fail(STUB_REGISTER, 801);
  const PinnedBlock block(memory, size * 2);
  DeviceCopies copies;
  copies.use(memory, there, size);
  copies.prefetch({there, size, 1}, {block.data(), size, 1});
  Computation all = copy(block.data(), there, 65536);
  finish(copies, all);
  copies.wait_for_copies();
  EXPECT_EQ(std::memcmp(block.data(), expected.data(), size), 0);
  EXPECT_EQ(calls(STUB_REGISTER), 1);
  EXPECT_EQ(calls(STUB_BLOCKING), 8);
}

TEST_P(DeviceCopiesTest, BlocksAreRegisteredOnce) {
  for (int k = 0; k < 5; ++k) const PinnedBlock block(memory, 3 * 65536);
  EXPECT_LE(calls(STUB_REGISTER), 1);
  EXPECT_EQ(calls(STUB_FORGET), 0);
}

TEST_P(DeviceCopiesTest, AFailedCopyIsOneError) {
  const auto message = [](auto&& body) {
    try {
      body();
    } catch (const CommunicationError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  DeviceCopies copies;
  copies.use(memory, there, size);
  Computation read = copy(window->data(), there, 4096);
  gpu.fail(STUB_READ, 719);
  EXPECT_EQ(message([&] { static_cast<void>(copies.begin(read)); }),
            "device memory cannot be copied: " +
                std::string(is_cuda() ? "cuMemcpyDtoHAsync" : "hipMemcpyAsync") + " fails with error 719");
  gpu.fail(STUB_READ, 0);
  gpu.delay(1000);
  gpu.fail(STUB_RECORD, 700);
  EXPECT_EQ(message([&] { static_cast<void>(copies.begin(read)); }),
            "device memory cannot be copied: " + std::string(is_cuda() ? "cuEventRecord" : "hipEventRecord") +
                " fails with error 700");
  EXPECT_EQ(calls(STUB_BLOCKING), 1) << "no copy goes on whose memory nobody keeps";
  gpu.fail(STUB_RECORD, 0);
  ASSERT_FALSE(copies.begin(read));
  gpu.fail(STUB_EVENT, 700);
  EXPECT_EQ(message([&] { copies.advance(); }),
            "device memory cannot be copied: " + std::string(is_cuda() ? "cuEventQuery" : "hipEventQuery") +
                " fails with error 700");
  gpu.fail(STUB_EVENT, 0);
  copies.abandon();
  EXPECT_TRUE(copies.are_copies_complete());
  EXPECT_EQ(gpu.depth(), 0);
}

}  // namespace
}  // namespace offbeat
