// SPDX-License-Identifier: BSD-3-Clause
// Task is the coroutine type of every algorithm. It is lazy: it runs when it is awaited, or when a driver
// starts it.
//
// Awaiting a task runs it as a part of the awaiting coroutine and rethrows what it throws. Frames come from
// pool.hpp, so in the steady state nothing is allocated.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "base/pool.hpp"

namespace offbeat {

// Counts the tasks of one Endpoint::concurrently that are still running. The last one resumes the parent. The
// first failure is stored in `failure` at once, because the other tasks may wait forever for the one that
// failed.
struct JoinCounter {
  std::size_t running_tasks = 0;
  std::coroutine_handle<> parent{};
  std::exception_ptr* failure = nullptr;
};

class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // Runs until the first suspension. Drivers and joins call this; an algorithm awaits the task instead.
  void start() { handle_.resume(); }
  [[nodiscard]] bool done() const { return handle_.done(); }
  void rethrow_if_failed() const;
  // Gives up the frame without freeing it, because the MPI or another rank may still write to it.
  void leak() { handle_ = nullptr; }
  void set_join(JoinCounter& join);

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) noexcept;
  void await_resume() const { rethrow_if_failed(); }

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

struct Task::promise_type {
  std::coroutine_handle<> parent;
  JoinCounter* join = nullptr;
  std::exception_ptr failure;

  struct Finish {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle self) const noexcept {
      promise_type& promise = self.promise();
      if (promise.parent) return promise.parent;
      if (JoinCounter* join = promise.join; join != nullptr) {
        if (promise.failure && join->failure != nullptr && !*join->failure) *join->failure = promise.failure;
        if (--join->running_tasks == 0 && join->parent) return join->parent;
      }
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  Task get_return_object() { return Task(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() noexcept { return {}; }
  Finish final_suspend() noexcept { return {}; }
  void return_void() {}
  void unhandled_exception() { failure = std::current_exception(); }

  static void* operator new(std::size_t bytes) { return pool::allocate(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept { pool::release(frame, bytes); }
};

inline void Task::rethrow_if_failed() const {
  if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
}

inline void Task::set_join(JoinCounter& join) { handle_.promise().join = &join; }

inline std::coroutine_handle<> Task::await_suspend(std::coroutine_handle<> parent) noexcept {
  handle_.promise().parent = parent;
  return handle_;
}

}  // namespace offbeat
