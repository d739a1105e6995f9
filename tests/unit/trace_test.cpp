// SPDX-License-Identifier: BSD-3-Clause
// The trace file of a rank: windows, limits, what another process sees; and the tracer's tables.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sstream>

#include "base/handle_tables.hpp"
#include "trace/communicator_filter.hpp"
#include "trace/writer.hpp"

namespace {

bool counts_links = true;  // false: as on a file system in user space that counts none

}  // namespace

// Takes the place of the C library's.
extern "C" int fstat(int file, struct stat* status) noexcept {
  const int code = fstatat(file, "", status, AT_EMPTY_PATH);
  if (!counts_links) status->st_nlink = 0;
  return code;
}

namespace offbeat::trace {
namespace {

constexpr std::size_t window = 8192;
constexpr std::size_t per_window = window / slot_bytes;
constexpr std::size_t in_first_window = per_window - header_bytes / slot_bytes;
constexpr std::uint64_t plenty = std::uint64_t{1} << 30;

class TraceFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "offbeat-trace-XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/rank-000000.trace";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static bool append(Writer& writer, std::uint64_t number) {
    CallRecord* record = writer.next();
    if (record == nullptr) return false;
    *record = {};
    record->kind = RecordKind::call;
    record->number = number;
    writer.publish();
    return true;
  }

  // What another process sees of the file, now.
  [[nodiscard]] std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  template <class Record>
  static Record at(const std::string& content, std::uint64_t slot) {
    Record record;
    std::memcpy(&record, content.data() + header_bytes + slot * slot_bytes, sizeof record);
    return record;
  }
  static std::uint64_t slots(const std::string& content) {
    Header header;
    std::memcpy(&header, content.data(), sizeof header);
    return header.slots;
  }

  std::string folder_;
  std::string path_;
};

// A mapping begins with a page, and pages have up to 64 KiB on Arm and POWER.
TEST_F(TraceFile, IsMappedWhereLargePagesBegin) {
  constexpr std::size_t large_page = 65536;
  constexpr std::uint64_t records = 2 * large_page / slot_bytes;
  Writer writer(path_, large_page, plenty);
  int mappings = 0;
  for (std::uint64_t i = 0; i < records; ++i) {
    ASSERT_TRUE(append(writer, i));
    if (i % 512 != 0) continue;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (!line.ends_with(path_)) continue;
      std::istringstream fields(line);
      std::string skipped;
      std::uint64_t offset = 0;
      fields >> skipped >> skipped >> std::hex >> offset;
      EXPECT_EQ(offset % large_page, 0U) << line;
      ++mappings;
    }
  }
  EXPECT_GT(mappings, 4);
}

TEST_F(TraceFile, KeepsAllRecordsOverManyWindows) {
  const std::uint64_t records = 5 * per_window + 3;
  Writer writer(path_, window, plenty);
  for (std::uint64_t i = 0; i < records; ++i) {
    ASSERT_TRUE(append(writer, i));
    if (i % 50 == 0) {
      ASSERT_EQ(slots(content()), i + 1) << "a reader sees each record at once";
    }
  }
  writer.finish();
  const std::string all = content();
  EXPECT_EQ(all.size(), header_bytes + records * slot_bytes) << "the file is cut to its content";
  for (std::uint64_t i = 0; i < records; ++i) ASSERT_EQ(at<CallRecord>(all, i).number, i);
}

TEST_F(TraceFile, ChangesARecordThatHasLeftTheWindow) {
  Writer writer(path_, window, plenty);
  for (std::uint64_t i = 0; i < 3 * per_window; ++i) append(writer, i);
  for (const std::uint64_t slot : {std::uint64_t{5}, 3 * per_window - 1}) {
    writer.update_record(slot, [](CallRecord& record) { record.completion = 42; });
    const auto changed = at<CallRecord>(content(), slot);
    EXPECT_EQ(changed.completion, 42);
    EXPECT_EQ(changed.number, slot);
  }
}

TEST_F(TraceFile, ARecordOfManySlotsMayCrossWindows) {
  Writer writer(path_, window, plenty);
  for (std::uint64_t i = 0; i < in_first_window - 2; ++i) append(writer, i);
  const std::vector<int> ranks(5 * per_window, 77);
  CommunicatorRecord head{};
  head.kind = RecordKind::communicator;
  head.number = 3;
  ASSERT_TRUE(writer.write(std::as_bytes(std::span(&head, 1)).first(communicator_ranks_offset),
                           std::as_bytes(std::span(ranks))));
  ASSERT_TRUE(append(writer, 99));
  const std::string all = content();
  EXPECT_EQ(at<CommunicatorRecord>(all, in_first_window - 2).number, 3U);
  const std::size_t begin = header_bytes + (in_first_window - 2) * slot_bytes + communicator_ranks_offset;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    int rank = 0;
    std::memcpy(&rank, all.data() + begin + i * sizeof rank, sizeof rank);
    ASSERT_EQ(rank, 77) << i;
  }
  EXPECT_EQ(at<CallRecord>(all, slots(all) - 1).number, 99U);
}

