// SPDX-License-Identifier: BSD-3-Clause
// The backend: each collective of torch as calls of offbeat.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "work.hpp"

namespace offbeat_torch {

using c10d::OpType;
using AnyWork = c10::intrusive_ptr<c10d::Work>;
using Sizes = std::vector<int64_t>;
using TensorLists = std::vector<Tensors>;

class Backend final : public c10d::Backend {
 public:
  Backend(c10d::Store& store, int rank, int size, Milliseconds timeout)
      : c10d::Backend(rank, size),
        ranks_(Ranks::make(store, rank, size)),
        options_(c10::make_intrusive<Options>("offbeat", timeout)) {
    init();
  }
  ~Backend() override { ranks_->leave(); }

  const std::string getBackendName() const override { return "offbeat"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(Milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return works_.load(std::memory_order_relaxed); }
  c10d::ErrorType getError() override {
    return ranks_->have_failed.load(std::memory_order_relaxed) ? c10d::ErrorType::COMM_ERROR
                                                               : c10d::ErrorType::SUCCESS;
  }
  void shutdown() override { ranks_->shut_down(); }
  void abort() override { ranks_->give_up("abort() of the process group"); }

  AnyWork broadcast(Tensors& tensors, const c10d::BroadcastOptions& o) override;
  AnyWork allreduce(Tensors& tensors, const c10d::AllreduceOptions& o) override;
  AnyWork allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& o) override;
  AnyWork reduce(Tensors& tensors, const c10d::ReduceOptions& o) override;
  AnyWork allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) override;
  AnyWork _allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions& o) override;
  AnyWork allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& o) override;
  AnyWork allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& o) override;
  AnyWork gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& o) override;
  AnyWork scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& o) override;
  AnyWork reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& o) override;
  AnyWork _reduce_scatter_base(Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& o) override;
  AnyWork reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& o) override;
  AnyWork alltoall_base(Tensor& output, Tensor& input, Sizes& output_splits, Sizes& input_splits,
                        const c10d::AllToAllOptions& o) override;
  AnyWork alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& o) override;
  AnyWork send(Tensors& tensors, int to, int tag) override {
    return start_message("offbeat:send", OpType::SEND, tensors, to, tag);
  }
  AnyWork recv(Tensors& tensors, int from, int tag) override {
    return start_message("offbeat:recv", OpType::RECV, tensors, from, tag);
  }
  AnyWork recvAnysource(Tensors& tensors, int tag) override {
    return start_message("offbeat:recv_any_source", OpType::RECVANYSOURCE, tensors, OFFBEAT_ANY_RANK, tag);
  }
  AnyWork barrier(const c10d::BarrierOptions& o) override;

 private:
  [[nodiscard]] WorkPointer make_work(OpType type, const char* title, const Tensors& inputs,
                                      const Tensors& results) {
    for (const Tensors* list : {&inputs, &results})
      for (const Tensor& each : *list) require_host_memory(each);
    return c10::make_intrusive<Work>(ranks_, rank_, type, title, inputs, results);
  }

  AnyWork start_message(const char* title, OpType type, const Tensors& tensors, int peer, int tag) {
    TORCH_CHECK(tensors.size() == 1, "offbeat: a message has one tensor, not ", tensors.size());
    const WorkPointer work = make_work(type, title, tensors, tensors);
    const bool is_send = type == OpType::SEND;
    const Tensor data = is_send ? work->input(tensors[0]) : work->output(tensors[0], false);
    work->begin_message(is_send, peer, tag, data, seconds(options_->timeout));
    return work;
  }

  static double seconds(Milliseconds time) { return std::chrono::duration<double>(time).count(); }

  // A call that the program waits for runs in its own thread. So does a call in a callback: otherwise the
  // callback could wait for it in the only thread that completes it.
  template <class Options>
  AnyWork start(WorkPointer work, const Options& o) {
    works_.fetch_add(1, std::memory_order_relaxed);
    const double timeout_s = seconds(o.timeout.count() > 0 ? o.timeout : options_->timeout);
    if (o.asyncOp && !Freed::is_in_callback()) {
      work->begin(timeout_s);
      return work;
    }
    work->run(timeout_s);
    const std::exception_ptr failure = work->exception();
    if (failure && !o.asyncOp) std::rethrow_exception(failure);
    return work;
  }

  [[nodiscard]] bool is_root(int64_t root) const { return root == rank_; }
  AnyWork allreduce_sparse(Tensor& tensor, const c10d::AllreduceOptions& o);
  void add_allgather(Work& work, const Tensor& output, const Tensor& input) const;
  void add_allgather_to_list(Work& work, const Tensors& outputs, const Tensor& input) const;
  void add_reduce_scatter(Work& work, const Tensor& output, const Tensor& input, const ReduceOp& op) const;
  // Says what combines the elements.
  void set_operation(Work& work, Call& call, const Tensor& output, const ReduceOp& op) const;

  RanksPointer ranks_;
  const c10::intrusive_ptr<Options> options_;
  std::atomic<uint64_t> works_{0};
};

}  // namespace offbeat_torch
