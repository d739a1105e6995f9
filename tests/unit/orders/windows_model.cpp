// SPDX-License-Identifier: BSD-3-Clause
// Calls in windows: run (collectives/board/arrival_direct.cpp), which takes a round for each part of a
// message (arrival_direct/pieces.cpp), or sends its chunks through channels (arrival_direct/channels.cpp).
#include "modelled.hpp"
//
#include "collectives/board/arrival_direct.cpp"
#include "collectives/board/arrival_direct/block_exchange.cpp"
#include "collectives/board/arrival_direct/channels.cpp"
#include "collectives/board/arrival_direct/pieces.cpp"
#include "node/board.cpp"

namespace offbeat {
namespace {

constexpr std::size_t chunk = BoardShape::smallest_chunk;
constexpr std::size_t chunks = 4;  // of a block
constexpr BoardShape shape{.ranks = 2, .window_bytes = 2 * chunk, .most_short_slots = 0};
constexpr std::size_t block = chunks * chunk;

// Copies the first bytes of each chunk, which say whose it is.
class Copies : public Transport {
 public:
  bool start(Transfer&) override { return true; }
  bool start(Computation& computation) override {
    const auto* const from = static_cast<const std::byte*>(computation.operands[0]);
    for (std::size_t done = 0; done < computation.destination.bytes(); done += chunk)
      std::memcpy(computation.destination.data + done, from + done, sizeof(std::uint64_t));
    return true;
  }
};

// The coroutine of a rank suspends whenever it waits.
class Driver : public BoardWaiters {
 public:
  [[nodiscard]] bool others_can_run() const override { return true; }
  void wait_for_board(std::coroutine_handle<> waiter, bool) override { waiter_ = waiter; }
  void drive(Task task) {
    task.start();
    while (!task.done()) {
      model::yield();
      waiter_.resume();
    }
  }

 private:
  std::coroutine_handle<> waiter_;
};

class CallsInWindows : public model::Protocol {
 public:
  CallsInWindows() : Protocol({.bytes = shape.total_bytes(), .atomics = 64}) {}

  void begin() override {
    constexpr std::array all{Collective::allgather, Collective::alltoall, Collective::bcast,
                             Collective::gather};
    for (Collective& kind : kinds_) kind = all[model::random(all.size())];
    root_ = static_cast<int>(model::random(2));
  }
  void run(int rank) override {
    Board board(memory(), shape, rank, {});
    Driver driver;
    board.waiters = &driver;
    Copies transport;
    transport.board = &board;
    for (std::size_t call = 0; call < kinds_.size(); ++call)
      make_call(driver, Endpoint(transport, rank, 2), call);
  }

 private:
  static std::uint64_t value(std::size_t call, std::size_t giver, std::size_t taker, std::size_t chunk) {
    return 10000 + 1000 * call + 100 * giver + 10 * taker + chunk;
  }
  static std::uint64_t& at(std::vector<std::uint64_t>& data, std::size_t block_index,
                           std::size_t chunk_index) {
    return data[(block_index * block + chunk_index * chunk) / sizeof(std::uint64_t)];
  }
  void make_call(Driver& driver, Endpoint net, std::size_t index) const {
    const Collective collective = kinds_[index];
    const Roles roles = roles_of(collective);
    const auto own = static_cast<std::size_t>(net.rank);
    const std::size_t given = roles.is_personalised && !roles.root_takes ? 2 : 1;
    const std::size_t taken = roles.root_gives ? 1 : 2;
    std::vector<std::uint64_t> input(2 * block / sizeof(std::uint64_t));
    std::vector<std::uint64_t> output(input.size());
    for (std::size_t k = 0; k < given * chunks; ++k)
      at(input, k / chunks, k % chunks) = value(index, own, given == 1 ? 0 : k / chunks, k % chunks);
    auto& source = collective == Collective::bcast ? output : input;
    if (collective == Collective::bcast && net.rank == root_) output = input;
    const Call call{collective,
                    {reinterpret_cast<const std::byte*>(source.data()), given * block, 1},
                    {reinterpret_cast<std::byte*>(output.data()), taken * block, 1},
                    nullptr,
                    root_};
    static const Expression none{.algorithm = nullptr, .dimensions = {}, .parts = {}, .name_in_host = {}};
    driver.drive(direct::run(net, call, none));
    if (!roles.takes(net.rank, root_)) return;
    for (std::size_t k = 0; k < taken * chunks; ++k) {
      const std::size_t giver = roles.root_gives ? static_cast<std::size_t>(root_) : k / chunks;
      model::require(
          at(output, k / chunks, k % chunks) == value(index, giver, given == 1 ? 0 : own, k % chunks),
          "a wrong result");
    }
  }
  std::array<Collective, 3> kinds_{};
  int root_ = 0;
};

TEST(ModelOfWindows, AreRight) {
  CallsInWindows calls;
  model::expect_right(calls, 2);
}

TEST(ModelOfWindows, HaveNeedOfEachStep) {
  CallsInWindows calls;
  model::expect_mutations_found({&calls}, 2);
}

}  // namespace
}  // namespace offbeat
