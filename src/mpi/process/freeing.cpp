// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/process/freeing.hpp"

#include <unwind.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace offbeat {
namespace {

// One call in progress that frees a communicator. A thread has more than one if attribute functions free
// others.
//
// These calls may never return, because the program's error handler can throw or jump. So nothing here has a
// destructor, and the stack shows whether a call is still in progress.
struct FreeingCall {
  MPI_Comm handle;
  const void* frame;               // canonical frame address of the call
  Communicator* entry_to_destroy;  // what was kept for the handle; set once the host has let go of it
};
constexpr std::size_t most_freed_at_once = 16;
constinit thread_local std::array<FreeingCall, most_freed_at_once> calls_in_progress{};
constinit thread_local std::size_t count_in_progress = 0;

// Calls `host_call` in a frame that StackWalk can recognise. This is never inlined, in any build.
[[gnu::noinline, gnu::noipa]] int run_in_known_frame(FreeingCall& call,
                                                     HostFunction<int(MPI_Comm*)> host_call,
                                                     MPI_Comm* argument) {
  call.frame = __builtin_dwarf_cfa();
  const int code = host_call(argument);
  call.frame = nullptr;
  return code;
}

// Finds out whether run_in_known_frame() has a frame at `wanted_frame_` on this thread's stack.
class StackWalk {
 public:
  explicit StackWalk(const void* frame) : wanted_frame_(frame) {}
  [[nodiscard]] bool finds_frame() {
    const _Unwind_Reason_Code end = _Unwind_Backtrace(check_frame, this);
    // A function without unwind tables ends the walk early. The frame may lie beyond it, so it counts as
    // found.
    return is_found_ || end != _URC_END_OF_STACK;
  }

 private:
  // Looks at one frame. The context of its caller gives the address of the frame.
  static _Unwind_Reason_Code check_frame(_Unwind_Context* context, void* state) {
    auto* self = static_cast<StackWalk*>(state);
    const auto address = static_cast<std::uintptr_t>(_Unwind_GetCFA(context));
    if (self->callee_is_it_ && address == reinterpret_cast<std::uintptr_t>(self->wanted_frame_))
      self->is_found_ = true;
    self->callee_is_it_ = _Unwind_FindEnclosingFunction(reinterpret_cast<void*>(_Unwind_GetIP(context))) ==
                          reinterpret_cast<void*>(run_in_known_frame);
    return _URC_NO_REASON;
  }

  const void* wanted_frame_;
  bool callee_is_it_ = false;
  bool is_found_ = false;
};

void forget_ended_calls() {
  while (count_in_progress > 0 && !StackWalk(calls_in_progress[count_in_progress - 1].frame).finds_frame())
    --count_in_progress;
}

FreeingCall* find_call(MPI_Comm handle) {
  for (std::size_t k = 0; k < count_in_progress; ++k) {
    if (calls_in_progress[k].handle == handle) return &calls_in_progress[k];
  }
  return nullptr;
}

}  // namespace

int call_while_freeing(MPI_Comm handle, HostFunction<int(MPI_Comm*)> host_call, MPI_Comm* argument,
                       Communicator*& entry_to_destroy) {
  forget_ended_calls();
  if (count_in_progress == most_freed_at_once) return host_call(argument);
  const std::size_t depth = count_in_progress++;
  calls_in_progress[depth] = {handle, nullptr, nullptr};
  const int code = run_in_known_frame(calls_in_progress[depth], host_call, argument);
  count_in_progress = depth;
  if (calls_in_progress[depth].entry_to_destroy != nullptr)
    entry_to_destroy = calls_in_progress[depth].entry_to_destroy;
  return code;
}

bool is_being_freed(MPI_Comm handle) {
  forget_ended_calls();
  return find_call(handle) != nullptr;
}

bool leave_to_freeing_call(MPI_Comm handle, Communicator* entry) {
  FreeingCall* const call = find_call(handle);
  if (call != nullptr) call->entry_to_destroy = entry;
  return call != nullptr;
}

}  // namespace offbeat
