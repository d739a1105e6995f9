// SPDX-License-Identifier: BSD-3-Clause
//
// A random MPI program: communicators that come and go, allreduces of all kinds, wrong calls, callbacks that
// communicate, messages under way, threads, spawned jobs. All that it does follows from its seed, so that
// tests/mpi/soak.py can run it natively and under the preload, and compare the last line of each rank:
//
//     ok: rank 1 digest 8c1f0a5e2b9d7743 calls 412
//
// The digest covers every result, error class and call of a handler. Besides, every result is compared here
// with what it must be: integers, or floating-point numbers whose sums are exact.
//
//   --seed N --steps N
//   --limit SECONDS       after that each rank says where it hangs (default 60)
//   --slow 1              fewer and shorter calls, for ranks that do not yield the core which they share
//   --spawn 1             also spawn jobs; 2: some of them without the preload
//   --without KIND,KIND   leave out these kinds of step; `kinds` below has them all
//   --trace PREFIX        each rank writes what goes into the digest to PREFIX.RANK, step by step
#include <dlfcn.h>
#include <offbeat/offbeat.h>
#include <sched.h>

#include <csetjmp>
#include <list>
#include <thread>

#include "soak_communicators.h"

using namespace soak;

namespace {

// -- Operations that stay open for some steps

struct Open {
  int until;  // this step
  Shared on;
  std::function<void()> finish;
};
std::list<Open> open_operations;

// `blocks_free`: the communicator may be freed only after the operation is complete.
void leave_open(const Shared& on, std::function<void()> finish, bool blocks_free = true) {
  const int until = step + draw.below(8);
  if (blocks_free) ++on->operations_open;
  open_operations.push_back({until, on, [on, finish = std::move(finish), blocks_free] {
                               if (on->is_mine()) finish();
                               if (blocks_free) --on->operations_open;
                             }});
}

void finish_until(int now) {
  for (auto each = open_operations.begin(); each != open_operations.end();) {
    if (each->until <= now) {
      each->finish();
      each = open_operations.erase(each);
    } else {
      ++each;
    }
  }
}

// Wait for requests, or look at them again and again.
void complete(std::vector<MPI_Request>& requests, bool by_looking) {
  const int count = static_cast<int>(requests.size());
  if (by_looking) {
    doing = "MPI_Testall";
    for (int complete = 0; !complete; sched_yield()) {
      succeed(MPI_Testall(count, requests.data(), &complete, MPI_STATUSES_IGNORE), "MPI_Testall");
    }
  } else {
    doing = "MPI_Waitall";
    succeed(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }
}

void delay(int most_us) {
  doing = "a delay";
  usleep(Random{mixed(seed, step, me)}.below(most_us));
}

// One rank comes late, alone.
void delay_somebody() {
  if (draw.below(world_size) == world_rank) delay(20000);
}

// -- The kinds of step

void step_allreduce() { allreduces(*any_communicator(), 6); }

void step_delay() {
  delay_somebody();
  allreduces(*any_communicator(), 3);
}

constexpr struct {
  const char* name;
  Communicator (*make)(const Communicator&);
} ways[] = {{"duplicate", duplicate}, {"duplicate", duplicate}, {"duplicate later", duplicate_later},
            {"split", split},         {"split", split},         {"split by memory", split_by_memory},
            {"create", create},       {"create", create},       {"grid", grid},
            {"halves", halves}};

void step_make() {
  if (communicators.size() > most_communicators) return;
  const Shared of = any_communicator();
  if (of->is_inter) {
    keep(draw.chance(40) ? duplicate(*of) : merge_halves(*of));
  } else {
    const auto& way = ways[draw.below(std::size(ways))];
    note("%s", way.name);
    // A callback that communicates has no place in a call that must not wait.
    keep((way.make == duplicate_later && of->has_attributes ? duplicate : way.make)(*of));
  }
  if (draw.chance(70)) allreduces(*communicators.back(), 3);
}

void step_free() {
  for (int n = 1 + draw.below(4); n > 0 && communicators.size() > 2; --n) {
    const auto chosen = communicators.begin() + 2 + draw.below(communicators.size() - 2);
    if ((*chosen)->operations_open > 0) continue;
    const Shared freed = *chosen;
    communicators.erase(chosen);
    if (draw.chance(20)) delay_somebody();
    release(*freed);
  }
}

// An MPI gives a freed handle to the next communicator, here with other members.
void step_reuse() {
  const Shared of = any_of_one_group();
  for (int n = 2 + draw.below(5); n > 0; --n) {
    Communicator part = draw.chance(50) ? split(*of) : create(*of);
    if (draw.chance(80)) allreduces(part, 2);
    release(part);
  }
}

void step_many() {
  const Shared of = communicators[0];
  const int count = is_slow ? 5 + draw.below(15) : draw.chance(15) ? 240 : 20 + draw.below(100);
  std::vector<Communicator> many;
  for (int k = 0; k < count; ++k) {
    many.push_back(draw.chance(80) ? duplicate(*of) : split(*of));
    if (draw.chance(60)) allreduce(many.back());
  }
  while (!many.empty()) {
    std::swap(many[draw.below(many.size())], many.back());
    if (draw.chance(50)) allreduce(many.back());
    release(many.back());
    many.pop_back();
  }
}

// An MPI gives the handles of a freed operation and type to the next, which are others here.
void step_own_operations() {
  const Shared on = any_communicator();
  for (int n = 1 + draw.below(4); n > 0; --n) {
    Case fresh = own_operations[draw.below(std::size(own_operations))].make();
    for (int k = draw.below(3); k >= 0; --k) allreduce(*on, fresh);
    free_case(fresh);
  }
}

// Makes a communicator of the same ranks, without attributes.
Communicator alike(const Communicator& of) {
  MPI_Comm copy = MPI_COMM_NULL;
  if (of.is_mine()) succeed(MPI_Comm_split(of.handle, 0, 0, &copy), "MPI_Comm_split");
  return made(copy, of.members);
}

// Attributes whose callbacks communicate.
struct Attribute {
  Members members;
  std::uint64_t salt;
  bool is_copied, sums_on_copy, sums_on_delete;
  Communicator beside = {};  // another communicator of the same ranks, which goes with the attribute; or none
};

std::array<int, 3> keys;
std::uint64_t callbacks;  // the digests of all callbacks, added up: MPI leaves their order open

// The draws and results of a callback must not depend on when it is called.
template <class Body>
void in_callback(std::uint64_t salt, Body body) {
  const Random drawing = std::exchange(draw, Random{salt});
  const Digest so_far = std::exchange(digest, Digest{});
  body();
  callbacks += digest.value;
  draw = drawing;
  digest = so_far;
}

int copy_attribute(MPI_Comm comm, int, void*, void* value, void* copy, int* is_copied) {
  const auto& attribute = *static_cast<Attribute*>(value);
  in_callback(mixed(attribute.salt, 1), [&] {
    doing = "a copy callback";
    if (attribute.sums_on_copy) allreduce({comm, attribute.members});
  });
  *is_copied = attribute.is_copied;
  if (attribute.is_copied) {
    auto* const copied = new Attribute(attribute);
    copied->salt = mixed(attribute.salt, 2);
    copied->beside = {};
    *static_cast<void**>(copy) = copied;
  }
  return MPI_SUCCESS;
}

int delete_attribute(MPI_Comm comm, int, void* value, void*) {
  const std::unique_ptr<Attribute> attribute(static_cast<Attribute*>(value));
  in_callback(mixed(attribute->salt, 3), [&] {
    doing = "a delete callback";
    if (attribute->sums_on_delete) allreduces({comm, attribute->members}, 3);
    if (attribute->beside.is_mine()) {
      allreduce(attribute->beside);
      release(attribute->beside);
    }
  });
  return MPI_SUCCESS;
}

// MPICH and Intel MPI call no delete function yet when a message has already come to the communicator that is
// freed. That may be one of this very sum, from a rank that is ahead: who is not waits in its own for ever,
// natively, too.
#if defined(OPEN_MPI)
constexpr bool deletes_at_once = true;
#else
constexpr bool deletes_at_once = false;
#endif

void step_attributes() {
  if (communicators.size() > most_communicators) return;
  const Shared on = keep(draw.chance(60) ? split(*communicators[0]) : duplicate(*any_of_one_group()));
  on->has_attributes = true;
  for (int n = draw.below(keys.size()); n >= 0; --n) {
    const bool is_copied = draw.chance(60), sums_on_copy = draw.chance(50),
               sums_on_delete = draw.chance(75) && deletes_at_once;
    auto attribute = std::make_unique<Attribute>(
        Attribute{on->members, draw.bits(), is_copied, sums_on_copy, sums_on_delete});
    if (draw.chance(30)) attribute->beside = alike(*on);
    if (!on->is_mine()) continue;
    doing = "MPI_Comm_set_attr";
    succeed(MPI_Comm_set_attr(on->handle, keys[n], attribute.release()), "MPI_Comm_set_attr");
  }
  if (draw.chance(60)) allreduces(*on, 2);
}

// Wrong calls

int four[8] = {1, 2, 3, 4}, sums[8];
MPI_Datatype uncommitted;

const Case& composition() { return own[3]; }

struct WrongCall {
  const char* name;
  int (*call)(MPI_Comm);
  // Natively MPICH aborts on some of them, Open MPI crashes on others or takes them for right.
  bool is_for_open_mpi = true, is_for_mpich = true;
};

const WrongCall wrong_calls[] = {
    {"negative count", [](MPI_Comm on) { return MPI_Allreduce(four, sums, -1, MPI_INT, MPI_SUM, on); }, true,
     false},
    {"null type", [](MPI_Comm on) { return MPI_Allreduce(four, sums, 4, MPI_DATATYPE_NULL, MPI_SUM, on); },
     true, false},
    {"null operation", [](MPI_Comm on) { return MPI_Allreduce(four, sums, 4, MPI_INT, MPI_OP_NULL, on); }},
    {"null communicator",
     [](MPI_Comm) { return MPI_Allreduce(four, sums, 4, MPI_INT, MPI_SUM, MPI_COMM_NULL); }},
    {"result in place",
     [](MPI_Comm on) { return MPI_Allreduce(four, MPI_IN_PLACE, 4, MPI_INT, MPI_SUM, on); }},
    {"both in place",
     [](MPI_Comm on) { return MPI_Allreduce(MPI_IN_PLACE, MPI_IN_PLACE, 4, MPI_INT, MPI_SUM, on); }},
    {"one buffer for both", [](MPI_Comm on) { return MPI_Allreduce(sums, sums, 4, MPI_INT, MPI_SUM, on); }},
    {"no input", [](MPI_Comm on) { return MPI_Allreduce(nullptr, sums, 4, MPI_INT, MPI_SUM, on); }, false},
    {"no output", [](MPI_Comm on) { return MPI_Allreduce(four, nullptr, 4, MPI_INT, MPI_SUM, on); }, false},
    {"uncommitted type, no elements",
     [](MPI_Comm on) { return MPI_Allreduce(four, sums, 0, uncommitted, composition().op, on); }},
    {"uncommitted type",
     [](MPI_Comm on) { return MPI_Allreduce(four, sums, 1, uncommitted, composition().op, on); }},
    {"sum of a derived type",
     [](MPI_Comm on) { return MPI_Allreduce(four, sums, 2, composition().type, MPI_SUM, on); }},
    {"sum of bytes", [](MPI_Comm on) { return MPI_Allreduce(four, sums, 4, MPI_BYTE, MPI_SUM, on); }, false},
    {"bitwise and of float",
     [](MPI_Comm on) { return MPI_Allreduce(four, sums, 4, MPI_FLOAT, MPI_BAND, on); }},
    {"place of int", [](MPI_Comm on) { return MPI_Allreduce(four, sums, 4, MPI_INT, MPI_MINLOC, on); }},
    {"replace", [](MPI_Comm on) { return MPI_Allreduce(four, sums, 4, MPI_INT, MPI_REPLACE, on); }},
    {"maximum of complex",
     [](MPI_Comm on) { return MPI_Allreduce(four, sums, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX, on); }},
};

enum Handling { returned, counted, thrown, jumped };
MPI_Errhandler handlers[4] = {MPI_ERRORS_RETURN};
int handled, handled_code;
std::jmp_buf landing;

void count_error(MPI_Comm*, int* code, ...) {
  ++handled;
  handled_code = *code;
}
void throw_error(MPI_Comm* comm, int* code, ...) {
  count_error(comm, code);
  throw handled;
}
void jump_from_error(MPI_Comm* comm, int* code, ...) {
  count_error(comm, code);
  std::longjmp(landing, 1);
}

int call_and_land(const WrongCall& what, MPI_Comm on) {
  if (setjmp(landing) != 0) return handled_code;
  return what.call(on);
}

int call_and_catch(const WrongCall& what, MPI_Comm on) {
  try {
    return what.call(on);
  } catch (int) {
    return handled_code;
  }
}

int error_class(int code) {
  int found = -1;
  MPI_Error_class(code, &found);
  return found;
}

void step_wrong_call() {
  const bool is_first = draw.chance(60) && communicators.size() < most_communicators;
  const Shared of = any_of_one_group(), on = is_first ? keep(duplicate(*of)) : of;
  const WrongCall* what;
  do {
    what = &wrong_calls[draw.below(std::size(wrong_calls))];
  } while (host == Host::open_mpi ? !what->is_for_open_mpi : host == Host::mpich && !what->is_for_mpich);
  // With more threads MPICH holds a lock while it calls the handler.
  const auto handling = static_cast<Handling>(draw.below(thread_level < MPI_THREAD_MULTIPLE ? 4 : 2));
  const bool is_by_all = draw.chance(40);
  const std::size_t who = draw.below(12);
  if (on->is_mine() && (is_by_all || on->members[who % on->members.size()] == me)) {
    MPI_Comm_set_errhandler(on->handle, handlers[handling]);
    handled = 0;
    doing = what->name;
    ++calls;
    const int code = handling == jumped   ? call_and_land(*what, on->handle)
                     : handling == thrown ? call_and_catch(*what, on->handle)
                                          : what->call(on->handle);
    note("%s: class %d, handler called %d times", what->name, error_class(code), handled);
    MPI_Comm_set_errhandler(on->handle, MPI_ERRORS_RETURN);
  }
  allreduces(*on, 3);
}

void step_free_what_cannot_be() {
  const int who = draw.below(2 * world_size), which = draw.below(3);
  MPI_Comm comm = which == 0 ? MPI_COMM_WORLD : which == 1 ? MPI_COMM_SELF : MPI_COMM_NULL;
  if (who >= world_size || who == world_rank) {
    doing = "MPI_Comm_free of MPI_COMM_WORLD, MPI_COMM_SELF or MPI_COMM_NULL";
    note("freeing %d: class %d", which, error_class(MPI_Comm_free(&comm)));
  }
  allreduces(*communicators[0], 2);
  allreduce(*communicators[1]);
}

// Messages and other collectives

void fill_bytes(std::vector<unsigned char>& bytes, std::uint64_t salt) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(salt + i % 251);
}

void check_bytes(const std::vector<unsigned char>& bytes, std::uint64_t salt) {
  std::vector<unsigned char> wanted(bytes.size());
  fill_bytes(wanted, salt);
  check(bytes == wanted, "a message has other contents");
  digest.fold(bytes.data(), std::min<std::size_t>(bytes.size(), 64));
}

std::size_t draw_message_bytes() {
  return draw.chance(50) ? draw.below(2000) : draw.below(is_slow ? 200000 : 4000000);
}

// Everybody sends to the next; the messages are under way during the next steps.
void step_messages() {
  struct Messages {
    std::vector<unsigned char> out, in;
    std::vector<MPI_Request> requests;
  };
  const Shared on = any_of_one_group();
  const std::size_t bytes = draw_message_bytes();
  const bool is_received_late = draw.chance(40), by_looking = draw.chance(50);
  const int tag = step;
  auto messages = std::make_shared<Messages>();
  const int size = static_cast<int>(on->members.size()), rank = place(on->members, me);
  const int from = on->is_mine() ? (rank + size - 1) % size : 0;
  if (on->is_mine()) {
    messages->out.resize(bytes);
    messages->in.resize(bytes);
    fill_bytes(messages->out, me);
    messages->requests.resize(is_received_late ? 1 : 2);
    doing = "MPI_Isend";
    succeed(MPI_Isend(messages->out.data(), bytes, MPI_BYTE, (rank + 1) % size, tag, on->handle,
                      &messages->requests[0]),
            "MPI_Isend");
    if (!is_received_late) {
      succeed(MPI_Irecv(messages->in.data(), bytes, MPI_BYTE, from, tag, on->handle, &messages->requests[1]),
              "MPI_Irecv");
    }
  }
  leave_open(on, [=, &comm = on->handle, &members = on->members] {
    if (is_received_late) {
      doing = "MPI_Iprobe";
      for (int is_there = !by_looking; !is_there; sched_yield()) {
        succeed(MPI_Iprobe(from, tag, comm, &is_there, MPI_STATUS_IGNORE), "MPI_Iprobe");
      }
      doing = "MPI_Recv";
      succeed(MPI_Recv(messages->in.data(), bytes, MPI_BYTE, from, tag, comm, MPI_STATUS_IGNORE), "MPI_Recv");
    }
    complete(messages->requests, by_looking);
    check_bytes(messages->in, members[from]);
  });
}

// A long message must arrive although its sender calls nothing but MPI_Allreduce.
void step_deliver() {
  const Shared on = any_of_one_group();
  const std::size_t bytes = std::size_t{1 + static_cast<unsigned>(draw.below(8))} << (is_slow ? 17 : 20);
  const int sender = draw.below(12);
  if (on->members.size() < 2) return;
  const int size = static_cast<int>(on->members.size()), rank = place(on->members, me);
  const int from = sender % size, to = (sender + 1) % size;
  std::vector<unsigned char> message(rank == from || rank == to ? bytes : 0);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == from) {
    fill_bytes(message, me);
    succeed(MPI_Isend(message.data(), bytes, MPI_BYTE, to, step, on->handle, &request), "MPI_Isend");
  } else if (rank == to) {
    succeed(MPI_Irecv(message.data(), bytes, MPI_BYTE, from, step, on->handle, &request), "MPI_Irecv");
  }
  doing = "MPI_Allreduce until a message is delivered";
  const double begin = MPI_Wtime();
  int all[2] = {0, 0};  // delivered, given up
  while (!all[0] && !all[1]) {
    int mine[2] = {0, MPI_Wtime() - begin > 15};
    if (rank == to) MPI_Test(&request, &mine[0], MPI_STATUS_IGNORE);
    ++calls;
    succeed(MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MAX, on->handle), "MPI_Allreduce");
  }
  check(all[0], "a message was not delivered");
  doing = "MPI_Wait";
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == to) check_bytes(message, on->members[from]);
}

