// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/types.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "mpi/return_errors.hpp"

namespace offbeat {
namespace {

// The groups of MPI 5.0, section 6.9.2, which say which operation is defined on which type.
enum class Group {
  c_integer,
  fortran_integer,
  unsigned_integer,
  multi_language,
  floating,
  complex,
  byte,
  c_bool,
  logical,
  pair,
  text,
};

constexpr int minloc = static_cast<int>(reduce_op_count);
constexpr int maxloc = minloc + 1;

bool is_defined(Group group, int op) {
  const bool order = op == static_cast<int>(ReduceOp::min) || op == static_cast<int>(ReduceOp::max);
  const bool arithmetic = op == static_cast<int>(ReduceOp::sum) || op == static_cast<int>(ReduceOp::prod);
  const bool logic =
      op >= static_cast<int>(ReduceOp::logical_and) && op <= static_cast<int>(ReduceOp::logical_xor);
  const bool bitwise =
      op >= static_cast<int>(ReduceOp::bitwise_and) && op <= static_cast<int>(ReduceOp::bitwise_xor);
  switch (group) {
    case Group::c_integer:
    case Group::unsigned_integer:
      return order || arithmetic || logic || bitwise;
    case Group::fortran_integer:
    case Group::multi_language:
      return order || arithmetic || bitwise;
    case Group::floating:
      return order || arithmetic;
    case Group::complex:
      return arithmetic;
    case Group::byte:
      return bitwise;
    case Group::c_bool:
    case Group::logical:
      return logic;
    case Group::pair:
      return op == minloc || op == maxloc;
    case Group::text:
      return false;
  }
  return false;
}

// The element type for our kernels. None: the host combines the type (Fortran logicals, whose "true" is the
// compiler's business; pairs; 128-bit reals).
std::optional<ElementType> element_type(Group group, std::size_t width) {
  const auto by_width = [&](ElementType one, ElementType two, ElementType four,
                            ElementType eight) -> std::optional<ElementType> {
    switch (width) {
      case 1:
        return one;
      case 2:
        return two;
      case 4:
        return four;
      case 8:
        return eight;
      default:
        return std::nullopt;
    }
  };
  switch (group) {
    case Group::c_integer:
    case Group::fortran_integer:
    case Group::multi_language:
      return by_width(ElementType::int8, ElementType::int16, ElementType::int32, ElementType::int64);
    case Group::unsigned_integer:
    case Group::byte:
      return by_width(ElementType::uint8, ElementType::uint16, ElementType::uint32, ElementType::uint64);
    case Group::floating:
      if (width == sizeof(float)) return ElementType::float32;
      if (width == sizeof(double)) return ElementType::float64;
      return std::nullopt;
    case Group::complex:
      if (width == 2 * sizeof(float)) return ElementType::complex64;
      if (width == 2 * sizeof(double)) return ElementType::complex128;
      return std::nullopt;
    case Group::c_bool:
      return width == 1 ? std::optional(ElementType::boolean) : std::nullopt;
    case Group::logical:
    case Group::pair:
    case Group::text:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void HostReduceLocal::combine(const void* left, void* right, std::size_t count) const {
  // Reduction works in blocks of a few KiB, so an int is enough.
  if (const int code = host_->Reduce_local(left, right, static_cast<int>(count), type_, op_);
      code != MPI_SUCCESS) {
    throw CommunicationError("MPI_Reduce_local failed", code);
  }
}

template <std::size_t Slots>
void Types::Index<Slots>::insert(std::uintptr_t key, int value) {
  std::size_t slot = hash(key);
  while (entries_[slot].value != missing && entries_[slot].key != key) slot = (slot + 1) % Slots;
  if (entries_[slot].value == missing) entries_[slot] = {key, value};
}

Types::Types(const Host& host) : host_(&host) {
  // A handle that this host does not know, because it is older than our headers, must not end the job. Such
  // errors belong to MPI_COMM_SELF since MPI 4.0, and to MPI_COMM_WORLD before.
  const ReturnErrors by_self(host, MPI_COMM_SELF);
  const ReturnErrors by_world(host, MPI_COMM_WORLD);

  // From the group: MPI_Comm_dup would call the program's attribute functions.
  MPI_Group self;
  host.Comm_group(MPI_COMM_SELF, &self);
  if (host.Comm_create(MPI_COMM_SELF, self, &own_communicator_) == MPI_SUCCESS) {
    host.Comm_set_errhandler(own_communicator_, MPI_ERRORS_RETURN);
  } else {
    own_communicator_ = MPI_COMM_SELF;
  }
  host.Group_free(&self);
  int values[2] = {};
  const auto accepts_alias = [&](int count) {
    return host.Allreduce(values, values, count, MPI_INT, MPI_SUM, own_communicator_) == MPI_SUCCESS;
  };
  rejects_aliases_ = host.Allgather(values, 1, MPI_INT, values, 1, MPI_INT, own_communicator_) != MPI_SUCCESS;
  if (accepts_alias(1))
    least_rejected_alias_ = accepts_alias(2) ? std::numeric_limits<std::int64_t>::max() : 2;

  const struct {
    Group group;
    MPI_Datatype handle;
  } types[] = {
      {Group::c_integer, MPI_SIGNED_CHAR},
      {Group::c_integer, MPI_SHORT},
      {Group::c_integer, MPI_INT},
      {Group::c_integer, MPI_LONG},
      {Group::c_integer, MPI_LONG_LONG},
      {Group::c_integer, MPI_INT8_T},
      {Group::c_integer, MPI_INT16_T},
      {Group::c_integer, MPI_INT32_T},
      {Group::c_integer, MPI_INT64_T},
      {Group::unsigned_integer, MPI_UNSIGNED_CHAR},
      {Group::unsigned_integer, MPI_UNSIGNED_SHORT},
      {Group::unsigned_integer, MPI_UNSIGNED},
      {Group::unsigned_integer, MPI_UNSIGNED_LONG},
      {Group::unsigned_integer, MPI_UNSIGNED_LONG_LONG},
      {Group::unsigned_integer, MPI_UINT8_T},
      {Group::unsigned_integer, MPI_UINT16_T},
      {Group::unsigned_integer, MPI_UINT32_T},
      {Group::unsigned_integer, MPI_UINT64_T},
      {Group::multi_language, MPI_AINT},
      {Group::multi_language, MPI_OFFSET},
      {Group::multi_language, MPI_COUNT},
      {Group::byte, MPI_BYTE},
      {Group::c_bool, MPI_C_BOOL},
      {Group::c_bool, MPI_CXX_BOOL},
      {Group::floating, MPI_FLOAT},
      {Group::floating, MPI_DOUBLE},
      {Group::floating, MPI_REAL},
      {Group::floating, MPI_DOUBLE_PRECISION},
      {Group::floating, MPI_REAL4},
      {Group::floating, MPI_REAL8},
      {Group::floating, MPI_REAL16},
      {Group::complex, MPI_C_FLOAT_COMPLEX},
      {Group::complex, MPI_C_DOUBLE_COMPLEX},
      {Group::complex, MPI_CXX_FLOAT_COMPLEX},
      {Group::complex, MPI_CXX_DOUBLE_COMPLEX},
      {Group::complex, MPI_COMPLEX},
      {Group::complex, MPI_DOUBLE_COMPLEX},
      {Group::complex, MPI_COMPLEX8},
      {Group::complex, MPI_COMPLEX16},
      {Group::fortran_integer, MPI_INTEGER},
      {Group::fortran_integer, MPI_INTEGER1},
      {Group::fortran_integer, MPI_INTEGER2},
      {Group::fortran_integer, MPI_INTEGER4},
      {Group::fortran_integer, MPI_INTEGER8},
      {Group::logical, MPI_LOGICAL},
      {Group::pair, MPI_FLOAT_INT},
      {Group::pair, MPI_DOUBLE_INT},
      {Group::pair, MPI_LONG_INT},
      {Group::pair, MPI_2INT},
      {Group::pair, MPI_SHORT_INT},
      {Group::pair, MPI_LONG_DOUBLE_INT},
      {Group::pair, MPI_2REAL},
      {Group::pair, MPI_2DOUBLE_PRECISION},
      {Group::pair, MPI_2INTEGER},
      {Group::text, MPI_CHAR},
      {Group::text, MPI_WCHAR},
      {Group::text, MPI_PACKED},
      {Group::text, MPI_CHARACTER},
  };
  // A width of 16 can mean a long double or a binary128, so these types are told apart by name.
  const struct {
    Group group;
    MPI_Datatype handle;
    ElementType type;
  } extended[] = {{Group::floating, MPI_LONG_DOUBLE, ElementType::long_double},
                  {Group::complex, MPI_C_LONG_DOUBLE_COMPLEX, ElementType::complex_long_double},
                  {Group::complex, MPI_CXX_LONG_DOUBLE_COMPLEX, ElementType::complex_long_double}};

  const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,   MPI_LOR,
                        MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
  static_assert(std::size(ops) == most_ops);
  for (std::size_t op = 0; op < most_ops; ++op) {
    ops_.insert(abi::bits(ops[op]), static_cast<int>(op));
    op_handles_[op] = ops[op];
  }

  const auto add = [&](Group group, MPI_Datatype handle, std::optional<ElementType> named) {
    // The host lacks Fortran, or is older than the type.
    if (abi::bits(handle) == 0 || handle == MPI_DATATYPE_NULL) return;
    int size = 0;
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    if (host.Type_size(handle, &size) != MPI_SUCCESS ||
        host.Type_get_extent(handle, &lower, &extent) != MPI_SUCCESS) {
      return;
    }
    if (size <= 0 || extent < size) return;
    // A pair's trailing padding belongs to its C struct: moving it moves none of the user's data.
    const auto width = static_cast<std::size_t>(group == Group::pair ? extent : size);
    const std::optional<ElementType> type = named ? named : element_type(group, width);
    const bool known = type && width_of(*type) == width;
    layouts_[row_count_] = {
        .size = static_cast<std::size_t>(size), .extent = extent, .is_dense = extent == size};
    type_handles_[row_count_] = handle;
    Row& row = rows_[row_count_];
    for (int op = 0; op < static_cast<int>(most_ops); ++op) {
      if (!is_defined(group, op)) continue;
      Cell& cell = row[static_cast<std::size_t>(op)];
      if (known) cell.reduction = Reduction(*type, static_cast<ReduceOp>(op));
      if (!cell.reduction) cell.reduction = Reduction(width, cell.by_host.emplace(host, handle, ops[op]));
    }
    types_.insert(abi::bits(handle), static_cast<int>(row_count_++));
  };
  static_assert(std::size(types) + std::size(extended) <= most_types);
  for (const auto& type : types) add(type.group, type.handle, std::nullopt);
  for (const auto& type : extended) add(type.group, type.handle, type.type);
}

Types::Handles Types::handles_of(const Reduction& reduction) const {
  if (reduction.host != nullptr) {
    const auto& by_host = static_cast<const HostReduceLocal&>(*reduction.host);
    return {by_host.type(), by_host.op()};
  }
  for (std::size_t row = 0; row < row_count_; ++row) {
    for (std::size_t op = 0; op < most_ops; ++op) {
      if (&rows_[row][op].reduction == &reduction) return {type_handles_[row], op_handles_[op]};
    }
  }
  throw std::logic_error("a reduction that is not of this table");
}

const Reduction* Types::predefined(MPI_Datatype type, MPI_Op op) const {
  const int row = types_.find(abi::bits(type));
  const int column = ops_.find(abi::bits(op));
  if (row < 0 || column < 0) return nullptr;
  const Reduction& reduction =
      rows_[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)].reduction;
  return reduction ? &reduction : nullptr;
}

bool Types::find_layout_of_user(MPI_Datatype type, Layout& layout) const {
  std::byte nothing{};
  if (host_->Bcast(&nothing, 0, type, 0, own_communicator_) != MPI_SUCCESS) return false;
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  MPI_Count size = 0;
  if (host_->Type_size_x(type, &size) != MPI_SUCCESS || size < 0 ||
      host_->Type_get_extent(type, &lower, &extent) != MPI_SUCCESS)
    return false;
  layout = {.size = static_cast<std::size_t>(size),
            .extent = extent,
            .is_dense = extent == size && is_contiguous_of_predefined(type)};
  return true;
}

// Types of other kinds may be dense, too, and yet have their elements in another order than they are sent.
bool Types::is_contiguous_of_predefined(MPI_Datatype type) const {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = MPI_UNDEFINED;
  if (host_->Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS) return false;
  if (combiner == MPI_COMBINER_NAMED) return true;
  const bool is_plain = combiner == MPI_COMBINER_CONTIGUOUS || combiner == MPI_COMBINER_DUP;
  if (!is_plain || integers > 1 || addresses > 0 || types != 1) return false;
  int count = 0;
  MPI_Aint no_address = 0;
  MPI_Datatype inner = MPI_DATATYPE_NULL;
  if (host_->Type_get_contents(type, integers, 0, 1, &count, &no_address, &inner) != MPI_SUCCESS)
    return false;
  if (host_->Type_get_envelope(inner, &integers, &addresses, &types, &combiner) != MPI_SUCCESS) return false;
  if (combiner == MPI_COMBINER_NAMED) return true;
  host_->Type_free(&inner);  // one that was made by the program has been given to us
  return false;
}

// Calls use(first, count, position) so that the bytes of each part fit an int.
template <class Use>
void Types::by_parts(std::int64_t count, const Layout& layout, Use&& use) const {
  constexpr std::size_t most_bytes = std::size_t{1} << 30;
  if (layout.size == 0) return;
  const auto at_once = static_cast<std::int64_t>(std::max<std::size_t>(1, most_bytes / layout.size));
  for (std::int64_t first = 0; first < count; first += at_once) {
    const auto some = static_cast<int>(std::min(at_once, count - first));
    const std::size_t bytes = static_cast<std::size_t>(some) * layout.size;
    int position = 0;
    const int code = use(first * layout.extent, some, static_cast<std::size_t>(first) * layout.size,
                         static_cast<int>(bytes), &position);
    if (code != MPI_SUCCESS) throw CommunicationError("a datatype could not be packed", code);
    if (position != static_cast<int>(bytes))
      throw CommunicationError("the MPI packs a datatype to another length than that of its data",
                               MPI_ERR_TYPE);
  }
}

// Older MPICHs neither pack from MPI_BOTTOM nor unpack to it.
int Types::send_to_self(const void* from, int sent, MPI_Datatype sent_type, void* to, int received,
                        MPI_Datatype received_type, int bytes, int* position) const {
  constexpr int tag = 1;  // HostTurn has another
  *position = bytes;
  return host_->Sendrecv(from, sent, sent_type, 0, tag, to, received, received_type, 0, tag,
                         own_communicator_, MPI_STATUS_IGNORE);
}

void Types::pack(const void* data, std::int64_t count, MPI_Datatype type, const Layout& layout,
                 std::byte* to) const {
  by_parts(count, layout, [&](std::ptrdiff_t begin, int some, std::size_t packed, int bytes, int* position) {
    const std::byte* from = static_cast<const std::byte*>(data) + begin;
    if (from == nullptr)
      return send_to_self(from, some, type, to + packed, bytes, MPI_PACKED, bytes, position);
    return host_->Pack(from, some, type, to + packed, bytes, position, own_communicator_);
  });
}

void Types::unpack(const std::byte* from, void* data, std::int64_t count, MPI_Datatype type,
                   const Layout& layout) const {
  by_parts(count, layout, [&](std::ptrdiff_t begin, int some, std::size_t packed, int bytes, int* position) {
    std::byte* to = static_cast<std::byte*>(data) + begin;
    if (to == nullptr) return send_to_self(from + packed, bytes, MPI_PACKED, to, some, type, bytes, position);
    return host_->Unpack(from + packed, bytes, position, to, some, type, own_communicator_);
  });
}

const char* Types::name_of(MPI_Op op) const {
  constexpr std::array<const char*, most_ops> names{"MPI_SUM",  "MPI_PROD", "MPI_MIN",    "MPI_MAX",
                                                    "MPI_LAND", "MPI_LOR",  "MPI_LXOR",   "MPI_BAND",
                                                    "MPI_BOR",  "MPI_BXOR", "MPI_MINLOC", "MPI_MAXLOC"};
  const int index = ops_.find(abi::bits(op));
  return index < 0 ? "user operation" : names[static_cast<std::size_t>(index)];
}

bool Types::are_accepted(MPI_Datatype type, MPI_Op op) const {
  std::byte nothing{};
  return host_->Allreduce(MPI_IN_PLACE, &nothing, 0, type, op, own_communicator_) == MPI_SUCCESS;
}

bool Types::user_defined(MPI_Datatype type, MPI_Op op, std::optional<UserReduction>& result) const {
  if (ops_.find(abi::bits(op)) >= 0 || op == replace_ || op == no_op_) return false;
  int commutative = 0;
  if (host_->Op_commutative(op, &commutative) != MPI_SUCCESS || commutative == 0) return false;

  int size = 0;
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  MPI_Aint true_lower = 0;
  MPI_Aint true_extent = 0;
  if (host_->Type_size(type, &size) != MPI_SUCCESS ||
      host_->Type_get_extent(type, &lower, &extent) != MPI_SUCCESS ||
      host_->Type_get_true_extent(type, &true_lower, &true_extent) != MPI_SUCCESS) {
    return false;
  }
  // Bytes between elements belong to the user and must not be touched: only types without gaps will do.
  const bool dense = size > 0 && lower == 0 && true_lower == 0 && extent == size && true_extent == size;
  if (!dense) return false;
  result.emplace(UserReduction{HostReduceLocal(*host_, type, op), {}});
  result->reduction = Reduction(static_cast<std::size_t>(size), result->combine);
  return true;
}

}  // namespace offbeat