TEST_F(TraceFile, StopsAtItsBound) {
  constexpr std::size_t room = in_first_window + 2 * per_window;
  Writer writer(path_, window, 3 * window);
  for (std::uint64_t i = 0; i < room; ++i) ASSERT_TRUE(append(writer, i));
  EXPECT_FALSE(append(writer, 0));
  EXPECT_TRUE(writer.is_full());
  EXPECT_EQ(slots(content()), room);
}

// In a child: the limit holds for the whole process. Without care the kernel would end it by SIGXFSZ.
TEST_F(TraceFile, SurvivesALimitOfTheSystem) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{2 * window, 2 * window};
    setrlimit(RLIMIT_FSIZE, &limit);
    Writer writer(path_, window, plenty);
    std::uint64_t written = 0;
    for (std::uint64_t i = 0; i < 3 * per_window; ++i) written += append(writer, i) ? 1 : 0;
    const rlimit none{0, 2 * window};  // the program may lower the limit
    setrlimit(RLIMIT_FSIZE, &none);
    writer.update_record(0, [](CallRecord& record) { record.completion = 42; });
    writer.finish();
    _exit(written == in_first_window + per_window ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST_F(TraceFile, OutlivesAKilledProcess) {
  const pid_t child = fork();
  if (child == 0) {
    Writer writer(path_, window, plenty);
    for (std::uint64_t i = 0; i < per_window + 10; ++i) append(writer, i);
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::string all = content();
  EXPECT_EQ(slots(all), per_window + 10);
  EXPECT_EQ(at<CallRecord>(all, per_window + 9).number, per_window + 9);
}

// Returns true if a file that is cut to `bytes` after some records neither ends the process nor grows again.
bool is_left_alone_when_cut(const std::string& path, off_t bytes) {
  Writer writer(path, window, plenty);
  const auto append_many = [&] {
    bool has_room = true;
    for (std::uint64_t i = 0; i < 2 * per_window; ++i) {
      CallRecord* record = writer.next();
      has_room = has_room && record != nullptr;
      if (record == nullptr) continue;
      *record = {};
      writer.publish();
    }
    return has_room;
  };
  const bool has_begun = append_many();
  EXPECT_EQ(truncate(path.c_str(), bytes), 0);
  writer.update_record(3, [](CallRecord& record) { record.completion = 1; });
  const bool has_gone_on = append_many();
  writer.finish();
  return has_begun && !has_gone_on && std::filesystem::file_size(path) == static_cast<std::uintmax_t>(bytes);
}

TEST_F(TraceFile, SurvivesACut) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(is_left_alone_when_cut(path_, 0));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("somebody has cut the file"), std::string::npos);
  std::filesystem::remove(path_);
  EXPECT_TRUE(is_left_alone_when_cut(path_, header_bytes + 10 * slot_bytes));
  EXPECT_GT(slots(content()), 10U) << "the header says how much is missing";
}

TEST_F(TraceFile, SaysThatItWasRemoved) {
  testing::internal::CaptureStderr();
  Writer writer(path_, window, plenty);
  append(writer, 0);
  std::filesystem::remove(path_);
  writer.finish();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("somebody has removed"), std::string::npos);
}

TEST_F(TraceFile, IsWholeWhereNoLinksAreCounted) {
  testing::internal::CaptureStderr();
  counts_links = false;
  {
    Writer writer(path_, window, plenty);
    for (std::uint32_t number = 0; number < 3 * per_window; ++number) append(writer, number);
    writer.finish();
  }
  counts_links = true;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_GT(slots(content()), 2 * per_window);
}

// Stores to a page of a file that has none.
void store_behind_the_end_of_a_file() {
  const int file = memfd_create("empty", 0);
  auto* memory = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  *const_cast<volatile char*>(memory) = 1;
}

