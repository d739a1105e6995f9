// SPDX-License-Identifier: BSD-3-Clause
// How to fill windows: two processes, each on a core, exchange n bytes through shared memory again and again.
// Each writes a window of its own every time, by copy, by copy_to_shared, by copy_past_cache, or by what
// SharedCopies learns of the latter two; or the two swap windows after each exchange, so that a core writes
// where it has read last. The first line is how far the cores are from each other.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "base/copy.hpp"
#include "node/shared_copies.hpp"
#include "processes.hpp"

using offbeat::now_us;

namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20;
constexpr int repeats = 501;

struct Shared {
  struct alignas(64) Word {
    std::atomic<long> value;
  };
  Word written[2];
  Word read[2];
  alignas(4096) std::byte windows[2][2][most_bytes];
};

void set_and_wait(Shared::Word (&words)[2], int me, long value) {
  words[me].value.store(value, std::memory_order_release);
  while (words[1 - me].value.load(std::memory_order_acquire) < value) offbeat::relax();
}

enum class Way { own, own_to_shared, own_past_cache, own_learnt, swapped };

void put(Way way, offbeat::SharedCopies& learnt, void* to, const void* from, std::size_t bytes) {
  switch (way) {
    case Way::own_to_shared:
      return offbeat::copy_to_shared(to, from, bytes);
    case Way::own_past_cache:
      return offbeat::copy_past_cache(to, from, bytes);
    case Way::own_learnt:
      return learnt.copy(to, from, bytes);
    default:
      offbeat::copy(to, from, bytes);
  }
}

// The median time of one exchange.
double exchange(Shared& shared, int me, std::size_t bytes, Way way, long& number) {
  const bool swaps = way == Way::swapped;
  std::vector<std::byte> mine(bytes);
  std::vector<std::byte> theirs(bytes);
  std::vector<double> times;
  offbeat::SharedCopies learnt;
  for (int k = 0; k < repeats; ++k) {
    ++number;
    // Two windows for each in turn, so that nobody writes where the other one still reads.
    auto& pair = shared.windows[swaps ? 0 : number & 1];
    const int window = swaps ? me ^ static_cast<int>(number & 1) : me;
    const double start = now_us();
    put(way, learnt, pair[window], mine.data(), bytes);
    set_and_wait(shared.written, me, number);
    offbeat::copy(theirs.data(), pair[1 - window], bytes);
    times.push_back(now_us() - start);
    set_and_wait(shared.read, me, number);
  }
  return offbeat::median(times);
}

void live(Shared& shared, int me) {
  offbeat::stay_on(me);
  long number = 0;
  constexpr int flags = 10000;
  const double start = now_us();
  for (int k = 0; k < flags; ++k) set_and_wait(shared.read, me, ++number);
  if (me == 0) {
    std::printf("both have set a flag for each other after %.0f ns\n", (now_us() - start) * 1000 / flags);
    std::printf("%10s  %10s  %10s  %10s  %10s  %10s\n", "bytes", "own, us", "to_shared", "past_cache",
                "learnt", "swapped");
  }
  for (std::size_t bytes = 1024; bytes <= most_bytes; bytes *= 4) {
    const double own = exchange(shared, me, bytes, Way::own, number);
    const double to_shared = exchange(shared, me, bytes, Way::own_to_shared, number);
    const double past_cache = exchange(shared, me, bytes, Way::own_past_cache, number);
    const double learnt = exchange(shared, me, bytes, Way::own_learnt, number);
    const double swapped = exchange(shared, me, bytes, Way::swapped, number);
    if (me == 0)
      std::printf("%10zu  %10.2f  %10.2f  %10.2f  %10.2f  %10.2f\n", bytes, own, to_shared, past_cache,
                  learnt, swapped);
  }
}

}  // namespace

int main() {
  Shared& shared = *offbeat::shared<Shared>(1);
  if (fork() == 0) {
    offbeat::die_with_parent();
    live(shared, 1);
    _exit(0);
  }
  live(shared, 0);
  wait(nullptr);
}
