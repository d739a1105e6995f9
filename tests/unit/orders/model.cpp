// SPDX-License-Identifier: BSD-3-Clause
#include "model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <relacy/relacy.hpp>  // last, because it defines `new`, `delete` and `assert`
#include <sstream>
#undef new
#undef delete
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst

namespace offbeat::model {
namespace {

constexpr std::size_t most_places = 96;
constexpr std::size_t granule = 8;  // bytes of a shadow

struct Mutation {
  std::size_t place;
  Change change;
};

// The places that the text has come to, and the mutation. They outlive schedules.
std::array<std::optional<Place>, most_places> places;
std::size_t place_count = 0;
std::optional<Mutation> mutation;

std::size_t place_at(Place::Kind kind, std::memory_order order, const std::source_location& where) {
  for (std::size_t k = 0; k < place_count; ++k) {
    const std::source_location& known = places[k]->where;
    if (known.line() == where.line() && known.column() == where.column() &&
        std::strcmp(known.file_name(), where.file_name()) == 0)
      return k;
  }
  RL_VERIFY(place_count < most_places);
  places[place_count] = Place{kind, order, where};
  return place_count++;
}
bool is_left_out(std::size_t place) {
  return mutation && mutation->place == place && mutation->change == Change::leave_out;
}

// Returns a weaker order: acquire, release or both instead of seq_cst, and relaxed instead of any other.
rl::memory_order weaker(std::memory_order order, Place::Kind kind) {
  if (order != std::memory_order_seq_cst) return rl::mo_relaxed;
  return kind == Place::Kind::load    ? rl::mo_acquire
         : kind == Place::Kind::store ? rl::mo_release
                                      : rl::mo_acq_rel;
}
rl::memory_order order_at(std::size_t place, std::memory_order order, Place::Kind kind) {
  if (mutation && mutation->place == place && mutation->change == Change::weaken) return weaker(order, kind);
  switch (order) {
    case std::memory_order_relaxed:
      return rl::mo_relaxed;
    case std::memory_order_acquire:
      return rl::mo_acquire;
    case std::memory_order_release:
      return rl::mo_release;
    case std::memory_order_acq_rel:
      return rl::mo_acq_rel;
    default:
      return rl::mo_seq_cst;
  }
}
rl::debug_info info_of(const std::source_location& where) {
  return {where.function_name(), where.file_name(), static_cast<unsigned>(where.line())};
}

// What one schedule has. Relacy makes its atomics and variables in the first thread, so that all see their
// beginnings.
struct Schedule {
  using Atomic = rl::atomic<std::uint64_t>;

  explicit Schedule(const Protocol& protocol)
      : protocol(protocol),
        cells(new Atomic[protocol.needs.atomics]),
        shadows(new rl::var<int>[protocol.needs.data]),
        shadow_of(protocol.needs.bytes / granule + 1, 0) {
    for (std::size_t k = 0; k < protocol.needs.atomics; ++k) cells[k].store(0, rl::mo_relaxed, $);
  }
  Atomic& cell(const std::uint64_t& number) {
    auto& own = const_cast<std::uint64_t&>(number);
    if (own == 0) own = ++cells_in_use;
    require(own <= protocol.needs.atomics, "the model needs more atomics");
    return cells[own - 1];
  }
  // Calls visit(shadow) for each granule of the data, if they are in the shared memory.
  template <class Visit>
  void for_each_shadow(const void* data, std::size_t bytes, Visit visit) {
    const auto begin = static_cast<std::size_t>(static_cast<const std::byte*>(data) - protocol.memory());
    if (bytes == 0 || begin >= protocol.needs.bytes) return;
    for (std::size_t k = begin / granule; k <= (begin + bytes - 1) / granule; ++k) {
      if (shadow_of[k] == 0) shadow_of[k] = static_cast<std::uint16_t>(++shadows_in_use);
      require(shadow_of[k] <= protocol.needs.data, "the model needs more data");
      visit(shadows[shadow_of[k] - 1u]);
    }
  }

