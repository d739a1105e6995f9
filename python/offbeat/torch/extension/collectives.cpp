// SPDX-License-Identifier: BSD-3-Clause
// The collectives of the backend. Those that reduce nothing move bytes, so they take tensors of any dtype.
#include "backend.hpp"

namespace offbeat_torch {
namespace {

// A call that moves bytes.
Call moving(const char* collective, const void* input, const Tensor& output, size_t bytes) {
  Call made;
  made.call.collective = collective;
  made.call.input = input;
  made.call.output = output.defined() ? output.data_ptr() : nullptr;
  made.call.count = bytes;
  made.call.type = OFFBEAT_UINT8;
  return made;
}

// Lists the blocks that tensors are, wherever they lie. Returns the lowest address.
char* list_blocks(const Tensors& blocks, std::vector<size_t>& counts, std::vector<size_t>& begins) {
  char* lowest = nullptr;
  for (const Tensor& each : blocks)
    if (each.nbytes() > 0 && (lowest == nullptr || begin_of(each) < lowest)) lowest = begin_of(each);
  for (const Tensor& each : blocks) {
    counts.push_back(each.nbytes());
    begins.push_back(each.nbytes() > 0 ? static_cast<size_t>(begin_of(each) - lowest) : 0);
  }
  return lowest;
}

void require_one(const Tensors& tensors, const char* what) {
  TORCH_CHECK(tensors.size() == 1, "offbeat: ", what, " takes one tensor, not ", tensors.size());
}

void require_same_type(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "offbeat: the types of input and output tensors differ: ", a.scalar_type(), " and ",
              b.scalar_type());
}

// All tensors of a list have the type and the length of `like`.
void require_alike(const Tensors& list, const Tensor& like, int size) {
  TORCH_CHECK(static_cast<int>(list.size()) == size, "offbeat: a list has ", list.size(), " tensors for ",
              size, " ranks");
  for (const Tensor& each : list) {
    require_same_type(each, like);
    TORCH_CHECK(each.numel() == like.numel(), "offbeat: the tensors of a list have ", each.numel(), " and ",
                like.numel(), " elements; invalid tensor size");
  }
}

// Bytes of the blocks of a tensor, which is split along its first dimension.
std::vector<size_t> bytes_of_splits(const Tensor& tensor, const Sizes& splits, int size, const char* which) {
  const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : tensor.numel();
  const size_t row_bytes = rows > 0 ? tensor.nbytes() / static_cast<size_t>(rows) : 0;
  std::vector<size_t> bytes;
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, "offbeat: the ", which,
                " tensor's dim 0 does not divide equally across group size: ", rows, " rows for ", size,
                " ranks");
    bytes.assign(static_cast<size_t>(size), static_cast<size_t>(rows / size) * row_bytes);
    return bytes;
  }
  TORCH_CHECK(static_cast<int>(splits.size()) == size,
              "offbeat: Number of tensor splits not equal to group size: ", splits.size(), " ", which,
              " splits for ", size, " ranks");
  int64_t sum = 0;
  for (const int64_t each : splits) {
    TORCH_CHECK(each >= 0, "offbeat: a split is negative");
    sum += each;
    bytes.push_back(static_cast<size_t>(each) * row_bytes);
  }
  TORCH_CHECK(sum == rows, "offbeat: Split sizes doesn't match total dim 0 size: the ", which,
              " splits add up to ", sum, " of ", rows, " rows");
  return bytes;
}

// What all ranks must agree on to add up their sparse tensors, and how many elements this rank has.
struct SparseFacts {
  static constexpr int64_t most_dims = 64;  // which torch has as its bound
  static constexpr int64_t count = 5 + most_dims;

