/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The communicators of soak.cpp: made in all ways, each with the list of its ranks, by which the results of
 * calls on it are checked.
 */
#ifndef SOAK_COMMUNICATORS_H
#define SOAK_COMMUNICATORS_H

#include <memory>
#include <numeric>

#include "soak_reductions.h"

namespace soak {

// The same list on all ranks; what a rank is not in, it has as MPI_COMM_NULL and without members.
struct Communicator {
  MPI_Comm handle = MPI_COMM_NULL;
  Members members;  // of this rank's group
  bool is_inter = false;
  Members others = {};      // the other group of an inter-communicator
  int operations_open = 0;  // it must not be freed
  bool has_attributes = false;

  bool is_mine() const { return !members.empty(); }
  const Members& operands() const { return is_inter ? others : members; }
};

using Shared = std::shared_ptr<Communicator>;
inline std::vector<Shared> communicators;  // of which the first two are MPI_COMM_WORLD and MPI_COMM_SELF
inline std::size_t most_communicators;

inline void call(Reduction& reduction, MPI_Comm comm, int spelling) {
  ++calls;
  doing = "MPI_Allreduce";
  const Case& what = reduction.what;
  const void* const input = reduction.source();
  void* const output = reduction.target();
  const int count = static_cast<int>(reduction.count);
  int code;
  if (spelling == 0) {
    code = PMPI_Allreduce(input, output, count, what.type, what.op, comm);
#if MPI_VERSION >= 4 && !defined(OMPI_MAJOR_VERSION)
  } else if (spelling == 1) {
    code = MPI_Allreduce_c(input, output, count, what.type, what.op, comm);
#endif
  } else {
    code = MPI_Allreduce(input, output, count, what.type, what.op, comm);
  }
  succeed(code, reduction.text().c_str());
}

inline void allreduce(const Communicator& on, const Case& what = draw_case()) {
  Reduction reduction = draw_reduction(what, !on.is_inter);
  const int spelling = draw.below(5);
  if (!on.is_mine()) return;
  call(reduction, on.handle, spelling);
  reduction.check(on.operands());
}

inline void allreduces(const Communicator& on, int most) {
  for (int n = 1 + draw.below(most); n > 0; --n) allreduce(on);
}

inline int place(const Members& members, int member) {
  return static_cast<int>(std::find(members.begin(), members.end(), member) - members.begin());
}

// Errors on a new communicator are returned, whatever its parent has.
inline Communicator made(MPI_Comm handle, Members members, bool is_inter = false, Members others = {}) {
  Communicator result{handle, std::move(members), is_inter, std::move(others)};
  check((handle != MPI_COMM_NULL) == result.is_mine(),
        "MPI_COMM_NULL for a member, or a handle for another rank");
  if (handle == MPI_COMM_NULL) return result;
  MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN);
  int rank = -1, size = -1;
  MPI_Comm_rank(handle, &rank);
  MPI_Comm_size(handle, &size);
  check(size == static_cast<int>(result.members.size()) && rank == place(result.members, me), "rank or size");
  return result;
}

inline Communicator duplicate(const Communicator& of) {
  MPI_Comm copy = MPI_COMM_NULL;
  doing = "MPI_Comm_dup";
  if (of.is_mine()) succeed(MPI_Comm_dup(of.handle, &copy), "MPI_Comm_dup");
  Communicator result = made(copy, of.members, of.is_inter, of.others);
  result.has_attributes = of.has_attributes;
  return result;
}

// While the duplicate is being made, the original is used.
inline Communicator duplicate_later(const Communicator& of) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request;
  doing = "MPI_Comm_idup";
  if (of.is_mine()) succeed(MPI_Comm_idup(of.handle, &copy, &request), "MPI_Comm_idup");
  if (draw.chance(70)) allreduces(of, 2);
  doing = "MPI_Wait after MPI_Comm_idup";
  if (of.is_mine()) succeed(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait after MPI_Comm_idup");
  Communicator result = made(copy, of.members, of.is_inter, of.others);
  result.has_attributes = of.has_attributes;
  return result;
}

inline Communicator split(const Communicator& of) {
  const std::uint64_t salt = draw.bits();
  const int colours = 1 + draw.below(3), percent_without = draw.chance(30) ? 30 : 0;
  const bool reorder = draw.chance(50);
  if (!of.is_mine()) return {};
  const auto colour = [&](int member) {
    return Random{mixed(salt, member, 1)}.chance(percent_without) ? MPI_UNDEFINED
                                                                  : int(mixed(salt, member, 2) % colours);
  };
  const auto key = [&](int member) { return reorder ? int(mixed(salt, member, 3) % 5) : 0; };
  Members members;
  for (int member : of.members) {
    if (colour(me) != MPI_UNDEFINED && colour(member) == colour(me)) members.push_back(member);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return key(a) < key(b); });
  MPI_Comm part = MPI_COMM_NULL;
  doing = "MPI_Comm_split";
  succeed(MPI_Comm_split(of.handle, colour(me), key(me), &part), "MPI_Comm_split");
  return made(part, std::move(members));
}

