// SPDX-License-Identifier: BSD-3-Clause
// The tables and their instructions are those of DWARF 5, section 6.4, with the augmentations of the Linux
// Standard Base (.eh_frame).
#include "node/blocked_stack.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "node/shared_memory.hpp"

#if defined(__x86_64__)

// Of libgcc, which finds the entry for an address in the tables of all libraries.
extern "C" {
struct dwarf_eh_bases {
  void* text;
  void* data;
  void* function;
};
const void* _Unwind_Find_FDE(void* address, dwarf_eh_bases* bases);
}

namespace offbeat {
namespace {

constexpr std::size_t registers = 17;
constexpr std::size_t stack_pointer = 7;
constexpr std::size_t return_address = 16;
constexpr std::size_t most_frames = 48;

// How to find a register of the caller.
struct Rule {
  enum Kind : unsigned char { same, unknown, at_offset } kind = same;
  std::int64_t offset = 0;  // from the frame's address
};

struct Row {
  std::array<Rule, registers> rules{};
  bool is_known = true;  // the frame's address is `base` + `offset`
  std::uint64_t base = 0;
  std::int64_t offset = 0;
};

class Reader {
 public:
  explicit Reader(const void* at) : at_(static_cast<const unsigned char*>(at)) {}
  template <class Number>
  Number take() {
    Number value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t take_unsigned() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = take<unsigned char>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  std::int64_t take_signed() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    unsigned char byte = 0;
    do {
      byte = take<unsigned char>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      shift += 7;
    } while ((byte & 0x80) != 0);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  std::string_view take_text() {
    const std::string_view text(reinterpret_cast<const char*>(at_));
    at_ += text.size() + 1;
    return text;
  }
  void skip(std::size_t bytes) { at_ += bytes; }
  [[nodiscard]] const unsigned char* place() const { return at_; }

 private:
  const unsigned char* at_;
};

// Returns the size of an encoded pointer, or 0 if it is not known.
std::size_t size_of_pointer(unsigned char encoding) {
  switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
      return 8;
    case 0x02:
    case 0x0a:
      return 2;
    case 0x03:
    case 0x0b:
      return 4;
    default:
      return 0;
  }
}

// What an entry says about all its functions.
struct Common {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  unsigned char encoding = 0;
  bool has_length = false;  // of augmentation data
  const unsigned char* begin = nullptr;
  const unsigned char* end = nullptr;

  static std::optional<Common> read(const unsigned char* entry) {
    Reader reader(entry);
    const auto length = reader.take<std::uint32_t>();
    if (length == 0 || length == 0xffffffff) return {};
    Common found;
    found.end = entry + 4 + length;
    reader.skip(4);
    const auto version = reader.take<unsigned char>();
    if (version != 1 && version != 3) return {};
    const std::string_view augmentation = reader.take_text();
    found.code_factor = reader.take_unsigned();
    found.data_factor = reader.take_signed();
    const std::uint64_t column = version == 1 ? reader.take<unsigned char>() : reader.take_unsigned();
    if (column != return_address) return {};
    found.has_length = augmentation.starts_with('z');
    if (!found.has_length && !augmentation.empty()) return {};
    const std::uint64_t bytes = found.has_length ? reader.take_unsigned() : 0;
    found.begin = reader.place() + bytes;
    for (const char each : augmentation) {
      if (each == 'R') found.encoding = reader.take<unsigned char>();
      if (each == 'L') reader.skip(1);
      if (each == 'P') {
        const std::size_t size = size_of_pointer(reader.take<unsigned char>());
        if (size == 0) return {};
        reader.skip(size);
      }
      if (each == 'S') return {};  // the frame of a signal's handler
    }
    return found;
  }
};

// Runs the instructions of a function up to an address.
class Machine {
 public:
  Machine(const Common& common, std::uintptr_t function, std::uintptr_t address)
      : common_(common), place_(function), address_(address) {}

  // Returns false if there is an instruction that this does not know.
  bool run(const unsigned char* begin, const unsigned char* end) {
    Reader reader(begin);
    while (reader.place() < end && place_ <= address_) {
      if (!step(reader)) return false;
    }
    return true;
  }
  void end_common() { initial_ = row; }