// A rank that waits in an allreduce answers those who send to it; one that looks for messages keeps others
// waiting.
void step_synchronous_messages() {
  const Shared on = any_of_one_group();
  const int count = 1 + draw.below(is_slow ? 5 : 50), sender = draw.below(12);
  const bool by_looking = draw.chance(40);
  if (on->members.size() > 1) {
    const int size = static_cast<int>(on->members.size()), rank = place(on->members, me);
    const int from = sender % size, to = (sender + 1) % size;
    if (rank == from) {
      delay(20000);
      doing = "MPI_Ssend";
      for (int k = 0; k < count; ++k) succeed(MPI_Ssend(&k, 1, MPI_INT, to, step, on->handle), "MPI_Ssend");
    }
    std::vector<int> numbers(count, -1);
    std::vector<MPI_Request> requests(count);
    if (rank == to) {
      for (int k = 0; k < count; ++k) {
        doing = "MPI_Iprobe";
        for (int is_there = !by_looking; !is_there; sched_yield()) {
          MPI_Iprobe(MPI_ANY_SOURCE, step, on->handle, &is_there, MPI_STATUS_IGNORE);
        }
        succeed(MPI_Irecv(&numbers[k], 1, MPI_INT, from, step, on->handle, &requests[k]), "MPI_Irecv");
        if (by_looking) MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
      }
    }
    int one = 1, sum = 0;
    ++calls;
    doing = "MPI_Allreduce beside MPI_Ssend";
    succeed(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, on->handle), "MPI_Allreduce beside MPI_Ssend");
    check(sum == size, "the sum beside MPI_Ssend");
    if (rank == to) {
      complete(requests, false);
      for (int k = 0; k < count; ++k) check(numbers[k] == k, "a synchronous message has other contents");
    }
  }
}