inline Communicator split_by_memory(const Communicator& of) {
  MPI_Comm node = MPI_COMM_NULL;
  doing = "MPI_Comm_split_type";
  if (of.is_mine()) {
    succeed(MPI_Comm_split_type(of.handle, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  }
  return made(node, of.members);
}

// Some of the ranks, in any order; never none.
inline Communicator create(const Communicator& of) {
  const std::uint64_t salt = draw.bits();
  // Open MPI copies the attributes in MPI_Comm_create_group, though not all ranks call it.
  const bool is_by_all = draw.chance(50) || (host == Host::open_mpi && of.has_attributes);
  if (!of.is_mine()) return {};
  std::vector<int> ranks(of.members.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::sort(ranks.begin(), ranks.end(), [&](int a, int b) { return mixed(salt, a) < mixed(salt, b); });
  ranks.resize(1 + mixed(salt) % ranks.size());
  Members members;
  for (int rank : ranks) members.push_back(of.members[rank]);
  const bool is_in = place(members, me) < static_cast<int>(members.size());
  MPI_Group all, some;
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_group(of.handle, &all);
  MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
  doing = is_by_all ? "MPI_Comm_create" : "MPI_Comm_create_group";
  if (is_by_all) succeed(MPI_Comm_create(of.handle, some, &part), "MPI_Comm_create");
  if (!is_by_all && is_in) succeed(MPI_Comm_create_group(of.handle, some, 7, &part), "MPI_Comm_create_group");
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  return made(part, is_in ? std::move(members) : Members{});
}

inline Communicator grid(const Communicator& of) {
  const int dimensions = 1 + draw.below(2), ranks_left_out = draw.below(2);
  if (!of.is_mine()) return {};
  const int size = static_cast<int>(of.members.size()), used = std::max(1, size - ranks_left_out);
  int lengths[2] = {0, 0};
  const int periodic[2] = {1, 0};
  MPI_Dims_create(used, dimensions, lengths);
  Members members(of.members.begin(), of.members.begin() + used);
  MPI_Comm cartesian = MPI_COMM_NULL;
  doing = "MPI_Cart_create";
  succeed(MPI_Cart_create(of.handle, dimensions, lengths, periodic, 0, &cartesian), "MPI_Cart_create");
  if (place(members, me) == used) members.clear();
  return made(cartesian, std::move(members));
}

// The lower half of the ranks on one side, the upper half on the other.
inline Communicator halves(const Communicator& of) {
  const bool is_freed_early = draw.chance(50);
  const std::size_t half = of.members.size() / 2;
  if (half == 0) return {MPI_COMM_NULL, {}, true};
  const bool is_upper = place(of.members, me) >= static_cast<int>(half);
  const auto middle = of.members.begin() + half;
  const Members lower(of.members.begin(), middle), upper(middle, of.members.end());
  MPI_Comm mine, both;
  doing = "MPI_Comm_split of halves";
  succeed(MPI_Comm_split(of.handle, is_upper, 0, &mine), "MPI_Comm_split of halves");
  MPI_Comm_set_errhandler(mine, MPI_ERRORS_RETURN);
  doing = "MPI_Intercomm_create";
  succeed(MPI_Intercomm_create(mine, 0, of.handle, is_upper ? 0 : half, 11, &both), "MPI_Intercomm_create");
  if (!is_freed_early) {
    int one = 1, sum = 0;
    ++calls;
    succeed(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, mine), "MPI_Allreduce of a half");
    check(sum == static_cast<int>((is_upper ? upper : lower).size()), "the sum of a half");
  }
  MPI_Comm_free(&mine);
  return made(both, is_upper ? upper : lower, true, is_upper ? lower : upper);
}

// `is_high` on the side whose ranks come last.
inline Communicator merge(const Communicator& of, bool is_high) {
  if (!of.is_mine()) return {};
  Members members = is_high ? of.others : of.members;
  const Members& last = is_high ? of.members : of.others;
  members.insert(members.end(), last.begin(), last.end());
  MPI_Comm merged = MPI_COMM_NULL;
  doing = "MPI_Intercomm_merge";
  succeed(MPI_Intercomm_merge(of.handle, is_high, &merged), "MPI_Intercomm_merge");
  return made(merged, std::move(members));
}

inline Communicator merge_halves(const Communicator& of) {
  const bool is_lowest_first = draw.chance(50);
  return merge(of, of.is_mine() && (of.members < of.others) != is_lowest_first);
}

inline void release(Communicator& which, bool may_disconnect = true) {
  const bool by_disconnect = draw.chance(20) && may_disconnect;
  if (!which.is_mine()) return;
  doing = by_disconnect ? "MPI_Comm_disconnect" : "MPI_Comm_free";
  succeed((by_disconnect ? MPI_Comm_disconnect : MPI_Comm_free)(&which.handle), doing.load());
  check(which.handle == MPI_COMM_NULL, "a freed communicator is not MPI_COMM_NULL");
}

inline const Shared& any_communicator() { return communicators[draw.below(communicators.size())]; }

// Without another group; MPI_COMM_WORLD where luck finds none.
inline const Shared& any_of_one_group() {
  for (int tries = 0; tries < 4; ++tries) {
    const Shared& found = any_communicator();
    if (!found->is_inter) return found;
  }
  return communicators[0];
}

inline Shared keep(Communicator&& communicator) {
  communicators.push_back(std::make_shared<Communicator>(std::move(communicator)));
  return communicators.back();
}

}  // namespace soak

#endif
