// SPDX-License-Identifier: BSD-3-Clause
// The handler may interrupt anything, also malloc or the dynamic linker. So it allocates nothing and takes no
// lock. What it calls has been used once before, so that nothing is made at its first use there.
#include "node/own_frames.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "node/blocked_stack.hpp"
#include "node/shared_memory.hpp"

namespace offbeat {
namespace {

// What Python itself uses when it has crashed (its module faulthandler). Not every build exports both.
struct Python {
  void* (*this_thread)() = nullptr;
  void (*write_frames)(int file, void* thread) = nullptr;
  int (*is_running)() = nullptr;
  [[nodiscard]] static Python find() {
    Python found;
    found.this_thread = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
    found.write_frames = reinterpret_cast<void (*)(int, void*)>(dlsym(RTLD_DEFAULT, "_Py_DumpTraceback"));
    found.is_running = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
    return found;
  }
  explicit operator bool() const {
    return this_thread != nullptr && write_frames != nullptr && is_running != nullptr && is_running() != 0;
  }
};

// What the handler needs and finds. The handler writes only between `wanted` and `done`.
struct Shot {
  enum State : int { unwanted, wanted, running, done };
  std::atomic<int> state{unwanted};
  std::array<std::uintptr_t, 48> addresses{};
  std::size_t count = 0;
  std::uintptr_t interrupted = 0;
  Python python;
  int python_file = -1;
};
Shot shot;

_Unwind_Reason_Code collect(_Unwind_Context* context, void*) {
  int is_before = 0;
  const std::uintptr_t address = _Unwind_GetIPInfo(context, &is_before);
  // The frames of the handler come first.
  if (shot.count == 0 && address != shot.interrupted) return _URC_NO_REASON;
  if (address == 0 || shot.count == shot.addresses.size()) return _URC_END_OF_STACK;
  // A return address is behind the call.
  const bool is_behind_call = shot.count > 0 && is_before == 0;
  shot.addresses[shot.count++] = address - (is_behind_call ? 1 : 0);
  return _URC_NO_REASON;
}

std::uintptr_t interrupted_at(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine.pc;
#else
  static_cast<void>(machine);
  return 0;
#endif
}

void on_signal(int, siginfo_t* info, void* context) {
  int expected = Shot::wanted;
  if (info->si_code != SI_TKILL || info->si_pid != getpid() ||
      !shot.state.compare_exchange_strong(expected, Shot::running))
    return;
  const int error = errno;
  if (shot.python) {
    if (void* const thread = shot.python.this_thread()) shot.python.write_frames(shot.python_file, thread);
  }
  shot.interrupted = interrupted_at(context);
  shot.count = 0;
  _Unwind_Backtrace(collect, nullptr);
  if (shot.count == 0) shot.addresses[shot.count++] = shot.interrupted;
  shot.state.store(Shot::done, std::memory_order_release);
  errno = error;
}

// Returns a signal whose handler is this one, or 0 if the program uses all that are left for programs. The
// handler stays, because a signal that comes late would otherwise end the process.
int own_signal() {
  static int chosen = 0;
  struct sigaction present {};
  if (chosen != 0 && sigaction(chosen, nullptr, &present) == 0 && present.sa_sigaction == on_signal)
    return chosen;
  for (int each = SIGRTMAX - 1; each > SIGRTMIN; --each) {
    if (sigaction(each, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction mine {};
    mine.sa_sigaction = on_signal;
    mine.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigfillset(&mine.sa_mask);
    if (sigaction(each, &mine, nullptr) == 0) return chosen = each;
  }
  return 0;
}

struct CallName {
  long number;
  const char* name;
};
constexpr CallName names_of_calls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_openat, "openat"},
    {SYS_fsync, "fsync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_futex, "futex"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_rt_sigtimedwait, "sigtimedwait"},
    {SYS_rt_sigsuspend, "sigsuspend"},
    {SYS_semop, "semop"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_msgrcv, "msgrcv"},
    {SYS_msgsnd, "msgsnd"},
    {SYS_io_getevents, "io_getevents"},
#if defined(__x86_64__)
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
#endif
};

// Returns the beginning of a file in /proc of the thread.
std::string file_of_thread(pid_t thread, const char* name) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/" + name;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text(2048, '\0');
  const ssize_t length = read(file, text.data(), text.size());
  close(file);
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return text;
}

// The system call in which a thread is.
struct SystemCall {
  std::string text;  // as the system shows it: the call and its arguments, the stack, and the place
  std::string name;  // empty: the thread computes
  std::uintptr_t stack = 0;
  std::uintptr_t place = 0;
};

// Says in which system call a thread is that a signal might end early: in any but one that gives up the core.
// Many return early although the handler asks for a restart (signal(7)). The result is nothing if that is
// unknown.
std::optional<SystemCall> system_call_of(pid_t thread) {
  SystemCall found{.text = file_of_thread(thread, "syscall"), .name = {}, .stack = 0, .place = 0};
  if (found.text.empty()) return {};
  long number = -1;
  const char* const end = found.text.data() + found.text.size();
  std::from_chars(found.text.data(), end, number);  // "running" is no number
  if (number == -1 || number == SYS_sched_yield) return found;
  found.name = std::to_string(number);
  for (const CallName& each : names_of_calls)
    if (each.number == number) found.name = each.name;
  const std::size_t place = found.text.rfind("0x");
  const std::size_t stack = place == 0 ? std::string::npos : found.text.rfind("0x", place - 1);
  if (place == std::string::npos || stack == std::string::npos) return found;
  std::from_chars(found.text.data() + stack + 2, end, found.stack, 16);
  std::from_chars(found.text.data() + place + 2, end, found.place, 16);
  return found;
}

// Returns true if the thread blocks the signal. It might then get it where it expects none.
bool blocks(pid_t thread, int signal) {
  const std::string text = file_of_thread(thread, "status");
  const std::size_t at = text.find("SigBlk:\t");
  if (at == std::string::npos) return true;
  std::uint64_t blocked = 0;
  std::from_chars(text.data() + at + 8, text.data() + text.size(), blocked, 16);
  return (blocked >> (signal - 1) & 1) != 0;
}

// Sends the signal, and waits until the handler has run.
bool take_shot(pid_t thread) {
  constexpr std::int64_t limit_ns = 300 * ns_per_ms;
  const int signal = own_signal();
  if (signal == 0 || blocks(thread, signal)) return false;
  _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_NO_REASON; }, nullptr);
  // Waits until no thread holds the lock of the dynamic linker, which an unwinder may need.
  dl_iterate_phdr([](dl_phdr_info*, std::size_t, void*) { return 1; }, nullptr);
  shot.state.store(Shot::wanted, std::memory_order_release);
  if (syscall(SYS_tgkill, getpid(), thread, signal) != 0) return false;
  const std::int64_t began = monotonic_ns();
  while (shot.state.load(std::memory_order_acquire) != Shot::done) {
    const timespec pause{0, ns_per_ms};
    nanosleep(&pause, nullptr);
    int expected = Shot::wanted;
    // If the thread has begun to block the signal, the handler runs later and does nothing.
    if (monotonic_ns() - began > limit_ns && shot.state.compare_exchange_strong(expected, Shot::unwanted))
      return false;
  }
  return true;
}

