// SPDX-License-Identifier: BSD-3-Clause
// Memory that is mapped from a file, into which a store never ends the program.
//
// If the file has no page for a store, the kernel sends SIGBUS: somebody has cut the file, its server is out
// of reach, or a file system that copies on write is full. No check before the store can rule this out, and
// without a mapping each record would take a system call, or be lost when the process is killed. So a handler
// of SIGBUS replaces the mapping with anonymous memory, and the store goes there. The handler passes any
// other SIGBUS to the handler that the program had before, and stays.
//
// This does not help a thread that blocks SIGBUS, nor a program that replaces the handler after MPI_Init and
// does not call the one that it finds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace offbeat::trace {

struct WatchedRange;

class FileMemory {
 public:
  FileMemory();
  ~FileMemory();
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;

  // Maps a part of a file instead of the part that is mapped now. Returns 0, or an error number if it cannot;
  // the mapping is then as before.
  int map(int file, std::uint64_t offset, std::size_t bytes);
  void unmap();

  [[nodiscard]] std::byte* begin() const { return begin_; }
  [[nodiscard]] std::byte* end() const { return begin_ + bytes_; }
  // Returns true if a store has found no page of the file, in this mapping or in an earlier one.
  [[nodiscard]] bool has_come_off() const;

 private:
  WatchedRange* watched_ = nullptr;  // null: the handler watches no more mappings
  std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace offbeat::trace