  static Tensor of(const Tensor& tensor, const ReduceOp& op) {
    TORCH_CHECK(tensor.dim() <= most_dims, "offbeat: a sparse tensor has more than ", most_dims,
                " dimensions");
    const Tensor facts = at::zeros({count}, at::kLong);
    auto* const each = facts.data_ptr<int64_t>();
    each[0] = tensor._nnz();
    each[1] = static_cast<int64_t>(tensor.scalar_type());
    each[2] = static_cast<int64_t>(static_cast<ReduceOp::RedOpType>(op));
    each[3] = tensor.sparse_dim();
    each[4] = tensor.dim();
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), each + 5);
    return facts;
  }
  static std::string text(const int64_t* facts) {
    const bool is_average = facts[2] == ReduceOp::AVG;
    return c10::str("a sparse tensor of ", static_cast<at::ScalarType>(facts[1]), " with the shape ",
                    at::IntArrayRef(facts + 5, static_cast<size_t>(facts[4])), ", ", facts[3],
                    " sparse dimensions, ", is_average ? "AVG" : "SUM");
  }
  // All ranks see the facts of all, so they throw the same error.
  static void require_equal(const Tensor& of_all) {
    const auto* const first = of_all.data_ptr<int64_t>();
    for (int64_t rank = 1; rank < of_all.size(0); ++rank) {
      const auto* const other = first + rank * count;
      if (!std::equal(first + 1, first + count, other + 1))
        fail(c10::str("mismatched all_reduce: rank 0 has ", text(first), "; rank ", rank, " has ",
                      text(other)));
    }
  }
};

}  // namespace

void Backend::set_operation(Work& work, Call& call, const Tensor& output, const ReduceOp& op) const {
  call.call.type = type_of(output);
  call.call.op = op_of(op, output);
  call.call.op_label = label_of(op);
  if (op == ReduceOp::AVG && call.call.output != nullptr)
    work.after([output, size = size_] { divide_after(output, size); });
}

AnyWork Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& o) {
  const WorkPointer work = make_work(OpType::BROADCAST, "offbeat:broadcast", tensors, tensors);
  for (const Tensor& each : tensors) {
    const Tensor data = work->output(each, is_root(o.rootRank));
    Call call = moving("bcast", nullptr, data, data.nbytes());
    call.call.root = static_cast<int>(o.rootRank);
    work->add(std::move(call));
  }
  return start(work, o);
}

// Every rank gets the elements of all ranks and adds them up in the order of the ranks. The ranks do not know
// what the others have, so the calls run one after the other in this thread.
AnyWork Backend::allreduce_sparse(Tensor& tensor, const c10d::AllreduceOptions& o) {
  TORCH_CHECK(o.reduceOp == ReduceOp::SUM || o.reduceOp == ReduceOp::AVG,
              "offbeat: sparse tensors have only SUM and AVG; make others dense with to_dense()");
  const at::NoGradGuard no_grad;
  const Tensor mine = tensor.coalesce();
  const Tensor indices = mine.indices(), values = mine.values();
  const auto carry_out = [&](const WorkPointer& work) {
    work->run(seconds(o.timeout.count() > 0 ? o.timeout : options_->timeout));
    if (work->exception()) std::rethrow_exception(work->exception());
  };
  const Tensor facts = SparseFacts::of(mine, o.reduceOp);
  const Tensor all_facts = at::empty({size_, SparseFacts::count}, at::kLong);
  const WorkPointer first = make_work(OpType::ALLREDUCE, "offbeat:all_reduce", {facts}, {all_facts});
  add_allgather(*first, all_facts, facts);
  carry_out(first);
  SparseFacts::require_equal(all_facts);
  Tensors all_indices, all_values;
  for (int rank = 0; rank < size_; ++rank) {
    const auto elements = all_facts[rank][0].item<int64_t>();
    Sizes shape = values.sizes().vec();
    shape[0] = elements;
    all_indices.push_back(at::empty({indices.size(0), elements}, indices.options()));
    all_values.push_back(at::empty(shape, values.options()));
  }
  const WorkPointer second = make_work(OpType::ALLREDUCE, "offbeat:all_reduce", {indices, values}, {});
  add_allgather_to_list(*second, all_indices, indices);
  add_allgather_to_list(*second, all_values, values);
  carry_out(second);
  Tensor sum;
  for (size_t rank = 0; rank < all_indices.size(); ++rank) {
    const Tensor part = at::sparse_coo_tensor(all_indices[rank], all_values[rank], tensor.sizes());
    sum = rank == 0 ? part : sum + part;
  }
  if (o.reduceOp == ReduceOp::AVG) divide_after(sum, size_);
  tensor.copy_(sum.coalesce());
  return start(c10::make_intrusive<Work>(ranks_, rank_, OpType::ALLREDUCE, "offbeat:all_reduce", Tensors{},
                                         Tensors{tensor}),
               o);
}

