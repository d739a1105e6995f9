// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"

namespace offbeat {
namespace {

class SettingsTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const SettingDescription& setting : setting_descriptions()) unsetenv(setting.name.c_str());
    unsetenv("OFFBEAT_ALREDUCE");
  }
  static void expect_error(const char* name, const char* value) {
    setenv(name, value, 1);
    try {
      static_cast<void>(Settings::from_environment());
      ADD_FAILURE() << name << "=" << value << " was accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    unsetenv(name);
  }
};

TEST_F(SettingsTest, ReadsEveryVariable) {
  setenv("OFFBEAT_ALLREDUCE", "ring", 1);
  setenv("OFFBEAT_RULES", "my.rules", 1);
  setenv("OFFBEAT_ADAPT", "any", 1);
  setenv("OFFBEAT_VERBOSE", "1", 1);
  setenv("OFFBEAT_REPORT", "1", 1);
  setenv("OFFBEAT_STALL_S", "7", 1);
  setenv("OFFBEAT_CHECK", "1", 1);
  setenv("OFFBEAT_WAIT", "yield", 1);
  setenv("OFFBEAT_GPU", "native", 1);
  setenv("OFFBEAT_CACHE_MIB", "3", 1);
  setenv("OFFBEAT_TRACE", "folder", 1);
  setenv("OFFBEAT_TRACE_COLLECTIVES", "bcast,neighbor_alltoallw", 1);
  setenv("OFFBEAT_TRACE_COMMUNICATORS", "world,8..,rows", 1);
  setenv("OFFBEAT_TRACE_PAUSED", "1", 1);
  setenv("OFFBEAT_PROGRESS_CPUS", "14,2-4", 1);
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.algorithm(Collective::allreduce), "ring");
  EXPECT_EQ(settings.rules, "my.rules");
  EXPECT_EQ(settings.adapt, Adapt::any);
  EXPECT_EQ(settings.trace, "folder");
  EXPECT_EQ(settings.trace_collectives.count(), 2);
  EXPECT_TRUE(settings.trace_collectives.contain(Collective::neighbor_alltoallw));
  EXPECT_EQ(settings.trace_communicators, "world,8..,rows");
  EXPECT_TRUE(settings.trace_paused);
  EXPECT_EQ(settings.verbose, 1);
  EXPECT_TRUE(settings.report);
  EXPECT_EQ(settings.stall_s, 7);
  EXPECT_TRUE(settings.check);
  EXPECT_EQ(settings.wait, WaitPolicy::yield);
  EXPECT_EQ(settings.gpu, GpuPolicy::native);
  EXPECT_EQ(settings.cache_bytes, std::size_t{3} << 20);
  EXPECT_EQ(settings.progress_cpus, (std::vector<int>{14, 2, 3, 4}));
}

TEST_F(SettingsTest, HasTheDefaultsOfTheTable) {
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.algorithm(Collective::allreduce), "");
  EXPECT_EQ(settings.adapt, Adapt::on);
  EXPECT_EQ(settings.verbose, 0);
  EXPECT_FALSE(settings.report);
  EXPECT_EQ(settings.stall_s, 60);
  EXPECT_EQ(settings.wait, WaitPolicy::automatic);
  EXPECT_EQ(settings.gpu, GpuPolicy::stage);
  EXPECT_EQ(settings.window_bytes, std::size_t{1} << 20);
  EXPECT_EQ(settings.cache_bytes, std::size_t{256} << 20);
  EXPECT_EQ(settings.trace, "");
  EXPECT_EQ(settings.trace_every, 1);
  EXPECT_EQ(settings.trace_collectives.count(), static_cast<int>(collectives.size()));
  EXPECT_EQ(settings.trace_bytes, std::uint64_t{1} << 30);
}

