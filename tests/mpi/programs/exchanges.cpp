// SPDX-License-Identifier: BSD-3-Clause
//
//     exchanges SEED CALLS LONGEST alike|different blocking|any|threads|in_turn [VICTIM MICROSECONDS]
//
// The seed decides about each call: the collective, the communicator (two of them have one rank), the root, a
// length of up to LONGEST elements, whether the call is in place, and one of six types of the same ints on
// each side. Some types have gaps, one has its ints in another order, and two are nested.
//
// alike, different: all ranks use the same types, or each rank uses its own. MPI allows the latter, and some
// MPIs fail at it.
// any: some calls are non-blocking or persistent. Several are under way while blocking ones come and go, and
// each rank completes them in an order of its own, by any function of MPI.
// threads: as `any`, in three threads at once, each with communicators of its own.
// in_turn: the calls of `threads`, blocking, by one thread: any MPI does them right.
// VICTIM MICROSECONDS: the kernel kills this rank that long after it begins to call.
//
// STUB_GPU in the environment names a driver (tests/support/stub_gpu.cpp). Two of three ranks load it after
// some calls. From then on either side of a call may be memory of that GPU. STUB_GPU does not work with
// threads.
//
// Compiled with LARGE_COUNTS it calls MPI_Bcast_c and so on, which came with MPI 4.
//
// Each rank hashes everything that comes out of its calls, including the memory beside it, and prints the
// hash. An MPI must print the same hash with and without offbeat. The program also checks what it can know by
// itself.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "check.h"
#include "kill.h"
}
#include "../../support/stub_gpu.h"

namespace {

using Ints = std::vector<std::int32_t>;

#if defined(LARGE_COUNTS)
using Count = MPI_Count;
using Displacement = MPI_Aint;
#define FUNCTION(name) MPI_##name##_c
#define MPI_Barrier_c MPI_Barrier
#define MPI_Ibarrier_c MPI_Ibarrier
#define MPI_Barrier_init_c MPI_Barrier_init
#else
using Count = int;
using Displacement = int;
#define FUNCTION(name) MPI_##name
#endif

enum Shape { plain, triples, gaps, swapped, nested, nested_gaps, shapes };
MPI_Datatype type_of[shapes];
constexpr int atoms_of[shapes] = {1, 3, 2, 2, 6, 6};    // ints of one element
constexpr int extent_of[shapes] = {1, 3, 4, 2, 6, 13};  // ints from one element to the next

// The place of int k.
std::size_t place(Shape shape, std::size_t k) {
  switch (shape) {
    case gaps:
      return k / 2 * 4 + k % 2 * 2;
    case swapped:
      return k / 2 * 2 + (1 - k % 2);
    case nested_gaps:
      return k / 6 * 13 + k % 6 / 2 * 4 + k % 2 * 2;
    default:
      return k;
  }
}

void make_types() {
  type_of[plain] = MPI_INT;
  MPI_Type_contiguous(3, MPI_INT, &type_of[triples]);
  MPI_Datatype vector;
  MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, 4 * sizeof(std::int32_t), &type_of[gaps]);
  MPI_Type_free(&vector);
  const int lengths[] = {1, 1};
  const int displacements[] = {1, 0};
  MPI_Type_indexed(2, lengths, displacements, MPI_INT, &type_of[swapped]);
  MPI_Type_contiguous(2, type_of[triples], &type_of[nested]);
  const int ones[] = {1, 2};
  const MPI_Aint places[] = {0, 4 * sizeof(std::int32_t)};
  const MPI_Datatype parts[] = {type_of[gaps], type_of[gaps]};
  MPI_Datatype three;
  MPI_Type_create_struct(2, ones, places, parts, &three);
  MPI_Type_create_resized(three, 0, 13 * sizeof(std::int32_t), &type_of[nested_gaps]);
  MPI_Type_free(&three);
  for (const Shape shape : {triples, gaps, swapped, nested, nested_gaps}) MPI_Type_commit(&type_of[shape]);
}

bool shapes_differ = false;
constexpr int unit = 6;  // every type fits this many ints

bool has_gpu = false;
stub_gpu gpu;