AnyWork Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& o) {
  if (tensors.size() == 1 && tensors[0].is_sparse() && tensors[0].is_cpu())
    return allreduce_sparse(tensors[0], o);
  const WorkPointer work = make_work(OpType::ALLREDUCE, "offbeat:all_reduce", tensors, tensors);
  const at::NoGradGuard no_grad;
  for (const Tensor& each : tensors) {
    const Tensor data = work->output(each, true);
    if (o.reduceOp == ReduceOp::PREMUL_SUM) multiply_before(data, o.reduceOp);
    Call call = moving("allreduce", nullptr, data, static_cast<size_t>(data.numel()));
    set_operation(*work, call, data, o.reduceOp);
    work->add(std::move(call));
  }
  return start(work, o);
}

AnyWork Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& o) {
  return allreduce(tensors, o);
}

AnyWork Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& o) {
  require_one(tensors, "reduce");
  const WorkPointer work = make_work(OpType::REDUCE, "offbeat:reduce", tensors, tensors);
  const at::NoGradGuard no_grad;
  const bool takes = is_root(o.rootRank);
  const bool multiplies = o.reduceOp == ReduceOp::PREMUL_SUM;
  // Ranks other than the root keep their tensors as they are.
  Tensor data = takes ? work->output(tensors[0], true) : work->input(tensors[0]);
  if (multiplies && !takes && data.is_same(tensors[0])) data = work->keep(plain_copy(data));
  if (multiplies) multiply_before(data, o.reduceOp);
  Call call = moving("reduce", takes ? nullptr : data.data_ptr(), takes ? data : Tensor(),
                     static_cast<size_t>(data.numel()));
  call.call.root = static_cast<int>(o.rootRank);
  set_operation(*work, call, data, o.reduceOp);
  work->add(std::move(call));
  return start(work, o);
}

void Backend::add_allgather(Work& work, const Tensor& output, const Tensor& input) const {
  require_same_type(input, output);
  TORCH_CHECK(output.numel() == input.numel() * size_,
              "offbeat: output tensor size must be equal to world_size times input tensor size: ",
              output.numel(), " elements for ", size_, " times ", input.numel());
  const Tensor to = work.output(output, false);
  // Frameworks pass a rank's block of the output as its input.
  const char* const own =
      static_cast<const char*>(to.data_ptr()) + input.nbytes() * static_cast<size_t>(rank_);
  if (is_plain(input) && input.data_ptr() == own)
    return work.add(moving("allgather", nullptr, to, input.nbytes()));
  const Tensor from = work.input(input, to);
  work.add(moving("allgather", from.data_ptr(), to, from.nbytes()));
}

AnyWork Backend::_allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions& o) {
  const WorkPointer work = make_work(OpType::_ALLGATHER_BASE, "offbeat:all_gather_single", {input}, {output});
  add_allgather(*work, output, input);
  return start(work, o);
}

AnyWork Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& o) {
  TORCH_CHECK(outputs.size() == inputs.size(), "offbeat: ", outputs.size(), " outputs for ", inputs.size(),
              " inputs");
  const WorkPointer work =
      make_work(OpType::_ALLGATHER_BASE, "offbeat:all_gather_single_coalesced", inputs, outputs);
  for (size_t k = 0; k < inputs.size(); ++k) add_allgather(*work, outputs[k], inputs[k]);
  return start(work, o);
}

// Each rank may have another length.
void Backend::add_allgather_to_list(Work& work, const Tensors& outputs, const Tensor& input) const {
  TORCH_CHECK(static_cast<int>(outputs.size()) == size_, "offbeat: ", outputs.size(), " output tensors for ",
              size_, " ranks");
  Tensors to;
  for (const Tensor& each : outputs) {
    require_same_type(each, input);
    to.push_back(work.output(each, false));
  }
  const Tensor& own = to[static_cast<size_t>(rank_)];
  TORCH_CHECK(own.nbytes() == input.nbytes(), "offbeat: this rank's input has ", input.numel(),
              " elements, and its output ", own.numel(), "; invalid tensor size");
  Tensor from = input;
  if (!is_plain(input) || input.data_ptr() != own.data_ptr())
    for (const Tensor& each : to)
      if (from.is_same(input)) from = work.input(input, each);
  Call call;
  char* const lowest = list_blocks(to, call.output_counts, call.output_begins);
  call.call.collective = "allgatherv";
  call.call.output = lowest;
  call.call.input = from.data_ptr() == own.data_ptr() ? nullptr : from.data_ptr();
  call.call.type = OFFBEAT_UINT8;
  for (const Tensor& each : to) work.keep(each);
  work.add(std::move(call));
}