// Turns `  File "a.py", line 12 in solve` into fields.
std::string python_line(std::string_view line) {
  const std::size_t file = line.find("File \"");
  const std::size_t number = line.find("\", line ");
  const std::size_t in = line.find(" in ", number == std::string_view::npos ? 0 : number);
  if (file == std::string_view::npos || number == std::string_view::npos || in == std::string_view::npos)
    return {};
  const std::size_t name = file + 6;
  return "python\t" + std::string(line.substr(in + 4)) + "\t" +
         std::string(line.substr(name, number - name)) + "\t" +
         std::string(line.substr(number + 8, in - number - 8)) + "\n";
}

std::string python_frames(int file) {
  std::string text(4096, '\0');
  const ssize_t length = pread(file, text.data(), text.size(), 0);
  std::string found;
  std::string_view rest(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    found += python_line(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return found;
}

// Returns false if the limit on the size of files may end the process in the handler.
bool may_write_frames() {
  constexpr rlim_t enough = 64 << 10;
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= enough;
}

std::string path_of(const link_map& module) {
  if (module.l_name != nullptr && *module.l_name != '\0') return module.l_name;
  char path[1024];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return {path, length > 0 ? static_cast<std::size_t>(length) : 0};
}

// Returns the library or program that has this address, or null.
const link_map* module_of(std::uintptr_t address, Dl_info& info) {
  link_map* module = nullptr;
  const int is_known =
      dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&module), RTLD_DL_LINKMAP);
  return is_known != 0 ? module : nullptr;
}

