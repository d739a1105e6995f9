// SPDX-License-Identifier: BSD-3-Clause
#include "base/line_of_node.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "base/hash.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"

namespace offbeat {
namespace {

constexpr int socket_kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

struct Address {
  sockaddr_un text{};
  socklen_t bytes;

  explicit Address(std::string_view name)
      : bytes(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    text.sun_family = AF_UNIX;
    std::ranges::copy(name, text.sun_path + 1);  // the 0 before it makes it abstract: there is no file
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&text); }
};

// Returns the process that started this session, or 0 if it is unknown. Hydra starts each rank in a session
// of its own. Other launchers leave their ranks in one session.
long starter_of_session() {
  const std::string path = "/proc/" + std::to_string(getsid(0)) + "/stat";
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  std::array<char, 256> text{};
  const std::size_t length = std::fread(text.data(), 1, text.size() - 1, file);
  std::fclose(file);
  // The program's name, in parentheses, may have any characters. The state and the parent follow.
  const std::size_t name_end = std::string_view(text.data(), length).rfind(") ");
  return name_end == std::string_view::npos ? 0 : std::strtol(text.data() + name_end + 4, nullptr, 10);
}

// Names the job of this process, apart from other jobs on this node. Hydra gives its jobs no names, and those
// in one allocation of SLURM have that name in common. A shell makes a process group for each program that
// the user starts in its terminal without a launcher.
std::string job_on_node() {
  const std::string job = launcher_job();
  const bool has_launcher = !job.empty() || launcher_ranks_on_node() > 1;
  const pid_t group = has_launcher || getsid(0) == getpid() ? 0 : getpgrp();
  return job + ' ' + std::to_string(starter_of_session()) + ' ' + std::to_string(group);
}

std::string name_of_line(std::string_view line) {
  std::string text = std::to_string(geteuid()) + ' ' + job_on_node() + ' ';
  std::ranges::copy_if(line, std::back_inserter(text), [](char c) { return c < '0' || c > '9'; });
  return "offbeat " + std::to_string(fnv1a(text));
}

}  // namespace

LineOfNode::LineOfNode(std::string_view line) : line_(line), name_(name_of_line(line)) {}

bool LineOfNode::say_first() {
  const Address address(name_);
  const int held = socket(AF_UNIX, socket_kind, 0);
  if (held >= 0 && bind(held, address.get(), address.bytes) == 0 && listen(held, SOMAXCONN) == 0) {
    say(line_);
    return true;
  }
  const bool is_held = held >= 0 && errno == EADDRINUSE;
  if (held >= 0) close(held);
  for (int k = 0; is_held && k < 5; ++k) {
    if (is_said()) return false;
    usleep(1000);  // the other rank may be between bind and listen
  }
  say(line_);  // the kernel gives no names here, or another user has taken this one
  return true;
}

bool LineOfNode::is_said() const {
  const Address address(name_);
  const int asking = socket(AF_UNIX, socket_kind, 0);
  if (asking < 0) return false;
  // EAGAIN means that many processes ask at once.
  const bool is_held = connect(asking, address.get(), address.bytes) == 0 || errno == EAGAIN;
  ucred holder{};
  socklen_t bytes = sizeof holder;
  const bool is_known = is_held && getsockopt(asking, SOL_SOCKET, SO_PEERCRED, &holder, &bytes) == 0;
  close(asking);
  return is_known && (holder.pid == 0 || holder.uid == geteuid());
}

void say_once_on_node(std::string_view line) { LineOfNode(line).say_first(); }

}  // namespace offbeat