  const Protocol& protocol;
  const std::unique_ptr<Atomic[]> cells;
  std::size_t cells_in_use = 0;
  const std::unique_ptr<rl::var<int>[]> shadows;
  std::vector<std::uint16_t> shadow_of;
  std::size_t shadows_in_use = 0;
};

Protocol* protocol_in_use = nullptr;
Schedule* schedule = nullptr;

// Relacy gives what a program allocates to its own memory, and calls it leaked at the end. Protocols may
// leave memory behind, so their allocations go past it.
class PastRelacysMemory : public rl::context {
 public:
  static void change(int by) { rl::ctx().*(&PastRelacysMemory::disable_alloc_) += by; }
};

template <int threads>
struct Suite : rl::test_suite<Suite<threads>, threads> {
  void before() {
    PastRelacysMemory::change(1);
    std::memset(protocol_in_use->memory(), 0, protocol_in_use->needs.bytes);
    schedule = new Schedule(*protocol_in_use);
    protocol_in_use->begin();
  }
  void thread(unsigned index) { protocol_in_use->run(static_cast<int>(index)); }
  void after() {
    protocol_in_use->end();
    delete std::exchange(schedule, nullptr);
    PastRelacysMemory::change(-1);
  }
};

// Returns how a schedule has ended badly, or nothing if all have ended well. rl::simulate would do the same,
// but compiles the other schedulers, too.
template <int threads>
std::string simulate(int count, bool tells_history) {
  std::ostringstream output;
  std::ostringstream state;
  rl::test_params parameters;
  parameters.iteration_count = static_cast<rl::iteration_t>(count);
  parameters.output_stream = parameters.progress_stream = &output;
  parameters.execution_depth_limit = 4000;
  const auto run = [&](bool again) {
    using Scheduler = rl::random_scheduler<threads>;
    const rl::test_result_e result = rl::run_test<Suite<threads>, Scheduler>(parameters, state, again);
    schedule = nullptr;  // its atomics belong to a context that is gone
    return result;
  };
  const rl::test_result_e result = run(false);
  if (result == rl::test_result_success) return {};
  const std::string ending =
      "schedule " + std::to_string(parameters.stop_iteration) + ": " + rl::test_result_str(result);
  if (!tells_history) return ending;
  parameters.initial_state = state.str();
  parameters.collect_history = true;
  run(true);
  constexpr std::size_t most_told = 20'000;
  const std::string history = output.str();
  return ending + "\n" + history.substr(history.size() - std::min(history.size(), most_told));
}

std::string simulate(Protocol& protocol, int threads, int count, bool tells_history = false) {
  protocol_in_use = &protocol;
  return threads == 2 ? simulate<2>(count, tells_history) : simulate<3>(count, tells_history);
}

std::string_view function_of(const Place& place) { return place.where.function_name(); }

// Returns the mutations of the places that the text has come to.
std::vector<Mutation> mutations() {
  std::vector<Mutation> all;
  for (std::size_t k = 0; k < place_count; ++k) {
    const Place& place = *places[k];
    const bool is_fence_or_wait = place.kind == Place::Kind::fence || place.kind == Place::Kind::wait;
    if (!is_fence_or_wait && place.order != std::memory_order_relaxed) all.push_back({k, Change::weaken});
    if (is_fence_or_wait || place.kind == Place::Kind::store) all.push_back({k, Change::leave_out});
  }
  return all;
}

}  // namespace

Protocol::Protocol(const Needs& needs)
    : needs(needs),
      words_(needs.bytes / sizeof(std::uint64_t) + 8),
      memory_(
          reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(words_.data()) + 63) / 64 * 64)) {}

std::string Place::text(Change change) const {
  constexpr std::array names{"load", "store", "exchange", "fence", "wait"};
  std::string_view file = where.file_name();
  file.remove_prefix(std::min(file.rfind('/') + 1, file.size()));
  return std::string(change == Change::weaken ? "weaken" : "leave out") + " the " +
         names[static_cast<std::size_t>(kind)] + " in " + where.function_name() + " (" + std::string(file) +
         ":" + std::to_string(where.line()) + ")";
}

int schedules() {
  const char* const wanted = std::getenv("MODEL_SCHEDULES");
  return wanted != nullptr ? std::atoi(wanted) : 10'000;
}

void expect_right(Protocol& protocol, int threads) {
  mutation.reset();
  const std::string failure = simulate(protocol, threads, schedules(), true);
  EXPECT_TRUE(failure.empty()) << failure;
}

