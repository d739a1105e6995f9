// SPDX-License-Identifier: BSD-3-Clause
#include "node/source_line.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/time.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {
namespace {

// Returns the path of a program in one of the usual folders, or an empty one.
std::string path_of_program(const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/usr/local/bin/", "/bin/"}) {
    const std::string path = folder + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

struct Start {
  const char* path;
  char* const* words;
  int output;
};

// The child shares the memory of this process until it becomes the program, so it only makes system calls.
int become_program(void* given) {
  const auto& start = *static_cast<const Start*>(given);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(start.output, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
  static constexpr char no_words[] = "LC_ALL=C";
  char* const environment[] = {const_cast<char*>(no_words), nullptr};  // without the preload
  execve(start.path, start.words, environment);
  _exit(127);
}

std::string read_all(int file, std::int64_t limit_ns) {
  std::string text;
  const std::int64_t until = monotonic_ns() + limit_ns;
  std::array<char, 1024> piece;
  for (;;) {
    pollfd look{.fd = file, .events = POLLIN, .revents = 0};
    const std::int64_t left = until - monotonic_ns();
    if (left <= 0 || poll(&look, 1, static_cast<int>(left / ns_per_ms) + 1) <= 0) return text;
    const ssize_t length = read(file, piece.data(), piece.size());
    if (length <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(length));
  }
}

// Runs a program and returns what it prints. Its end sends this process no signal, and wait() does not see
// it, because the process belongs to a program that may wait for its own children.
std::string output_of(const std::string& path, std::vector<std::string> words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const Descriptor out(ends[0]);
  Descriptor in(ends[1]);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  Start start{path.c_str(), pointers.data(), in.get()};
  std::vector<char> stack(std::size_t{64} << 10);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto top = reinterpret_cast<std::uintptr_t>(stack.data() + stack.size()) & ~std::uintptr_t{63};
  const int child = clone(become_program, reinterpret_cast<void*>(top), CLONE_VM | CLONE_VFORK, &start);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  in = Descriptor();
  if (child < 0) return {};
  const std::string text = read_all(out.get(), 2 * ns_per_s);
  kill(child, SIGKILL);
  waitpid(child, nullptr, __WCLONE);
  return text;
}

std::string known(std::string_view text) { return text.starts_with("?") ? std::string() : std::string(text); }

// Returns true if an ELF file lists its local functions, too. Otherwise addr2line takes the nearest exported
// function before an address for the one that has it.
bool has_all_symbols(std::string_view file) {
  std::ifstream elf{std::string(file), std::ios::binary};
  ElfW(Ehdr) header{};
  elf.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!elf || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  for (unsigned k = 0; k < header.e_shnum; ++k) {
    ElfW(Shdr) section{};
    elf.seekg(static_cast<std::streamoff>(header.e_shoff + k * sizeof section));
    elf.read(reinterpret_cast<char*>(&section), sizeof section);
    if (elf && section.sh_type == SHT_SYMTAB) return true;
  }
  return false;
}

}  // namespace

SourceLine source_line(std::string_view file, std::string_view address) {
  const std::string program = path_of_program("addr2line");
  if (program.empty()) return {};
  const std::string text =
      output_of(program, {program, "-f", "-C", "-e", std::string(file), std::string(address)});
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return {};
  SourceLine found;
  found.function = known(std::string_view(text).substr(0, end));
  std::string_view place = std::string_view(text).substr(end + 1);
  place = place.substr(0, place.find_first_of(" \n"));  // before " (discriminator 2)"
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || known(place).empty() || place.substr(colon + 1) == "?" ||
      place.substr(colon + 1) == "0") {
    if (!has_all_symbols(file)) found.function.clear();
    return found;
  }
  found.file = place.substr(0, colon);
  found.line = place.substr(colon + 1);
  return found;
}

}  // namespace offbeat