TEST_F(SettingsTest, EveryServedCollectiveHasASettingForItsAlgorithm) {
  for (std::size_t k = 0; k < collectives.size(); ++k) {
    const Collective collective = collective_at(k);
    const std::string name = algorithm_setting(collective);
    if (!served_collectives.contain(collective)) {
      setenv(name.c_str(), "ring", 1);
      EXPECT_NE(unknown_settings().find(name), std::string::npos);
      unsetenv(name.c_str());
      continue;
    }
    setenv(name.c_str(), "ring", 1);
    EXPECT_EQ(Settings::from_environment().algorithm(collective), "ring") << name;
    unsetenv(name.c_str());
  }
  EXPECT_EQ(algorithm_setting(Collective::reduce_scatter), "OFFBEAT_REDUCE_SCATTER");
}

// A value that is not the default, made from the text that names the values: the last one.
std::string last_value(const SettingDescription& setting) {
  for (const std::string_view before : {" to ", ", such as ", ", "}) {
    const std::size_t at = setting.values.rfind(before);
    if (at != std::string::npos) return setting.values.substr(at + before.size());
  }
  return setting.values;
}

TEST_F(SettingsTest, TakesTheNumbersThatItsDescriptionNamesAndNoOthers) {
  int ranges = 0;
  for (const SettingDescription& setting : setting_descriptions()) {
    const std::size_t to = setting.values.find(" to ");
    if (to == std::string::npos) continue;
    ++ranges;
    const long least = std::stol(setting.values);
    const long most = std::stol(setting.values.substr(to + 4));
    for (const long value : {least, most}) {
      setenv(setting.name.c_str(), std::to_string(value).c_str(), 1);
      EXPECT_NO_THROW(static_cast<void>(Settings::from_environment())) << setting.name << "=" << value;
      unsetenv(setting.name.c_str());
    }
    expect_error(setting.name.c_str(), std::to_string(least - 1).c_str());
    expect_error(setting.name.c_str(), std::to_string(most + 1).c_str());
  }
  EXPECT_GT(ranges, 4);
}

TEST_F(SettingsTest, RanksAgreeOnWhatMustBeEqualAndOnNothingElse) {
  const std::uint64_t by_default = Settings().agreement();
  int equal = 0;
  for (const SettingDescription& setting : setting_descriptions()) {
    setenv(setting.name.c_str(), last_value(setting).c_str(), 1);
    EXPECT_EQ(Settings::from_environment().agreement() != by_default, setting.equal_on_all_ranks)
        << setting.name << "=" << last_value(setting);
    unsetenv(setting.name.c_str());
    if (setting.equal_on_all_ranks) ++equal;
  }
  EXPECT_EQ(equal, 6 + static_cast<int>(served_collectives.count()));
}

TEST_F(SettingsTest, WhatMeansTheSameIsAgreedOn) {
  setenv("OFFBEAT_BOARD_KIB", "02049", 1);  // whole pages: 2048
  setenv("OFFBEAT_CHECK", "", 1);
  EXPECT_EQ(Settings::from_environment().agreement(), Settings().agreement());
}

TEST_F(SettingsTest, ReadsEveryWayToWait) {
  const struct {
    const char* value;
    WaitPolicy policy;
  } ways[] = {{"auto", WaitPolicy::automatic},
              {"spin", WaitPolicy::spin},
              {"yield", WaitPolicy::yield},
              {"sleep", WaitPolicy::sleep}};
  for (const auto& way : ways) {
    setenv("OFFBEAT_WAIT", way.value, 1);
    EXPECT_EQ(Settings::from_environment().wait, way.policy) << way.value;
  }
}

TEST_F(SettingsTest, EmptyIsUnset) {
  setenv("OFFBEAT_VERBOSE", "", 1);
  EXPECT_EQ(Settings::from_environment().verbose, 0);
}