namespace {

// Returns true if a protocol that comes to the place finds the present mutation there. Most are found in the
// first schedules of one protocol.
bool is_found_by(const std::vector<Protocol*>& protocols, const std::vector<std::size_t>& places_until,
                 std::size_t place, int threads) {
  for (const int count : {300, 3000, 20'000}) {
    for (std::size_t k = 0; k < protocols.size(); ++k) {
      if (place < places_until[k] && !simulate(*protocols[k], threads, count).empty()) return true;
    }
  }
  return false;
}

}  // namespace

void expect_mutations_found(const std::vector<Protocol*>& protocols, int threads,
                            const std::vector<Exempt>& exempt) {
  mutation.reset();
  place_count = 0;
  // A protocol comes to these places, besides those of the protocols before it.
  std::vector<std::size_t> places_until;
  for (Protocol* const protocol : protocols) {
    const std::string failure = simulate(*protocol, threads, 200, true);
    ASSERT_TRUE(failure.empty()) << "without a mutation: " << failure;
    places_until.push_back(place_count);
  }
  std::vector<bool> is_used(exempt.size(), false);
  int found = 0;
  for (const Mutation& each : mutations()) {
    const Place place = *places[each.place];
    const std::string text = place.text(each.change);
    const auto known = std::find_if(exempt.begin(), exempt.end(), [&](const Exempt& one) {
      return one.kind == place.kind && one.change == each.change &&
             function_of(place).find(one.function) != std::string_view::npos;
    });
    mutation = each;
    if (known != exempt.end()) {
      is_used[static_cast<std::size_t>(known - exempt.begin())] = true;
      for (std::size_t k = 0; k < protocols.size() && known->ending == Exempt::Ending::harmless; ++k)
        EXPECT_TRUE(simulate(*protocols[k], threads, 500).empty()) << "not harmless: " << text;
      continue;
    }
    const bool is_found = is_found_by(protocols, places_until, each.place, threads);
    EXPECT_TRUE(is_found) << "not found: " << text;
    if (std::getenv("MODEL_TELLS") != nullptr)
      std::cout << (is_found ? "found: " : "not found: ") << text << std::endl;
    ++found;
  }
  mutation.reset();
  EXPECT_GT(found, 0);
  for (std::size_t k = 0; k < exempt.size(); ++k)
    EXPECT_TRUE(is_used[k]) << "there is no such place: " << exempt[k].function;
}

void require(bool holds, const char* what, std::source_location where) {
  if (!holds) rl::ctx().fail_test(what, rl::test_result_user_assert_failed, info_of(where));
}

unsigned random(unsigned limit) { return rl::rand(limit); }

void yield() { rl::yield(1, $); }

bool waits_at(std::source_location where) {
  return !is_left_out(place_at(Place::Kind::wait, std::memory_order_relaxed, where));
}

std::uint64_t load(const std::uint64_t& cell, std::memory_order order, std::source_location where) {
  const std::size_t place = place_at(Place::Kind::load, order, where);
  return schedule->cell(cell).load(order_at(place, order, Place::Kind::load), info_of(where));
}

void store(std::uint64_t& cell, std::uint64_t value, std::memory_order order, std::source_location where) {
  const std::size_t place = place_at(Place::Kind::store, order, where);
  if (is_left_out(place)) return;
  schedule->cell(cell).store(value, order_at(place, order, Place::Kind::store), info_of(where));
}

std::uint64_t exchange(std::uint64_t& cell, Exchange what, std::uint64_t value, std::memory_order order,
                       std::source_location where) {
  const std::size_t place = place_at(Place::Kind::exchange, order, where);
  const rl::memory_order actual = order_at(place, order, Place::Kind::exchange);
  Schedule::Atomic& there = schedule->cell(cell);
  return what == Exchange::swap ? there.exchange(value, actual, info_of(where))
                                : there.fetch_add(static_cast<std::int64_t>(value), actual, info_of(where));
}

bool compare_exchange(std::uint64_t& cell, std::uint64_t& expected, std::uint64_t value,
                      std::memory_order order, std::source_location where) {
  const std::size_t place = place_at(Place::Kind::exchange, order, where);
  const rl::memory_order actual = order_at(place, order, Place::Kind::exchange);
  return schedule->cell(cell).compare_exchange_strong(expected, value, actual, info_of(where));
}

void fence(std::memory_order order, std::source_location where) {
  const std::size_t place = place_at(Place::Kind::fence, order, where);
  if (!is_left_out(place))
    rl::atomic_thread_fence(order_at(place, order, Place::Kind::fence), info_of(where));
}

void note_read(const void* data, std::size_t bytes) {
  if (schedule == nullptr) return;
  schedule->for_each_shadow(data, bytes, [](rl::var<int>& shadow) { static_cast<void>(shadow($).load()); });
}

void note_write(void* data, std::size_t bytes) {
  if (schedule == nullptr) return;
  schedule->for_each_shadow(data, bytes, [](rl::var<int>& shadow) { shadow($).store(1); });
}

}  // namespace offbeat::model