// The death tests run in new processes, which have made no file before.
TEST_F(TraceFile, LeavesEveryOtherBusErrorToTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto by_default = [&](void (*cause)()) {
    signal(SIGBUS, SIG_DFL);
    const Writer writer(path_, window, plenty);
    cause();
    _exit(0);
  };
  EXPECT_EXIT(by_default(store_behind_the_end_of_a_file), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(by_default([] { raise(SIGBUS); }), testing::KilledBySignal(SIGBUS), "");
  const auto by_handler = [&](void (*cause)()) {
    signal(SIGBUS, [](int) { _exit(7); });
    const Writer writer(path_, window, plenty);
    cause();
    _exit(0);
  };
  EXPECT_EXIT(by_handler(store_behind_the_end_of_a_file), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(by_handler([] { raise(SIGBUS); }), testing::ExitedWithCode(7), "");
}

TEST_F(TraceFile, SurvivesACutAfterTheProgramHasRecovered) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto recover = [&] {
    static sigjmp_buf before;
    signal(SIGBUS, [](int) { siglongjmp(before, 1); });
    Writer writer(path_, window, plenty);
    if (sigsetjmp(before, 1) == 0) store_behind_the_end_of_a_file();
    append(writer, 0);
    const bool is_cut = truncate(path_.c_str(), 0) == 0;
    append(writer, 1);
    writer.finish();
    _exit(is_cut ? 0 : 1);
  };
  EXPECT_EXIT(recover(), testing::ExitedWithCode(0), "");
}

TEST_F(TraceFile, TakesNoFileThatExists) {
  std::ofstream(path_) << "precious";
  Writer writer(path_, window, plenty);
  EXPECT_TRUE(writer.has_found_a_file());
  EXPECT_NE(writer.failure().find("it exists already"), std::string::npos);
  EXPECT_FALSE(append(writer, 0));
  writer.header().lost += 1;
  writer.discard();
  writer.finish();
  EXPECT_EQ(content(), "precious");
}

TEST_F(TraceFile, SaysWhyItCannotBeMade) {
  std::ofstream(path_) << "no folder";
  Writer writer(path_ + "/run.trace/rank-000000.trace", window, plenty);
  EXPECT_EQ(writer.failure(), "cannot write " + path_ + "/run.trace: Not a directory");
  EXPECT_FALSE(writer.has_found_a_file());
  EXPECT_FALSE(append(writer, 0));
}

// Which another user may have put there.
TEST_F(TraceFile, FollowsNoLink) {
  const std::string target = folder_ + "/target";
  ASSERT_EQ(symlink(target.c_str(), path_.c_str()), 0);
  EXPECT_FALSE(Writer(path_, window, plenty).failure().empty());
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST_F(TraceFile, IsWrittenByItsOwnerOnlyWhateverTheUmask) {
  const mode_t before = umask(0);
  Writer writer(path_, window, plenty);
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644U);
}

// -- tables

TEST(HandleTable, FindsAndForgetsLikeAMultiset) {
  HandleTable<int> table;
  std::multiset<std::pair<Handle, int>> model;
  std::minstd_rand random(3);
  for (int step = 0; step < 20'000; ++step) {
    const Handle handle = (random() % 200) * 64;  // addresses: low bits are equal
    const auto accept = [](int) { return true; };
    if (random() % 2 == 0 && model.size() < 150) {
      table.insert(handle, step);
      model.emplace(handle, step);
    } else {
      const int* found = table.find(handle, accept);
      const auto known = model.lower_bound({handle, 0});
      ASSERT_EQ(found != nullptr, known != model.end() && known->first == handle);
      if (found == nullptr) continue;
      ASSERT_EQ(model.erase({handle, *found}), 1U);
      table.erase(handle, accept);
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

TEST(HandleTable, TellsEntriesOfOneHandleApart) {
  HandleTable<int> table;
  for (const int value : {1, 2, 3}) table.insert(64, value);
  const auto is_two = [](int value) { return value == 2; };
  ASSERT_NE(table.find(64, is_two), nullptr);
  table.erase(64, is_two);
  EXPECT_EQ(table.find(64, is_two), nullptr);
  EXPECT_EQ(table.size(), 2U);
}

TEST(CommunicatorFilter, TakesSizesNamesAndTheWorld) {
  const auto takes = [](const char* filter, int ranks, const char* name = "") {
    return matches_communicator(filter, ranks, 8, name);
  };
  EXPECT_TRUE(takes("", 3));
  EXPECT_TRUE(takes("world", 8));
  EXPECT_FALSE(takes("world", 4, "rows"));
  EXPECT_TRUE(takes("world,rows", 4, "rows"));
  EXPECT_TRUE(takes("4", 4));
  EXPECT_FALSE(takes("4", 5));
  EXPECT_TRUE(takes("5..7", 5));
  EXPECT_TRUE(takes("5..7", 7));
  EXPECT_FALSE(takes("5..7", 4));
  EXPECT_TRUE(takes("5..", 8));
  EXPECT_TRUE(takes("..4", 2));
  EXPECT_FALSE(takes("..4", 5));
  EXPECT_FALSE(takes("row", 4, "rows"));
  EXPECT_FALSE(takes("rows", 4, "")) << "a communicator without a name";
  EXPECT_FALSE(takes(",", 4, "")) << "an empty part takes nothing";
  EXPECT_FALSE(takes("4x", 4));
}

TEST(DirectCache, ForgetsOnlyWhatItIsTold) {
  DirectCache<int, 16> cache;
  EXPECT_EQ(cache.find(0), nullptr);
  cache.insert(0, 5);
  ASSERT_NE(cache.find(0), nullptr);
  EXPECT_EQ(*cache.find(0), 5);
  cache.erase(640);
  EXPECT_NE(cache.find(0), nullptr);
  cache.erase(0);
  EXPECT_EQ(cache.find(0), nullptr);
}

}  // namespace
}  // namespace offbeat::trace
