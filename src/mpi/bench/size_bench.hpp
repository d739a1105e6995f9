// SPDX-License-Identifier: BSD-3-Clause
// SizeBench measures one call, such as an allreduce of one size, one cell after the other. Rank 0 writes the
// records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mpi/bench/buffers.hpp"
#include "mpi/bench/collectives.hpp"
#include "mpi/bench/measure.hpp"
#include "mpi/bench/options.hpp"

namespace offbeat::bench {

class SizeBench {
 public:
  SizeBench(Job& job, const Options& options, const CellRequest& first);

  // Checks every algorithm, and measures native if its time is not known. Returns an empty text, or the
  // reason why the benchmark cannot continue.
  [[nodiscard]] std::string prepare(std::size_t cells_left);

  // Measures all algorithms in turn. `cells_left` cells, including this one, share the time that is left.
  void measure_all(const CellRequest& request, const Arrival& arrival, std::size_t cells_left);

 private:
  struct CheckedAlgorithm {
    std::string algorithm;
    // True if it is correct, and runs on offbeat unless it is native. Equal on all ranks.
    bool usable = false;
    WrongResult wrong;  // rank 0 only
  };

  void begin(const char* what, const std::string& pattern, const std::string& algorithm);
  [[nodiscard]] Mode mode() const { return options_.computing ? Mode::waiting : Mode::blocking; }
  // Returns all variants: the algorithms of usable_ in order, and then, if ranks compute, again without
  // computing.
  [[nodiscard]] std::vector<MeasuredVariant> variants() const;
  [[nodiscard]] bool host_accepts_name(const std::string& algorithm) const;
  [[nodiscard]] std::string check_all();
  [[nodiscard]] double calibrate(std::size_t cells_left);
  [[nodiscard]] Nanoseconds time_share_ns(std::size_t cells_left) const;
  [[nodiscard]] bool use_only_on_time(const std::vector<Measurement>& measurements) const;
  [[nodiscard]] Collective collective() const { return buffers_.runner().collective; }
  void add_unusable(std::vector<Record>& records, const CellRequest& request) const;

  Job& job_;
  const Options& options_;
  const Nanoseconds end_ns_;
  const std::int64_t size_bytes_;
  Buffers buffers_;
  double native_us_;  // native's balanced median
  std::vector<CheckedAlgorithm> checked_;
  std::vector<std::string> usable_algorithms_;
};

// Returns true if the time is over. All ranks get the same answer, although their clocks may differ.
[[nodiscard]] bool time_is_over(const Options& options);

}  // namespace offbeat::bench
