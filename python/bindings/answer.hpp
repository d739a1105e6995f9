// SPDX-License-Identifier: BSD-3-Clause
// What the functions of offbeat-python.so have in common. python/offbeat/_core.py calls them through ctypes,
// so that one file serves every version of Python.
//
// A function returns a status. The thread's text, which offbeat_python_text() returns, is then the result as
// JSON, or the error.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/collective.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace offbeat::python {

enum Status { ok, usage_error, expression_error, out_of_memory, other_error };

// Text from Python. It may contain zeros.
struct Text {
  const char* data;
  std::size_t size;
  operator std::string_view() const { return {data, size}; }  // NOLINT: it is one
};

// The text of this thread's last call.
std::string& answer_text();

// Runs `body`, which returns JSON, and keeps what it returns or why it failed.
template <class Body>
int answer(Body&& body) noexcept {
  std::string& text = answer_text();
  try {
    text.clear();
    text = body();
    return ok;
  } catch (const ExpressionError& error) {
    text = error.what();
    return expression_error;
  } catch (const UsageError& error) {
    text = error.what();
    return usage_error;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::exception& error) {
    text = error.what();
    return other_error;
  }
}

inline Collective known_collective(std::string_view name) {
  const auto known = collective_named(name);
  if (!known) throw UsageError("unknown collective '" + printable(name) + "'");
  return *known;
}

// Writes JSON.
class Json {
 public:
  // A list or an object, which ends with the scope.
  class Scope {
   public:
    Scope(Json& json, char begin, char end) : json_(json), end_(end) { json_.begin(begin); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { json_.end(end_); }

   private:
    Json& json_;
    char end_;
  };

  [[nodiscard]] Scope list() { return {*this, '[', ']'}; }
  [[nodiscard]] Scope object() { return {*this, '{', '}'}; }
  [[nodiscard]] Scope list(std::string_view name) {
    put_name(name);
    return list();
  }

  // A member of the object.
  template <class Value>
  void add(std::string_view name, const Value& value) {
    put_name(name);
    put(value);
  }

  // A member of the list, or the whole text.
  template <class Value>
  void add(const Value& value) {
    separate();
    put(value);
  }

  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  void begin(char bracket) {
    separate();
    text_ += bracket;
  }
  void end(char bracket) { text_ += bracket; }

  void separate() {
    if (!text_.empty() && text_.back() != '[' && text_.back() != '{' && text_.back() != ':') text_ += ',';
  }
  void put_name(std::string_view name) {
    separate();
    put(name);
    text_ += ':';
  }

  void put(std::string_view value) {
    constexpr std::string_view digits = "0123456789abcdef";
    text_ += '"';
    for (const char each : value) {
      const auto code = static_cast<unsigned char>(each);
      if (code < 0x20) {
        text_ += "\\u00";
        text_ += digits[code / 16];
        text_ += digits[code % 16];
      } else {
        if (each == '"' || each == '\\') text_ += '\\';
        text_ += each;
      }
    }
    text_ += '"';
  }
  void put(const std::string& value) { put(std::string_view(value)); }
  void put(const char* value) { put(std::string_view(value)); }

  template <class Value>
  requires std::integral<Value> || std::floating_point<Value>
  void put(Value value) {
    if constexpr (std::same_as<Value, bool>) {
      text_ += value ? "true" : "false";
    } else {
      char digits[32];  // the shortest text that gives the same number again
      text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    }
  }

  template <class Value>
  void put(const std::optional<Value>& value) {
    if (value) {
      put(*value);
    } else {
      text_ += "null";
    }
  }

  std::string text_;
};

// The JSON of one value.
template <class Value>
std::string json(const Value& value) {
  Json written;
  written.add(value);
  return std::move(written).text();
}

}  // namespace offbeat::python
