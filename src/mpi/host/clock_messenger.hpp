// SPDX-License-Identifier: BSD-3-Clause
// Sends the messages of the clock synchronisation as point-to-point messages of an MPI.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "clock/synchronise.hpp"

namespace offbeat {

// `Mpi` has the functions Send, Recv and Allgather: those of the host (mpi/host/host.hpp), or those that a
// program is linked to. The communicator must return errors, and carry no other messages.
template <class Mpi>
class ClockMessenger : public clock::Messenger {
 public:
  ClockMessenger(const Mpi& mpi, MPI_Comm communicator, int rank, int ranks)
      : mpi_(mpi), communicator_(communicator), byte_type_(MPI_BYTE), rank_(rank), ranks_(ranks) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return ranks_; }
  void send(int peer, std::span<const std::byte> message) override {
    check(mpi_.Send(message.data(), static_cast<int>(message.size()), byte_type_, peer, 0, communicator_));
  }
  void receive(int peer, std::span<std::byte> message) override {
    check(mpi_.Recv(message.data(), static_cast<int>(message.size()), byte_type_, peer, 0, communicator_,
                    MPI_STATUS_IGNORE));
  }
  [[nodiscard]] clock::Nanoseconds now() override { return clock::now(); }

  // Returns the host of every rank, for clock::synchronise. All ranks must call this.
  [[nodiscard]] std::vector<std::uint64_t> hosts() const {
    const std::uint64_t mine = clock::host_of_this_process();
    std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks_));
    constexpr int bytes = sizeof mine;
    check(mpi_.Allgather(&mine, bytes, byte_type_, all.data(), bytes, byte_type_, communicator_));
    return all;
  }

 private:
  static void check(int code) {
    if (code != MPI_SUCCESS) throw CommunicationError("clock synchronisation failed", code);
  }

  const Mpi& mpi_;
  MPI_Comm communicator_;
  MPI_Datatype byte_type_;
  int rank_;
  int ranks_;
};

}  // namespace offbeat
