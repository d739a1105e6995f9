// SPDX-License-Identifier: BSD-3-Clause
// The trace file of one rank: a header and slots. They are in memory that is backed by the file, so nothing
// is lost if the process is killed. Only the header and a window of the slots are mapped. The disk space of a
// window is taken before it is mapped, because a full disk is found later only by a store (file_memory.hpp).
//
// A writer never stops the program. If it cannot write, it says why and takes no further records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "trace/file_memory.hpp"
#include "trace/format.hpp"

namespace offbeat::trace {

class Writer {
 public:
  // Creates a file and the folder that it is in. The file is mapped in windows of `window_bytes`: a multiple
  // of the page size. If the file cannot be created, failure() says why.
  Writer(const std::string& path, std::size_t window_bytes, std::uint64_t most_bytes);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Why there is no file; empty if there is one.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] bool has_found_a_file() const { return has_found_a_file_; }
  // Removes the file that this writer has created.
  void discard();

  // Without a file this is memory that nobody reads.
  [[nodiscard]] Header& header() { return *header_; }

  // Returns the next record, which the caller fills and then publishes. Null if there is no room. In the
  // steady state this costs one comparison.
  [[nodiscard]] CallRecord* next() {
    if (next_slot_ == window_end_) [[unlikely]] {
      if (!reserve(1)) return nullptr;
    }
    return reinterpret_cast<CallRecord*>(next_slot_);
  }
  // Makes the record visible to readers. Returns its number among the slots.
  std::uint64_t publish() {
    next_slot_ += slot_bytes;
    std::atomic_ref(header_->slots).store(slots_ + 1, std::memory_order_release);
    return slots_++;
  }

  // Writes a record of several slots, padded with zeros. Returns false if there is no room.
  bool write(std::span<const std::byte> head, std::span<const std::byte> rest);

  // Changes a published record, which may have left the window.
  template <class Change>
  [[gnu::always_inline]] void update_record(std::uint64_t slot, Change&& apply) {
    if (slot >= window_begin_) [[likely]] {
      apply(*reinterpret_cast<CallRecord*>(first_slot_ + (slot - window_begin_) * slot_bytes));
      return;
    }
    CallRecord record;
    if (!load(slot, record)) return;
    apply(record);
    store(slot, record);
  }

  // Returns true if no further record will be written.
  [[nodiscard]] bool is_full() const { return is_full_; }

  // Cuts the file to the length that was written. Says so if somebody else has cut or removed it.
  void finish();

 private:
  int create_file();
  // Takes no further record, and says why unless something was said before.
  void stop(const std::string& why);
  bool is_whole();
  bool reserve(std::uint64_t slots);
  bool grow();
  bool move_window();
  // Returns where the window that contains `offset` ends. Windows begin at multiples of their size in the
  // file, because a mapping begins with a page, and so that a file system can use a large folio for them.
  [[nodiscard]] std::uint64_t window_end_behind(std::uint64_t offset) const {
    return (offset / window_bytes_ + 1) * window_bytes_;
  }
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t slot) const { return header_bytes + slot * slot_bytes; }
  bool load(std::uint64_t slot, CallRecord& record) const;
  void store(std::uint64_t slot, const CallRecord& record) const;

  std::byte* next_slot_ = nullptr;  // the next slot in the window
  std::byte* window_end_ = nullptr;
  Header* header_ = &without_file_;
  std::uint64_t slots_ = 0;
  FileMemory window_;
  std::byte* first_slot_ = nullptr;  // of the window; the first window begins with the header
  std::uint64_t window_begin_ = 0;   // the number of its first slot
  const std::size_t window_bytes_;
  const std::uint64_t most_bytes_;
  std::uint64_t file_bytes_ = 0;
  const std::string path_;
  bool has_links_ = false;  // false: the file system counts none, as some in user space
  int file_ = -1;
  bool is_full_ = false;
  bool has_found_a_file_ = false;
  std::string failure_;
  FileMemory mapped_header_;
  Header without_file_{};
};

}  // namespace offbeat::trace