AnyWork Backend::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) {
  require_one(inputs, "allgather");
  TORCH_CHECK(outputs.size() == 1, "offbeat: allgather takes one list of output tensors");
  const WorkPointer work = make_work(OpType::ALLGATHER, "offbeat:all_gather", inputs, outputs[0]);
  add_allgather_to_list(*work, outputs[0], inputs[0]);
  return start(work, o);
}

AnyWork Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) {
  TORCH_CHECK(static_cast<int>(outputs.size()) == size_, "offbeat: ", outputs.size(), " output lists for ",
              size_, " ranks");
  Tensors results;
  for (const Tensors& each : outputs) {
    TORCH_CHECK(each.size() == inputs.size(), "offbeat: ", each.size(), " output tensors of a rank for ",
                inputs.size(), " inputs");
    results.insert(results.end(), each.begin(), each.end());
  }
  const WorkPointer work =
      make_work(OpType::ALLGATHER_COALESCED, "offbeat:all_gather_coalesced", inputs, results);
  for (size_t k = 0; k < inputs.size(); ++k) {
    Tensors of_ranks;
    for (const Tensors& each : outputs) of_ranks.push_back(each[k]);
    add_allgather_to_list(*work, of_ranks, inputs[k]);
  }
  return start(work, o);
}

AnyWork Backend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& o) {
  require_one(inputs, "gather");
  const bool takes = is_root(o.rootRank);
  const Tensors results = takes && !outputs.empty() ? outputs[0] : Tensors{};
  const WorkPointer work = make_work(OpType::GATHER, "offbeat:gather", inputs, results);
  const Tensor& mine = inputs[0];
  Tensor all;
  if (takes) {
    require_alike(results, mine, size_);
    all = results[0];
    if (!std::all_of(results.begin(), results.end(), is_plain) || !follow_one_another(results) ||
        overlap(mine, results[0])) {
      all = work->keep(at::empty({size_, mine.numel()}, mine.options()));
      work->after([results, all] {
        for (size_t k = 0; k < results.size(); ++k)
          results[k].copy_(all[static_cast<int64_t>(k)].view_as(results[k]));
      });
    }
  }
  Tensor from = work->input(mine);
  for (const Tensor& each : results)
    if (from.is_same(mine)) from = work->input(mine, each);
  Call call = moving("gather", from.data_ptr(), all, from.nbytes());
  call.call.root = static_cast<int>(o.rootRank);
  work->add(std::move(call));
  return start(work, o);
}

AnyWork Backend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& o) {
  require_one(outputs, "scatter");
  const Tensors from = is_root(o.rootRank) && !inputs.empty() ? inputs[0] : Tensors{};
  const WorkPointer work = make_work(OpType::SCATTER, "offbeat:scatter", from, outputs);
  const Tensor to = work->output(outputs[0], false);
  Tensor all;
  if (is_root(o.rootRank)) {
    require_alike(from, outputs[0], size_);
    const bool overlaps =
        std::any_of(from.begin(), from.end(), [&](const Tensor& each) { return overlap(each, to); });
    all = std::all_of(from.begin(), from.end(), is_plain) && follow_one_another(from) && !overlaps
              ? from[0]
              : work->keep(at::stack(from));
  }
  Call call = moving("scatter", all.defined() ? all.data_ptr() : nullptr, to, to.nbytes());
  call.call.root = static_cast<int>(o.rootRank);
  work->add(std::move(call));
  return start(work, o);
}

void Backend::add_reduce_scatter(Work& work, const Tensor& output, const Tensor& input,
                                 const ReduceOp& op) const {
  require_same_type(input, output);
  TORCH_CHECK(input.numel() == output.numel() * size_,
              "offbeat: input tensor must be the same size as output size times world size: ", input.numel(),
              " elements for ", size_, " times ", output.numel());
  const Tensor to = work.output(output, false);
  Tensor from = work.input(input, to);
  if (op == ReduceOp::PREMUL_SUM) {
    if (from.is_same(input)) from = work.keep(plain_copy(input));
    multiply_before(from, op);
  }
  Call call = moving("reduce_scatter_block", from.data_ptr(), to, static_cast<size_t>(to.numel()));
  set_operation(work, call, to, op);
  work.add(std::move(call));
}

AnyWork Backend::_reduce_scatter_base(Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& o) {
  const WorkPointer work =
      make_work(OpType::_REDUCE_SCATTER_BASE, "offbeat:reduce_scatter_single", {input}, {output});
  const at::NoGradGuard no_grad;
  add_reduce_scatter(*work, output, input, o.reduceOp);
  return start(work, o);
}

