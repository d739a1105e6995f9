// SPDX-License-Identifier: BSD-3-Clause
// The trace of calls in groups (OFFBEAT_TRACE), read from its files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "ranks.hpp"
#include "trace/format.hpp"
#include "trace/sampling.hpp"

namespace {

using namespace offbeat::trace;
using offbeat::Collective;
using offbeat::is_sampled;
using ranks::call_of;
using ranks::make_group;
using ranks::require;
using ranks::Shared;

// A folder for a trace, which the destructor removes.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "offbeat-trace-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    setenv("OFFBEAT_TRACE", (path_ + "/run.trace").c_str(), 1);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    unsetenv("OFFBEAT_TRACE");
    std::filesystem::remove_all(path_);
  }
  [[nodiscard]] std::string file_of(int rank) const {
    return path_ + "/run.trace/rank-00000" + std::to_string(rank) + ".trace";
  }

 private:
  std::string path_;
};

struct Definition {
  CommunicatorRecord record;
  std::vector<int> ranks;
};

// What a file has.
struct Contents {
  explicit Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.size() < header_bytes) return;
    std::memcpy(&header, bytes.data(), sizeof header);
    for (std::uint64_t slot = 0; slot < header.slots; ++slot) {
      const char* at = bytes.data() + header_bytes + slot * slot_bytes;
      if (static_cast<RecordKind>(at[0]) == RecordKind::call) {
        calls.emplace_back();
        std::memcpy(&calls.back(), at, sizeof(CallRecord));
        continue;
      }
      std::uint32_t slots = 0;
      std::memcpy(&slots, at + 4, sizeof slots);
      slot += slots - 1;
      if (static_cast<RecordKind>(at[0]) == RecordKind::name) {
        NameRecord name;
        std::memcpy(&name, at, sizeof name);
        names[{name.what, name.number}] = std::string(at + sizeof name, name.length);
        continue;
      }
      Definition found{};
      std::memcpy(&found.record, at, communicator_ranks_offset);
      if ((found.record.flags & ranks_follow) != 0) {
        found.ranks.resize(found.record.ranks);
        std::memcpy(found.ranks.data(), at + communicator_ranks_offset, found.ranks.size() * sizeof(int));
      }
      groups.push_back(found);
    }
  }

  Header header{};
  std::vector<CallRecord> calls;
  std::vector<Definition> groups;
  std::map<std::pair<Named, std::uint32_t>, std::string> names;
};

constexpr int size = 3;

// Makes 20 calls in a group of all ranks, 10 in a group of ranks 2 and 1, and one alone.
void make_calls(Shared& shared, int rank) {
  offbeat_group* all = make_group(shared, rank, size);
  offbeat_group* two = rank > 0 ? make_group(shared, 2 - rank, 2, 1) : nullptr;
  offbeat_group* one = nullptr;
  require(offbeat_group_make(0, 1, nullptr, nullptr, &one) == OFFBEAT_OK, "no group");
  std::vector<float> data(100, 1.0F);
  for (int k = 0; k < 10; ++k) {
    offbeat_call call = call_of(all, "allreduce");
    call.output = data.data();
    call.count = 100;
    call.type = OFFBEAT_FLOAT32;
    call.op = OFFBEAT_MAX;
    require(offbeat_run(&call) == OFFBEAT_OK, "allreduce");
    std::atomic<int> is_done{0};
    call.collective = "bcast";
    call.root = 2;
    call.done_state = &is_done;
    call.done = [](void* state, offbeat_status, const char*) { *static_cast<std::atomic<int>*>(state) = 1; };
    require(offbeat_begin(&call, nullptr) == OFFBEAT_OK, "bcast");
    while (is_done.load() == 0) sched_yield();
    if (two == nullptr) continue;
    std::vector<double> input(4), output(4);
    offbeat_call other = call_of(two, "alltoall");
    other.input = input.data();
    other.output = output.data();
    other.count = 2;
    other.type = OFFBEAT_FLOAT64;
    offbeat_request* request = nullptr;
    require(offbeat_begin(&other, &request) == OFFBEAT_OK && offbeat_wait(&request) == OFFBEAT_OK,
            "alltoall");
  }
  offbeat_call alone = call_of(one, "barrier");
  require(offbeat_run(&alone) == OFFBEAT_OK, "barrier");
  for (offbeat_group* group : {all, two, one}) offbeat_group_free(&group);
}

