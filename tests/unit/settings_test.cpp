// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.hpp"

namespace offbeat {
namespace {

class SettingsTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const SettingDescription& setting : setting_descriptions())
      unsetenv(std::string(setting.name).c_str());
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
  setenv("OFFBEAT_VERBOSE", "1", 1);
  setenv("OFFBEAT_REPORT", "1", 1);
  setenv("OFFBEAT_STALL_S", "7", 1);
  setenv("OFFBEAT_CHECK", "1", 1);
  setenv("OFFBEAT_WAIT", "yield", 1);
  setenv("OFFBEAT_CACHE_MIB", "3", 1);
  setenv("OFFBEAT_TRACE", "folder", 1);
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.allreduce, "ring");
  EXPECT_EQ(settings.trace, "folder");
  EXPECT_EQ(settings.verbose, 1);
  EXPECT_TRUE(settings.report);
  EXPECT_EQ(settings.stall_s, 7);
  EXPECT_TRUE(settings.check);
  EXPECT_EQ(settings.wait, WaitPolicy::yield);
  EXPECT_EQ(settings.cache_bytes, std::size_t{3} << 20);
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
}

TEST_F(SettingsTest, UnknownVariablesAreErrors) { expect_error("OFFBEAT_ALREDUCE", "ring"); }

TEST_F(SettingsTest, EveryDescribedVariableIsRead) {
  // A value that no setting takes: each must object, but for the expression, which is parsed later, and the
  // folder, which may have any name. ReadsEveryVariable has those two.
  for (const SettingDescription& setting : setting_descriptions()) {
    if (setting.name == "OFFBEAT_ALLREDUCE" || setting.name == "OFFBEAT_TRACE") continue;
    expect_error(std::string(setting.name).c_str(), "#");
  }
}

}  // namespace
}  // namespace offbeat
