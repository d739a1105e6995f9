// SPDX-License-Identifier: BSD-3-Clause
// What people read cannot steer their terminal, and a line stays one line.
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

namespace offbeat {
namespace {

TEST(Printable, LeavesWhatCanBeRead) {
  for (const char* text : {"", "ring", "pipeline(4, ring)", "\\x1b ~", "m\xc3\xbcller", "\xe2\x82\xac",
                           "\xf0\x9f\x8e\xb5", "\xc2\xa0"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(printable("\x1b[31mred\x7f\b"), "\\x1b[31mred\\x7f\\x08");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "the same as ESC [, in UTF-8";
}

TEST(Printable, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(printable("\xff\x80"), "\\xff\\x80");
  EXPECT_EQ(printable("\xc3"), "\\xc3") << "cut";
  EXPECT_EQ(printable("\xe2\x82"
                      "a"),
            "\\xe2\\x82a")
      << "cut";
  EXPECT_EQ(printable("\xc1\x9b"), "\\xc1\\x9b") << "a [ in more bytes than it needs";
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b")
      << "a control character in more bytes than it needs";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair of UTF-16";
  EXPECT_EQ(printable("\xf4\x90\x80\x80\xf8"), "\\xf4\\x90\\x80\\x80\\xf8") << "beyond Unicode";
  EXPECT_EQ(printable("\xfb\xa1\xb1\x8d"), "\\xfb\\xa1\\xb1\\x8d") << "no character begins like this";
}

TEST(Printable, EndsWhatIsLong) {
  EXPECT_EQ(printable(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(printable(std::string(100000, 'a')), std::string(200, 'a') + "...");
  EXPECT_EQ(printable("abc\ndef", 4), "abc...") << "an escape is not cut in two";
  EXPECT_EQ(printable("\xc3\xbc\xc3\xbc", 3), "\xc3\xbc...") << "nor is a character";
}

TEST(Printable, MakesOneLineOfAnything) {
  std::mt19937 random(1);
  for (int k = 0; k < 20000; ++k) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const std::string shown = printable(text, 1000);
    for (const char c : shown) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << shown;
    ASSERT_EQ(printable(shown, 1000), shown) << "what has been made printable is";
  }
}

TEST(Say, WritesOneLineWhateverIsInIt) {
  testing::internal::CaptureStderr();
  say("no such folder: a\nb\x1b[2J");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "offbeat: no such folder: a\\nb\\x1b[2J\n");
}

}  // namespace
}  // namespace offbeat
