// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/gate.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

#include "mpi/bench/mpi_header.hpp"

namespace offbeat::bench {

namespace {
constexpr std::uint64_t pauses_between_progress = 1024;
}  // namespace

Gate::Gate(const std::string& path, int rank, int ranks, bool yield)
    : rank_(rank), other_ranks_(static_cast<std::uint64_t>(ranks) - 1), yield_(yield) {
  if (path.empty()) return;
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* address =
      file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (address == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  page_ = static_cast<Page*>(address);
}

Gate::~Gate() {
  if (page_ != nullptr) munmap(page_, sizeof(Page));
}

Nanoseconds Gate::next_start(Nanoseconds lead_ns) {
  if (page_ == nullptr) {
    MPI_Barrier(MPI_COMM_WORLD);
    Nanoseconds start = now_ns() + lead_ns;
    MPI_Bcast(&start, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return start;
  }
  ++calls_;
  if (rank_ == 0) {
    wait_for(page_->arrived, calls_ * other_ranks_);
    page_->start = now_ns() + lead_ns;
    page_->announced.store(calls_, std::memory_order_release);
  } else {
    page_->arrived.fetch_add(1, std::memory_order_acq_rel);
    wait_for(page_->announced, calls_);
  }
  return page_->start;
}

void Gate::wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t value) const {
  for (std::uint64_t pauses = 1; word.load(std::memory_order_acquire) < value; ++pauses) {
    if (yield_) sched_yield();
    // A rank that is still in the last call may need messages that this rank's MPI has accepted but not sent
    // yet. A probe makes the MPI send them.
    if (pauses % pauses_between_progress == 0) {
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    }
  }
}

}  // namespace offbeat::bench