TEST(GroupTrace, HasTheCallsOfEveryGroup) {
  const Folder folder;
  EXPECT_EQ(ranks::run(size,
                       [](Shared& shared, int rank) {
                         make_calls(shared, rank);
                         std::exit(0);
                       }),
            std::vector<int>(size, 0));
  std::uint64_t run = 0, identity = 0, identity_of_two = 0;
  for (int rank = 0; rank < size; ++rank) {
    SCOPED_TRACE(rank);
    const Contents found(folder.file_of(rank));
    EXPECT_EQ(found.header.rank, static_cast<std::uint32_t>(rank));
    EXPECT_EQ(found.header.ranks, 3U);
    EXPECT_EQ(found.header.flags, static_cast<std::uint32_t>(ended_in_order));
    EXPECT_STREQ(found.header.mpi, "no MPI");
    EXPECT_EQ(found.header.lost, 0U);
    EXPECT_EQ(found.header.begin.kind, 1U);
    const std::size_t calls = rank == 0 ? 21 : 31;
    EXPECT_EQ(found.header.calls, calls);
    ASSERT_EQ(found.calls.size(), calls);
    ASSERT_EQ(found.groups.size(), rank == 0 ? 2U : 3U);
    const CommunicatorRecord& world = found.groups[0].record;
    EXPECT_EQ(world.flags, static_cast<std::uint8_t>(has_first_ranks_of_world));
    if (rank == 0) run = found.header.run, identity = world.identity;
    EXPECT_EQ(found.header.run, run);
    EXPECT_EQ(world.identity, identity);
    if (rank > 0) {
      const Definition& two = found.groups[1];
      EXPECT_EQ(two.record.rank, static_cast<std::uint32_t>(2 - rank));
      EXPECT_EQ(two.ranks, rank == 2 ? (std::vector<int>{2, 1}) : std::vector<int>{});
      if (rank == 1) identity_of_two = two.record.identity;
      EXPECT_EQ(two.record.identity, identity_of_two);
      EXPECT_NE(two.record.identity, identity);
    }
    std::map<std::uint32_t, std::uint64_t> numbers;
    for (const CallRecord& call : found.calls) {
      EXPECT_EQ(call.number, numbers[call.communicator]++);
      EXPECT_EQ(call.flags & incomplete, 0);
      EXPECT_LE(call.arrival, call.exit);
      EXPECT_LE(call.exit, call.completion);
      const auto name = [&](Named what, std::uint32_t number) { return found.names.at({what, number}); };
      if (call.collective == Collective::allreduce) {
        EXPECT_EQ(call.bytes, 400);
        EXPECT_EQ(call.flags, static_cast<std::uint8_t>(in_place));
        EXPECT_EQ(name(Named::type, call.type), "float32");
        EXPECT_EQ(name(Named::operation, call.operation), "max");
        EXPECT_NE(name(Named::algorithm, call.algorithm), "");
      } else if (call.collective == Collective::bcast) {
        EXPECT_EQ(call.root, 2);
        EXPECT_EQ(call.flags, static_cast<std::uint8_t>(nonblocking));
      } else if (call.collective == Collective::alltoall) {
        EXPECT_EQ(call.communicator, 1U);
        EXPECT_EQ(call.bytes, 32);
        EXPECT_EQ(call.count, 2);
      } else {
        EXPECT_EQ(name(Named::algorithm, call.algorithm), "copy");
      }
    }
  }
}

// The files are written although nobody ends the trace. A child of fork() writes nothing.
TEST(GroupTrace, StaysIfItsProcessIsKilled) {
  const Folder folder;
  ranks::run(size, [](Shared& shared, int rank) {
    make_calls(shared, rank);
    const pid_t child = fork();
    if (child == 0) {
      offbeat_group* one = nullptr;
      require(offbeat_group_make(0, 1, nullptr, nullptr, &one) == OFFBEAT_OK, "no group");
      offbeat_call alone = call_of(one, "barrier");
      require(offbeat_run(&alone) == OFFBEAT_OK, "barrier");
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(status == 0, "the child has failed");
    kill(getpid(), SIGKILL);
  });
  for (int rank = 0; rank < size; ++rank) {
    const Contents found(folder.file_of(rank));
    EXPECT_EQ(found.header.flags, 0U);
    EXPECT_EQ(found.calls.size(), rank == 0 ? 21U : 31U);
  }
}

TEST(GroupTrace, LeavesOutWhatTheSettingsExclude) {
  const Folder folder;
  setenv("OFFBEAT_TRACE_COLLECTIVES", "allreduce,alltoall", 1);
  setenv("OFFBEAT_TRACE_COMMUNICATORS", "world", 1);
  setenv("OFFBEAT_TRACE_EVERY", "4", 1);
  ranks::run(size, [](Shared& shared, int rank) {
    make_calls(shared, rank);
    std::exit(0);
  });
  for (const char* name : {"OFFBEAT_TRACE_COLLECTIVES", "OFFBEAT_TRACE_COMMUNICATORS", "OFFBEAT_TRACE_EVERY"})
    unsetenv(name);
  const Contents found(folder.file_of(1));
  EXPECT_EQ(found.header.flags, static_cast<std::uint32_t>(ended_in_order | is_partial));
  EXPECT_EQ(found.groups.size(), 1U);
  std::vector<std::uint64_t> numbers, wanted;
  for (const auto& each : found.calls) numbers.push_back(each.number);
  for (std::uint64_t number = 0; number < 20; number += 2)  // the allreduces
    if (is_sampled(number, 4)) wanted.push_back(number);
  EXPECT_EQ(numbers, wanted);
  EXPECT_GT(wanted.size(), 2U);
}

// A second run does not write to the trace of the first one, and works.
TEST(GroupTrace, NeverReplacesAFile) {
  const Folder folder;
  const auto body = [](Shared& shared, int rank) {
    make_calls(shared, rank);
    std::exit(0);
  };
  ranks::run(size, body);
  const std::uint64_t before = Contents(folder.file_of(0)).header.run;
  EXPECT_EQ(ranks::run(size, body), std::vector<int>(size, 0));
  EXPECT_EQ(Contents(folder.file_of(0)).header.run, before);
}

}  // namespace