// The buffer that a call gets for some memory: the memory itself, or GPU memory with the same contents.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (on_gpu_ != nullptr) gpu.release(on_gpu_);
  }
  template <class Number>
  [[nodiscard]] Number* of(std::vector<Number>& memory, std::mt19937& chance) {
    constexpr unsigned kinds = STUB_REGISTERED + 1;
    const unsigned kind = has_gpu ? chance() % (2 * kinds) : kinds;
    if (kind >= kinds) return memory.data();
    bytes_ = memory.size() * sizeof(Number);
    on_gpu_ = gpu.allocate(bytes_, static_cast<stub_kind>(kind));
    gpu.write(on_gpu_, memory.data(), bytes_);
    std::fill(memory.begin(), memory.end(), Number{99});
    return static_cast<Number*>(on_gpu_);
  }
  // Copies a result back to the memory; call this after the collective.
  template <class Number>
  void bring_back(std::vector<Number>& memory) const {
    if (on_gpu_ != nullptr) gpu.read(memory.data(), on_gpu_, bytes_);
  }

 private:
  void* on_gpu_ = nullptr;
  std::size_t bytes_ = 0;
};

// One side of a call: blocks of `atoms` ints each, or of as many as the list says, in one shape.
struct Side {
  Shape shape = plain;
  std::vector<Count> counts;                // elements of each block
  std::vector<Displacement> displacements;  // in elements
  Ints memory;

  Side(Shape shape, const std::vector<int>& atoms, bool has_gaps) : shape(shape) {
    int begin = has_gaps ? 1 : 0;
    for (const int each : atoms) {
      counts.push_back(each / atoms_of[shape]);
      displacements.push_back(begin);
      begin += static_cast<int>(counts.back()) + (has_gaps ? 1 : 0);
    }
    memory.assign(static_cast<std::size_t>(begin) * static_cast<std::size_t>(extent_of[shape]) + 8, -77);
  }
  [[nodiscard]] std::int32_t& at(std::size_t block, std::size_t k) {
    const auto begin =
        static_cast<std::size_t>(displacements[block]) * static_cast<std::size_t>(extent_of[shape]);
    return memory[begin + place(shape, k)];
  }
  [[nodiscard]] std::size_t atoms(std::size_t block) const {
    return static_cast<std::size_t>(counts[block]) * static_cast<std::size_t>(atoms_of[shape]);
  }
  [[nodiscard]] MPI_Datatype type() const { return type_of[shape]; }
  [[nodiscard]] Count count() const { return counts.empty() ? 0 : counts[0]; }
};

std::int32_t value(unsigned call, int from, int to, std::size_t k) {
  return static_cast<std::int32_t>(call * 7919 + static_cast<unsigned>(from) * 104729 +
                                   static_cast<unsigned>(to) * 1299709 + static_cast<unsigned>(k) * 31) &
         0xffffff;
}

enum What {
  bcast,
  reduce,
  all_reduce,
  barrier,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  gather,
  gatherv,
  scatter,
  scatterv,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan
};
const char* const names[] = {
    "bcast",     "reduce", "allreduce", "barrier", "allgather", "allgatherv",     "alltoall",
    "alltoallv", "gather", "gatherv",   "scatter", "scatterv",  "reduce_scatter", "reduce_scatter_block",
    "scan",      "exscan"};
constexpr unsigned whats = std::size(names);

std::mutex checking;  // guards what check.h counts

enum class Form { blocking, nonblocking, persistent };

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
constexpr bool has_persistent = true;
#define PREPARE(name, ...) FUNCTION(name##_init)(__VA_ARGS__)
#else
constexpr bool has_persistent = false;
#define PREPARE(name, ...)
#endif

// The call in its form.
#define MAKE(call, name, nonblocking_name, ...)                   \
  switch ((call).form) {                                          \
    case Form::blocking:                                          \
      FUNCTION(name)(__VA_ARGS__);                                \
      break;                                                      \
    case Form::nonblocking:                                       \
      FUNCTION(nonblocking_name)(__VA_ARGS__, &(call).request);   \
      break;                                                      \
    case Form::persistent:                                        \
      PREPARE(name, __VA_ARGS__, MPI_INFO_NULL, &(call).request); \
      MPI_Start(&(call).request);                                 \
  }