void step_collectives() {
  const Shared on = any_of_one_group();
  for (int n = 2 + draw.below(5); n > 0; --n) {
    const int which = draw.below(6), root_draw = draw.below(12), value = draw.below(1000);
    if (which == 0) {
      allreduce(*on);
      continue;
    }
    if (!on->is_mine()) continue;
    const int size = static_cast<int>(on->members.size()), rank = place(on->members, me),
              root = root_draw % size;
    std::vector<int> numbers(size, -1);
    int mine = value + rank, sum = -1;
    const int sum_wanted = size * value + size * (size - 1) / 2;
    doing = "another collective";
    switch (which) {
      case 1:
        succeed(MPI_Barrier(on->handle), "MPI_Barrier");
        break;
      case 2:
        succeed(MPI_Bcast(&mine, 1, MPI_INT, root, on->handle), "MPI_Bcast");
        check(mine == value + root, "MPI_Bcast");
        break;
      case 3:
        succeed(MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, root, on->handle), "MPI_Reduce");
        check(rank != root || sum == sum_wanted, "MPI_Reduce");
        break;
      case 4:
        succeed(MPI_Allgather(&mine, 1, MPI_INT, numbers.data(), 1, MPI_INT, on->handle), "MPI_Allgather");
        for (int k = 0; k < size; ++k) check(numbers[k] == value + k, "MPI_Allgather");
        break;
      case 5:
        succeed(MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_SUM, on->handle), "MPI_Scan");
        check(sum == (rank + 1) * value + rank * (rank + 1) / 2, "MPI_Scan");
        break;
    }
  }
}

