// SPDX-License-Identifier: BSD-3-Clause
// Every collective on the board with vectors on a device, on all, some and no ranks. Threads stand for
// processes, and the driver is a stub (tests/support/stub_gpu.cpp): the CPU faults at its memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checked_calls.hpp"
#include "groups/board_transport.hpp"
#include "node/board.hpp"
#include "node/device_copies.hpp"
#include "support/stub_gpu.h"
#include "transport/stand_in.hpp"

namespace offbeat {
namespace {

stub_gpu gpu;

// Returns the bytes of a vector, from its first byte to the end of its last block.
std::size_t span_of(const ConstVector& vector, const BlockList& blocks, int ranks) {
  std::size_t bytes = vector.bytes();
  for (int rank = 0; blocks.counts != nullptr && rank < ranks; ++rank) {
    const auto k = static_cast<std::size_t>(rank);
    bytes = std::max(bytes, (static_cast<std::size_t>(blocks.begins[k]) + blocks.counts[k]) * vector.width);
  }
  return bytes;
}

// The vectors of one rank's call, moved to the device.
class OnDevice final : public StandInCopies {
 public:
  OnDevice(Call& call, int ranks) {
    auto* const input = const_cast<std::byte*>(call.input.data);
    std::byte* const output = call.output.data;
    const std::size_t given = input != nullptr ? span_of(call.input, call.input_blocks, ranks) : 0;
    const std::size_t taken = output != nullptr ? span_of(call.output, call.output_blocks, ranks) : 0;
    const bool overlap = given > 0 && taken > 0 && input < output + taken && output < input + given;
    if (taken > 0) {
      std::byte* const begin = overlap ? std::min(input, output) : output;
      const std::size_t bytes = static_cast<std::size_t>(
          (overlap ? std::max(input + given, output + taken) : output + taken) - begin);
      place(output_, begin, bytes);
      call.output.data = output_.there + (output - begin);
      if (overlap) call.input.data = output_.there + (input - begin);
    }
    if (given > 0 && !overlap) {
      place(input_, input, given);
      call.input.data = input_.there;
    }
  }
  ~OnDevice() {
    copies_.abandon();
    for (Part* part : {&input_, &output_}) {
      if (part->there == nullptr) continue;
      gpu.read(part->here, part->there, part->bytes);
      gpu.release(part->there);
    }
  }
  [[nodiscard]] bool copy(std::byte*, const std::byte*, std::size_t) const override { return false; }
  [[nodiscard]] DeviceCopies* device_copies() const override { return &copies_; }

 private:
  struct Part {
    std::byte* here = nullptr;
    std::byte* there = nullptr;
    std::size_t bytes = 0;
  };
  // Nothing but the driver can read `there`. What is here is lost, so that nobody can use it.
  void place(Part& part, std::byte* here, std::size_t bytes) {
    part = {here, static_cast<std::byte*>(gpu.allocate(bytes, STUB_DEVICE)), bytes};
    gpu.write(part.there, here, bytes);
    std::memset(here, 0x33, bytes);
    copies_.use(DeviceMemory::at(part.there), part.there, bytes);
  }
  Part input_;
  Part output_;
  mutable DeviceCopies copies_;
};

enum class Who { none, some, all };

class DeviceCollectives : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    devices::look_for_drivers();
    gpu = stub_load(STUB_CUDA);
    ASSERT_TRUE(devices::may_have_memory());
  }

