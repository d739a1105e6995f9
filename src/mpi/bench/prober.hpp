// SPDX-License-Identifier: BSD-3-Clause
// A Prober takes the samples of probes on this rank, together with the probes' other ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/bench/job.hpp"
#include "mpi/bench/probes.hpp"

namespace offbeat::bench {

// The samples of a probe, in microseconds. Complete on the leader.
struct Samples {
  static constexpr std::size_t most = 40;  // of one probe
  std::vector<double> us;
  std::vector<double> receive_us;  // of `late` and `window`
};

class Prober {
 public:
  explicit Prober(Job& job) : job_(job) {}
  ~Prober() { unmap_lines(); }
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // Takes the samples of a probe in which this rank takes part.
  Samples run(const Probe& probe);

 private:
  // The message of the leader to the others before each sample.
  struct StartMessage {
    std::int64_t goes_on;  // 0: the probe is over
    Nanoseconds start;     // in the global clock; for kinds in which all begin at one time
  };
  struct SharedLines {
    alignas(128) std::atomic<std::int64_t> there;
    alignas(128) std::atomic<std::int64_t> back;
  };

  // Long messages get fewer samples: other rounds have others.
  static bool has_time_for(std::size_t count, Nanoseconds passed_ns);
  [[nodiscard]] bool is_leader() const { return member_ == 0; }
  [[nodiscard]] int leader() const { return probe_->ranks.front(); }
  [[nodiscard]] int bytes() const { return static_cast<int>(probe_->bytes); }

  // Maps memory that both ranks of a `line` or a `window` share: the lines, and a window for each rank. Its
  // file has a name only until both have it.
  void map_lines();
  void unmap_lines();
  // Waits until both ranks have come here, on a line.
  void meet_on_line();
  void prepare();

  // Brings the ranks of the probe together. The leader gets what each measured in the sample before.
  StartMessage synchronise_and_collect(double mine, bool more, bool counts);
  // Makes one sample of what the ranks measured.
  void add_sample(const std::vector<double>& all);
  double measure_once(Nanoseconds start);

  void send(int to);
  void receive(int from);
  // `start` is in the global clock.
  [[nodiscard]] double microseconds_since(Nanoseconds start) const;
  void wait_for(Nanoseconds start) const { wait_until(job_.clock.to_local(start), job_.yield); }

  // Each of these takes one sample of a kind, on this rank.
  double round_trip();
  double exchange();
  double fan_out(Nanoseconds start);
  double fan_in(Nanoseconds start);
  // Finds how late the receive is. Several round trips are enough for the message to come. A longer wait
  // would cool the receiver's caches.
  void find_lateness();
  double late();
  // The leader tries lengths. It sends each one to the other rank, and -1 at the end.
  void find_eager_limit();
  // Other work on the machine only makes a send longer, so the quickest of several counts.
  bool send_waits_for_receiver(std::int64_t length);
  // Uses the same vectors again and again. So they come from the cache that holds them.
  double time_of_work();
  // The leader returns the time of writing into its window, the other rank that of reading the leader's.
  double window();
  // A turn is two lines: one there, and one back.
  double line();

  Job& job_;
  const Probe* probe_ = nullptr;
  std::size_t member_ = 0;  // of this rank among those of the probe
  Samples samples_;
  std::vector<std::byte> memory_;
  Nanoseconds lateness_ns_ = 0;
  SharedLines* lines_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::int64_t line_turns_ = 0;
};

}  // namespace offbeat::bench