struct Call {
  unsigned number;
  What what;
  Form form;
  MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t hash = 1469598103934665603u;
  MPI_Comm communicator;
  int rank;
  int size;
  int root;
  int longest;  // in units
  bool in_place;
  std::mt19937 alike;  // the same on all ranks
  std::mt19937 own;

  [[nodiscard]] Shape any_shape() { return static_cast<Shape>((shapes_differ ? own() : alike()) % shapes); }
  [[nodiscard]] std::vector<int> equal(int blocks, int atoms) const {
    return std::vector<int>(static_cast<std::size_t>(blocks), atoms);
  }
  void fail(const char* problem) const {
    const std::lock_guard lock(checking);
    CHECK(false, "call %u, %s, form %d, root %d: %s", number, names[what], static_cast<int>(form), root,
          problem);
  }
  void mix(const Ints& memory) {
    for (const std::int32_t each : memory) hash = (hash ^ static_cast<std::uint32_t>(each)) * 1099511628211u;
  }
};

void expect(const Call& call, Side& side, std::size_t block, int from, int to) {
  for (std::size_t k = 0; k < side.atoms(block); ++k) {
    if (side.at(block, k) != value(call.number, from, to, k)) return call.fail("wrong data");
  }
}
void fill(const Call& call, Side& side, std::size_t block, int from, int to) {
  for (std::size_t k = 0; k < side.atoms(block); ++k) side.at(block, k) = value(call.number, from, to, k);
}

// What is left to do when a call is complete. Keeps the memory of the call.
using Rest = std::function<void(Call&)>;

Rest combine(Call& call) {
  const bool scatters = call.what == reduce_scatter || call.what == reduce_scatter_block;
  const int p = call.size;
  const int n = static_cast<int>(call.alike() % static_cast<unsigned>(call.longest * unit + 1));
  struct Memory {
    std::vector<Count> counts;
    std::vector<double> input, output;
    Place input_place, output_place;
  };
  const auto memory = std::make_shared<Memory>();
  auto& [counts, input, output, input_place, output_place] = *memory;
  counts.assign(static_cast<std::size_t>(p), n);
  if (call.what == reduce_scatter) {
    for (Count& each : counts) each = static_cast<int>(call.alike() % 3) * n / 2;
  }
  int total = n;
  if (scatters) {
    total = 0;
    for (const Count each : counts) total += static_cast<int>(each);
  }
  const int mine = scatters ? static_cast<int>(counts[static_cast<std::size_t>(call.rank)]) : n;
  const bool has_output = call.what != reduce || call.rank == call.root;
  const bool takes = has_output && (call.what != exscan || call.rank > 0);
  const bool in_place = call.in_place && has_output;
  const int givers = call.what == scan ? call.rank + 1 : call.what == exscan ? call.rank : p;
  input.resize(static_cast<std::size_t>(total) + 4);
  output.assign(static_cast<std::size_t>(std::max(total, mine)) + 4, -1);
  for (int k = 0; k < total; ++k)
    input[static_cast<std::size_t>(k)] = value(call.number, call.rank, 0, static_cast<std::size_t>(k));
  if (in_place) std::copy_n(input.begin(), total, output.begin());
  const void* from = in_place ? MPI_IN_PLACE : static_cast<const void*>(input_place.of(input, call.own));
  double* const to = has_output ? output_place.of(output, call.own) : nullptr;
  switch (call.what) {
    case reduce:
      MAKE(call, Reduce, Ireduce, from, to, n, MPI_DOUBLE, MPI_SUM, call.root, call.communicator);
      break;
    case all_reduce:
      MAKE(call, Allreduce, Iallreduce, from, to, n, MPI_DOUBLE, MPI_SUM, call.communicator);
      break;
    case reduce_scatter:
      MAKE(call, Reduce_scatter, Ireduce_scatter, from, to, counts.data(), MPI_DOUBLE, MPI_SUM,
           call.communicator);
      break;
    case scan:
      MAKE(call, Scan, Iscan, from, to, n, MPI_DOUBLE, MPI_SUM, call.communicator);
      break;
    case exscan:
      MAKE(call, Exscan, Iexscan, from, to, n, MPI_DOUBLE, MPI_SUM, call.communicator);
      break;
    default:
      MAKE(call, Reduce_scatter_block, Ireduce_scatter_block, from, to, n, MPI_DOUBLE, MPI_SUM,
           call.communicator);
  }
  return [memory, givers, takes, scatters, in_place, mine](Call& made) {
    memory->output_place.bring_back(memory->output);
    if (!takes) {
      for (int k = 0; made.what == exscan && k < mine; ++k) {
        const auto index = static_cast<std::size_t>(k);
        if (memory->output[index] != (in_place ? memory->input[index] : -1))
          return made.fail("something was written to the output of rank 0");
      }
      return;
    }
    int begin = 0;
    for (int rank = 0; scatters && rank < made.rank; ++rank)
      begin += static_cast<int>(memory->counts[static_cast<std::size_t>(rank)]);
    Ints results;
    for (int k = 0; k < mine; ++k) {
      double sum = 0;
      for (int rank = 0; rank < givers; ++rank)
        sum += value(made.number, rank, 0, static_cast<std::size_t>(begin + k));
      const double result = memory->output[static_cast<std::size_t>(k)];
      if (result != sum) return made.fail("wrong sum");
      results.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(result)));
    }
    if (!in_place && memory->output[static_cast<std::size_t>(mine)] != -1)
      made.fail("something was written behind the result");
    made.mix(results);
  };
}

