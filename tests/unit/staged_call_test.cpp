// SPDX-License-Identifier: BSD-3-Clause
#include "collectives/staged_call.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "support/stub_gpu.h"

namespace offbeat {
namespace {

class StagedCallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    devices::look_for_drivers();
    gpu = stub_load(STUB_CUDA);
    ASSERT_TRUE(devices::may_have_memory());
  }
  static stub_gpu gpu;

  // Allocates bytes of the GPU, all equal to `value`.
  static std::byte* on_gpu(std::size_t bytes, int value) {
    void* const memory = gpu.allocate(bytes, STUB_DEVICE);
    const std::vector<std::byte> all(bytes, std::byte(value));
    gpu.write(memory, all.data(), bytes);
    return static_cast<std::byte*>(memory);
  }
  static int at(const std::byte* address) {
    std::byte value{};
    gpu.read(&value, address, 1);
    return static_cast<int>(value);
  }
};
stub_gpu StagedCallTest::gpu;

TEST_F(StagedCallTest, LeavesHostMemoryAlone) {
  std::byte input[8];
  std::byte output[8];
  Call call{Collective::allreduce, {input, 8, 1}, {output, 8, 1}};
  StagedCall staged;
  staged.stage_vectors(call);
  staged.fetch_input();
  staged.deliver_output();
  EXPECT_EQ(call.input.data, input);
  EXPECT_EQ(call.output.data, output);
}

TEST_F(StagedCallTest, CopiesTheInputInAndTheOutputOut) {
  std::byte* const input = on_gpu(8, 3);
  std::byte* const output = on_gpu(8, 4);
  Call call{Collective::allreduce, {input, 8, 1}, {output, 8, 1}};
  StagedCall staged;
  staged.stage_vectors(call);
  for (int start = 0; start < 3; ++start) {
    staged.fetch_input();
    EXPECT_EQ(static_cast<int>(call.input.data[7]), 3 + start);
    std::memset(call.output.data, 40 + start, 8);
    staged.deliver_output();
    EXPECT_EQ(at(output + 7), 40 + start);
    EXPECT_EQ(at(input), 3 + start);
    const std::vector<std::byte> next(8, std::byte(4 + start));
    gpu.write(input, next.data(), 8);
  }
}

TEST_F(StagedCallTest, EitherSideMayBeInHostMemory) {
  std::byte here[8] = {};
  std::byte* const there = on_gpu(8, 5);
  {
    Call call{Collective::allreduce, {there, 8, 1}, {here, 8, 1}};
    StagedCall staged;
    staged.stage_vectors(call);
    staged.fetch_input();
    EXPECT_EQ(static_cast<int>(call.input.data[0]), 5);
    EXPECT_EQ(call.output.data, here);
  }
  Call call{Collective::allreduce, {here, 8, 1}, {there, 8, 1}};
  StagedCall staged;
  staged.stage_vectors(call);
  EXPECT_EQ(call.input.data, here);
  std::memset(call.output.data, 6, 8);
  staged.deliver_output();
  EXPECT_EQ(at(there), 6);
}

// In a reduce-scatter in place, the input is longer than the output and begins at the same address. In an
// allgather in place, the input is a part of the output.
TEST_F(StagedCallTest, InPlaceStaysInPlace) {
  for (const std::size_t begin : {0, 8}) {
    std::byte* const memory = on_gpu(24, 7);
    const std::size_t given = begin == 0 ? 24 : 8;
    const std::size_t taken = begin == 0 ? 8 : 24;
    Call call{Collective::allgather, {memory + begin, given, 1}, {memory, taken, 1}};
    StagedCall staged;
    staged.stage_vectors(call);
    EXPECT_EQ(call.input.data, call.output.data + begin);
    staged.fetch_input();
    EXPECT_EQ(static_cast<int>(call.input.data[given - 1]), 7);
    std::memset(call.output.data, 8, taken);
    staged.deliver_output();
    EXPECT_EQ(at(memory + taken - 1), 8);
    if (begin == 0) {
      EXPECT_EQ(at(memory + taken), 7) << "behind the output";
    }
  }
}

