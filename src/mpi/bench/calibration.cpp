// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/calibration.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "mpi/bench/mpi_header.hpp"
#include "mpi/bench/records.hpp"
#include "reduction/kernels.hpp"

namespace offbeat::bench {
namespace {

constexpr std::size_t least_samples = 3;
constexpr std::size_t most_samples = 40;
constexpr Nanoseconds longest_probe_ns = 60'000'000;
constexpr Nanoseconds nap_ns = 200'000;
constexpr int message_tag = 1;
constexpr int meeting_tag = 2;
constexpr int result_tag = 3;
constexpr int line_turns = 200;  // of one sample
// The vectors of a core come from this much memory.
constexpr std::size_t cold_bytes = std::size_t{32} << 20;

constexpr std::array<std::pair<std::string_view, ProbeKind>, 8> kinds = {{
    {"round_trip", ProbeKind::round_trip},
    {"fan_out", ProbeKind::fan_out},
    {"fan_in", ProbeKind::fan_in},
    {"late", ProbeKind::late},
    {"eager", ProbeKind::eager},
    {"combine", ProbeKind::combine},
    {"copy", ProbeKind::copy},
    {"line", ProbeKind::line},
}};

std::string_view name_of(ProbeKind kind) { return kinds[static_cast<std::size_t>(kind)].first; }

double microseconds(Nanoseconds time) { return static_cast<double>(time) * 1e-3; }

struct Arguments {
  std::string probes;
  std::string output;
  double deadline_s = 0;
  bool yield = false;
};

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--yield") {
      arguments.yield = true;
      continue;
    }
    if (i + 1 == argc) throw std::runtime_error("missing value for " + std::string(name));
    const std::string value = argv[++i];
    if (name == "--probes") {
      arguments.probes = value;
    } else if (name == "--output") {
      arguments.output = value;
    } else if (name == "--deadline") {
      arguments.deadline_s = std::stod(value);
    } else {
      throw std::runtime_error("unknown option " + std::string(name));
    }
  }
  if (arguments.probes.empty() || arguments.output.empty() || arguments.deadline_s <= 0)
    throw std::runtime_error("--probes, --output and --deadline are required");
  return arguments;
}

// Returns the text of a file that rank 0 reads. Other ranks may be on hosts that do not have it.
std::string text_of(const Job& job, const std::string& path) {
  std::string text;
  if (job.rank == 0) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    std::ostringstream all;
    all << file.rdbuf();
    text = all.str();
  }
  text.resize(value_on_rank_0(text.size()));
  broadcast_from_rank_0(std::span(text.data(), text.size()));
  return text;
}

// The message of the leader to the others before each sample.
struct StartMessage {
  std::int64_t goes_on;  // 0: the probe is over
  Nanoseconds start;     // in the global clock; for kinds in which all begin at one time
};

// The samples of a probe, in microseconds. Complete on the leader.
struct Samples {
  std::vector<double> us;
  std::vector<double> receive_us;  // of `late`
};

class Calibration {
 public:
  explicit Calibration(Job& job) : job_(job) {}

  ~Calibration() { unmap_lines(); }
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;