Rest copy(Call& call) {
  const int p = call.size, me = call.rank;
  const auto self = static_cast<std::size_t>(me);
  const int n = static_cast<int>(call.alike() % static_cast<unsigned>(call.longest + 1)) * unit;
  const bool is_root = me == call.root;
  // What each gives to each, where that differs.
  const auto pair = [&](int from, int to) {
    return (from * 5 + to * 3 + static_cast<int>(call.number)) % 4 * n / unit * unit / 2 / unit * unit;
  };
  std::vector<int> sent = call.equal(1, n), received = call.equal(p, n);
  const bool scatters = call.what == scatter || call.what == scatterv;
  const bool gathers = call.what == gather || call.what == gatherv;
  switch (call.what) {
    case alltoall:
      sent = call.equal(p, n);
      break;
    case scatter:
      sent = call.equal(p, n);
      received = call.equal(1, n);
      break;
    case bcast:
      received = call.equal(1, n);
      break;
    case scatterv:
      for (int r = 0; r < p; ++r) received[static_cast<std::size_t>(r)] = pair(call.root, r);
      sent = received;
      received = {pair(call.root, me)};
      break;
    case allgatherv:
    case gatherv:
      sent = {pair(me, 0)};
      for (int r = 0; r < p; ++r) received[static_cast<std::size_t>(r)] = pair(r, 0);
      break;
    case alltoallv:
      sent = received;
      for (int r = 0; r < p; ++r) {
        sent[static_cast<std::size_t>(r)] =
            call.in_place ? pair(std::min(r, me), std::max(r, me)) : pair(me, r);
        received[static_cast<std::size_t>(r)] =
            call.in_place ? pair(std::min(r, me), std::max(r, me)) : pair(r, me);
      }
      break;
    default:
      break;
  }
  const bool has_lists = call.what == allgatherv || call.what == alltoallv || call.what == gatherv;
  struct Memory {
    Side input, output;
    Place input_place, output_place;
    Memory(Side from, Side to) : input(std::move(from)), output(std::move(to)) {}
  };
  const Shape input_shape = call.any_shape();
  const auto memory =
      std::make_shared<Memory>(Side(input_shape, sent, call.what == alltoallv || call.what == scatterv),
                               Side(call.any_shape(), received, has_lists));
  auto& [input, output, input_place, output_place] = *memory;
  const bool is_personalised = call.what == alltoall || call.what == alltoallv || scatters;
  for (std::size_t block = 0; block < sent.size(); ++block)
    fill(call, input, block, me, is_personalised ? static_cast<int>(block) : 0);
  bool in_place = call.in_place && call.what != bcast;
  if (gathers || scatters) in_place = in_place && is_root;
  if (in_place && !scatters) {
    for (std::size_t block = 0; block < received.size(); ++block) {
      if (is_personalised) {
        fill(call, output, block, me, static_cast<int>(block));
      } else if (block == self) {
        fill(call, output, block, me, 0);
      }
    }
  }
  if (call.what == bcast && is_root) fill(call, output, 0, me, 0);
  void* const from = in_place && !scatters ? MPI_IN_PLACE : input_place.of(input.memory, call.own);
  void* const to = in_place && scatters ? MPI_IN_PLACE : output_place.of(output.memory, call.own);
  const Count count = input.count();
  switch (call.what) {
    case bcast:
      MAKE(call, Bcast, Ibcast, to, output.count(), output.type(), call.root, call.communicator);
      break;
    case allgather:
      MAKE(call, Allgather, Iallgather, from, count, input.type(), to, output.count(), output.type(),
           call.communicator);
      break;
    case allgatherv:
      MAKE(call, Allgatherv, Iallgatherv, from, count, input.type(), to, output.counts.data(),
           output.displacements.data(), output.type(), call.communicator);
      break;
    case alltoall:
      MAKE(call, Alltoall, Ialltoall, from, count, input.type(), to, output.count(), output.type(),
           call.communicator);
      break;
    case alltoallv:
      MAKE(call, Alltoallv, Ialltoallv, from, input.counts.data(), input.displacements.data(), input.type(),
           to, output.counts.data(), output.displacements.data(), output.type(), call.communicator);
      break;
    case gather:
      MAKE(call, Gather, Igather, from, count, input.type(), is_root ? to : nullptr, output.count(),
           output.type(), call.root, call.communicator);
      break;
    case gatherv:
      MAKE(call, Gatherv, Igatherv, from, count, input.type(), is_root ? to : nullptr,
           is_root ? output.counts.data() : nullptr, is_root ? output.displacements.data() : nullptr,
           output.type(), call.root, call.communicator);
      break;
    case scatterv:
      MAKE(call, Scatterv, Iscatterv, is_root ? from : nullptr, is_root ? input.counts.data() : nullptr,
           is_root ? input.displacements.data() : nullptr, input.type(), to, output.count(), output.type(),
           call.root, call.communicator);
      break;
    default:
      MAKE(call, Scatter, Iscatter, is_root ? from : nullptr, count, input.type(), to, output.count(),
           output.type(), call.root, call.communicator);
  }
  const bool takes = (!gathers || is_root) && !(in_place && scatters);
  return [memory, is_personalised, takes](Call& made) {
    Side& result = memory->output;
    memory->input_place.bring_back(memory->input.memory);
    memory->output_place.bring_back(memory->output.memory);
    if (takes) {
      const bool has_one_giver = made.what == bcast || made.what == scatter || made.what == scatterv;
      for (std::size_t block = 0; block < result.counts.size(); ++block)
        expect(made, result, block, has_one_giver ? made.root : static_cast<int>(block),
               is_personalised ? made.rank : 0);
      made.mix(result.memory);
    }
    made.mix(memory->input.memory);
  };
}