TEST_F(StagedCallTest, TheRootOfABroadcastOnlyGives) {
  std::byte* const memory = on_gpu(8, 9);
  Call call{Collective::bcast, {memory, 8, 1}, {memory, 8, 1}};
  StagedCall staged;
  staged.stage_vectors(call);
  staged.fetch_input();
  EXPECT_EQ(call.input.data, call.output.data);
  EXPECT_EQ(static_cast<int>(call.input.data[0]), 9);
  const long written = gpu.calls(STUB_WRITE);
  staged.deliver_output();
  EXPECT_EQ(gpu.calls(STUB_WRITE), written);
}

TEST_F(StagedCallTest, ALongVectorStaysIfItMay) {
  const std::size_t length = DeviceCopies::shortest_in_parts;
  for (const std::size_t bytes : {length - 1, length}) {
    for (const bool may_stay : {false, true}) {
      std::byte* const input = on_gpu(bytes, 3);
      std::byte* const output = on_gpu(8, 4);
      Call call{Collective::reduce_scatter_block, {input, bytes, 1}, {output, 8, 1}};
      StagedCall staged;
      staged.stage_vectors(call, may_stay);
      const bool stays = may_stay && bytes == length;
      EXPECT_EQ(call.input.data == input, stays);
      EXPECT_EQ(staged.device_copies()->device_in_use() != nullptr, stays);
      EXPECT_NE(call.output.data, output) << "too short";
      const long read = gpu.calls(STUB_READ);
      staged.fetch_input();
      EXPECT_EQ(gpu.calls(STUB_READ), read + (stays ? 0 : 1));
    }
  }
}

// In place, both vectors stay if one of them is long, unless the input has to be apart.
TEST_F(StagedCallTest, VectorsInOneMemoryStayTogether) {
  const std::size_t bytes = 2 * DeviceCopies::shortest_in_parts;
  std::byte* const memory = on_gpu(bytes, 3);
  for (const bool may_stay : {true, false}) {
    Call call{Collective::reduce_scatter_block, {memory, bytes, 1}, {memory, 8, 1}};
    StagedCall staged;
    staged.stage_vectors(call, may_stay, true);
    EXPECT_EQ(call.output.data == memory, may_stay);
    EXPECT_EQ(call.input.data == call.output.data, may_stay);
    EXPECT_EQ(staged.has_input_apart(), !may_stay);
  }
}

TEST_F(StagedCallTest, AnOperationWaitsForNoCopy) {
  gpu.delay(20'000);
  std::byte* const input = on_gpu(8, 3);
  std::byte* const output = on_gpu(8, 4);
  Call call{Collective::allreduce, {input, 8, 1}, {output, 8, 1}};
  StagedCall staged;
  staged.stage_vectors(call);
  DeviceCopies& copies = *staged.device_copies();
  const long blocking = gpu.calls(STUB_BLOCKING);
  staged.begin_fetch();
  EXPECT_FALSE(copies.are_copies_complete());
  copies.wait_for_copies();
  EXPECT_EQ(static_cast<int>(call.input.data[7]), 3);
  std::memset(call.output.data, 40, 8);
  staged.begin_delivery();
  EXPECT_FALSE(copies.are_copies_complete());
  copies.wait_for_copies();
  EXPECT_EQ(at(output + 7), 40);
  EXPECT_EQ(gpu.calls(STUB_BLOCKING), blocking);
  gpu.delay(0);
}

TEST_F(StagedCallTest, ARankMayHaveNoInputOrNoOutput) {
  std::byte* const memory = on_gpu(8, 10);
  for (const bool gives : {false, true}) {
    Call call{Collective::reduce, {gives ? memory : nullptr, 8, 1}, {gives ? nullptr : memory, 8, 1}};
    StagedCall staged;
    staged.stage_vectors(call);
    staged.fetch_input();
    staged.deliver_output();
    EXPECT_EQ(call.input.data != nullptr, gives);
    EXPECT_EQ(call.output.data != nullptr, !gives);
  }
}

}  // namespace
}  // namespace offbeat