void step_nonblocking() {
  const Shared on = any_of_one_group();
  const bool by_looking = draw.chance(50);
  auto requests = std::make_shared<std::vector<MPI_Request>>(1, MPI_REQUEST_NULL);
  if (draw.chance(25)) {
    doing = "MPI_Ibarrier";
    if (on->is_mine()) succeed(MPI_Ibarrier(on->handle, &(*requests)[0]), "MPI_Ibarrier");
    leave_open(on, [=] { complete(*requests, by_looking); });
    return;
  }
  auto reduction = std::make_shared<Reduction>(draw_reduction(draw_case(), true));
  const Case& what = reduction->what;
  doing = "MPI_Iallreduce";
  if (on->is_mine()) {
    succeed(MPI_Iallreduce(reduction->source(), reduction->target(), reduction->count, what.type, what.op,
                           on->handle, &(*requests)[0]),
            "MPI_Iallreduce");
  }
  leave_open(on, [=, &members = on->members] {
    complete(*requests, by_looking);
    reduction->check(members);
  });
}

void step_two_groups() {
  Communicator across = halves(*any_of_one_group());
  if (draw.chance(70)) allreduces(across, 3);
  Communicator merged = merge_halves(across);
  if (draw.chance(80)) allreduces(merged, 3);
  Communicator copy = draw.chance(30) ? duplicate(across) : Communicator{MPI_COMM_NULL, {}, true};
  if (draw.chance(50)) std::swap(across, merged);
  release(across);
  allreduce(merged);
  if (copy.is_mine()) allreduce(copy);
  release(merged);
  release(copy);
}

