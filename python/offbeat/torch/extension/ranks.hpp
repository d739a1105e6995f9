// SPDX-License-Identifier: BSD-3-Clause
// Ranks is one process group of torch: a group of offbeat whose ranks find each other through torch's store.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <type_traits>
#include <vector>

#include "library.hpp"

namespace offbeat_torch {

// Meeting sends the data of each rank to all ranks through the store. Every exchange has its own keys there.
class Meeting {
 public:
  Meeting(c10d::Store& store, int rank, int size) : store_(store), rank_(rank), size_(size) {}

  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  static int exchange(void* state, const void* mine, size_t bytes, void* all) {
    auto& self = *static_cast<Meeting*>(state);
    try {
      self.exchange(static_cast<const uint8_t*>(mine), bytes, static_cast<uint8_t*>(all));
      return 0;
    } catch (const std::exception& error) {
      self.why_not_ = error.what();
      return 1;
    }
  }

 private:
  void exchange(const uint8_t* mine, size_t bytes, uint8_t* all) {
    const std::string prefix = "exchange/" + std::to_string(exchanges_++) + "/";
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) keys.push_back(prefix + std::to_string(rank));
    store_.set(keys[static_cast<size_t>(rank_)], std::vector<uint8_t>(mine, mine + bytes));
    std::vector<std::vector<uint8_t>> values;
    if (store_.hasExtendedApi()) {
      values = store_.multiGet(keys);
    } else {
      for (const std::string& key : keys) values.push_back(store_.get(key));
    }
    for (size_t rank = 0; rank < values.size(); ++rank) {
      TORCH_CHECK(values[rank].size() == bytes, "the store has another value at ", keys[rank]);
      std::memcpy(all + bytes * rank, values[rank].data(), bytes);
    }
  }

  c10d::Store& store_;
  const int rank_;
  const int size_;
  long exchanges_ = 0;
  std::string why_not_;
};

// Calls body() with the GIL released: body() waits for a thread that may need the GIL for a callback.
template <class Body>
void without_gil(Body&& body) {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return body();
  const pybind11::gil_scoped_release released;
  body();
}

// Groups whose last user is gone. A group must not be freed in a function that offbeat calls, because
// offbeat's thread may still wait for a call of it. So the next thread that may frees it.
class Freed {
 public:
  // Exists in a thread while a function runs that offbeat calls.
  class InCallback {
   public:
    InCallback() { ++depth_; }
    InCallback(const InCallback&) = delete;
    InCallback& operator=(const InCallback&) = delete;
    ~InCallback() { --depth_; }
  };
  static bool is_in_callback() { return depth_ > 0; }

  static void add(offbeat_group* group) {
    std::vector<offbeat_group*> mine;
    {
      const std::lock_guard lock(mutex_);
      groups_.push_back(group);
      if (depth_ == 0) mine.swap(groups_);
    }
    if (mine.empty()) return;
    without_gil([&] {
      for (offbeat_group*& each : mine) library.group_free(&each);
    });
  }

 private:
  static inline thread_local int depth_ = 0;
  static inline std::mutex mutex_;
  static inline std::vector<offbeat_group*> groups_;
};

