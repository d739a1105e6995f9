// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/prober.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/copy.hpp"
#include "mpi/bench/mpi_header.hpp"
#include "reduction/kernels.hpp"

namespace offbeat::bench {
namespace {

constexpr std::size_t least_samples = 3;
constexpr Nanoseconds longest_probe_ns = 60'000'000;
constexpr int message_tag = 1;
constexpr int meeting_tag = 2;
constexpr int line_turns = 200;  // of one sample
constexpr int attempts = 6;      // to send a message before its receive: other work only makes a send longer
constexpr int exchanges = 8;     // of one sample: a rank that is late in one of them is not in the next

double microseconds(Nanoseconds time) { return static_cast<double>(time) * 1e-3; }

}  // namespace

Samples Prober::run(const Probe& probe) {
  probe_ = &probe;
  member_ = static_cast<std::size_t>(std::ranges::find(probe.ranks, job_.rank) - probe.ranks.begin());
  samples_ = {};
  if (probe.kind == ProbeKind::eager) {
    find_eager_limit();
    return std::move(samples_);
  }
  prepare();
  const Nanoseconds begin = now_ns();
  double mine = 0;
  for (std::size_t count = 0;; ++count) {
    // The first sample finds caches and connections cold, and is not counted.
    const bool more = count <= 1 || has_time_for(count, now_ns() - begin);
    const StartMessage goes_on = synchronise_and_collect(mine, more, count > 1);
    if (goes_on.goes_on == 0) return std::move(samples_);
    mine = measure_once(goes_on.start);
  }
}

bool Prober::has_time_for(std::size_t count, Nanoseconds passed_ns) {
  if (count <= least_samples) return passed_ns < 4 * longest_probe_ns;
  return count <= Samples::most && passed_ns < longest_probe_ns;
}

void Prober::map_lines() {
  unmap_lines();
  std::array<char, 64> path{};
  if (is_leader())
    std::snprintf(path.data(), path.size(), "/dev/shm/offbeat-line-%d", static_cast<int>(getpid()));
  const int flags = O_RDWR | O_CLOEXEC | (is_leader() ? O_CREAT | O_EXCL : 0);
  if (!is_leader())
    MPI_Recv(path.data(), path.size(), MPI_CHAR, leader(), meeting_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  const int file = open(path.data(), flags, 0600);
  mapped_bytes_ = sizeof(SharedLines) + 2 * probe_->bytes;
  const bool is_long = file >= 0 && (!is_leader() || ftruncate(file, static_cast<off_t>(mapped_bytes_)) == 0);
  void* address =
      is_long ? mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (file >= 0) close(file);
  if (address == MAP_FAILED) throw std::runtime_error(std::string("cannot map ") + path.data());
  lines_ = static_cast<SharedLines*>(address);
  line_turns_ = 0;
  if (is_leader()) {
    MPI_Send(path.data(), path.size(), MPI_CHAR, probe_->ranks[1], meeting_tag, MPI_COMM_WORLD);
    MPI_Recv(nullptr, 0, MPI_CHAR, probe_->ranks[1], meeting_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    unlink(path.data());
  } else {
    MPI_Send(nullptr, 0, MPI_CHAR, leader(), meeting_tag, MPI_COMM_WORLD);
  }
}

void Prober::unmap_lines() {
  if (lines_ != nullptr) munmap(lines_, mapped_bytes_);
  lines_ = nullptr;
}

void Prober::prepare() {
  if (probe_->kind == ProbeKind::line || probe_->kind == ProbeKind::window) map_lines();
  const std::size_t vectors = std::max<std::size_t>(3, probe_->ranks.size());
  if (memory_.size() < probe_->bytes * vectors + 1) memory_.resize(probe_->bytes * vectors + 1);
  if (probe_->kind == ProbeKind::late) find_lateness();
}

Prober::StartMessage Prober::synchronise_and_collect(double mine, bool more, bool counts) {
  if (!is_leader()) {
    StartMessage goes_on{};
    MPI_Send(&mine, 1, MPI_DOUBLE, leader(), meeting_tag, MPI_COMM_WORLD);
    MPI_Recv(&goes_on, sizeof goes_on, MPI_BYTE, leader(), meeting_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return goes_on;
  }
  std::vector<double> all = {mine};
  for (std::size_t k = 1; k < probe_->ranks.size(); ++k) {
    all.push_back(0);
    MPI_Recv(&all.back(), 1, MPI_DOUBLE, probe_->ranks[k], meeting_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (counts) add_sample(all);
  const StartMessage goes_on{more ? 1 : 0, job_.clock.to_global(now_ns()) + probe_->lead_ns};
  for (std::size_t k = 1; k < probe_->ranks.size(); ++k)
    MPI_Send(&goes_on, sizeof goes_on, MPI_BYTE, probe_->ranks[k], meeting_tag, MPI_COMM_WORLD);
  return goes_on;
}

void Prober::add_sample(const std::vector<double>& all) {
  const auto count = static_cast<double>(all.size());
  switch (probe_->kind) {
    case ProbeKind::round_trip:  // only the first rank of a pair measures
      samples_.us.push_back(std::accumulate(all.begin(), all.end(), 0.0) / (count / 2));
      break;
    case ProbeKind::fan_out:  // the leader has when it began, the others when they had the message
      samples_.us.push_back(*std::max_element(all.begin() + 1, all.end()) - all.front());
      break;
    case ProbeKind::fan_in:
      samples_.us.push_back(all.front() - *std::max_element(all.begin() + 1, all.end()));
      break;
    case ProbeKind::late:
    case ProbeKind::window:
      samples_.us.push_back(all[0]);
      samples_.receive_us.push_back(all[1]);
      break;
    case ProbeKind::line:
      samples_.us.push_back(all.front());
      break;
    default:
      samples_.us.push_back(std::accumulate(all.begin(), all.end(), 0.0) / count);
  }
}

double Prober::measure_once(Nanoseconds start) {
  switch (probe_->kind) {
    case ProbeKind::round_trip:
      return round_trip();
    case ProbeKind::exchange:
      return exchange();
    case ProbeKind::fan_out:
      return fan_out(start);
    case ProbeKind::fan_in:
      return fan_in(start);
    case ProbeKind::late:
      return late();
    case ProbeKind::line:
      return line();
    case ProbeKind::window:
      return window();
    default:
      return time_of_work();
  }
}

void Prober::send(int to) { MPI_Send(memory_.data(), bytes(), MPI_BYTE, to, message_tag, MPI_COMM_WORLD); }

void Prober::receive(int from) {
  MPI_Recv(memory_.data(), bytes(), MPI_BYTE, from, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

double Prober::round_trip() {
  const int peer = probe_->ranks[member_ ^ 1];
  if (member_ % 2 == 1) {
    receive(peer);
    send(peer);
    return 0;
  }
  const Nanoseconds begin = now_ns();
  send(peer);
  receive(peer);
  return microseconds(now_ns() - begin) / 2;
}

double Prober::exchange() {
  const int peer = probe_->ranks[1 - member_];
  std::byte* out = memory_.data();
  std::byte* in = memory_.data() + probe_->bytes;
  const Nanoseconds begin = now_ns();
  for (int count = 0; count < exchanges; ++count) {
    std::array<MPI_Request, 2> requests{};
    MPI_Irecv(in, bytes(), MPI_BYTE, peer, message_tag, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes(), MPI_BYTE, peer, message_tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
    std::swap(out, in);  // as in an algorithm, the core has written last what it sends
  }
  return microseconds(now_ns() - begin) / exchanges;
}

double Prober::microseconds_since(Nanoseconds start) const {
  return microseconds(job_.clock.to_global(now_ns()) - start);
}

double Prober::fan_out(Nanoseconds start) {
  if (!is_leader()) {
    MPI_Request request;
    MPI_Irecv(memory_.data(), bytes(), MPI_BYTE, leader(), message_tag, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return microseconds_since(start);
  }
  wait_for(start);
  const double began = microseconds_since(start);
  std::vector<MPI_Request> requests(probe_->ranks.size() - 1);
  for (std::size_t k = 0; k < requests.size(); ++k)
    MPI_Isend(memory_.data(), bytes(), MPI_BYTE, probe_->ranks[k + 1], message_tag, MPI_COMM_WORLD,
              &requests[k]);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return began;
}

double Prober::fan_in(Nanoseconds start) {
  if (!is_leader()) {
    wait_for(start);
    const double began = microseconds_since(start);
    send(leader());
    return began;
  }
  std::vector<MPI_Request> requests(probe_->ranks.size() - 1);
  for (std::size_t k = 0; k < requests.size(); ++k)
    MPI_Irecv(memory_.data() + k * probe_->bytes, bytes(), MPI_BYTE, probe_->ranks[k + 1], message_tag,
              MPI_COMM_WORLD, &requests[k]);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return microseconds_since(start);
}

void Prober::find_lateness() {
  const int peer = probe_->ranks[1 - member_];
  Nanoseconds least = never;
  for (int trip = 0; trip < 4; ++trip) {
    const Nanoseconds begin = now_ns();
    if (is_leader()) send(peer);
    receive(peer);
    if (!is_leader()) send(peer);
    least = std::min(least, now_ns() - begin);
  }
  lateness_ns_ = std::max<Nanoseconds>(5 * least, 5'000);
}

double Prober::late() {
  if (!is_leader()) wait_until(now_ns() + lateness_ns_, job_.yield);
  const Nanoseconds begin = now_ns();
  is_leader() ? send(probe_->ranks[1]) : receive(leader());
  return microseconds(now_ns() - begin);
}

void Prober::find_eager_limit() {
  memory_.resize(std::max(memory_.size(), probe_->bytes));
  if (!is_leader()) {
    std::int64_t length = 0;
    while (true) {
      MPI_Recv(&length, 1, MPI_INT64_T, leader(), meeting_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (length < 0) return;
      wait_until(now_ns() + probe_->lead_ns, job_.yield);
      MPI_Recv(memory_.data(), static_cast<int>(length), MPI_BYTE, leader(), message_tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    }
  }
  std::int64_t eager = -1;  // not even an empty message
  auto waits = static_cast<std::int64_t>(probe_->bytes) + 1;
  for (std::int64_t length = 0; length < waits; length = length == 0 ? 1 : 2 * length) {
    if (send_waits_for_receiver(length)) {
      waits = length;
    } else {
      eager = length;
    }
  }
  while (waits - eager > 1) {
    const std::int64_t middle = eager + (waits - eager) / 2;
    (send_waits_for_receiver(middle) ? waits : eager) = middle;
  }
  const std::int64_t over = -1;
  MPI_Send(&over, 1, MPI_INT64_T, probe_->ranks[1], meeting_tag, MPI_COMM_WORLD);
  samples_.us = {static_cast<double>(eager)};
}

bool Prober::send_waits_for_receiver(std::int64_t length) {
  for (int attempt = 0; attempt < attempts; ++attempt) {
    MPI_Send(&length, 1, MPI_INT64_T, probe_->ranks[1], meeting_tag, MPI_COMM_WORLD);
    const Nanoseconds begin = now_ns();
    MPI_Send(memory_.data(), static_cast<int>(length), MPI_BYTE, probe_->ranks[1], message_tag,
             MPI_COMM_WORLD);
    if (now_ns() - begin < probe_->lead_ns / 2) return false;
  }
  return true;
}

double Prober::time_of_work() {
  const std::size_t calls = std::max<std::size_t>(1, (std::size_t{1} << 20) / probe_->bytes);
  const Kernels kernels = find_kernels(offbeat::ElementType::float32, ReduceOp::sum);
  std::byte* const at = memory_.data();
  const std::array<const void*, 2> operands = {at, at + probe_->bytes};
  const Nanoseconds begin = now_ns();
  for (std::size_t call = 0; call < calls; ++call) {
    if (probe_->kind == ProbeKind::combine) {
      combine(kernels, sizeof(float), at + 2 * probe_->bytes, operands.data(), 2,
              probe_->bytes / sizeof(float));
    } else {
      offbeat::copy(at + probe_->bytes, at, probe_->bytes);
    }
    asm volatile("" : : "r"(at) : "memory");
  }
  return microseconds(now_ns() - begin) / static_cast<double>(calls);
}

double Prober::line() {
  std::atomic<std::int64_t>& own = is_leader() ? lines_->there : lines_->back;
  const std::atomic<std::int64_t>& other = is_leader() ? lines_->back : lines_->there;
  const std::int64_t base = line_turns_;
  line_turns_ += line_turns;
  const Nanoseconds begin = now_ns();
  for (std::int64_t turn = base + 1; turn <= base + line_turns; ++turn) {
    if (is_leader()) own.store(turn, std::memory_order_release);
    while (other.load(std::memory_order_acquire) < turn) {
      if (job_.yield) sched_yield();
    }
    if (!is_leader()) own.store(turn, std::memory_order_release);
  }
  return microseconds(now_ns() - begin) / (2 * line_turns);
}

void Prober::meet_on_line() {
  std::atomic<std::int64_t>& own = is_leader() ? lines_->there : lines_->back;
  const std::atomic<std::int64_t>& other = is_leader() ? lines_->back : lines_->there;
  own.store(++line_turns_, std::memory_order_release);
  while (other.load(std::memory_order_acquire) < line_turns_) {
    if (job_.yield) sched_yield();
  }
}

double Prober::window() {
  auto* const windows = reinterpret_cast<std::byte*>(lines_ + 1);
  std::byte* const own = windows + member_ * probe_->bytes;
  const std::byte* const theirs = windows + (1 - member_) * probe_->bytes;
  meet_on_line();
  Nanoseconds begin = now_ns();
  copy_to_shared(own, memory_.data(), probe_->bytes);
  const Nanoseconds writing = now_ns() - begin;
  meet_on_line();
  begin = now_ns();
  offbeat::copy(memory_.data() + probe_->bytes, theirs, probe_->bytes);
  return microseconds(is_leader() ? writing : now_ns() - begin);
}

}  // namespace offbeat::bench
