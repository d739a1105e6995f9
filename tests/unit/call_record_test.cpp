// SPDX-License-Identifier: BSD-3-Clause
// Records that ranks compare, and a rank that is interrupted while it writes one.
// orders/call_record_model.cpp has all other moments, and the memory orders.
#include "groups/call_record.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace offbeat {
namespace {

constexpr int ranks = 3;
constexpr std::size_t page = 4096;

// A list of counts whose second element is on a page that cannot be read at first. The first read of it calls
// `meanwhile`, which stands for another rank that runs while this one is interrupted.
class InterruptingList {
 public:
  InterruptingList(std::size_t count, std::function<void()> meanwhile)
      : meanwhile_(std::move(meanwhile)),
        memory_(static_cast<std::byte*>(
            mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_NE(memory_, MAP_FAILED);
    for (int k = -ranks; k <= ranks; ++k) list()[k] = count;
    mprotect(memory_ + page, page, PROT_NONE);
    present_ = this;
    struct sigaction action {};
    action.sa_handler = [](int) { present_->interrupt(); };
    sigaction(SIGSEGV, &action, &before_);
  }
  InterruptingList(const InterruptingList&) = delete;
  InterruptingList& operator=(const InterruptingList&) = delete;
  ~InterruptingList() {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(memory_, 2 * page);
    EXPECT_TRUE(has_interrupted_);
  }
  [[nodiscard]] std::size_t* list() const { return reinterpret_cast<std::size_t*>(memory_ + page) - 1; }

 private:
  void interrupt() {
    mprotect(memory_ + page, page, PROT_READ | PROT_WRITE);
    if (!has_interrupted_) meanwhile_();
    has_interrupted_ = true;
  }
  static inline InterruptingList* present_ = nullptr;
  std::function<void()> meanwhile_;
  std::byte* const memory_;
  struct sigaction before_ {};
  bool has_interrupted_ = false;
};

// The boards of all ranks, which make an alltoallv as their first call on a stage.
class RecordsOfCalls : public testing::Test {
 protected:
  struct Rank {
    Board board;
    Locality where;
  };

  RecordsOfCalls() {
    EXPECT_NE(memory_, MAP_FAILED);
    membership_.group_by([](int) { return 0; });
    for (int rank = 0; rank < ranks; ++rank)
      ranks_.push_back({Board(memory_, shape_, rank, {}), Locality(membership_, rank)});
  }
  ~RecordsOfCalls() override { munmap(memory_, shape_.total_bytes()); }

  Call alltoallv_of(const std::size_t* counts) {
    Call call{
        Collective::alltoallv, {buffer_.data(), buffer_.size(), 1}, {buffer_.data(), buffer_.size(), 1}};
    call.input_blocks = call.output_blocks = {counts, begins_.data()};
    return call;
  }
  static CallRecord alltoallv(std::uint64_t number) {
    return {.number = number, .collective = Collective::alltoallv};
  }
  void write_alltoallv(int rank, std::uint64_t number, const std::size_t* counts) {
    Rank& writer = ranks_[static_cast<std::size_t>(rank)];
    write_record(writer.board, writer.where, alltoallv(number), alltoallv_of(counts));
  }
  static constexpr std::uint64_t call_in_place_of_first = 1 + BoardShape::records_of_rank;
  // The rank ends the alltoallv and makes calls up to that one, which are empty, so it waits for nobody.
  void make_empty_calls(int rank) {
    Rank& writer = ranks_[static_cast<std::size_t>(rank)];
    const Call empty{Collective::allreduce, {buffer_.data(), 0, 1}, {buffer_.data(), 0, 1}};
    for (std::uint64_t number = 2; number < call_in_place_of_first; ++number)
      write_record(writer.board, writer.where, {.number = number, .collective = Collective::allreduce},
                   empty);
  }
  // Returns what rank 1, still in the alltoallv, finds: the text of a mismatch, or nothing.
  std::string compared_by_rank_1(const std::size_t* counts) {
    const Rank& reader = ranks_[1];
    const Call call = alltoallv_of(counts);
    const auto mismatch = find_mismatch(reader.board, reader.where, alltoallv(1), call);
    if (mismatch) return mismatch->text;
    return all_fit(reader.board, reader.where, alltoallv(1), call) ? "" : "all_fit is false";
  }

  const std::array<std::size_t, ranks> ones_{1, 1, 1};
  const std::array<std::size_t, ranks> nines_{9, 9, 9};
  const std::array<std::size_t, ranks> other_ones_{1, 2, 1};

 private:
  const BoardShape shape_{.ranks = ranks, .window_bytes = 1 << 16, .stages = 1, .compares_calls = true};
  void* const memory_ =
      mmap(nullptr, shape_.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Membership membership_{ranks};
  const std::array<std::ptrdiff_t, ranks> begins_{0, 16, 32};
  std::vector<std::byte> buffer_{48};

 protected:
  std::vector<Rank> ranks_;
};

TEST_F(RecordsOfCalls, FindOtherLengths) {
  for (int rank = 0; rank < ranks; ++rank) write_alltoallv(rank, 1, ones_.data());
  EXPECT_EQ(compared_by_rank_1(ones_.data()), "");
  EXPECT_EQ(compared_by_rank_1(nines_.data()),
            "mismatched alltoallv: rank 0 has 1 bytes for rank 1, which takes 9 "
            "bytes");
  write_alltoallv(2, 1, other_ones_.data());
  EXPECT_EQ(compared_by_rank_1(ones_.data()),
            "mismatched alltoallv: rank 2 has 2 bytes for rank 1, which takes 1 "
            "bytes");
}

// Rank 0 writes the lengths of a later call where those of call 1 are.
TEST_F(RecordsOfCalls, FitWhileAWriterIsInterrupted) {
  // Rank 0 has written its length for itself, or that for rank 1, too, when it reads the next count.
  for (const int written : {1, 2}) {
    for (int rank = 0; rank < ranks; ++rank) write_alltoallv(rank, 1, ones_.data());
    make_empty_calls(0);
    EXPECT_EQ(compared_by_rank_1(ones_.data()), "");
    std::string found = "not compared";
    const InterruptingList nines(9, [&] { found = compared_by_rank_1(ones_.data()); });
    write_alltoallv(0, call_in_place_of_first, nines.list() + 1 - written);
    EXPECT_EQ(found, "") << written << " lengths";
    EXPECT_EQ(compared_by_rank_1(ones_.data()), "");
  }
}

}  // namespace
}  // namespace offbeat
