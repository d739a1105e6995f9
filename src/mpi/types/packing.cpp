// SPDX-License-Identifier: BSD-3-Clause
// These functions turn elements of a datatype into bytes: what a type looks like, and how the host packs and
// unpacks it.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "mpi/types/dense_types.hpp"
#include "mpi/types/types.hpp"

namespace offbeat {
namespace {

int code_of_packing(int code, bool is_complete) {
  return code == MPI_SUCCESS && !is_complete ? MPI_ERR_TYPE : code;
}

// Calls whole(place, count, done) for elements that are entirely in the range. Calls part(place, begin,
// length, done) for an element of which only bytes [begin, begin + length) are in it. `done` is the number of
// bytes of the range before them.
template <class Whole, class Part>
void for_each_element(const Layout& layout, std::size_t first, std::size_t bytes, Whole&& whole,
                      Part&& part) {
  const std::size_t size = layout.size;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t element = (first + done) / size;
    const std::size_t begin = (first + done) % size;
    const std::size_t left = bytes - done;
    const std::ptrdiff_t place = static_cast<std::ptrdiff_t>(element) * layout.extent;
    if (begin == 0 && left >= size) {
      const std::size_t count = left / size;
      whole(place, static_cast<std::int64_t>(count), done);
      done += count * size;
    } else {
      const std::size_t length = std::min(size - begin, left);
      part(place, begin, length, done);
      done += length;
    }
  }
}

}  // namespace

bool Types::find_layout_of_user(MPI_Datatype type, Layout& layout) const {
  // This asks the host by packing no elements, because several threads may do that at once, unlike a
  // collective. A message would not do: MPICH accepts every type in one without elements.
  std::byte nothing{};
  int position = 0;
  if (host_->Pack(&nothing, 0, type, &nothing, 1, &position, own_communicator_.handle) != MPI_SUCCESS)
    return false;
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  MPI_Count size = 0;
  if (host_->Type_size_x(type, &size) != MPI_SUCCESS || size < 0 ||
      host_->Type_get_extent(type, &lower, &extent) != MPI_SUCCESS)
    return false;
  layout = {.size = static_cast<std::size_t>(size), .extent = extent, .is_dense = is_dense(*host_, type)};
  return true;
}