// Threads, each with communicators of its own.
void step_threads() {
  const int count = 2 + draw.below(2), rounds = 1 + draw.below(is_slow ? 2 : 6);
  std::vector<Communicator> bases;
  for (int t = 0; t < count; ++t)
    bases.push_back(draw.chance(50) ? duplicate(*communicators[0]) : split(*communicators[0]));
  std::vector<Digest> digests(count);
  std::vector<long> calls_made(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      draw = Random{mixed(seed, step, 1000 + t)};
      for (int round = 0; round < rounds; ++round) {
        Communicator part = (draw.chance(50) ? duplicate : split)(bases[t]);
        allreduces(part, 4);
        if (draw.chance(30)) allreduce(bases[t]);
        release(part);
      }
      digests[t] = digest;
      calls_made[t] = calls;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < count; ++t) {
    digest.fold(digests[t].value);
    calls += calls_made[t];
    release(bases[t]);
  }
}

// Spawned jobs

std::string program, trace_prefix;
int spawning;  // 2: some jobs without the preload
int limit_s;

// Both jobs do this.
void with_other_job(MPI_Comm inter, const Members& parents, const Members& children, bool is_child) {
  draw = Random{mixed(seed, step, 2000)};
  Communicator jobs = made(inter, is_child ? children : parents, true, is_child ? parents : children);
  if (draw.chance(60)) allreduces(jobs, 2);
  const bool are_children_first = draw.chance(30);
  Communicator merged = merge(jobs, is_child != are_children_first);
  allreduces(merged, 4);
  if (draw.chance(50)) {
    Communicator copy = draw.chance(50) ? duplicate(merged) : split(merged);
    allreduces(copy, 3);
    release(copy, false);
  }
  allreduce(merged);
  // Open MPI 5.0.11 hangs when both the merged communicator and the one between the jobs are disconnected.
  release(merged, false);
  doing = "MPI_Comm_disconnect of two jobs";
  succeed(MPI_Comm_disconnect(&jobs.handle), "MPI_Comm_disconnect of two jobs");
}

