// SPDX-License-Identifier: BSD-3-Clause
// MpiSetUp lets all ranks of a communicator agree, by calls of the host MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/settings.hpp"
#include "groups/set_up.hpp"
#include "mpi/host/return_errors.hpp"
#include "mpi/host/watch.hpp"

namespace offbeat {

// MpiSetUp makes collective calls for offbeat itself on a communicator of the program.
//
// Each function returns when its collective is complete. If it returned earlier, Open MPI could mix up its
// messages with those of an MPI_Comm_idup that is under way. Under Intel MPI and MPICH each collective is a
// non-blocking one and a wait. Intel's blocking ones can wait forever if several threads call them on several
// communicators. MPICH counts its blocking ones, and makes shared memory in the fifth on a communicator: if
// the limit on file size does not allow that, SIGXFSZ ends the program. A rank that runs without offbeat
// never takes part, so a thread watches the calls and prints what the others are waiting for.
class MpiSetUp final : public SetUp {
 public:
  // `communicator` has at least two ranks. While this object lives, its errors return if they can
  // (ReturnErrors). `collective` is the call of the program that needs the set-up. `is_first` is true if that
  // is the program's first collective on the communicator; only messages for people use both.
  MpiSetUp(const Host& host, MPI_Comm communicator, const Settings& settings, Collective collective,
           bool is_first);
  ~MpiSetUp() override;

  [[nodiscard]] std::uint64_t unanimous(std::uint64_t mine) override;
  [[nodiscard]] int least(int mine) override;
  // Combines each of `values` over the ranks by `op`.
  void combine(std::span<std::uint64_t> values, MPI_Op op);

  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] const Host& host() const { return host_; }

 private:
  void broadcast_bytes(void* value, std::size_t bytes, int from) override;
  void gather_bytes(const void* mine, std::size_t bytes, void* all) override;
  void gather_lists(const void* mine, std::span<const int> counts, std::span<const int> begins,
                    void* all) override;
  template <class Value>
  Value reduce(Value mine, MPI_Datatype type, MPI_Op op);
  // Calls `blocking`; under Intel MPI and MPICH calls `nonblocking`, and waits. Throws CommunicationError.
  template <class Blocking, class Nonblocking, class... Arguments>
  void call(const Blocking& blocking, const Nonblocking& nonblocking, Arguments... arguments) const;
  void require(int code) const;
  [[nodiscard]] std::string text_of_waiting_rank(const std::string& waited) const;

  const Host& host_;
  MPI_Comm communicator_;
  ReturnErrors errors_return_;
  Collective collective_;
  bool is_first_;
  int world_rank_ = 0;
  Watch watch_;
};

}  // namespace offbeat