Rest make(Call& call) {
  switch (call.what) {
    case barrier:
      MAKE(call, Barrier, Ibarrier, call.communicator);
      return [](Call&) {};
    case reduce:
    case all_reduce:
    case reduce_scatter:
    case reduce_scatter_block:
    case scan:
    case exscan:
      return combine(call);
    default:
      return copy(call);
  }
}

// The calls under way in one thread.
class UnderWay {
 public:
  explicit UnderWay(unsigned seed) : chance_(seed) {}

  void add(const Call& call, Rest rest) {
    calls_.push_back({call, std::move(rest)});
    if (call.form == Form::blocking) {
      finish(calls_.size() - 1);
      return;
    }
    while (calls_.size() > chance_() % 8) complete_some();
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  void complete_all() {
    std::vector<MPI_Request> requests = all();
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    put_back(requests);
    while (!calls_.empty()) finish(calls_.size() - 1);
  }

 private:
  struct Open {
    Call call;
    Rest rest;
  };

  std::vector<MPI_Request> all() const {
    std::vector<MPI_Request> requests;
    for (const Open& each : calls_) requests.push_back(each.call.request);
    return requests;
  }
  void put_back(const std::vector<MPI_Request>& requests) {
    for (std::size_t k = 0; k < calls_.size(); ++k) calls_[k].call.request = requests[k];
  }
  void finish(std::size_t k) {
    Open open = std::move(calls_[k]);
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(k));
    open.rest(open.call);
    hash_ += open.call.hash * (2 * open.call.number + 1);
    if (open.call.form == Form::persistent) {
      if (open.call.request == MPI_REQUEST_NULL) open.call.fail("a persistent request is gone");
      MPI_Request_free(&open.call.request);
    }
    if (open.call.request != MPI_REQUEST_NULL) open.call.fail("there is still a request");
  }
  void complete_some() {
    const std::size_t one = chance_() % calls_.size();
    std::vector<MPI_Request> requests = all();
    const int count = static_cast<int>(requests.size());
    std::vector<int> done;
    int flag = 0, index = MPI_UNDEFINED;
    switch (chance_() % 8) {
      case 0:
        MPI_Wait(&requests[one], MPI_STATUS_IGNORE);
        done = {static_cast<int>(one)};
        break;
      case 1:
        MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
        for (int k = 0; k < count; ++k) done.push_back(k);
        break;
      case 2:
        MPI_Waitany(count, requests.data(), &index, MPI_STATUS_IGNORE);
        require(index != MPI_UNDEFINED, "MPI_Waitany finds no active request");
        done = {index};
        break;
      case 3: {
        done.resize(requests.size());
        MPI_Waitsome(count, requests.data(), &index, done.data(), MPI_STATUSES_IGNORE);
        require(index > 0, "MPI_Waitsome completes no request");
        done.resize(static_cast<std::size_t>(index));
        break;
      }
      case 4:
        while (flag == 0) MPI_Test(&requests[one], &flag, MPI_STATUS_IGNORE);
        done = {static_cast<int>(one)};
        break;
      case 5:
        while (flag == 0) MPI_Testany(count, requests.data(), &index, &flag, MPI_STATUS_IGNORE);
        require(index != MPI_UNDEFINED, "MPI_Testany finds no active request");
        done = {index};
        break;
      case 6: {
        done.resize(requests.size());
        index = 0;
        while (index == 0) MPI_Testsome(count, requests.data(), &index, done.data(), MPI_STATUSES_IGNORE);
        require(index > 0, "MPI_Testsome finds no active request");
        done.resize(static_cast<std::size_t>(index));
        break;
      }
      default:
        while (flag == 0) MPI_Request_get_status(requests[one], &flag, MPI_STATUS_IGNORE);
        flag = 0;
        MPI_Testall(count, requests.data(), &flag, MPI_STATUSES_IGNORE);
        for (int k = 0; flag != 0 && k < count; ++k) done.push_back(k);
    }
    put_back(requests);
    std::sort(done.begin(), done.end());
    while (!done.empty()) {
      finish(static_cast<std::size_t>(done.back()));
      done.pop_back();
    }
  }

