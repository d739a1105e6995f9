// SPDX-License-Identifier: BSD-3-Clause
// A model runs a protocol of src/ among threads of Relacy, which executes many schedules and, for each load,
// also the older values that the memory orders allow. It is the text of src/ itself: modelled.hpp gives its
// atomics and copies to the functions below.
//
// Relacy knows no memory but its own. So each atomic is a cell, the number of an atomic of Relacy, and memory
// that the ranks share has shadows, which find data races: reads that nothing orders behind the write.
//
// A mutation is a change at one place of the text: a weaker order, or a step that is left out. A test runs
// the text unchanged, which notes its places, and then once for each mutation, which Relacy must find.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace offbeat::model {

// What the threads of a model do. It is made once and runs in many schedules.
class Protocol {
 public:
  Protocol() = default;
  Protocol(const Protocol&) = delete;
  Protocol& operator=(const Protocol&) = delete;
  virtual ~Protocol() = default;
  // Begins a schedule. The first thread calls this, and the others see it. Atomics and memory() are zero.
  virtual void begin() = 0;
  virtual void run(int thread) = 0;
  // Ends a schedule in which all threads have come to their ends.
  virtual void end() {}

  // The memory that all threads share.
  [[nodiscard]] std::byte* memory() const { return memory_; }

  // How much a schedule needs: shared memory, atomics, and data of 8 bytes in that memory.
  struct Needs {
    std::size_t bytes;
    std::size_t atomics = 64;
    std::size_t data = 64;
  };
  const Needs needs;

 protected:
  explicit Protocol(const Needs& needs);

 private:
  std::vector<std::uint64_t> words_;
  std::byte* memory_ = nullptr;
};

// What a mutation does.
enum class Change : std::uint8_t { weaken, leave_out };

// A place in the text where a thread touches what others touch, or waits for them.
struct Place {
  enum class Kind : std::uint8_t { load, store, exchange, fence, wait };
  Kind kind;
  std::memory_order order;
  std::source_location where;

  // Returns what a mutation here would be, such as "leave out the store in put (channel.cpp:36)".
  [[nodiscard]] std::string text(Change change) const;
};

// A mutation that Relacy need not find, and why.
struct Exempt {
  enum class Ending : std::uint8_t { harmless, crash };
  std::string_view function;  // a part of the name of the function that has the place
  Place::Kind kind;
  Change change;
  Ending ending;
  std::string_view why;
};

// The number of schedules of a protocol that is right: MODEL_SCHEDULES, or 10,000.
[[nodiscard]] int schedules();

// Runs the protocol with 2 or 3 threads, and expects that all schedules end well.
void expect_right(Protocol& protocol, int threads);
// Expects that Relacy finds each mutation of the text with one of the protocols, but for those that are
// exempt.
void expect_mutations_found(const std::vector<Protocol*>& protocols, int threads,
                            const std::vector<Exempt>& exempt = {});

// Fails the schedule if `holds` is false.
void require(bool holds, const char* what, std::source_location where = std::source_location::current());
// Returns a number below `limit`, which differs between schedules.
[[nodiscard]] unsigned random(unsigned limit);
// Lets other threads run, because this one waits.
void yield();
// Returns true if the text shall wait here. It is false if a mutation leaves this wait out.
[[nodiscard]] bool waits_at(std::source_location where);

// The atomics. `cell` is 0 at the beginning.
[[nodiscard]] std::uint64_t load(const std::uint64_t& cell, std::memory_order, std::source_location);
void store(std::uint64_t& cell, std::uint64_t value, std::memory_order, std::source_location);
enum class Exchange : std::uint8_t { swap, add };
std::uint64_t exchange(std::uint64_t& cell, Exchange, std::uint64_t value, std::memory_order,
                       std::source_location);
[[nodiscard]] bool compare_exchange(std::uint64_t& cell, std::uint64_t& expected, std::uint64_t value,
                                    std::memory_order, std::source_location);
void fence(std::memory_order, std::source_location);

// Reads and writes of data that are not atomic, if they are in Protocol::memory().
void note_read(const void* data, std::size_t bytes);
void note_write(void* data, std::size_t bytes);

// Waits of texts (collectives/board/waits.hpp).
class Waits {
 public:
  template <class Condition>
  [[nodiscard]] bool until(Condition&& condition,
                           std::source_location where = std::source_location::current()) const {
    while (waits_at(where) && !condition()) yield();
    return true;
  }
  template <class Condition, class HasCome>
  [[nodiscard]] bool until(Condition&& condition, HasCome&&,
                           std::source_location where = std::source_location::current()) const {
    return until(condition, where);
  }
  [[nodiscard]] static bool touch() { return true; }
  template <class MakeReading>
  [[nodiscard]] static bool touch(MakeReading&&) {
    return true;
  }
  template <class MakeReading>
  [[nodiscard]] static bool charge_fetch(int, MakeReading&&) {
    return true;
  }
  [[nodiscard]] static constexpr bool is_virtual_time() { return false; }
};

}  // namespace offbeat::model
