// SPDX-License-Identifier: BSD-3-Clause
// The records of calls (groups/call_record.cpp): write_record, has_begun_call, find_mismatch and all_fit.
#include "modelled.hpp"
//
#include "groups/call_record.cpp"

namespace offbeat {
namespace {

constexpr BoardShape shape{.ranks = 2, .compares_calls = true};

class Records : public model::Protocol {
 public:
  Records() : Protocol({.bytes = shape.bytes_without_windows()}) {
    membership_.group_by([](int) { return 0; });
  }

 protected:
  struct Rank {
    Rank(std::byte* memory, const Membership& membership, int rank)
        : board(memory, shape, rank, {}), where(membership, rank) {}
    Board board;
    Locality where;
  };
  [[nodiscard]] Rank rank(int index) const { return {memory(), membership_, index}; }
  [[nodiscard]] Call alltoallv_of(const std::size_t* counts) const {
    Call call{Collective::alltoallv, {nullptr, 32, 1}, {nullptr, 32, 1}};
    call.input_blocks = call.output_blocks = {counts, begins_.data()};
    return call;
  }
  static CallRecord alltoallv(std::uint64_t number) {
    return {.number = number, .collective = Collective::alltoallv};
  }
  const std::array<std::size_t, 2> ones_{1, 1};
  const std::array<std::size_t, 2> nines_{9, 9};

 private:
  Membership membership_{2};
  const std::array<std::ptrdiff_t, 2> begins_{0, 16};
};

// Both ranks make an alltoallv, calls without data, of which three are here, and another alltoallv with other
// lengths. Rank 0 need not wait for rank 1 before it writes the record of the last one, and rank 1 compares
// at any time. Or rank 0 makes another call in the beginning, and rank 1 finds that when rank 0 has begun.
class Calls : public Records {
 public:
  void begin() override { difference_ = static_cast<Difference>(model::random(5)); }
  void run(int thread) override {
    Rank mine = rank(thread);
    if (thread == 0 && difference_ == Difference::none) return make_calls(mine);
    if (thread == 0) return make_other_call(mine);
    const CallRecord record = alltoallv(1);
    const Call call = alltoallv_of(ones_.data());
    write_record(mine.board, mine.where, record, call);
    if (difference_ == Difference::none) {
      model::require(all_fit(mine.board, mine.where, record, call), "all_fit");
      model::require(!find_mismatch(mine.board, mine.where, record, call), "find_mismatch");
      return;
    }
    const bool is_there = mine.board.record(0, 1).head.load(std::memory_order_relaxed) != 0;
    model::require(!is_there || !all_fit(mine.board, mine.where, record, call), "all_fit");
    while (!has_begun_call(mine.board, 0, 1)) model::yield();
    model::require(find_mismatch(mine.board, mine.where, record, call).has_value(), "find_mismatch");
  }

 private:
  enum class Difference { none, length, root, count, lists };

  static void write_empty_call(Rank& mine, std::uint64_t number) {
    const Call empty{Collective::allreduce, {nullptr, 0, 1}, {nullptr, 0, 1}};
    write_record(mine.board, mine.where, {.number = number, .collective = Collective::allreduce}, empty);
  }
  void make_calls(Rank& mine) const {
    write_record(mine.board, mine.where, alltoallv(1), alltoallv_of(ones_.data()));
    constexpr std::uint64_t later = 1 + BoardShape::records_of_rank;  // where the first record is
    for (std::uint64_t number = later - 3; number < later; ++number) write_empty_call(mine, number);
    write_record(mine.board, mine.where, alltoallv(later), alltoallv_of(nines_.data()));
  }
  void make_other_call(Rank& mine) const {
    CallRecord other = alltoallv(1);
    if (difference_ == Difference::root) other.root = 1;
    if (difference_ == Difference::count) other.count = 1;
    if (difference_ == Difference::lists) other.lists = 1;
    const bool differs_in_length = difference_ == Difference::length;
    write_record(mine.board, mine.where, other, alltoallv_of((differs_in_length ? nines_ : ones_).data()));
    write_empty_call(mine, 2);
  }

  Difference difference_ = Difference::none;
};

TEST(ModelOfCallRecords, IsRight) {
  Calls calls;
  model::expect_right(calls, 2);
}

TEST(ModelOfCallRecords, HasNeedOfEachStep) {
  Calls calls;
  model::expect_mutations_found({&calls}, 2);
}

}  // namespace
}  // namespace offbeat
