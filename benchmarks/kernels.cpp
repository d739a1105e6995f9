// SPDX-License-Identifier: BSD-3-Clause
// How close the reduction kernels come to the memory: bytes read and written per second, beside memcpy.
#include "reduction/kernels.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace offbeat;

constexpr std::size_t most_operands = 8;
constexpr std::array<std::size_t, 3> operand_counts = {2, 4, 8};
constexpr std::array<std::size_t, 3> sizes_bytes = {std::size_t{4} << 10, std::size_t{256} << 10,
                                                    std::size_t{16} << 20};
constexpr std::size_t repeats = 11;
constexpr std::size_t bytes_per_repeat = std::size_t{64} << 20;

// The median over repeats, each long enough for the clock.
template <class Function>
double gigabytes_per_second(std::size_t bytes_per_call, Function function) {
  using Clock = std::chrono::steady_clock;
  const std::size_t calls = std::max<std::size_t>(1, bytes_per_repeat / bytes_per_call);
  std::array<double, repeats> results{};
  function();
  for (double& result : results) {
    const auto start = Clock::now();
    for (std::size_t call = 0; call < calls; ++call) function();
    const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
    result = static_cast<double>(calls * bytes_per_call) / elapsed.count();
  }
  std::nth_element(results.begin(), results.begin() + repeats / 2, results.end());
  return results[repeats / 2];
}

// Zeros: sums stay zero, so that no repeat is slowed down by infinities or subnormals.
// Each buffer starts a cache line later than the one before, lest all of them fall into one cache set.
class Buffers {
 public:
  explicit Buffers(std::size_t size_bytes) {
    for (std::size_t k = 0; k <= most_operands; ++k) {
      storage_[k].resize(size_bytes + 64 * (most_operands + 2));
      const auto address = reinterpret_cast<std::uintptr_t>(storage_[k].data());
      starts_[k] = storage_[k].data() + (4096 - address % 4096) % 64 + 64 * k;
    }
  }
  void* destination() const { return starts_[most_operands]; }
  const void* const* operands() const { return starts_.data(); }

 private:
  std::array<std::vector<std::byte>, most_operands + 1> storage_;
  std::array<void*, most_operands + 1> starts_{};
};

void run(std::size_t size_bytes) {
  const Buffers buffers(size_bytes);
  std::printf("\n%zu KiB per operand, GB/s\n", size_bytes >> 10);
  const double copied = gigabytes_per_second(2 * size_bytes, [&] {
    std::memcpy(buffers.destination(), buffers.operands()[0], size_bytes);
    asm volatile("" : : "r"(buffers.destination()) : "memory");
  });
  std::printf("  %-9s %-9s %8.1f\n", "memcpy", "", copied);
  for (const auto type :
       {ElementType::float32, ElementType::float64, ElementType::float16, ElementType::bfloat16}) {
    for (const auto set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
      const Kernels kernels = find_kernels(set, type, ReduceOp::sum);
      if (!kernels) continue;
      std::printf("  %-9s %-9s", name_of(type).data(), name_of(set).data());
      for (const std::size_t operand_count : operand_counts) {
        std::printf(" %8.1f", gigabytes_per_second((operand_count + 1) * size_bytes, [&] {
                      combine(kernels, width_of(type), buffers.destination(), buffers.operands(),
                              operand_count, size_bytes / width_of(type));
                    }));
      }
      std::printf("\n");
    }
  }
}

}  // namespace

int main() {
  std::printf("sum of 2, 4 and 8 operands; best instruction set here: %s\n",
              name_of(instruction_set()).data());
  for (const std::size_t size_bytes : sizes_bytes) run(size_bytes);
}