std::string frame_line(std::uintptr_t address) {
  Dl_info info{};
  const link_map* const module = module_of(address, info);
  if (module == nullptr) return {};
  char offset[32];
  std::snprintf(offset, sizeof offset, "0x%lx", static_cast<unsigned long>(address - module->l_addr));
  return "frame\t" + std::string(offset) + "\t" + path_of(*module) + "\t" +
         (info.dli_sname != nullptr ? info.dli_sname : "") + "\n";
}

// Returns true if Python itself has made the system call, and repeats it if a signal ends it (PEP 475). Other
// libraries may not.
bool is_repeated_by_python(const std::string& call, const std::vector<std::uintptr_t>& frames) {
  if (call == "pause" || call == "ioctl") return false;
  for (const std::uintptr_t address : frames) {
    Dl_info info{};
    const link_map* const module = module_of(address, info);
    if (module == nullptr) return false;
    const std::string path = path_of(*module);
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    if (name.starts_with("libc.so") || name.starts_with("libpthread")) continue;
    return name.starts_with("python") || name.starts_with("libpython") ||
           path.find("/lib-dynload/") != std::string_view::npos;
  }
  return false;
}

// The frames of a thread that a signal interrupts. Only that thread may walk the frames of Python.
std::string frames_by_signal(const ThreadNames& thread, const SystemCall& call) {
  // The program may close any descriptor, so this one lives for one question.
  const Python python = may_write_frames() ? Python::find() : Python();
  const Descriptor file(python ? memfd_create("offbeat-frames", MFD_CLOEXEC) : -1);
  shot.python = file ? python : Python();
  shot.python_file = file.get();
  std::string text;
  if (take_shot(thread.number)) {
    // The program counter is behind the instruction that makes the call or, to repeat it, at that one.
    constexpr std::uintptr_t longest_instruction = 4;
    if (!call.name.empty() && call.place - shot.interrupted <= longest_instruction)
      text = "call\t" + call.name + "\n";
    if (shot.python) text += python_frames(file.get());
    for (std::size_t k = 0; k < shot.count; ++k) text += frame_line(shot.addresses[k]);
  }
  shot.state.store(Shot::unwanted, std::memory_order_relaxed);
  return text;
}

}  // namespace

ThreadNames this_thread() {
  const Python python = Python::find();
  return {.number = static_cast<pid_t>(syscall(SYS_gettid)),
          .handle = pthread_self(),
          .is_of_python = python && python.this_thread() != nullptr};
}

// A thread in a system call gets a signal only if Python has made the call and repeats it, because many calls
// end early then. Otherwise its stack is copied, and if the call has ended meanwhile, the frames do not
// count.
std::string frames_of(const ThreadNames& thread) {
  constexpr int most_tries = 5;  // a thread may make short calls one after the other
  for (int k = 1; k <= most_tries; ++k) {
    const std::optional<SystemCall> call = system_call_of(thread.number);
    if (!call) return {};
    if (call->name.empty()) return frames_by_signal(thread, *call);
    const std::vector<std::uintptr_t> stack = frames_of_blocked(thread.handle, call->place, call->stack);
    if (thread.is_of_python && is_repeated_by_python(call->name, stack)) {
      if (std::string text = frames_by_signal(thread, *call); !text.empty()) return text;
    }
    std::string frames;
    for (const std::uintptr_t address : stack) frames += frame_line(address);
    const std::optional<SystemCall> now = system_call_of(thread.number);
    const bool is_still_there = now && now->text == call->text;
    if ((is_still_there && !frames.empty()) || k == most_tries)
      return "call\t" + call->name + "\n" + (is_still_there ? frames : "");
  }
  return {};
}

}  // namespace offbeat