Members children_of(int count) {
  Members children(count);
  std::iota(children.begin(), children.end(), first_child);
  return children;
}

// Through `env`, because not every launcher gives spawned jobs the variables of their parents.
void step_spawn() {
  const Shared of = draw.chance(60) ? communicators[0] : any_of_one_group();
  const int count = 1 + draw.below(2);
  const bool has_preload = spawning < 2 || draw.chance(50);
  if (!of->is_mine()) return;
  std::string parents;
  for (int member : of->members) parents += std::to_string(member) + ",";
  std::vector<std::string> words;
  for (char** variable = environ; *variable; ++variable) {
    const bool is_offbeat =
        std::strncmp(*variable, "LD_PRELOAD=", 11) == 0 || std::strncmp(*variable, "OFFBEAT_", 8) == 0;
    if (is_offbeat && has_preload) words.push_back(*variable);
  }
  words.insert(words.end(),
               {program, "--seed", std::to_string(seed), "--child-of", parents, "--children",
                std::to_string(count), "--step", std::to_string(step), "--limit", std::to_string(limit_s),
                "--slow", std::to_string(is_slow), "--trace", trace_prefix});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  MPI_Comm inter = MPI_COMM_NULL;
  doing = "MPI_Comm_spawn";
  succeed(MPI_Comm_spawn("env", arguments.data(), count, MPI_INFO_NULL, 0, of->handle, &inter,
                         MPI_ERRCODES_IGNORE),
          "MPI_Comm_spawn");
  if (inter != MPI_COMM_NULL) with_other_job(inter, of->members, children_of(count), false);
}

// offbeat's own interface, where it is preloaded. The digest must not know.

struct Interface {
  decltype(&offbeat_select) select;
  decltype(&offbeat_run) run;
  decltype(&offbeat_begin) begin;
  decltype(&offbeat_test) test;
  decltype(&offbeat_wait) wait;
};
Interface offbeat;

template <class Function>
void find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

int fortran_handle(MPI_Comm comm) {
#ifdef OFFBEAT_TEST_STANDARD_ABI
  return MPI_Comm_toint(comm);
#else
  return static_cast<int>(MPI_Comm_c2f(comm));
#endif
}

constexpr struct {
  const char* name;
  offbeat_type type;
  offbeat_op op;
} known_to_offbeat[] = {{"int sum", OFFBEAT_INT32, OFFBEAT_SUM},
                        {"double sum", OFFBEAT_FLOAT64, OFFBEAT_SUM},
                        {"float maximum", OFFBEAT_FLOAT32, OFFBEAT_MAX},
                        {"uint8 bitwise xor", OFFBEAT_UINT8, OFFBEAT_BITWISE_XOR}};

void check_outside_of_digest(Reduction& reduction, const Members& members) {
  const Digest so_far = digest;
  reduction.check(members);
  digest = so_far;
}

