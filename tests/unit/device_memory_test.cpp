// SPDX-License-Identifier: BSD-3-Clause
#include "node/device_memory.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "support/stub_gpu.h"

namespace offbeat {
namespace {

// Drivers stay in a process, so each test has one of its own.
template <class Body>
void in_a_process(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

bool is_on_device(const void* address) {
  return devices::may_have_memory() && static_cast<bool>(DeviceMemory::at(address));
}

const char* const all_drivers[] = {STUB_CUDA, STUB_HIP_5, STUB_HIP_6};

class Drivers : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Drivers, testing::ValuesIn(all_drivers));

TEST(DeviceMemory, IsNotLookedForUnlessTold) {
  in_a_process([] {
    const stub_gpu gpu = stub_load(STUB_CUDA);
    EXPECT_FALSE(is_on_device(gpu.allocate(8, STUB_DEVICE)));
    EXPECT_FALSE(devices::has_level_zero());
  });
}

TEST(DeviceMemory, NeedsADriver) {
  in_a_process([] {
    devices::look_for_drivers();
    EXPECT_FALSE(devices::may_have_memory());
    // The next call takes the short path.
    EXPECT_EQ(*devices::libraries.loaded.load(), devices::libraries.seen.load());
  });
}

// glibc's linker has constants between 6 and 9, with which some of these counts agree.
TEST(DeviceMemory, KnowsTheCountOfLibrariesWhateverItIs) {
  in_a_process([] {
    static const std::uint64_t none = 0;
    devices::look_for_drivers();
    for (int more = 0; more < 8; ++more) {
      devices::libraries.loaded = &none;  // so that it is looked for again
      const std::string copy = testing::TempDir() + "copy" + std::to_string(more) + ".so";
      std::filesystem::copy_file(STUB_OTHER, copy, std::filesystem::copy_options::overwrite_existing);
      ASSERT_NE(dlopen(copy.c_str(), RTLD_NOW), nullptr) << dlerror();
      std::filesystem::remove(copy);
      EXPECT_FALSE(devices::may_have_memory());
      EXPECT_EQ(*devices::libraries.loaded.load(), devices::libraries.seen.load()) << more;
    }
  });
}

TEST_P(Drivers, AreFoundThoughTheyComeLateAndPrivately) {
  in_a_process([] {
    devices::look_for_drivers();
    int here = 0;
    EXPECT_FALSE(is_on_device(&here));
    ASSERT_NE(dlopen(STUB_OTHER, RTLD_NOW), nullptr);
    EXPECT_FALSE(is_on_device(&here));
    EXPECT_EQ(*devices::libraries.loaded.load(), devices::libraries.seen.load());
    const stub_gpu gpu = stub_load(GetParam());
    void* const there = gpu.allocate(8, STUB_DEVICE);
    EXPECT_TRUE(is_on_device(there));
    EXPECT_FALSE(is_on_device(&here));
    EXPECT_TRUE(is_on_device(there));
  });
}

TEST_P(Drivers, AreFoundByWhoeverHasNoCountOfLibraries) {
  in_a_process([] {
    devices::look_for_drivers();
    const auto forget_counter = [] {
      static const std::uint64_t none = 0;
      devices::libraries.loaded = &none;
    };
    EXPECT_FALSE(devices::may_have_memory());
    forget_counter();
    EXPECT_FALSE(devices::may_have_memory());
    const stub_gpu gpu = stub_load(GetParam());
    forget_counter();
    EXPECT_TRUE(is_on_device(gpu.allocate(8, STUB_DEVICE)));
  });
}

TEST_P(Drivers, CopyWhatTheCpuMayNotTouch) {
  in_a_process([] {
    devices::look_for_drivers();
    const stub_gpu gpu = stub_load(GetParam());
    std::vector<int> numbers(5000);
    for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = static_cast<int>(k * k);
    const std::size_t bytes = numbers.size() * sizeof(int);
    for (const stub_kind kind : {STUB_DEVICE, STUB_POOL}) {
      auto* const there = static_cast<int*>(gpu.allocate(bytes, kind));
      ASSERT_TRUE(is_on_device(there));
      const DeviceMemory memory = DeviceMemory::at(there + 7);
      memory.write(there, numbers.data(), bytes);
      std::vector<int> result(numbers.size());
      memory.read(result.data() + 1, there + 1, bytes - sizeof(int));
      EXPECT_EQ(result[0], 0);
      EXPECT_TRUE(std::equal(result.begin() + 1, result.end(), numbers.begin() + 1));
      gpu.read(result.data(), there, bytes);
      EXPECT_EQ(result, numbers);
      EXPECT_EQ(gpu.depth(), 0);
      gpu.release(there);
      EXPECT_FALSE(is_on_device(there));
    }
  });
}

TEST_P(Drivers, LeaveWhatTheCpuCanRead) {
  in_a_process([] {
    devices::look_for_drivers();
    const stub_gpu gpu = stub_load(GetParam());
    EXPECT_FALSE(is_on_device(gpu.allocate(8, STUB_MANAGED)));
    EXPECT_FALSE(is_on_device(gpu.allocate(8, STUB_REGISTERED)));
    EXPECT_FALSE(is_on_device(nullptr));
    EXPECT_GT(gpu.calls(STUB_QUERY), 0);
  });
}

TEST_P(Drivers, ThatDoNotAnswerHaveNoMemory) {
  in_a_process([] {
    devices::look_for_drivers();
    const stub_gpu gpu = stub_load(GetParam());
    void* const there = gpu.allocate(8, STUB_DEVICE);
    for (const int code : {1, 3, 4, 700}) {
      gpu.fail(STUB_QUERY, code);
      EXPECT_FALSE(is_on_device(there));
    }
    gpu.fail(STUB_QUERY, 0);
    EXPECT_TRUE(is_on_device(there));
  });
}

TEST_P(Drivers, FailWithALine) {
  in_a_process([] {
    devices::look_for_drivers();
    const stub_gpu gpu = stub_load(GetParam());
    void* const there = gpu.allocate(8, STUB_DEVICE);
    ASSERT_TRUE(is_on_device(there));
    const DeviceMemory memory = DeviceMemory::at(there);
    std::array<char, 8> here{};
    const auto message = [&](auto&& copy) {
      try {
        copy();
      } catch (const CommunicationError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    gpu.fail(STUB_READ, 719);
    gpu.fail(STUB_WRITE, 2);
    EXPECT_TRUE(message([&] { memory.read(here.data(), there, 8); }).ends_with(" fails with error 719"));
    EXPECT_TRUE(message([&] { memory.write(there, here.data(), 8); }).ends_with(" fails with error 2"));
    EXPECT_EQ(gpu.depth(), 0);
  });
}

TEST(DeviceMemory, MayBelongToOneOfSeveralDrivers) {
  in_a_process([] {
    devices::look_for_drivers();
    const stub_gpu hip = stub_load(STUB_HIP_6);
    void* const of_hip = hip.allocate(8, STUB_DEVICE);
    EXPECT_TRUE(is_on_device(of_hip));
    const stub_gpu cuda = stub_load(STUB_CUDA);
    void* const of_cuda = cuda.allocate(8, STUB_DEVICE);
    EXPECT_TRUE(is_on_device(of_cuda));
    EXPECT_TRUE(is_on_device(of_hip));
    const int value[2] = {11, 12};
    DeviceMemory::at(of_cuda).write(of_cuda, value, 4);
    DeviceMemory::at(of_hip).write(of_hip, value + 1, 4);
    int result = 0;
    cuda.read(&result, of_cuda, 4);
    EXPECT_EQ(result, 11);
    hip.read(&result, of_hip, 4);
    EXPECT_EQ(result, 12);
  });
}

// A program checks hipGetLastError after its own calls.
TEST(DeviceMemory, HipKeepsTheErrorsOfTheProgramOnly) {
  in_a_process([] {
    devices::look_for_drivers();
    const stub_gpu gpu = stub_load(STUB_HIP_6);
    void* const library = dlopen(STUB_HIP_6, RTLD_NOW | RTLD_NOLOAD);
    const auto last_error = reinterpret_cast<int (*)()>(dlsym(library, "hipGetLastError"));
    const auto ask = reinterpret_cast<int (*)(void*, int, void*)>(dlsym(library, "hipPointerGetAttribute"));
    ASSERT_NE(last_error, nullptr);
    int on_host = 0;
    EXPECT_FALSE(is_on_device(&on_host));
    EXPECT_EQ(last_error(), 0);
    unsigned value = 0;
    EXPECT_NE(ask(&value, 2, &on_host), 0);  // the program's own mistake
    EXPECT_FALSE(is_on_device(&on_host));
    EXPECT_NE(last_error(), 0);
    EXPECT_GT(gpu.calls(STUB_QUERY), 1);
  });
}

TEST(DeviceMemory, LevelZeroIsSeen) {
  in_a_process([] {
    devices::look_for_drivers();
    EXPECT_FALSE(devices::has_level_zero());
    ASSERT_NE(dlopen(STUB_LEVEL_ZERO, RTLD_NOW | RTLD_LOCAL), nullptr);
    EXPECT_TRUE(devices::has_level_zero());
    EXPECT_FALSE(devices::may_have_memory());
  });
}

// If a driver comes while other threads ask, the thread that has the memory sees it.
TEST(DeviceMemory, MayComeWhileThreadsAsk) {
  in_a_process([] {
    devices::look_for_drivers();
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (int k = 0; k < 3; ++k) {
      threads.emplace_back([&] {
        int here = 0;
        while (!is_over) EXPECT_FALSE(is_on_device(&here));
      });
    }
    const char* const others[] = {STUB_OTHER, STUB_LEVEL_ZERO};
    for (int round = 0; round < 200; ++round) {
      for (const char* other : others) dlclose(dlopen(other, RTLD_NOW));
    }
    const stub_gpu gpu = stub_load(STUB_CUDA);
    EXPECT_TRUE(is_on_device(gpu.allocate(8, STUB_DEVICE)));
    is_over = true;
    for (std::thread& each : threads) each.join();
  });
}

}  // namespace
}  // namespace offbeat