  Row row;

 private:
  void advance(std::uint64_t by) { place_ += by * common_.code_factor; }
  void set(std::uint64_t number, Rule rule) {
    if (number < registers) row.rules[number] = rule;
  }
  void restore(std::uint64_t number) {
    if (number < registers) row.rules[number] = initial_.rules[number];
  }
  void define(std::uint64_t base, std::int64_t offset) {
    row.is_known = true;
    row.base = base;
    row.offset = offset;
  }

  bool step(Reader& reader) {
    const auto code = reader.take<unsigned char>();
    const unsigned low = code & 0x3f;
    switch (code & 0xc0) {
      case 0x40:
        advance(low);
        return true;
      case 0x80:
        set(low, {Rule::at_offset, static_cast<std::int64_t>(reader.take_unsigned()) * common_.data_factor});
        return true;
      case 0xc0:
        restore(low);
        return true;
      default:
        return step_extended(code, reader);
    }
  }

  bool step_extended(unsigned char code, Reader& reader) {
    switch (code) {
      case 0x00:  // nop
        return true;
      case 0x02:
        advance(reader.take<std::uint8_t>());
        return true;
      case 0x03:
        advance(reader.take<std::uint16_t>());
        return true;
      case 0x04:
        advance(reader.take<std::uint32_t>());
        return true;
      case 0x05: {  // offset_extended
        const std::uint64_t number = reader.take_unsigned();
        set(number,
            {Rule::at_offset, static_cast<std::int64_t>(reader.take_unsigned()) * common_.data_factor});
        return true;
      }
      case 0x06:
        restore(reader.take_unsigned());
        return true;
      case 0x07:  // undefined
        set(reader.take_unsigned(), {Rule::unknown, 0});
        return true;
      case 0x08:  // same_value
        set(reader.take_unsigned(), {Rule::same, 0});
        return true;
      case 0x09: {  // the value is in another register
        const std::uint64_t number = reader.take_unsigned();
        static_cast<void>(reader.take_unsigned());
        set(number, {Rule::unknown, 0});
        return true;
      }
      case 0x0a:
        if (depth_ == remembered_.size()) return false;
        remembered_[depth_++] = row;
        return true;
      case 0x0b:
        if (depth_ == 0) return false;
        row = remembered_[--depth_];
        return true;
      case 0x0c: {  // def_cfa
        const std::uint64_t base = reader.take_unsigned();
        define(base, static_cast<std::int64_t>(reader.take_unsigned()));
        return true;
      }
      case 0x0d:
        row.base = reader.take_unsigned();
        return true;
      case 0x0e:
        row.offset = static_cast<std::int64_t>(reader.take_unsigned());
        return true;
      case 0x0f:  // def_cfa_expression
        reader.skip(reader.take_unsigned());
        row.is_known = false;
        return true;
      case 0x10:
      case 0x16: {  // expression, val_expression
        set(reader.take_unsigned(), {Rule::unknown, 0});
        reader.skip(reader.take_unsigned());
        return true;
      }
      case 0x11: {  // offset_extended_sf
        const std::uint64_t number = reader.take_unsigned();
        set(number, {Rule::at_offset, reader.take_signed() * common_.data_factor});
        return true;
      }
      case 0x12: {  // def_cfa_sf
        const std::uint64_t base = reader.take_unsigned();
        define(base, reader.take_signed() * common_.data_factor);
        return true;
      }
      case 0x13:
        row.offset = reader.take_signed() * common_.data_factor;
        return true;
      case 0x2e:  // GNU_args_size
        static_cast<void>(reader.take_unsigned());
        return true;
      default:
        return false;
    }
  }

