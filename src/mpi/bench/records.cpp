// SPDX-License-Identifier: BSD-3-Clause
#include "records.hpp"

#include <sys/file.h>

#include <cmath>
#include <stdexcept>

namespace offbeat::bench {

static std::string quoted(std::string_view text) {
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

Record::Record(std::string_view kind) {
  if (!kind.empty()) add("record", kind);
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
  key(name);
  text_ += '[';
  for (const double number : numbers) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.4g,", number);
    text_ += digits;
  }
  if (text_.back() == ',') text_.pop_back();
  text_ += ']';
  return *this;
}

Record& Record::add(std::string_view name, const std::vector<std::string>& texts) {
  key(name);
  text_ += '[';
  for (const std::string& text : texts) text_ += quoted(text) + ',';
  if (text_.back() == ',') text_.pop_back();
  text_ += ']';
  return *this;
}

void RecordFile::open(const std::string& path) {
  file_ = std::fopen(path.c_str(), "a");
  if (file_ == nullptr) throw std::runtime_error("cannot write " + path);
  // `offbeat bench --resume` asks whether ranks of a run that was killed still write.
  flock(fileno(file_), LOCK_EX | LOCK_NB);
}

RecordFile::~RecordFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void RecordFile::write(const Record& record) {
  if (file_ == nullptr) return;
  std::fprintf(file_, "%s\n", record.line().c_str());
  std::fflush(file_);
}

}  // namespace offbeat::bench