TEST_F(SettingsTest, BadValuesAreErrors) {
  for (const char* value : {"2", "-1", "yes", "1x", " 1", "99999999999999999999"}) {
    expect_error("OFFBEAT_VERBOSE", value);
    expect_error("OFFBEAT_REPORT", value);
  }
  expect_error("OFFBEAT_WAIT", "nap");
  expect_error("OFFBEAT_CACHE_MIB", "1048577");
  for (const char* list : {"3-1", "-1", "1,", ",1", "1,,2", "1-", "0x1", "65536", "99999999999", "0-65535,0"})
    expect_error("OFFBEAT_PROGRESS_CPUS", list);
}

std::string unknown(std::initializer_list<const char*> names) {
  for (const char* name : names) setenv(name, "1", 1);
  static_cast<void>(Settings::from_environment());  // must not throw
  std::string line = unknown_settings();
  for (const char* name : names) unsetenv(name);
  return line;
}

TEST_F(SettingsTest, UnknownVariablesAreNamedInOneLine) {
  EXPECT_EQ(unknown({}), "");
  const std::string end = "; `offbeat info --settings` lists them all";
  EXPECT_EQ(unknown({"OFFBEAT_ALREDUCE"}),
            "this is not a setting of offbeat: OFFBEAT_ALREDUCE (did you mean OFFBEAT_ALLREDUCE?)" + end);
  EXPECT_EQ(unknown({"OFFBEAT_MANGROVES"}), "this is not a setting of offbeat: OFFBEAT_MANGROVES" + end);
  const std::string many =
      unknown({"OFFBEAT_Q1", "OFFBEAT_Q2", "OFFBEAT_Q3", "OFFBEAT_Q4", "OFFBEAT_Q5", "OFFBEAT_Q6"});
  EXPECT_TRUE(many.starts_with("these are not settings of offbeat: ")) << many;
  EXPECT_TRUE(many.ends_with(" and 2 more" + end)) << many;
}

TEST_F(SettingsTest, VariablesOfModuleFilesAreNotNamed) {
  EXPECT_EQ(unknown({"OFFBEAT_ROOT", "OFFBEAT_DIR", "OFFBEAT_HOME", "OFFBEAT_BASE", "OFFBEAT_VERSION",
                     "OFFBEAT_INC", "OFFBEAT_LIB"}),
            "");
  EXPECT_NE(unknown({"OFFBEAT_TRACE_DIR"}), "");
}

TEST_F(SettingsTest, TheLauncherOfTheMpiSaysTheRank) {
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  setenv("PMI_RANK", "1", 1);
  EXPECT_EQ(launcher_rank("openmpi"), 3);
  EXPECT_EQ(launcher_rank("mpich"), 1);
  unsetenv("PMI_RANK");
  EXPECT_EQ(launcher_rank("mpich"), 3);
  unsetenv("OMPI_COMM_WORLD_RANK");
}

TEST_F(SettingsTest, ALauncherIsKnownByARankOrAJob) {
  EXPECT_FALSE(has_launcher());
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID",
        "FLUX_TASK_RANK", "JSM_NAMESPACE_RANK", "SLURM_PROCID", "PMIX_NAMESPACE", "PALS_APID"}) {
    setenv(name, "0", 1);
    EXPECT_TRUE(has_launcher()) << name;
    unsetenv(name);
  }
  EXPECT_FALSE(has_launcher());
}