  // Runs the calls of all ranks, one after the other on one board, and checks each.
  static void run(int ranks, const std::vector<Case>& cases, Who who, bool suspends,
                  std::size_t window_bytes = 32768) {
    const BoardShape shape{ranks, window_bytes};
    void* const memory =
        mmap(nullptr, shape.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    void* const somewhere = gpu.allocate(8, STUB_DEVICE);
    std::optional<HostRegistration> registration;
    registration.emplace(DeviceMemory::at(somewhere), memory, shape.total_bytes());
    ASSERT_TRUE(*registration);
    std::vector<CheckedCalls> calls;
    calls.reserve(cases.size());
    for (const Case& each : cases) calls.emplace_back(ranks, each);
    std::atomic<int> failures{0};
    const auto live = [&](int rank) {
      Patience patience{.shares_cores = true};
      Board board(memory, shape, rank, patience);
      BoardTransport transport(patience);
      transport.use(board);
      board.waiters = &transport;
      for (std::size_t k = 0; k < cases.size(); ++k) {
        const Expression expression = expression_on_board(cases[k].collective);
        Call call = calls[k].args(rank);
        const bool is_on_device = who == Who::all || (who == Who::some && (rank + k) % 2 == 0);
        std::optional<OnDevice> on_device;
        if (is_on_device) on_device.emplace(call, ranks);
        const StandInCopies* const stand_ins = on_device ? &*on_device : nullptr;
        try {
          transport.serve(call.collective);
          Task task = expression.algorithm->run(Endpoint(transport, rank, ranks), call, expression);
          if (suspends) {
            bool got_further = false;
            transport.begin(task, stand_ins);
            while (!transport.advance(task, got_further, HostCalls::none)) sched_yield();
          } else {
            transport.drive(task, stand_ins);
          }
        } catch (const std::exception& error) {
          ADD_FAILURE() << cases[k].text() << ": rank " << rank << ": " << error.what();
          ++failures;
        }
        if (failures > 0) std::abort();  // the others would wait for ever
      }
      EXPECT_EQ(gpu.depth(), 0);
    };
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(live, rank);
    }
    for (std::size_t k = 0; k < cases.size(); ++k) {
      std::vector<std::vector<Bits>> reference;
      EXPECT_EQ(calls[k].problem(reference), "") << cases[k].text();
    }
    registration.reset();
    munmap(memory, shape.total_bytes());
    gpu.release(somewhere);
  }

  static std::vector<Case> cases_of(Collective collective, int ranks) {
    std::vector<Case> cases;
    const Expression expression = expression_on_board(collective);
    for (const std::size_t count : {1, 2500, 12000}) {
      for (const bool in_place : {false, true}) {
        if (in_place && !works_in_place(collective, expression)) continue;
        const int root = facts_of(collective).has_root ? static_cast<int>(count) % ranks : 0;
        cases.push_back({collective, count, root, Operation::int_sum, in_place});
      }
    }
    return cases;
  }
};

TEST_F(DeviceCollectives, AreRightWhereverTheVectorsAre) {
  gpu.delay(5);
  for (const int ranks : {2, 3}) {
    for (const Collective collective : checked_collectives) {
      if (!may_have_stand_ins(*expression_on_board(collective).algorithm, false, collective)) continue;
      for (const Who who : {Who::none, Who::some, Who::all}) {
        SCOPED_TRACE(std::string(name_of(collective)) + " of " + std::to_string(ranks) + " ranks");
        const long copies = gpu.calls(STUB_READ) + gpu.calls(STUB_WRITE);
        for (const bool suspends : {false, true}) {
          if (who != Who::none || suspends) run(ranks, cases_of(collective, ranks), who, suspends);
        }
        const bool has_copied = gpu.calls(STUB_READ) + gpu.calls(STUB_WRITE) > copies;
        EXPECT_EQ(has_copied, who != Who::none);
      }
    }
  }
  gpu.delay(0);
}

// Beyond 16 ranks results go down trees, and a reduction has more operands than one computation takes.
TEST_F(DeviceCollectives, AreRightAmongManyRanks) {
  constexpr int ranks = 18;
  for (const Collective collective :
       {Collective::allreduce, Collective::bcast, Collective::reduce_scatter_block, Collective::scan}) {
    SCOPED_TRACE(name_of(collective));
    run(ranks, {{collective, 3000, 0}, {collective, 3000, 0, Operation::int_sum, true}}, Who::some, false);
  }
}

// No rank waits for a copy while the driver could make others.
TEST_F(DeviceCollectives, HaveSeveralCopiesUnderWay) {
  gpu.delay(300);
  run(2, {{Collective::allreduce, std::size_t{1} << 18}}, Who::all, false, std::size_t{1} << 20);
  gpu.delay(0);
  EXPECT_GE(gpu.calls(STUB_AT_ONCE), 8);
}

}  // namespace
}  // namespace offbeat
