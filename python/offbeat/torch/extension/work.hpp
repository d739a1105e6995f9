// SPDX-License-Identifier: BSD-3-Clause
// A Work is the handle that torch waits on: one or more calls of offbeat, or one message. It keeps their
// tensors alive, and runs the actions of `after()` when all calls have succeeded.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "ranks.hpp"
#include "tensors.hpp"

namespace offbeat_torch {

using Milliseconds = std::chrono::milliseconds;

// A call with the lists that it points to.
struct Call {
  offbeat_call call = OFFBEAT_CALL_INIT;
  std::vector<size_t> input_counts{};
  std::vector<size_t> input_begins{};
  std::vector<size_t> output_counts{};
  std::vector<size_t> output_begins{};

  // Call this when the lists are complete.
  void point_to_lists() {
    const auto list = [](const std::vector<size_t>& counts) {
      return counts.empty() ? nullptr : counts.data();
    };
    call.input_counts = list(input_counts);
    call.input_begins = list(input_begins);
    call.output_counts = list(output_counts);
    call.output_begins = list(output_begins);
  }
};

class Work final : public c10d::Work {
 public:
  Work(RanksPointer ranks, int rank, c10d::OpType type, const char* title, const Tensors& inputs,
       Tensors results)
      : c10d::Work(rank, type, title, inputs),
        ranks_(std::move(ranks)),
        title_(title),
        inputs_(inputs),
        results_(std::move(results)) {}