class Ranks {
 public:
  [[nodiscard]] static std::shared_ptr<Ranks> make(c10d::Store& store, int rank, int size) {
    auto made = std::make_shared<Ranks>(store, rank, size);
    const std::lock_guard lock(mutex_);
    all_.erase(std::remove_if(all_.begin(), all_.end(), [](const auto& each) { return each.expired(); }),
               all_.end());
    all_.push_back(made);
    return made;
  }
  // Does leave() for all groups of this process.
  static void leave_all() {
    std::vector<std::weak_ptr<Ranks>> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(all_);
    }
    for (const auto& each : all)
      if (const auto ranks = each.lock()) ranks->leave();
  }

  Ranks(c10d::Store& store, int rank, int size) {
    Meeting meeting(store, rank, size);
    offbeat_group* made = nullptr;
    if (library.group_make(rank, size, Meeting::exchange, &meeting, &made) == OFFBEAT_OK) {
      owned_.reset(made, Freed::add);
      group_ = owned_;
      return;
    }
    const std::string text = library.error_text();
    fail(meeting.why_not().empty() ? text : "the ranks do not meet in the store: " + meeting.why_not());
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Null after shut_down(). The group lives as long as the pointer, so a thread that uses the group holds
  // one.
  [[nodiscard]] std::shared_ptr<offbeat_group> group() const { return group_.lock(); }

  // Counts a Work that begins. Throws after shut_down().
  void enter() {
    under_way.fetch_add(1);
    if (!is_shut_down_.load()) return;
    exit();
    fail("this process group has been destroyed");
  }
  // Counts a Work, or a call of one, that has ended. After shut_down() the last one frees the group.
  void exit() {
    if (under_way.fetch_sub(1) == 1 && is_shut_down_.load()) free_group();
  }

  // Waits until is_over() returns true. Meanwhile calls advance, and Works complete in this thread.
  template <class Condition>
  void wait_until(Condition&& is_over) const {
    using State = std::remove_reference_t<Condition>;
    const auto call = [](void* state) { return (*static_cast<State*>(state))() ? 1 : 0; };
    if (const auto used = group())
      library.wait_until(used.get(), call, const_cast<void*>(static_cast<const void*>(&is_over)));
  }
  // A Busy lives on a thread's stack while the thread begins a Work, or ends a call or a Work of these ranks,
  // which `under_way` counts. A function of the program that is called meanwhile may wait for the other
  // calls, or drop the process group. It must not wait for this one.
  class Busy {
   public:
    explicit Busy(const Ranks& ranks) : ranks_(ranks), outer_(innermost_) { innermost_ = this; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    ~Busy() { innermost_ = outer_; }
    // These mark this thread's Busy objects as waiting for the other calls, and unmark `count` of them.
    // suspend() returns how many it marked.
    static int suspend(const Ranks& ranks) { return mark(ranks, true, std::numeric_limits<int>::max()); }
    static void resume(const Ranks& ranks, int count) { mark(ranks, false, count); }

   private:
    static int mark(const Ranks& ranks, bool is_suspended, int most) {
      int marked = 0;
      for (Busy* each = innermost_; each != nullptr && marked < most; each = each->outer_) {
        if (&each->ranks_ != &ranks || each->is_suspended_ == is_suspended) continue;
        each->is_suspended_ = is_suspended;
        ++marked;
      }
      return marked;
    }
    static inline thread_local Busy* innermost_ = nullptr;
    const Ranks& ranks_;
    Busy* const outer_;
    bool is_suspended_ = false;
  };

  // Two functions of the program in two threads may wait at once. Neither waits for the end of the other.
  void wait_for_calls() const {
    const Suspension mine(*this);
    if (!others_are_under_way()) return;
    without_gil([&] { wait_until([this] { return !others_are_under_way(); }); });
  }
  // Waits for the Works under way, as gloo does. The other ranks then find out at once that this one has left
  // the group, even if the program keeps the process group. A Work that this thread is in the middle of keeps
  // the group, and so does a thread that has not yet left wait_until().
  void shut_down() {
    is_shut_down_.store(true);
    wait_for_calls();
    if (under_way.load() == 0) free_group();
  }
  void give_up(const char* why) const {
    if (const auto used = group()) library.group_give_up(used.get(), why);
  }
  // Ends the Works under way with an error.
  void leave() const {
    const Suspension mine(*this);
    if (!others_are_under_way()) return;
    give_up("its program ends, or drops the process group, before a call is over");
    wait_for_calls();
  }

  std::atomic<int> under_way{0};         // calls whose Work lives on, and Works that are being begun
  std::atomic<bool> have_failed{false};  // true after the first call that has failed

 private:
  // Exists in a thread while it waits for the other calls.
  class Suspension {
   public:
    explicit Suspension(const Ranks& ranks) : ranks_(ranks), count_(Busy::suspend(ranks)) {
      ranks_.suspended_.fetch_add(count_);
    }
    Suspension(const Suspension&) = delete;
    Suspension& operator=(const Suspension&) = delete;
    ~Suspension() {
      ranks_.suspended_.fetch_sub(count_);
      Busy::resume(ranks_, count_);
    }

   private:
    const Ranks& ranks_;
    const int count_;
  };
  void free_group() {
    if (!is_free_.exchange(true)) owned_.reset();
  }
  [[nodiscard]] bool others_are_under_way() const { return under_way.load() > suspended_.load(); }

  static inline std::mutex mutex_;
  static inline std::vector<std::weak_ptr<Ranks>> all_;

  std::shared_ptr<offbeat_group> owned_;
  std::weak_ptr<offbeat_group> group_;  // set by the constructor alone
  std::atomic<bool> is_shut_down_{false};
  std::atomic<bool> is_free_{false};
  mutable std::atomic<int> suspended_{0};  // of those that `under_way` counts
};

using RanksPointer = std::shared_ptr<Ranks>;

}  // namespace offbeat_torch