// Bytes is the type and the count that describe packed data in a message. There may be more bytes than an int
// can hold.
class Types::Bytes {
 public:
  Bytes(const Host& host, MPI_Count bytes)
      : host_(host), count_(bytes <= most ? static_cast<int>(bytes) : 1) {
    if (bytes <= most) return;
    MPI_Datatype part = MPI_DATATYPE_NULL;
    const int lengths[] = {static_cast<int>(bytes / most), static_cast<int>(bytes % most)};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(bytes - bytes % most)};
    require(host_.Type_contiguous(most, MPI_PACKED, &part));
    const MPI_Datatype types[] = {part, MPI_PACKED};
    const int code = host_.Type_create_struct(2, lengths, places, types, &type_);
    host_.Type_free(&part);
    require(code);
    is_type_created_ = true;
    require(host_.Type_commit(&type_));
  }
  ~Bytes() {
    if (is_type_created_) host_.Type_free(&type_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

  static constexpr int most = 1 << 30;

 private:
  static void require(int code) {
    if (code != MPI_SUCCESS) throw CommunicationError("no datatype is left", code);
  }

  const Host& host_;
  const int count_;
  MPI_Datatype type_ = MPI_PACKED;
  bool is_type_created_ = false;
};

void Types::throw_failure(const char* what, std::int64_t count, std::size_t bytes, int code) const {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  host_->Error_string(code, text, &length);
  const std::string_view all(text);
  throw CommunicationError("the MPI cannot " + std::string(what) + " " + std::to_string(count) +
                               " elements of " + std::to_string(bytes) +
                               " bytes of a derived datatype: " + std::string(all.substr(0, all.find('\n'))),
                           code);
}

// Calls use(begin, count, position, bytes) for parts whose bytes fit an int, unless a single element is too
// large.
template <class Use>
void Types::for_each_int_sized_part(const char* what, std::int64_t count, const Layout& layout,
                                    Use&& use) const {
  const auto size = static_cast<std::int64_t>(layout.size);
  if (size == 0) return;
  const std::int64_t at_once = std::max<std::int64_t>(1, Bytes::most / size);
  for (std::int64_t first = 0; first < count; first += at_once) {
    const auto some = static_cast<int>(std::min(at_once, count - first));
    const int code = use(first * layout.extent, some, first * size, some * size);
    if (code != MPI_SUCCESS) throw_failure(what, some, layout.size, code);
  }
}

// Replaces MPI_Pack and MPI_Unpack if they cannot do it: they count bytes by an int, and those of older
// MPICHs do not accept MPI_BOTTOM.
int Types::send_to_self(const void* from, int sent, MPI_Datatype sent_type, void* to, int received,
                        MPI_Datatype received_type) const {
  // Each message has its own tag, because another thread may send one, too. HostTurn has tag 0.
  constexpr unsigned tags = 32767;  // every MPI has these
  const int tag = 1 + static_cast<int>(self_messages_.fetch_add(1, std::memory_order_relaxed) % tags);
  const Host::WithoutYield scope(*host_);
  return host_->Sendrecv(from, sent, sent_type, 0, tag, to, received, received_type, 0, tag,
                         own_communicator_.handle, MPI_STATUS_IGNORE);
}

TypeSpan Types::span_of(std::int64_t count, MPI_Datatype type, const Layout& layout) const {
  if (layout.is_dense) return {0, static_cast<std::size_t>(count) * layout.size};
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  if (const int code = host_->Type_get_true_extent(type, &lower, &extent); code != MPI_SUCCESS)
    throw CommunicationError("a datatype has no extent", code);
  const std::ptrdiff_t last = (count - 1) * layout.extent;  // may be negative
  return {lower + std::min<std::ptrdiff_t>(last, 0), static_cast<std::size_t>(extent + std::abs(last))};
}

void Types::pack(const void* data, std::int64_t count, MPI_Datatype type, const Layout& layout,
                 std::byte* to) const {
  for_each_int_sized_part(
      "pack", count, layout, [&](std::ptrdiff_t begin, int some, std::ptrdiff_t packed, MPI_Count bytes) {
        const std::byte* from = static_cast<const std::byte*>(data) + begin;
        const bool is_long = bytes > Bytes::most;
        if (from == nullptr || (is_long && !host_->Pack_c)) {
          const Bytes all(*host_, bytes);
          return send_to_self(from, some, type, to + packed, all.count(), all.type());
        }
        if (is_long) {
          MPI_Count position = 0;
          const int code =
              host_->Pack_c(from, some, type, to + packed, bytes, &position, own_communicator_.handle);
          return code_of_packing(code, position == bytes);
        }
        int position = 0;
        const int code = host_->Pack(from, some, type, to + packed, static_cast<int>(bytes), &position,
                                     own_communicator_.handle);
        return code_of_packing(code, position == bytes);
      });
}

void Types::unpack(const std::byte* from, void* data, std::int64_t count, MPI_Datatype type,
                   const Layout& layout) const {
  for_each_int_sized_part(
      "unpack", count, layout, [&](std::ptrdiff_t begin, int some, std::ptrdiff_t packed, MPI_Count bytes) {
        std::byte* to = static_cast<std::byte*>(data) + begin;
        const bool is_long = bytes > Bytes::most;
        if (to == nullptr || (is_long && !host_->Unpack_c)) {
          const Bytes all(*host_, bytes);
          return send_to_self(from + packed, all.count(), all.type(), to, some, type);
        }
        if (is_long) {
          MPI_Count position = 0;
          const int code =
              host_->Unpack_c(from + packed, bytes, &position, to, some, type, own_communicator_.handle);
          return code_of_packing(code, position == bytes);
        }
        int position = 0;
        const int code = host_->Unpack(from + packed, static_cast<int>(bytes), &position, to, some, type,
                                       own_communicator_.handle);
        return code_of_packing(code, position == bytes);
      });
}

void Types::pack_part(const std::byte* data, std::size_t first, std::size_t bytes, MPI_Datatype type,
                      const Layout& layout, std::byte* to) const {
  for_each_element(
      layout, first, bytes,
      [&](std::ptrdiff_t place, std::int64_t count, std::size_t done) {
        pack(data + place, count, type, layout, to + done);
      },
      [&](std::ptrdiff_t place, std::size_t begin, std::size_t length, std::size_t done) {
        const pool::Block element(layout.size);
        pack(data + place, 1, type, layout, element.data());
        std::memcpy(to + done, element.data() + begin, length);
      });
}

void Types::unpack_part(const std::byte* from, std::byte* data, std::size_t first, std::size_t bytes,
                        MPI_Datatype type, const Layout& layout) const {
  for_each_element(
      layout, first, bytes,
      [&](std::ptrdiff_t place, std::int64_t count, std::size_t done) {
        unpack(from + done, data + place, count, type, layout);
      },
      [&](std::ptrdiff_t place, std::size_t begin, std::size_t length, std::size_t done) {
        const pool::Block element(layout.size);
        pack(data + place, 1, type, layout, element.data());
        std::memcpy(element.data() + begin, from + done, length);
        unpack(element.data(), data + place, 1, type, layout);
      });
}

}  // namespace offbeat