  // Returns the tensor, or a copy of it if it is not plain or overlaps the output.
  [[nodiscard]] Tensor input(const Tensor& tensor, const Tensor& output = {}) {
    if (is_plain(tensor) && !(output.defined() && overlap(tensor, output))) return tensor;
    return keep(plain_copy(tensor));
  }
  // Returns the tensor, or another one that is copied to it after the calls. `takes_part`: its elements are
  // part of the input.
  [[nodiscard]] Tensor output(const Tensor& tensor, bool takes_part) {
    if (is_plain(tensor)) return tensor;
    const Tensor own = keep(
        takes_part ? plain_copy(tensor)
                   : at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous)));
    after([tensor, own] { tensor.copy_(own); });
    return own;
  }
  // The tensor lives until the calls are over.
  Tensor keep(const Tensor& tensor) {
    inputs_.push_back(tensor);
    return tensor;
  }
  // Does something when all calls have succeeded. What is added last is done first.
  void after(std::function<void()> action) { after_.push_back(std::move(action)); }
  void add(Call call) {
    calls_.push_back(std::move(call));
    calls_.back().point_to_lists();
  }

  // Carries out the calls. A failure is in exception().
  void run(double timeout_s) {
    const RanksPointer ranks = enter();
    const Ranks::Busy busy(*ranks);
    for (Call& each : calls_) {
      prepare(each, timeout_s);
      each.call.as_begun = 1;
      if (const offbeat_status status = library.run(&each.call); status != OFFBEAT_OK) {
        note(status, library.error_text());
        break;
      }
    }
    complete();
    ranks->exit();
  }
  // Begins the calls. The Work completes in any thread.
  void begin(double timeout_s) {
    const RanksPointer ranks = prepare_to_begin(static_cast<int>(calls_.size()));
    const Ranks::Busy busy(*ranks);
    for (Call& each : calls_) {
      prepare(each, timeout_s);
      each.call.done = end_call;
      each.call.done_state = reference();
      end_if_not_begun(library.begin(&each.call, nullptr));
    }
    end_beginning();
  }
  // Begins to send or to receive a message. `data` is plain.
  void begin_message(bool is_send, int peer, int tag, const Tensor& data, double timeout_s) {
    const RanksPointer ranks = prepare_to_begin(1);
    const Ranks::Busy busy(*ranks);
    arrival_.rank = peer;
    offbeat_message message = OFFBEAT_MESSAGE_INIT;
    message.group = ranks_->group().get();
    message.peer = peer;
    message.tag = tag;
    message.data = data.data_ptr();
    message.bytes = data.nbytes();
    message.timeout_s = timeout_s;
    message.arrival = is_send ? nullptr : &arrival_;
    message.done = end_call;
    message.done_state = reference();
    end_if_not_begun((is_send ? library.begin_send : library.begin_receive)(&message, nullptr));
    end_beginning();
  }

  bool isCompleted() override { return is_over_.load(std::memory_order_acquire); }
  bool isSuccess() const override {
    return is_over_.load(std::memory_order_acquire) && exception_ == nullptr;
  }
  std::vector<Tensor> result() override { return results_; }
  int sourceRank() const override { return arrival_.rank; }
  // Does nothing: wait() alone blocks, and there is no stream.
  void synchronize() override {}
  bool wait(Milliseconds timeout = kNoTimeout) override {
    if (!isCompleted()) {
      const auto limit = std::chrono::steady_clock::now() + timeout;
      ranks_->wait_until([&] {
        return isCompleted() || (timeout != kNoTimeout && std::chrono::steady_clock::now() > limit);
      });
      if (!isCompleted())
        fail(std::string(title_) + ": rank " + std::to_string(rank_) + " has waited " +
             std::to_string(timeout.count()) + " ms in wait(), and the call is not over");
    }
    if (exception_) std::rethrow_exception(exception_);
    return true;
  }
  void abort() override { ranks_->give_up("abort() of a Work"); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const std::lock_guard lock(mutex_);
    if (future_ == nullptr) {
      future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      if (isCompleted()) complete_future(*future_);
    }
    return future_;
  }

 private:
  void prepare(Call& each, double timeout_s) const {
    each.call.group = ranks_->group().get();  // which lives, because the Work is under way
    each.call.timeout_s = timeout_s;
  }
  void note(offbeat_status status, const char* text) {
    // Programs for other backends look for the word "timeout".
    const char* const end = status == OFFBEAT_ERROR_TIMEOUT ? "; the timeout of this call has passed" : "";
    ranks_->have_failed.store(true, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr)
      failure_ = std::make_exception_ptr(c10::DistBackendError(
          {__func__, __FILE__, __LINE__}, error_line(with_names_of_operations(text)) + end));
  }
  // The ranks outlive this Work, which a callback may drop.
  [[nodiscard]] RanksPointer enter() const {
    ranks_->enter();
    return ranks_;
  }
  [[nodiscard]] RanksPointer prepare_to_begin(int calls) {
    left_.store(calls + 1, std::memory_order_relaxed);
    return enter();
  }
  // A call under way keeps the Work, and so its tensors.
  [[nodiscard]] void* reference() {
    ranks_->under_way.fetch_add(1, std::memory_order_relaxed);
    c10::raw::intrusive_ptr::incref(this);
    return this;
  }
  static void end_call(void* state, offbeat_status status, const char* text) {
    const Freed::InCallback in_callback;
    auto work = c10::intrusive_ptr<Work>::reclaim(static_cast<Work*>(state));
    const RanksPointer ranks = work->ranks_;
    const Ranks::Busy busy(*ranks);
    if (status != OFFBEAT_OK) work->note(status, text);
    work->count_end();
    // Callbacks in Python may go with the Work. So Python must not end before this.
    work.reset();
    ranks->exit();
  }
  void end_if_not_begun(offbeat_status status) {
    if (status != OFFBEAT_OK) end_call(this, status, library.error_text());
  }
  void end_beginning() {
    const RanksPointer ranks = ranks_;
    count_end();
    ranks->exit();
  }
  // The last one completes the Work.
  void count_end() {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) complete();
  }
  void complete() {
    if (failure_ == nullptr && !after_.empty()) {
      try {
        const at::NoGradGuard no_grad;
        const at::AutoDispatchBelowADInplaceOrView as_data;  // also into inference tensors
        for (auto each = after_.rbegin(); each != after_.rend(); ++each) (*each)();
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
    finish(failure_);
    inputs_.clear();
    after_.clear();
    calls_.clear();
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
      const std::lock_guard lock(mutex_);
      is_over_.store(true, std::memory_order_release);
      future = future_;
    }
    // The callbacks of .then() run here.
    if (future != nullptr) complete_future(*future);
  }
  void complete_future(c10::ivalue::Future& future) const {
    if (exception_) {
      future.setErrorIfNeeded(exception_);
    } else {
      future.markCompleted(c10::IValue(results_));
    }
  }

  const RanksPointer ranks_;
  const char* title_;
  Tensors inputs_;
  const Tensors results_;
  std::vector<Call> calls_;
  std::vector<std::function<void()>> after_;
  offbeat_arrival arrival_{-1, 0, 0};
  std::exception_ptr failure_;
  std::atomic<int> left_{0};
  std::atomic<bool> is_over_{false};
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

using WorkPointer = c10::intrusive_ptr<Work>;

}  // namespace offbeat_torch