  // Takes the samples of a probe in which this rank takes part.
  Samples run(const Probe& probe) {
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

 private:
  struct SharedLines {
    alignas(128) std::atomic<std::int64_t> there;
    alignas(128) std::atomic<std::int64_t> back;
  };

  // Long messages get fewer samples: other rounds have others.
  static bool has_time_for(std::size_t count, Nanoseconds passed_ns) {
    if (count <= least_samples) return passed_ns < 4 * longest_probe_ns;
    return count <= most_samples && passed_ns < longest_probe_ns;
  }

  [[nodiscard]] bool is_leader() const { return member_ == 0; }
  [[nodiscard]] int leader() const { return probe_->ranks.front(); }
  [[nodiscard]] int bytes() const { return static_cast<int>(probe_->bytes); }

  // Maps a page that both ranks of a `line` share. Its file has a name only until both have it.
  void map_lines() {
    unmap_lines();
    std::array<char, 64> path{};
    if (is_leader())
      std::snprintf(path.data(), path.size(), "/dev/shm/offbeat-line-%d", static_cast<int>(getpid()));
    const int flags = O_RDWR | O_CLOEXEC | (is_leader() ? O_CREAT | O_EXCL : 0);
    if (!is_leader())
      MPI_Recv(path.data(), path.size(), MPI_CHAR, leader(), meeting_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const int file = open(path.data(), flags, 0600);
    const bool is_long = file >= 0 && (!is_leader() || ftruncate(file, sizeof(SharedLines)) == 0);
    void* address = is_long ? mmap(nullptr, sizeof(SharedLines), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                            : MAP_FAILED;
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

  void unmap_lines() {
    if (lines_ != nullptr) munmap(lines_, sizeof(SharedLines));
    lines_ = nullptr;
  }

  void prepare() {
    if (probe_->kind == ProbeKind::line) map_lines();
    const std::size_t peers = probe_->ranks.size();
    std::size_t wanted = probe_->bytes * peers + 1;
    if (probe_->kind == ProbeKind::combine || probe_->kind == ProbeKind::copy)
      wanted = std::max(cold_bytes, 3 * probe_->bytes);
    if (memory_.size() < wanted) memory_.resize(wanted);
    cold_ = 0;
    if (probe_->kind == ProbeKind::late) find_lateness();
  }

  // Brings the ranks of the probe together. The leader gets what each measured in the sample before.
  StartMessage synchronise_and_collect(double mine, bool more, bool counts) {
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

  // Makes one sample of what the ranks measured.
  void add_sample(const std::vector<double>& all) {
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

  double measure_once(Nanoseconds start) {
    switch (probe_->kind) {
      case ProbeKind::round_trip:
        return round_trip();
      case ProbeKind::fan_out:
        return fan_out(start);
      case ProbeKind::fan_in:
        return fan_in(start);
      case ProbeKind::late:
        return late();
      case ProbeKind::line:
        return line();
      default:
        return time_of_work();
    }
  }

  void send(int to) { MPI_Send(memory_.data(), bytes(), MPI_BYTE, to, message_tag, MPI_COMM_WORLD); }
  void receive(int from) {
    MPI_Recv(memory_.data(), bytes(), MPI_BYTE, from, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  double round_trip() {
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

  [[nodiscard]] double seconds_since(Nanoseconds start) const {
    return microseconds(job_.clock.to_global(now_ns()) - start);
  }
  void wait_for(Nanoseconds start) const { wait_until(job_.clock.to_local(start), job_.yield); }

  double fan_out(Nanoseconds start) {
    if (!is_leader()) {
      MPI_Request request;
      MPI_Irecv(memory_.data(), bytes(), MPI_BYTE, leader(), message_tag, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      return seconds_since(start);
    }
    wait_for(start);
    const double began = seconds_since(start);
    std::vector<MPI_Request> requests(probe_->ranks.size() - 1);
    for (std::size_t k = 0; k < requests.size(); ++k)
      MPI_Isend(memory_.data(), bytes(), MPI_BYTE, probe_->ranks[k + 1], message_tag, MPI_COMM_WORLD,
                &requests[k]);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    return began;
  }

  double fan_in(Nanoseconds start) {
    if (!is_leader()) {
      wait_for(start);
      const double began = seconds_since(start);
      send(leader());
      return began;
    }
    std::vector<MPI_Request> requests(probe_->ranks.size() - 1);
    for (std::size_t k = 0; k < requests.size(); ++k)
      MPI_Irecv(memory_.data() + k * probe_->bytes, bytes(), MPI_BYTE, probe_->ranks[k + 1], message_tag,
                MPI_COMM_WORLD, &requests[k]);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    return seconds_since(start);
  }

  // Finds how late the receive is. Several round trips are enough for the message to come. A longer wait
  // would cool the receiver's caches.
  void find_lateness() {
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

  double late() {
    if (!is_leader()) wait_until(now_ns() + lateness_ns_, job_.yield);
    const Nanoseconds begin = now_ns();
    is_leader() ? send(probe_->ranks[1]) : receive(leader());
    return microseconds(now_ns() - begin);
  }

  // The leader tries lengths. It sends each one to the other rank, and -1 at the end.
  void find_eager_limit() {
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

  // Other work on the machine only makes a send longer, so the quickest of three counts.
  bool send_waits_for_receiver(std::int64_t length) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      MPI_Send(&length, 1, MPI_INT64_T, probe_->ranks[1], meeting_tag, MPI_COMM_WORLD);
      const Nanoseconds begin = now_ns();
      MPI_Send(memory_.data(), static_cast<int>(length), MPI_BYTE, probe_->ranks[1], message_tag,
               MPI_COMM_WORLD);
      if (now_ns() - begin < probe_->lead_ns / 2) return false;
    }
    return true;
  }

  // Uses other vectors each time, so that they come from where received data are: not from the first cache.
  double time_of_work() {
    const std::size_t vectors = probe_->kind == ProbeKind::combine ? 3 : 2;
    const std::size_t calls = std::max<std::size_t>(1, (std::size_t{1} << 20) / probe_->bytes);
    const Kernels kernels = find_kernels(ElementType::float32, ReduceOp::sum);
    const Nanoseconds begin = now_ns();
    for (std::size_t call = 0; call < calls; ++call) {
      if (cold_ + vectors * probe_->bytes > memory_.size()) cold_ = 0;
      std::byte* at = memory_.data() + cold_;
      cold_ += vectors * probe_->bytes;
      if (probe_->kind == ProbeKind::combine) {
        const std::array<const void*, 2> operands = {at, at + probe_->bytes};
        combine(kernels, sizeof(float), at + 2 * probe_->bytes, operands.data(), 2,
                probe_->bytes / sizeof(float));
      } else {
        std::memcpy(at + probe_->bytes, at, probe_->bytes);
      }
      asm volatile("" : : "r"(at) : "memory");
    }
    return microseconds(now_ns() - begin) / static_cast<double>(calls);
  }

  // A turn is two lines: one there, and one back.
  double line() {
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

  Job& job_;
  const Probe* probe_ = nullptr;
  std::size_t member_ = 0;  // of this rank among those of the probe
  Samples samples_;
  std::vector<std::byte> memory_;
  std::size_t cold_ = 0;
  Nanoseconds lateness_ns_ = 0;
  SharedLines* lines_ = nullptr;
  std::int64_t line_turns_ = 0;
};

// A barrier in which ranks nap while they wait.
void barrier_with_naps() {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    const timespec nap{0, nap_ns};
    if (done == 0) nanosleep(&nap, nullptr);
  }
}

// Brings the samples from the leader to rank 0.
Samples samples_on_rank_0(const Job& job, int leader, Samples samples) {
  if (leader == 0) return samples;
  for (std::vector<double>* values : {&samples.us, &samples.receive_us}) {
    if (job.rank == leader) {
      MPI_Send(values->data(), static_cast<int>(values->size()), MPI_DOUBLE, 0, result_tag, MPI_COMM_WORLD);
    } else if (job.rank == 0) {
      values->resize(most_samples + 1);
      MPI_Status status;
      int count = 0;
      MPI_Recv(values->data(), static_cast<int>(values->size()), MPI_DOUBLE, leader, result_tag,
               MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_DOUBLE, &count);
      values->resize(static_cast<std::size_t>(count));
    }
  }
  return samples;
}

Record record_of(const Probe& probe, const Samples& samples) {
  Record record("probe");
  const std::vector<double> ranks(probe.ranks.begin(), probe.ranks.end());
  record.add("kind", name_of(probe.kind)).add("round", probe.round);
  record.add("bytes", static_cast<std::int64_t>(probe.bytes)).add("ranks", ranks).add("us", samples.us);
  if (!samples.receive_us.empty()) record.add("receive_us", samples.receive_us);
  return record;
}

Record header_of(const Job& job, const std::vector<std::string>& hosts, double clock_residual_ns) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[std::strcspn(version, "\n")] = '\0';
  std::map<std::string, std::size_t> numbers;
  std::vector<double> nodes;
  for (const std::string& host : hosts)
    nodes.push_back(static_cast<double>(numbers.emplace(host, numbers.size()).first->second));
  Record record("header");
  record.add("ranks", std::int64_t{job.ranks}).add("host", hosts.front()).add("mpi", version);
  record.add("node_of_rank", nodes).add("clock_residual_ns", clock_residual_ns);
  return record;
}

}  // namespace

std::vector<Probe> parse_probes(const std::string& text, int ranks) {
  std::vector<Probe> probes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    Probe probe;
    double lead_us = 0;
    words >> kind >> probe.round >> probe.bytes >> lead_us;
    probe.lead_ns = static_cast<Nanoseconds>(lead_us * 1e3);
    const auto* const known = std::ranges::find(kinds, kind, &std::pair<std::string_view, ProbeKind>::first);
    for (int rank = 0; words >> rank;) {
      if (rank < 0 || rank >= ranks)
        throw std::runtime_error("no rank " + std::to_string(rank) + ": " + line);
      probe.ranks.push_back(rank);
    }
    if (known == kinds.end() || probe.ranks.empty() || !words.eof())
      throw std::runtime_error("not a probe: " + line);
    probe.kind = known->second;
    const bool alone = probe.kind == ProbeKind::combine || probe.kind == ProbeKind::copy;
    const bool in_pairs = probe.kind == ProbeKind::round_trip;
    if ((!alone && probe.ranks.size() < 2) || (in_pairs && probe.ranks.size() % 2 != 0))
      throw std::runtime_error("too few ranks: " + line);
    probes.push_back(std::move(probe));
  }
  return probes;
}

void run_calibration(Job& job, int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  job.yield = arguments.yield;
  if (job.rank == 0) job.records.open(arguments.output);
  const std::vector<Probe> probes = parse_probes(text_of(job, arguments.probes), job.ranks);
  const std::vector<std::string> hosts = gather_texts(job, host_name());
  job.clock = synchronised_clock(job);
  const std::vector<double> residuals_ns = gather(job, std::vector{job.clock.residual_ns});
  if (job.rank == 0) job.records.write(header_of(job, hosts, *std::ranges::max_element(residuals_ns)));
  Calibration calibration(job);
  for (const Probe& probe : probes) {
    const Nanoseconds end = from_unix_time(arguments.deadline_s);
    if (value_on_rank_0(now_ns() >= end)) break;
    Samples samples;
    if (std::ranges::find(probe.ranks, job.rank) != probe.ranks.end()) samples = calibration.run(probe);
    barrier_with_naps();
    samples = samples_on_rank_0(job, probe.ranks.front(), std::move(samples));
    job.records.write(record_of(probe, samples));
  }
  job.records.write(Record("end"));
}

}  // namespace offbeat::bench
