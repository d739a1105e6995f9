// SPDX-License-Identifier: BSD-3-Clause
// What people read cannot steer their terminal, a line stays one line, and one process of a node prints it.
#include "base/log.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

#include "base/line_of_node.hpp"

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

// In a child, because the limit holds for the whole process. The program's errors go to a file that may not
// grow: without care the kernel would end the program.
TEST(Say, SurvivesALimitOnFileSize) {
  const pid_t child = fork();
  if (child == 0) {
    std::FILE* const file = std::tmpfile();
    dup2(fileno(file), STDERR_FILENO);
    const rlimit limit{};
    setrlimit(RLIMIT_FSIZE, &limit);
    say("too long for this file");
    sigset_t pending;
    sigpending(&pending);
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    _exit(sigismember(&pending, SIGXFSZ) == 0 && sigismember(&blocked, SIGXFSZ) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

// Returns a text that no other process uses at the same time.
std::string own_text() {
  std::string text = std::to_string(getpid());
  for (char& digit : text) digit = static_cast<char>(digit - '0' + 'a');
  return text;
}

// Starts processes that print `text` and a number each, after become(). All of them live until all have
// tried.
std::string printed_by_processes(
    int count, const std::string& text, void (*become)() = [] {}) {
  testing::internal::CaptureStderr();
  std::array<int, 2> tried{};
  std::array<int, 2> end{};
  EXPECT_EQ(pipe(tried.data()), 0);
  EXPECT_EQ(pipe(end.data()), 0);
  char byte = 0;
  for (int rank = 0; rank < count; ++rank) {
    if (fork() != 0) continue;
    close(end[1]);
    become();
    say_once_on_node(text + std::to_string(rank));
    static_cast<void>(!write(tried[1], &byte, 1));
    _exit(static_cast<int>(read(end[0], &byte, 1)));  // 0, because nobody writes
  }
  for (int rank = 0; rank < count; ++rank) EXPECT_EQ(read(tried[0], &byte, 1), 1);
  for (const int file : {tried[0], tried[1], end[0], end[1]}) close(file);
  while (wait(nullptr) > 0) continue;
  return testing::internal::GetCapturedStderr();
}

TEST(LineOfNode, IsPrintedByOneOfAllProcesses) {
  const std::string lines = printed_by_processes(5, own_text() + " rank ");
  EXPECT_EQ(std::ranges::count(lines, '\n'), 1) << lines;
  EXPECT_TRUE(lines.starts_with("offbeat: " + own_text() + " rank ")) << lines;
}

TEST(LineOfNode, IsPrintedAgainByALaterJob) {
  const std::string first = printed_by_processes(2, own_text() + " again ");
  const std::string second = printed_by_processes(2, own_text() + " again ");
  EXPECT_EQ(std::ranges::count(first + second, '\n'), 2) << first << second;
}

// As an interactive shell starts them.
TEST(LineOfNode, IsPrintedByEachProgramOfATerminal) {
  const std::string lines = printed_by_processes(2, own_text() + " rank ", [] { setpgid(0, 0); });
  EXPECT_EQ(std::ranges::count(lines, '\n'), 2) << lines;
}

// Each process is a proxy of Hydra, and starts one rank.
TEST(LineOfNode, IsPrintedByEachJobOfAnAllocation) {
  const std::string lines = printed_by_processes(2, own_text() + " rank ", [] {
    setenv("SLURM_JOB_ID", "7", 1);
    if (fork() != 0) {
      wait(nullptr);
      _exit(0);
    }
    setsid();
  });
  EXPECT_EQ(std::ranges::count(lines, '\n'), 2) << lines;
}

TEST(LineOfNode, DiffersFromOtherLines) {
  testing::internal::CaptureStderr();
  for (const char* why : {" too long", " too short", " too long"}) say_once_on_node(own_text() + why);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "offbeat: " + own_text() + " too long\noffbeat: " + own_text() + " too short\n");
}

}  // namespace
}  // namespace offbeat
