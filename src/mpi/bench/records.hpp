// SPDX-License-Identifier: BSD-3-Clause
// Writes JSON lines: one object per line, written at once, so that a reader can follow.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offbeat::bench {

// One line under construction, such as Record("check").add("size_bytes", 4).
class Record {
 public:
  explicit Record(std::string_view kind);
  Record& add(std::string_view name, std::string_view text);
  Record& add(std::string_view name, const char* text) { return add(name, std::string_view(text)); }
  Record& add(std::string_view name, double number);
  Record& add(std::string_view name, std::int64_t number);
  Record& add(std::string_view name, bool value);
  Record& add(std::string_view name, const std::vector<double>& numbers);  // with four digits
  Record& add(std::string_view name, const std::vector<std::string>& texts);
  [[nodiscard]] std::string line() const { return text_ + "}"; }

 private:
  void key(std::string_view name);
  template <class Element, class Text>
  Record& add_list(std::string_view name, const std::vector<Element>& elements, Text text_of);

  std::string text_ = "{";
};

class RecordFile {
 public:
  RecordFile() = default;
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  // Opens the file for appending, and locks it until this process ends. Throws std::runtime_error.
  void open(const std::string& path);
  // Writes a line for each record, in one call of the kernel: a process that is killed hardly ever leaves a
  // part of them. Does nothing if the file was never opened, as on ranks other than 0.
  void write(std::span<const Record> records);
  void write(const Record& record) { write(std::span(&record, 1)); }

 private:
  std::FILE* file_ = nullptr;
};

}  // namespace offbeat::bench