AnyWork Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& o) {
  TORCH_CHECK(outputs.size() == inputs.size(), "offbeat: ", outputs.size(), " outputs for ", inputs.size(),
              " inputs");
  const WorkPointer work = make_work(OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                                     "offbeat:reduce_scatter_single_coalesced", inputs, outputs);
  const at::NoGradGuard no_grad;
  for (size_t k = 0; k < inputs.size(); ++k) add_reduce_scatter(*work, outputs[k], inputs[k], o.reduceOp);
  return start(work, o);
}

// The tensors of the list may have different lengths.
AnyWork Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& o) {
  require_one(outputs, "reduce_scatter");
  TORCH_CHECK(inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_,
              "offbeat: reduce_scatter takes a list with a tensor for each rank");
  const Tensors& list = inputs[0];
  const WorkPointer work = make_work(OpType::REDUCE_SCATTER, "offbeat:reduce_scatter", list, outputs);
  const at::NoGradGuard no_grad;
  for (const Tensor& each : list) require_same_type(each, outputs[0]);
  TORCH_CHECK(list[static_cast<size_t>(rank_)].numel() == outputs[0].numel(),
              "offbeat: this rank's input has ", list[static_cast<size_t>(rank_)].numel(),
              " elements, and its output ", outputs[0].numel());
  const Tensor to = work->output(outputs[0], false);
  const bool is_usable = o.reduceOp != ReduceOp::PREMUL_SUM && follow_one_another(list) &&
                         std::all_of(list.begin(), list.end(), [&](const Tensor& each) {
                           return is_plain(each) && !overlap(each, to);
                         });
  Tensor from = list[0];
  if (!is_usable) {
    Tensors flat;
    for (const Tensor& each : list) flat.push_back(each.reshape(-1));
    from = work->keep(at::cat(flat));
  }
  if (o.reduceOp == ReduceOp::PREMUL_SUM) multiply_before(from, o.reduceOp);
  Call call = moving("reduce_scatter", from.data_ptr(), to, 0);
  for (const Tensor& each : list) call.input_counts.push_back(static_cast<size_t>(each.numel()));
  set_operation(*work, call, to, o.reduceOp);
  work->add(std::move(call));
  return start(work, o);
}

AnyWork Backend::alltoall_base(Tensor& output, Tensor& input, Sizes& output_splits, Sizes& input_splits,
                               const c10d::AllToAllOptions& o) {
  const WorkPointer work = make_work(OpType::ALLTOALL_BASE, "offbeat:all_to_all_single", {input}, {output});
  require_same_type(input, output);
  const Tensor to = work->output(output, false);
  const Tensor from = work->input(input, to);
  // One rank may give splits while another does not, so the ranks always make this call.
  Call call = moving("alltoallv", from.data_ptr(), to, 0);
  call.input_counts = bytes_of_splits(input, input_splits, size_, "input");
  call.output_counts = bytes_of_splits(output, output_splits, size_, "output");
  work->add(std::move(call));
  return start(work, o);
}

AnyWork Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& o) {
  TORCH_CHECK(static_cast<int>(outputs.size()) == size_ && static_cast<int>(inputs.size()) == size_,
              "offbeat: all_to_all takes lists with a tensor for each rank");
  const WorkPointer work = make_work(OpType::ALLTOALL, "offbeat:all_to_all", inputs, outputs);
  Tensors to;
  for (const Tensor& each : outputs) to.push_back(work->keep(work->output(each, false)));
  Tensors from;
  for (const Tensor& each : inputs) {
    require_same_type(each, outputs[0]);
    Tensor own = work->input(each);
    for (const Tensor& output : to)
      if (own.is_same(each)) own = work->input(each, output);
    from.push_back(own);
  }
  Call call;
  call.call.collective = "alltoallv";
  call.call.input = list_blocks(from, call.input_counts, call.input_begins);
  call.call.output = list_blocks(to, call.output_counts, call.output_begins);
  call.call.type = OFFBEAT_UINT8;
  work->add(std::move(call));
  return start(work, o);
}

AnyWork Backend::barrier(const c10d::BarrierOptions& o) {
  const WorkPointer work = make_work(OpType::BARRIER, "offbeat:barrier", {}, {});
  work->add(moving("barrier", nullptr, {}, 0));
  return start(work, o);
}

}  // namespace offbeat_torch