  void require(bool holds, const char* otherwise) const {
    if (!holds) calls_.front().call.fail(otherwise);
  }

  std::mt19937 chance_;
  std::vector<Open> calls_;
  std::uint64_t hash_ = 0;  // a sum, because calls end in any order
};

// The calls of one thread, on communicators of its own.
class Caller {
 public:
  // The constructor is collective.
  explicit Caller(bool uses_world) {
    if (uses_world) {
      communicators_[0] = MPI_COMM_WORLD;
      communicators_[3] = MPI_COMM_SELF;
    } else {
      MPI_Comm_dup(MPI_COMM_WORLD, &communicators_[0]);
      MPI_Comm_dup(MPI_COMM_SELF, &communicators_[3]);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &communicators_[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &communicators_[2]);  // the ranks backwards
    MPI_Comm_split(MPI_COMM_WORLD, world_rank, 0, &communicators_[4]);   // one rank
    // After these barriers no rank has to ask another one before a call is served.
    for (const int k : {0, 1, 2}) MPI_Barrier(communicators_[k]);
  }
  void free() {
    for (MPI_Comm& each : communicators_) {
      if (each != MPI_COMM_WORLD && each != MPI_COMM_SELF) MPI_Comm_free(&each);
    }
  }

  void run(unsigned seed, unsigned calls, int longest, bool in_any_form) {
    std::mt19937 alike(seed);
    UnderWay under_way(seed * 31 + static_cast<unsigned>(world_rank));
    const char* const driver = getenv("STUB_GPU");
    for (unsigned number = 0; number < calls; ++number) {
      if (number == calls / 10 && driver != nullptr && !has_gpu && world_rank % 3 != 1) {
        gpu = stub_load(driver);
        has_gpu = true;
      }
      Call call{};
      call.number = number;
      call.what = static_cast<What>(alike() % whats);
      const unsigned where = alike() % 16;  // most of the communicators have all ranks
      call.communicator = communicators_[where < 14 ? where % 3 : where - 11];
      MPI_Comm_rank(call.communicator, &call.rank);
      MPI_Comm_size(call.communicator, &call.size);
      call.root = static_cast<int>(alike() % static_cast<unsigned>(call.size));
      const unsigned scale = alike() % 4;  // most are short
      call.longest = scale == 0   ? longest
                     : scale == 1 ? std::max(1, longest / 30)
                                  : std::max(1, longest / 1000);
      call.in_place = alike() % 4 == 0;
      const unsigned form = alike() % 5;
      if (in_any_form && form > 0)
        call.form = form == 1 && has_persistent ? Form::persistent : Form::nonblocking;
      call.alike.seed(alike());
      call.own.seed(seed * 131 + number * 17 + static_cast<unsigned>(world_rank));
      ++made[call.what];
      if (call.size == 1) ++alone[call.what];
      Rest rest = make(call);
      under_way.add(call, std::move(rest));
    }
    under_way.complete_all();
    hash = under_way.hash();
  }

  std::array<unsigned, whats> made{};
  std::array<unsigned, whats> alone{};  // on communicators of one rank
  std::uint64_t hash = 0;

 private:
  std::array<MPI_Comm, 5> communicators_{};
};

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argv[5];
  const bool has_threads = mode == "threads";
  if (has_threads) {
    check_start_with_threads(&argc, &argv);
  } else {
    check_start(&argc, &argv);
  }
  const unsigned seed = static_cast<unsigned>(atoi(argv[1]));
  const unsigned calls = static_cast<unsigned>(atoi(argv[2]));
  const int longest = atoi(argv[3]);
  shapes_differ = std::string(argv[4]) == "different";
  const bool in_any_form = mode == "any" || has_threads;
  make_types();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int k = 0; k < (has_threads || mode == "in_turn" ? 3 : 1); ++k)
    callers.push_back(std::make_unique<Caller>(k == 0));
  if (argc > 7 && atoi(argv[6]) == world_rank) be_killed_after(atol(argv[7]));
  const auto run = [&](std::size_t k) {
    callers[k]->run(seed + 1000003 * static_cast<unsigned>(k), calls, longest, in_any_form);
  };
  std::vector<std::thread> threads;
  for (std::size_t k = 1; k < callers.size(); ++k) {
    if (has_threads) {
      threads.emplace_back(run, k);
    } else {
      run(k);
    }
  }
  run(0);
  for (std::thread& each : threads) each.join();
  for (const stub_call kind : {STUB_QUERY, STUB_READ, STUB_WRITE})
    CHECK(!has_gpu || gpu.calls(kind) > 0, "the driver was not called for %d", kind);
  std::uint64_t hash = 0;
  for (const auto& each : callers) hash = hash * 31 + each->hash;
  for (int rank = 0; rank < world_size; ++rank) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == world_rank) {
      printf("rank %d: %016llx\n", rank, static_cast<unsigned long long>(hash));
      fflush(stdout);
    }
  }
  for (unsigned what = 0; what < whats && world_rank == 0; ++what) {
    unsigned made = 0;
    unsigned alone = 0;
    for (const auto& each : callers) {
      made += each->made[what];
      alone += each->alone[what];
    }
    printf("made %s: %u\nalone %s: %u\n", names[what], made, names[what], alone);
  }
  for (const auto& each : callers) each->free();
  return check_finish();
}