TEST_F(SettingsTest, MpirunRshOfMvapich2SaysRankAndRanksOfNode) {
  setenv("SLURM_PROCID", "1", 1);  // of the step that mpirun_rsh has made on each node
  setenv("MV2_COMM_WORLD_RANK", "7", 1);
  setenv("MV2_COMM_WORLD_LOCAL_SIZE", "4", 1);
  EXPECT_EQ(launcher_rank("mpich"), 7);
  EXPECT_EQ(launcher_rank("openmpi"), 7);
  EXPECT_EQ(launcher_ranks_on_node(), 4);
  for (const char* name : {"SLURM_PROCID", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"})
    unsetenv(name);
}

TEST_F(SettingsTest, TheLauncherOfTheMpiSaysTheJob) {
  EXPECT_EQ(launcher_job("openmpi"), launcher_job("mpich"));
  setenv("PMIX_NAMESPACE", "prterun@1", 1);
  EXPECT_NE(launcher_job("openmpi").find("prterun@1"), std::string::npos);
  EXPECT_EQ(launcher_job("mpich"), launcher_job("openmpi"));
  setenv("I_MPI_HYDRA_UUID", "b22f", 1);
  const std::string first = launcher_job("mpich");
  EXPECT_NE(first, launcher_job("openmpi"));
  setenv("HYDRA_BSTRAP_PGID", "1", 1);  // of processes that the job has spawned
  EXPECT_NE(launcher_job("mpich"), first);
  for (const char* name : {"PMIX_NAMESPACE", "I_MPI_HYDRA_UUID", "HYDRA_BSTRAP_PGID"}) unsetenv(name);
}

std::string error_of(const std::string& name, const std::string& value) {
  setenv(name.c_str(), value.c_str(), 1);
  std::string what;
  try {
    static_cast<void>(Settings::from_environment());
  } catch (const UsageError& error) {
    what = error.what();
  }
  unsetenv(name.c_str());
  return what;
}

TEST_F(SettingsTest, ErrorsShowWhatCannotBePrintedAndAreShort) {
  const auto expect_start = [](const std::string& error, std::string_view start) {
    EXPECT_EQ(error.substr(0, start.size()), start);
  };
  expect_start(error_of("OFFBEAT_WAIT", "\x1b[2J\nno"), "OFFBEAT_WAIT='\\x1b[2J\\nno' is not understood; ");
  expect_start(unknown({"OFFBEAT_\x1b]0;X\a"}), "this is not a setting of offbeat: OFFBEAT_\\x1b]0;X\\x07");
  EXPECT_LT(error_of("OFFBEAT_WAIT", std::string(100000, 'x')).size(), 400U);
  const std::string longest = "OFFBEAT_" + std::string(100000, 'X');
  EXPECT_LT(unknown({longest.c_str()}).size(), 400U);
}

// Random bytes: an error that can be printed, or a value that is taken.
TEST_F(SettingsTest, RandomBytesAreErrorsInOneLine) {
  std::mt19937 random(2);
  const auto text = [&] {
    std::string bytes(1 + random() % 20, '\0');
    // Half of them of what values are made of. No zero: it would end the variable.
    const std::string_view likely = "0123456789-+ .xeautospinyieldsleep";
    const bool is_likely = random() % 2 == 0;
    for (char& c : bytes)
      c = is_likely ? likely[random() % likely.size()] : static_cast<char>(1 + random() % 255);
    return bytes;
  };
  int errors = 0;
  const auto expect_one_line = [&](const std::string& error) {
    if (!error.empty()) ++errors;
    ASSERT_EQ(printable(error, 1000), error);
  };
  for (int k = 0; k < 500; ++k) {
    for (const SettingDescription& setting : setting_descriptions())
      expect_one_line(error_of(setting.name, text()));
    std::string name = "OFFBEAT_" + text();
    std::replace(name.begin(), name.end(), '=', '_');
    const std::string line = unknown({name.c_str()});
    ASSERT_EQ(printable(line, 1000), line);
  }
  EXPECT_GT(errors, 3000);
}

TEST_F(SettingsTest, EveryDescribedVariableIsRead) {
  // A value that no setting takes: each must object, but for the expressions, which are parsed later, and for
  // files, folders and communicators, which may have any name. ReadsEveryVariable has those.
  for (const SettingDescription& setting : setting_descriptions()) {
    const bool is_path = setting.values == "a file" || setting.values == "a folder";
    const bool has_names = setting.values.find("and names") != std::string::npos;
    if (is_path || has_names || setting.values.starts_with("an algorithm expression")) continue;
    expect_error(setting.name.c_str(), "#");
  }
}

}  // namespace
}  // namespace offbeat