// One operation; the communicator may be freed before it is complete.
std::function<void()> begin_with_offbeat(const Shared& on) {
  const auto& known = known_to_offbeat[draw.below(std::size(known_to_offbeat))];
  const auto found =
      std::find_if(predefined.begin(), predefined.end(), [&](auto& each) { return each.name == known.name; });
  const std::size_t count = (draw_bytes() + found->extent - 1) / found->extent;
  auto reduction =
      std::make_shared<Reduction>(*found, count, draw.bits(), false, std::array<std::size_t, 2>{0, 0});
  const bool by_looking = draw.chance(50), is_at_once = draw.chance(20);
  if (!offbeat.wait || !on->is_mine()) return [] {};
  offbeat_call call = OFFBEAT_CALL_INIT;
  call.collective = "allreduce";
  call.communicator = fortran_handle(on->handle);
  call.input = reduction->input.data();
  call.output = reduction->output.data();
  call.count = count;
  call.type = known.type;
  call.op = known.op;
  if (is_at_once) {
    doing = "offbeat_run";
    check(offbeat.run(&call) == OFFBEAT_OK, "offbeat_run");
    check_outside_of_digest(*reduction, on->members);
    return [] {};
  }
  auto request = std::make_shared<offbeat_request*>(nullptr);
  doing = "offbeat_begin";
  check(offbeat.begin(&call, request.get()) == OFFBEAT_OK, "offbeat_begin");
  return [=, members = on->members] {
    int is_over = 0;
    MPI_Finalized(&is_over);
    if (is_over) {  // an error, and nothing worse
      doing = "offbeat_wait";
      check(offbeat.wait(request.get()) == OFFBEAT_ERROR_MPI, "offbeat_wait after MPI_Finalize");
      return;
    }
    if (by_looking) {
      doing = "offbeat_test";
      for (int complete = 0; !complete; sched_yield()) {
        check(offbeat.test(request.get(), &complete) == OFFBEAT_OK, "offbeat_test");
        if (failures > 0) break;
      }
    } else {
      doing = "offbeat_wait";
      check(offbeat.wait(request.get()) == OFFBEAT_OK, "offbeat_wait");
    }
    check_outside_of_digest(*reduction, members);
  };
}

void step_offbeat_open() {
  const Shared on = any_of_one_group();
  leave_open(on, begin_with_offbeat(on), false);
}

void step_offbeat_free_while_open() {
  const Shared on = std::make_shared<Communicator>(draw.chance(50) ? duplicate(*any_of_one_group())
                                                                   : split(*communicators[0]));
  const auto finish = begin_with_offbeat(on);
  release(*on);
  if (draw.chance(50)) {
    Communicator next = duplicate(*communicators[0]);
    allreduces(next, 2);
    release(next);
  }
  finish();
}

void step_offbeat_select() {
  constexpr std::array algorithms{"ring",   "recursive_doubling", "arrival_tree",
                                  "native", "pipeline(3, ring)",  "rabenseifner"};
  const char* const algorithm = algorithms[draw.below(algorithms.size())];
  const auto select = [](const char* expression) {
    if (offbeat.select)
      check(offbeat.select("allreduce", expression, nullptr, 0) == OFFBEAT_OK, "offbeat_select");
  };
  select(algorithm);
  allreduces(*any_communicator(), 3);
  allreduces(*any_communicator(), 3);
  select("");
}

struct Kind {
  const char* name;
  int weight;
  void (*run)();
};

const Kind kinds[] = {
    {"allreduce", 20, step_allreduce},
    {"delay", 6, step_delay},
    {"make", 24, step_make},
    {"free", 16, step_free},
    {"reuse", 5, step_reuse},
    {"many", 1, step_many},
    {"own_operations", 4, step_own_operations},
    {"attributes", 7, step_attributes},
    {"wrong_call", 10, step_wrong_call},
    {"free_what_cannot_be", 2, step_free_what_cannot_be},
    {"messages", 7, step_messages},
    {"deliver", 2, step_deliver},
    {"synchronous_messages", 4, step_synchronous_messages},
    {"collectives", 6, step_collectives},
    {"nonblocking", 7, step_nonblocking},
    {"two_groups", 4, step_two_groups},
    {"threads", 4, step_threads},
    {"spawn", 2, step_spawn},
    {"offbeat_open", 4, step_offbeat_open},
    {"offbeat_free_while_open", 2, step_offbeat_free_while_open},
    {"offbeat_select", 2, step_offbeat_select},
};

std::string left_out;  // ",kind,kind,"

const Kind& draw_kind() {
  const auto weight = [](const Kind& kind) {
    if (kind.run == step_threads && thread_level < MPI_THREAD_MULTIPLE) return 0;
    if (kind.run == step_spawn && spawning == 0) return 0;
    if (left_out.find("," + std::string(kind.name) + ",") != std::string::npos) return 0;
    return kind.weight;
  };
  int left = 0;
  for (const Kind& kind : kinds) left += weight(kind);
  left = draw.below(left);
  const Kind* kind = kinds;
  while ((left -= weight(*kind)) >= 0) ++kind;
  return *kind;
}

// -- The program

const char* option(int argc, char** argv, const char* name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return otherwise;
}

