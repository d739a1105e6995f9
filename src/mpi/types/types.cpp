// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/types/types.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "mpi/host/return_errors.hpp"

namespace offbeat {
namespace {

// The groups of MPI 5.0, section 6.9.2, which say which operation is defined on which type.
enum class TypeGroup {
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

bool is_defined(TypeGroup group, int op) {
  const bool order = op == static_cast<int>(ReduceOp::min) || op == static_cast<int>(ReduceOp::max);
  const bool arithmetic = op == static_cast<int>(ReduceOp::sum) || op == static_cast<int>(ReduceOp::prod);
  const bool logic =
      op >= static_cast<int>(ReduceOp::logical_and) && op <= static_cast<int>(ReduceOp::logical_xor);
  const bool bitwise =
      op >= static_cast<int>(ReduceOp::bitwise_and) && op <= static_cast<int>(ReduceOp::bitwise_xor);
  switch (group) {
    case TypeGroup::c_integer:
    case TypeGroup::unsigned_integer:
      return order || arithmetic || logic || bitwise;
    case TypeGroup::fortran_integer:
    case TypeGroup::multi_language:
      return order || arithmetic || bitwise;
    case TypeGroup::floating:
      return order || arithmetic;
    case TypeGroup::complex:
      return arithmetic;
    case TypeGroup::byte:
      return bitwise;
    case TypeGroup::c_bool:
    case TypeGroup::logical:
      return logic;
    case TypeGroup::pair:
      return op == minloc || op == maxloc;
    case TypeGroup::text:
      return false;
  }
  return false;
}

// Returns the element type for offbeat's kernels, or nothing if the host combines the type: Fortran logicals,
// whose "true" depends on the compiler; pairs; 128-bit reals.
std::optional<ElementType> element_type(TypeGroup group, std::size_t width) {
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
    case TypeGroup::c_integer:
    case TypeGroup::fortran_integer:
    case TypeGroup::multi_language:
      return by_width(ElementType::int8, ElementType::int16, ElementType::int32, ElementType::int64);
    case TypeGroup::unsigned_integer:
    case TypeGroup::byte:
      return by_width(ElementType::uint8, ElementType::uint16, ElementType::uint32, ElementType::uint64);
    case TypeGroup::floating:
      if (width == sizeof(float)) return ElementType::float32;
      if (width == sizeof(double)) return ElementType::float64;
      return std::nullopt;
    case TypeGroup::complex:
      if (width == 2 * sizeof(float)) return ElementType::complex64;
      if (width == 2 * sizeof(double)) return ElementType::complex128;
      return std::nullopt;
    case TypeGroup::c_bool:
      return width == 1 ? std::optional(ElementType::boolean) : std::nullopt;
    case TypeGroup::logical:
    case TypeGroup::pair:
    case TypeGroup::text:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void HostReduceLocal::combine(const void* left, void* right, std::size_t count) const {
  // A Reduction passes blocks of a few KiB, or one object, so an int is enough.
  if (const int code = host_->Reduce_local(left, right, static_cast<int>(count) * length_, type_, op_);
      code != MPI_SUCCESS) {
    throw CommunicationError("MPI_Reduce_local failed", code);
  }
}

template <std::size_t Slots>
void Types::Index<Slots>::insert(std::uintptr_t key, int value) {
  std::size_t slot = hash(key);
  while (entries_[slot].value != not_found && entries_[slot].key != key) slot = (slot + 1) % Slots;
  if (entries_[slot].value == not_found) entries_[slot] = {key, value};
}

// Makes the communicator from a group, because MPI_Comm_dup would call the program's attribute functions.
// MPI_Comm_create_from_group takes the error handler as an argument. So it leaves that of MPI_COMM_SELF alone
// if it fails.
void Types::create_own_communicator() {
  const HostFunction<decltype(PMPI_Comm_create_from_group)> from_group(
      host_->handlers_can_be_put_back() ? nullptr : host_->find("PMPI_Comm_create_from_group"));
  MPI_Group self;
  host_->Comm_group(MPI_COMM_SELF, &self);
  const int code =
      from_group ? from_group(self, "offbeat", MPI_INFO_NULL, MPI_ERRORS_RETURN, &own_communicator_.handle)
                 : host_->Comm_create(MPI_COMM_SELF, self, &own_communicator_.handle);
  host_->Group_free(&self);
  if (code == MPI_SUCCESS) {
    host_->Comm_set_errhandler(own_communicator_.handle, MPI_ERRORS_RETURN);
  } else {
    own_communicator_.handle = MPI_COMM_SELF;
  }
}

namespace {

// Returns true if the host accepts a call of `count` elements on one rank whose input is its output.
template <Collective collective>
bool accepts_alias(const Host& host, MPI_Comm communicator, int count) {
  int values[2] = {};
  const void* const input = values;
  void* const output = values;
  const auto call = [&](auto... arguments) {
    const auto function =
        host.collectives.find<collective, Form::blocking, CountKind::int_counts>(arguments...);
    return function(arguments...) == MPI_SUCCESS;
  };
  if constexpr (facts_of(collective).has_root) {
    return call(input, output, count, MPI_INT, MPI_SUM, 0, communicator);
  } else if constexpr (collective == Collective::reduce_scatter) {
    const int* const counts = &count;
    return call(input, output, counts, MPI_INT, MPI_SUM, communicator);
  } else {
    return call(input, output, count, MPI_INT, MPI_SUM, communicator);
  }
}

}  // namespace

void Types::probe_alias_limits() {
  const auto ask = [&]<Collective collective>() {
    constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    if constexpr (facts_of(collective).is_served && facts_of(collective).has_operation) {
      const auto accepts = [&](int count) {
        return accepts_alias<collective>(*host_, own_communicator_.handle, count);
      };
      least_rejected_alias_[index_of(collective)] = !accepts(1) ? 1 : !accepts(2) ? 2 : never;
    }
  };
  const auto ask_all = [&]<std::size_t... index>(std::index_sequence<index...>) {
    (ask.template operator()<collective_at(index)>(), ...);
  };
  ask_all(std::make_index_sequence<collectives.size()>());
  int value = 0;
  rejects_aliases_ =
      host_->Allgather(&value, 1, MPI_INT, &value, 1, MPI_INT, own_communicator_.handle) != MPI_SUCCESS;
  // This rank has no result, so the host never writes to the output.
  const auto exscan = [&](auto... arguments) {
    return host_->collectives.find<Collective::exscan, Form::blocking, CountKind::int_counts>(arguments...)(
        arguments...);
  };
  const void* const input = &value;
  void* const in_place = MPI_IN_PLACE;
  host_checks_unused_output_ =
      exscan(input, in_place, 1, MPI_INT, MPI_SUM, own_communicator_.handle) != MPI_SUCCESS;
}

namespace {

// Holds what a host of MPI 5.0 or later says about its Fortran types. MPICH without Fortran has their
// handles, but ends the job if asked for their sizes.
class FortranTypes {
 public:
  explicit FortranTypes(const Host& host) : host_(host) {
    const HostFunction<int(MPI_Info*)> get(host.find("PMPI_Abi_get_fortran_info"));
    has_info_ = get && get(&info_) == MPI_SUCCESS;
  }
  FortranTypes(const FortranTypes&) = delete;
  FortranTypes& operator=(const FortranTypes&) = delete;
  ~FortranTypes() {
    const HostFunction<int(MPI_Info*)> free(host_.find("PMPI_Info_free"));
    if (info_ != MPI_INFO_NULL && free) free(&info_);
  }

  // Returns false only if the host says that it lacks the type of this key.
  [[nodiscard]] bool may_have(const char* key) const {
    if (!has_info_) return true;
    if (info_ == MPI_INFO_NULL) return false;
    const HostFunction<int(MPI_Info, const char*, int*, char*, int*)> get(host_.find("PMPI_Info_get_string"));
    char value[16] = "";
    int length = sizeof value;
    int is_there = 0;
    return !get || get(info_, key, &length, value, &is_there) != MPI_SUCCESS || is_there == 0 ||
           std::string_view(value) != "false";
  }

 private:
  const Host& host_;
  MPI_Info info_ = MPI_INFO_NULL;
  bool has_info_ = false;
};

}  // namespace

Types::Types(const Host& host) : host_(&host) {
  // If Open MPI is older than our headers and does not know a handle, that must not end the job. Such errors
  // belong to MPI_COMM_SELF since MPI 4.0, and to MPI_COMM_WORLD before.
  const ReturnErrors by_self(host, MPI_COMM_SELF);
  const ReturnErrors by_world(host, MPI_COMM_WORLD);
  create_own_communicator();
  if (host.handlers_can_be_put_back() || own_communicator_.handle != MPI_COMM_SELF) probe_alias_limits();

  // `fortran`: the key in FortranTypes of a type that may be missing.
  const struct {
    TypeGroup group;
    MPI_Datatype handle;
    const char* fortran = nullptr;
  } types[] = {
      {TypeGroup::c_integer, MPI_SIGNED_CHAR},
      {TypeGroup::c_integer, MPI_SHORT},
      {TypeGroup::c_integer, MPI_INT},
      {TypeGroup::c_integer, MPI_LONG},
      {TypeGroup::c_integer, MPI_LONG_LONG},
      {TypeGroup::c_integer, MPI_INT8_T},
      {TypeGroup::c_integer, MPI_INT16_T},
      {TypeGroup::c_integer, MPI_INT32_T},
      {TypeGroup::c_integer, MPI_INT64_T},
      {TypeGroup::unsigned_integer, MPI_UNSIGNED_CHAR},
      {TypeGroup::unsigned_integer, MPI_UNSIGNED_SHORT},
      {TypeGroup::unsigned_integer, MPI_UNSIGNED},
      {TypeGroup::unsigned_integer, MPI_UNSIGNED_LONG},
      {TypeGroup::unsigned_integer, MPI_UNSIGNED_LONG_LONG},
      {TypeGroup::unsigned_integer, MPI_UINT8_T},
      {TypeGroup::unsigned_integer, MPI_UINT16_T},
      {TypeGroup::unsigned_integer, MPI_UINT32_T},
      {TypeGroup::unsigned_integer, MPI_UINT64_T},
      {TypeGroup::multi_language, MPI_AINT},
      {TypeGroup::multi_language, MPI_OFFSET},
      {TypeGroup::multi_language, MPI_COUNT},
      {TypeGroup::byte, MPI_BYTE},
      {TypeGroup::c_bool, MPI_C_BOOL},
      {TypeGroup::c_bool, MPI_CXX_BOOL},
      {TypeGroup::floating, MPI_FLOAT},
      {TypeGroup::floating, MPI_DOUBLE},
      {TypeGroup::floating, MPI_REAL, "mpi_real_size"},
      {TypeGroup::floating, MPI_DOUBLE_PRECISION, "mpi_double_precision_size"},
      {TypeGroup::floating, MPI_REAL4, "mpi_real4_supported"},
      {TypeGroup::floating, MPI_REAL8, "mpi_real8_supported"},
      {TypeGroup::floating, MPI_REAL16, "mpi_real16_supported"},
      {TypeGroup::complex, MPI_C_FLOAT_COMPLEX},
      {TypeGroup::complex, MPI_C_DOUBLE_COMPLEX},
      {TypeGroup::complex, MPI_CXX_FLOAT_COMPLEX},
      {TypeGroup::complex, MPI_CXX_DOUBLE_COMPLEX},
      {TypeGroup::complex, MPI_COMPLEX, "mpi_real_size"},
      {TypeGroup::complex, MPI_DOUBLE_COMPLEX, "mpi_double_complex_supported"},
      {TypeGroup::complex, MPI_COMPLEX8, "mpi_complex8_supported"},
      {TypeGroup::complex, MPI_COMPLEX16, "mpi_complex16_supported"},
      {TypeGroup::fortran_integer, MPI_INTEGER, "mpi_integer_size"},
      {TypeGroup::fortran_integer, MPI_INTEGER1, "mpi_integer1_supported"},
      {TypeGroup::fortran_integer, MPI_INTEGER2, "mpi_integer2_supported"},
      {TypeGroup::fortran_integer, MPI_INTEGER4, "mpi_integer4_supported"},
      {TypeGroup::fortran_integer, MPI_INTEGER8, "mpi_integer8_supported"},
      {TypeGroup::logical, MPI_LOGICAL, "mpi_logical_size"},
      {TypeGroup::pair, MPI_FLOAT_INT},
      {TypeGroup::pair, MPI_DOUBLE_INT},
      {TypeGroup::pair, MPI_LONG_INT},
      {TypeGroup::pair, MPI_2INT},
      {TypeGroup::pair, MPI_SHORT_INT},
      {TypeGroup::pair, MPI_LONG_DOUBLE_INT},
      {TypeGroup::pair, MPI_2REAL, "mpi_real_size"},
      {TypeGroup::pair, MPI_2DOUBLE_PRECISION, "mpi_double_precision_size"},
      {TypeGroup::pair, MPI_2INTEGER, "mpi_integer_size"},
      {TypeGroup::text, MPI_CHAR},
      {TypeGroup::text, MPI_WCHAR},
      {TypeGroup::text, MPI_PACKED},
      {TypeGroup::text, MPI_CHARACTER, "mpi_integer_size"},
  };
  // A width of 16 can mean a long double or a binary128, so these types are told apart by name.
  const struct {
    TypeGroup group;
    MPI_Datatype handle;
    ElementType type;
  } extended[] = {{TypeGroup::floating, MPI_LONG_DOUBLE, ElementType::long_double},
                  {TypeGroup::complex, MPI_C_LONG_DOUBLE_COMPLEX, ElementType::complex_long_double},
                  {TypeGroup::complex, MPI_CXX_LONG_DOUBLE_COMPLEX, ElementType::complex_long_double}};

  const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,   MPI_LOR,
                        MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
  static_assert(std::size(ops) == most_ops);
  for (std::size_t op = 0; op < most_ops; ++op) {
    ops_.insert(abi::bits(ops[op]), static_cast<int>(op));
    op_handles_[op] = ops[op];
  }

  const auto add = [&](TypeGroup group, MPI_Datatype handle, std::optional<ElementType> named) {
    // If there is no handle, the host lacks Fortran or is older than the type.
    if (abi::bits(handle) == 0 || handle == MPI_DATATYPE_NULL) return;
    int size = 0;
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    if (host.Type_size(handle, &size) != MPI_SUCCESS ||
        host.Type_get_extent(handle, &lower, &extent) != MPI_SUCCESS) {
      return;
    }
    if (size <= 0 || extent < size) return;
    // A pair's trailing padding belongs to its C struct, so moving the padding changes none of the user's
    // data.
    const auto width = static_cast<std::size_t>(group == TypeGroup::pair ? extent : size);
    const std::optional<ElementType> type = named ? named : element_type(group, width);
    const bool known = type && width_of(*type) == width;
    layouts_[row_count_] = {
        .size = static_cast<std::size_t>(size), .extent = extent, .is_dense = extent == size};
    type_handles_[row_count_] = handle;
    ReductionsOfType& row = rows_[row_count_];
    for (int op = 0; op < static_cast<int>(most_ops); ++op) {
      if (!is_defined(group, op)) continue;
      ReductionOfPair& cell = row[static_cast<std::size_t>(op)];
      if (known) cell.reduction = Reduction(*type, static_cast<ReduceOp>(op));
      if (!cell.reduction) cell.reduction = Reduction(width, cell.by_host.emplace(host, handle, ops[op]));
    }
    types_.insert(abi::bits(handle), static_cast<int>(row_count_++));
  };
  static_assert(std::size(types) + std::size(extended) <= most_types);
  const FortranTypes fortran(host);
  for (const auto& type : types) {
    if (type.fortran == nullptr || fortran.may_have(type.fortran)) add(type.group, type.handle, std::nullopt);
  }
  for (const auto& type : extended) add(type.group, type.handle, type.type);
}

Types::Handles Types::handles_of(const Reduction& reduction) const {
  if (reduction.host != nullptr) {
    const auto& by_host = static_cast<const HostReduceLocal&>(*reduction.host);
    return {by_host.type(), by_host.op(), by_host.length()};
  }
  for (std::size_t row = 0; row < row_count_; ++row) {
    for (std::size_t op = 0; op < most_ops; ++op) {
      if (&rows_[row][op].reduction == &reduction) return {type_handles_[row], op_handles_[op], 1};
    }
  }
  throw std::logic_error("a reduction that is not in this table");
}

const char* Types::name_of(MPI_Op op) const {
  constexpr std::array<const char*, most_ops> names{"MPI_SUM",  "MPI_PROD", "MPI_MIN",    "MPI_MAX",
                                                    "MPI_LAND", "MPI_LOR",  "MPI_LXOR",   "MPI_BAND",
                                                    "MPI_BOR",  "MPI_BXOR", "MPI_MINLOC", "MPI_MAXLOC"};
  const int index = ops_.find(abi::bits(op));
  return index < 0 ? "user operation" : names[static_cast<std::size_t>(index)];
}

bool Types::host_accepts(MPI_Datatype type, MPI_Op op) const {
  std::byte nothing{};
  const std::lock_guard lock(own_communicator_.of_collectives);
  return host_->Allreduce(MPI_IN_PLACE, &nothing, 0, type, op, own_communicator_.handle) == MPI_SUCCESS;
}

bool Types::find_user_defined(MPI_Datatype type, MPI_Op op, std::int64_t length,
                              std::optional<UserReduction>& result) const {
  if (length > std::numeric_limits<int>::max()) return false;
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
  // Bytes between elements belong to the user and must not be touched, so only types without gaps are
  // accepted.
  const bool dense = size > 0 && lower == 0 && true_lower == 0 && extent == size && true_extent == size;
  if (!dense) return false;
  result.emplace(UserReduction{HostReduceLocal(*host_, type, op, static_cast<int>(length)), {}});
  result->reduction = Reduction(static_cast<std::size_t>(size * length), result->combine);
  return true;
}

}  // namespace offbeat
