// SPDX-License-Identifier: BSD-3-Clause
// MeasuredRequests holds the host's requests of non-blocking calls that are measured (Adaptation), from their
// begin to the function that completes them. There are some only while a trial is open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/spin_lock.hpp"
#include "mpi/communicators/adaptation.hpp"
#include "mpi/host/abi.hpp"
#include "mpi/interpose/outcome.hpp"

namespace offbeat {

class MeasuredRequests {
 public:
  // Takes a place for a call that the host is about to begin. Returns Outcome::none if no place is left; the
  // call is then not measured.
  [[nodiscard]] std::int8_t reserve_entry(MeasuredCall call) noexcept;
  // Call after the host's function has returned. `code` says whether it began the call, as `request`.
  void note_begun(int place, int code, MPI_Request request, std::uint64_t since) noexcept;
  // Forgets a request that the program frees.
  void forget(MPI_Request request) noexcept;

  // Watches one function that may complete requests.
  class WaitMeasurement {
   public:
    WaitMeasurement(int count, MPI_Request* requests) noexcept;
    // Call after the function. A request that it has completed is MPI_REQUEST_NULL now. `waited` says whether
    // the function waits. The requests that it completes share its time equally. A call that a test completes
    // gives no time, because the earlier tests are not known.
    int end(int code, bool waited) noexcept;

   private:
    MPI_Request* const requests_;
    struct Found {
      int index;
      std::size_t place;
    };
    std::array<Found, 16> found_;
    std::size_t count_ = 0;
    std::uint64_t begun_ = 0;
  };

 private:
  struct Entry {
    enum class State : std::uint8_t { free, taken, known } state = State::free;
    MPI_Request request{};
    MeasuredCall call;
  };
  void release(Entry& entry) noexcept;

  SpinLock lock_;
  std::array<Entry, 16> entries_{};
};

extern MeasuredRequests measured_requests;

}  // namespace offbeat