  const Common& common_;
  std::uintptr_t place_;
  const std::uintptr_t address_;
  Row initial_;
  std::array<Row, 4> remembered_{};
  std::size_t depth_ = 0;
};

// Returns the row for an address. Apart, so that no function has a large frame.
[[gnu::noinline]] std::optional<Row> row_for(std::uintptr_t address) {
  dwarf_eh_bases bases{};
  const auto* const entry =
      static_cast<const unsigned char*>(_Unwind_Find_FDE(reinterpret_cast<void*>(address), &bases));
  if (entry == nullptr) return {};
  Reader reader(entry);
  const auto length = reader.take<std::uint32_t>();
  if (length == 0 || length == 0xffffffff) return {};
  const unsigned char* const field = reader.place();
  const auto common = Common::read(field - reader.take<std::uint32_t>());
  if (!common) return {};
  const std::size_t pointer = size_of_pointer(common->encoding);
  if (pointer == 0) return {};
  reader.skip(2 * pointer);
  if (common->has_length) reader.skip(reader.take_unsigned());
  Machine machine(*common, reinterpret_cast<std::uintptr_t>(bases.function), address);
  if (!machine.run(common->begin, common->end)) return {};
  machine.end_common();
  if (!machine.run(reader.place(), entry + 4 + length)) return {};
  return machine.row;
}

// A copy of the part of a stack that is in use. The thread may go on and end meanwhile, so this is no access
// to its memory.
class Copy {
 public:
  Copy(std::uintptr_t begin, std::uintptr_t end) : begin_(begin) {
    constexpr std::size_t most_bytes = std::size_t{256} << 10;
    bytes_.resize(std::min<std::size_t>(end - begin, most_bytes));
    const Descriptor memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
    const ssize_t length =
        memory ? pread(memory.get(), bytes_.data(), bytes_.size(), static_cast<off_t>(begin)) : 0;
    bytes_.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  }
  [[nodiscard]] std::optional<std::uint64_t> word(std::uint64_t address) const {
    std::uint64_t value = 0;
    if (address < begin_ || address - begin_ + sizeof value > bytes_.size()) return {};
    std::memcpy(&value, &bytes_[address - begin_], sizeof value);
    return value;
  }

 private:
  const std::uintptr_t begin_;
  std::vector<std::byte> bytes_;
};

// Returns the end of a thread's stack if `pointer` is in it, else 0.
std::uintptr_t end_of_stack(pthread_t thread, std::uintptr_t pointer) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(thread, &attributes) != 0) return 0;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  const bool is_known = pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  const auto low = reinterpret_cast<std::uintptr_t>(lowest);
  return is_known && pointer >= low && pointer - low < bytes ? low + bytes : 0;
}

}  // namespace

std::vector<std::uintptr_t> frames_of_blocked(pthread_t thread, std::uintptr_t counter,
                                              std::uintptr_t pointer) {
  std::vector<std::uintptr_t> found;
  const std::uintptr_t end = end_of_stack(thread, pointer);
  if (end == 0) return found;
  const Copy stack(pointer, end);
  std::array<std::optional<std::uint64_t>, registers> values{};
  values[stack_pointer] = pointer;
  std::uintptr_t address = counter;
  while (found.size() < most_frames && address != 0) {
    found.push_back(address);
    const auto row = row_for(address);
    if (!row || !row->is_known || row->base >= registers || !values[row->base]) break;
    const std::uint64_t frame = *values[row->base] + static_cast<std::uint64_t>(row->offset);
    if (frame <= *values[stack_pointer] || row->rules[return_address].kind != Rule::at_offset) break;
    for (std::size_t k = 0; k < registers; ++k) {
      const Rule& rule = row->rules[k];
      if (rule.kind == Rule::unknown) values[k].reset();
      if (rule.kind == Rule::at_offset)
        values[k] = stack.word(frame + static_cast<std::uint64_t>(rule.offset));
    }
    values[stack_pointer] = frame;
    if (!values[return_address]) break;
    address = *values[return_address] - 1;  // behind the call
    values[return_address].reset();
  }
  return found;
}

}  // namespace offbeat

#else

namespace offbeat {

std::vector<std::uintptr_t> frames_of_blocked(pthread_t, std::uintptr_t, std::uintptr_t) { return {}; }

}  // namespace offbeat

#endif
