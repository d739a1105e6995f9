// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"

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
  expect_start(error_of("OFFBEAT_\x1b]0;X\a", "1"), "unknown setting OFFBEAT_\\x1b]0;X\\x07; ");
  EXPECT_LT(error_of("OFFBEAT_WAIT", std::string(100000, 'x')).size(), 400U);
  EXPECT_LT(error_of("OFFBEAT_" + std::string(100000, 'X'), "1").size(), 400U);
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
      expect_one_line(error_of(std::string(setting.name), text()));
    std::string name = "OFFBEAT_" + text();
    std::replace(name.begin(), name.end(), '=', '_');
    expect_one_line(error_of(name, text()));
  }
  EXPECT_GT(errors, 3000);
}

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