void start_mpi(int* argc, char*** argv) {
  Random random{mixed(seed)};
  constexpr std::array levels{MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                              MPI_THREAD_MULTIPLE, MPI_THREAD_MULTIPLE};
  if (random.chance(40)) {
    MPI_Init(argc, argv);
  } else {
    MPI_Init_thread(argc, argv, levels[random.below(levels.size())], &thread_level);
  }
  MPI_Query_thread(&thread_level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(version, &length);
  host = std::strstr(version, "Open MPI") ? Host::open_mpi
         : std::strstr(version, "Intel")  ? Host::intel
                                          : Host::mpich;

  find(offbeat.select, "offbeat_select");
  find(offbeat.run, "offbeat_run");
  find(offbeat.begin, "offbeat_begin");
  find(offbeat.test, "offbeat_test");
  find(offbeat.wait, "offbeat_wait");
  make_predefined();
  for (const OwnOperation& each : own_operations) own.push_back(each.make());
}

void run_steps(int steps) {
  Members world(world_size);
  std::iota(world.begin(), world.end(), 0);
  keep(made(MPI_COMM_WORLD, world));
  keep(made(MPI_COMM_SELF, {me}));
  most_communicators = 4 + mixed(seed, 1) % 14;
  for (int& key : keys) MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, nullptr);
  MPI_Comm_create_errhandler(count_error, &handlers[counted]);
  MPI_Comm_create_errhandler(throw_error, &handlers[thrown]);
  MPI_Comm_create_errhandler(jump_from_error, &handlers[jumped]);
  MPI_Type_contiguous(2, MPI_UINT32_T, &uncommitted);
  for (step = 1; step <= steps; ++step) {
    draw = Random{mixed(seed, step)};
    const Kind& kind = draw_kind();
    kind_name = "what was left open";
    finish_until(step);
    kind_name = kind.name;
    if (trace) std::fprintf(trace, "%d %s\n", step.load(), kind.name);
    if (draw.chance(15)) delay_somebody();
    kind.run();
    if (trace) std::fprintf(trace, "  %016llx\n", static_cast<unsigned long long>(digest.value + callbacks));
  }
}

// At the end communicators are left over, and callbacks of MPI_COMM_SELF communicate in MPI_Finalize.
void finish() {
  kind_name = "end";
  draw = Random{mixed(seed, 3000)};
  finish_until(step + 100);
  const bool is_something_left = draw.chance(40);
  while (communicators.size() > 2) {
    const auto chosen = communicators.begin() + 2 + draw.below(communicators.size() - 2);
    if ((*chosen)->has_attributes || !is_something_left || draw.chance(50)) release(**chosen);
    communicators.erase(chosen);
  }
  if (draw.chance(50)) {
    auto attribute = std::make_unique<Attribute>(Attribute{{me}, draw.bits(), false, false, true});
    if (draw.chance(50)) attribute->beside = alike(*communicators[0]);
    MPI_Comm_set_attr(MPI_COMM_SELF, keys[0], attribute.release());
  }
  for (Handling handling : {counted, thrown, jumped}) MPI_Errhandler_free(&handlers[handling]);
  MPI_Type_free(&uncommitted);
  const auto finish_open = draw.chance(30) ? begin_with_offbeat(communicators[0]) : [] {};
  kind_name = "MPI_Finalize";
  MPI_Finalize();
  kind_name = "after MPI_Finalize";
  finish_open();
}

}  // namespace

int main(int argc, char** argv) {
  program = argv[0];
  seed = std::strtoull(option(argc, argv, "--seed", "1"), nullptr, 10);
  is_slow = std::atoi(option(argc, argv, "--slow", "0"));
  spawning = std::atoi(option(argc, argv, "--spawn", "0"));
  trace_prefix = option(argc, argv, "--trace", "");
  left_out = std::string(",") + option(argc, argv, "--without", "") + ",";
  limit_s = std::atoi(option(argc, argv, "--limit", "60"));
  const char* const parents = option(argc, argv, "--child-of", nullptr);
  start_mpi(&argc, &argv);
  me = world_rank + (parents ? first_child : 0);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL}) std::signal(signal, on_crash);
  std::signal(SIGALRM, on_alarm);
  alarm(limit_s);

  if (parents) {
    Members members;
    for (char* at = const_cast<char*>(parents); *at; ++at) members.push_back(std::strtol(at, &at, 10));
    step = std::atoi(option(argc, argv, "--step", "0"));
    kind_name = "spawned";
    MPI_Comm inter;
    MPI_Comm_get_parent(&inter);
    with_other_job(inter, members, children_of(std::atoi(option(argc, argv, "--children", "1"))), true);
    MPI_Finalize();
    return failures > 0;
  }

  if (!trace_prefix.empty()) {
    trace = std::fopen((trace_prefix + "." + std::to_string(world_rank)).c_str(), "w");
    if (trace) std::setvbuf(trace, nullptr, _IOLBF, 0);
  }
  run_steps(std::atoi(option(argc, argv, "--steps", "100")));
  finish();
  if (failures > 0) return 1;
  say(STDOUT_FILENO, "ok: rank %d digest %016llx calls %ld", world_rank,
      static_cast<unsigned long long>(digest.value + callbacks), calls);
  return 0;
}
