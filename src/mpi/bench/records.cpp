// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/bench/records.hpp"

#include <sys/file.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace offbeat::bench {

namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace

Record::Record(std::string_view kind) {
  if (!kind.empty()) add("record", kind);
}

template <class Element, class Text>
Record& Record::add_list(std::string_view name, const std::vector<Element>& elements, Text text_of) {
  key(name);
  text_ += '[';
  for (const Element& element : elements) text_ += text_of(element) + ',';
  if (!elements.empty()) text_.pop_back();
  text_ += ']';
  return *this;
}

void Record::key(std::string_view name) {
  if (text_.size() > 1) text_ += ',';
  text_ += quoted(name) + ':';
}

Record& Record::add(std::string_view name, std::string_view text) {
  key(name);
  text_ += quoted(text);
  return *this;
}

Record& Record::add(std::string_view name, double number) {
  key(name);
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.10g", number);
  text_ += std::isfinite(number) ? digits : "null";
  return *this;
}

Record& Record::add(std::string_view name, std::int64_t number) {
  key(name);
  text_ += std::to_string(number);
  return *this;
}

Record& Record::add(std::string_view name, bool value) {
  key(name);
  text_ += value ? "true" : "false";
  return *this;
}

Record& Record::add(std::string_view name, const std::vector<double>& numbers) {
  return add_list(name, numbers, [](double number) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.4g", number);
    return std::string(digits);
  });
}

Record& Record::add(std::string_view name, const std::vector<std::string>& texts) {
  return add_list(name, texts, quoted);
}

void RecordFile::open(const std::string& path) {
  file_ = std::fopen(path.c_str(), "a");
  if (file_ == nullptr) throw std::runtime_error("cannot write " + path);
  std::setvbuf(file_, nullptr, _IONBF, 0);  // so that write() makes one call of the kernel
  // The lock tells `offbeat bench --resume` that ranks of a killed run may still be writing.
  flock(fileno(file_), LOCK_EX | LOCK_NB);
}

RecordFile::~RecordFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void RecordFile::write(std::span<const Record> records) {
  if (file_ == nullptr) return;
  std::string lines;
  for (const Record& record : records) lines += record.line() + '\n';
  if (std::fwrite(lines.data(), 1, lines.size(), file_) != lines.size())
    throw std::runtime_error(std::string("cannot write the results: ") + std::strerror(errno));
}

}  // namespace offbeat::bench
