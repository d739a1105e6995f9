// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace offbeat {

// A range of zeros. A page takes memory only after it has been accessed.
class SimulatedMemory {
 public:
  explicit SimulatedMemory(std::size_t bytes);
  SimulatedMemory(const SimulatedMemory&) = delete;
  SimulatedMemory& operator=(const SimulatedMemory&) = delete;
  ~SimulatedMemory();
  void clear();
  [[nodiscard]] void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace offbeat
