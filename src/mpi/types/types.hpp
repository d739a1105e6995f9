// SPDX-License-Identifier: BSD-3-Clause
// Types maps (MPI_Datatype, MPI_Op) to a Reduction, and datatypes to bytes.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "mpi/host/host.hpp"
#include "mpi/host/own_communicator.hpp"
#include "mpi/types/strided.hpp"
#include "reduction/reduction.hpp"

namespace offbeat {

// Combines by the host's MPI_Reduce_local. Throws CommunicationError with the host's code. `length` says how
// many elements of the type make one element for offbeat.
class HostReduceLocal final : public HostCombine {
 public:
  HostReduceLocal(const Host& host, MPI_Datatype type, MPI_Op op, int length = 1)
      : host_(&host), type_(type), op_(op), length_(length) {}
  void combine(const void* left, void* right, std::size_t count) const override;
  [[nodiscard]] MPI_Datatype type() const { return type_; }
  [[nodiscard]] MPI_Op op() const { return op_; }
  [[nodiscard]] int length() const { return length_; }

 private:
  const Host* host_;
  MPI_Datatype type_;
  MPI_Op op_;
  int length_;
};

// The reduction of a user's own type or operation. Each call makes a new one, because the handle may name
// something else later.
struct UserReduction {
  HostReduceLocal combine;
  Reduction reduction;
};

// Layout describes the elements of a datatype as bytes.
struct Layout {
  std::size_t size = 0;       // how many bytes of data one element has
  std::ptrdiff_t extent = 0;  // how far it is from one element to the next
  // True if elements lie in memory as they are sent, without gaps. Other elements have to be packed.
  bool is_dense = false;
};

// The memory that some elements span, from their first byte to the one after their last.
struct TypeSpan {
  std::ptrdiff_t begin = 0;  // relative to the address that the program passes
  std::size_t bytes = 0;
};

class Types {
 public:
  // Looks up the host's handles. MPI must be initialised.
  explicit Types(const Host& host);
  Types(const Types&) = delete;
  Types& operator=(const Types&) = delete;

  [[nodiscard]] const OwnCommunicator& own_communicator() const { return own_communicator_; }
  // Returns the smallest count of the input at which the host rejects an input that is the output, without
  // MPI_IN_PLACE, in a collective with an operation. In an allreduce it is 1 for MPICH and 2 for Open MPI.
  [[nodiscard]] std::int64_t least_rejected_alias(Collective collective) const {
    return least_rejected_alias_[index_of(collective)];
  }
  // Returns true if the host rejects such an input at any count in collectives that combine nothing.
  [[nodiscard]] bool rejects_aliases() const { return rejects_aliases_; }
  // Returns true if the host judges the output of rank 0 in an exscan, although that rank gets no result.
  [[nodiscard]] bool host_checks_unused_output() const { return host_checks_unused_output_; }

  // Returns the reduction of a predefined type and operation, or null if MPI does not define it or offbeat
  // does not know it. Takes constant time.
  [[nodiscard]] const Reduction* find_predefined(MPI_Datatype type, MPI_Op op) const {
    const int row = types_.find(abi::bits(type));
    const int column = ops_.find(abi::bits(op));
    if (row < 0 || column < 0) return nullptr;
    const Reduction& reduction =
        rows_[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)].reduction;
    return reduction ? &reduction : nullptr;
  }

  struct Handles {
    MPI_Datatype type;
    MPI_Op op;
    int length;  // how many elements of the type make one element of the reduction
  };
  // Returns the program's type and operation for a reduction that find_predefined() or find_user_defined()
  // returned. Searches all reductions.
  [[nodiscard]] Handles handles_of(const Reduction& reduction) const;

  // Finds the layout of a type, in constant time for predefined types. Returns false if the host does not
  // accept the type in a call.
  [[nodiscard]] bool find_layout(MPI_Datatype type, Layout& layout) const {
    const int row = types_.find(abi::bits(type));
    if (row < 0) [[unlikely]]
      return find_layout_of_user(type, layout);
    layout = layouts_[static_cast<std::size_t>(row)];
    return true;
  }
  // Returns the memory that `count` elements span. Call this only if there are elements.
  [[nodiscard]] TypeSpan span_of(std::int64_t count, MPI_Datatype type, const Layout& layout) const;
  [[nodiscard]] std::unique_ptr<Strided> find_strided(std::int64_t count, MPI_Datatype type,
                                                      const Layout& layout) const {
    return Strided::of(*host_, type, count, layout.extent);
  }
  // Pack `count` elements into bytes, and unpack them. Both throw CommunicationError.
  void pack(const void* data, std::int64_t count, MPI_Datatype type, const Layout& layout,
            std::byte* to) const;
  void unpack(const std::byte* from, void* data, std::int64_t count, MPI_Datatype type,
              const Layout& layout) const;

  // Pack and unpack bytes [first, first + bytes) of the packed elements. If an element is only partly in this
  // range, the host packs and unpacks all of it.
  void pack_part(const std::byte* data, std::size_t first, std::size_t bytes, MPI_Datatype type,
                 const Layout& layout, std::byte* to) const;
  void unpack_part(const std::byte* from, std::byte* data, std::size_t first, std::size_t bytes,
                   MPI_Datatype type, const Layout& layout) const;

  // Returns a name such as "MPI_SUM", or "user operation".
  [[nodiscard]] const char* name_of(MPI_Op op) const;

  // Returns true if the host accepts this type and operation in an allreduce. It rejects an uncommitted type,
  // a null handle, and an operation that MPI does not define on the type.
  [[nodiscard]] bool host_accepts(MPI_Datatype type, MPI_Op op) const;

  // Returns true if this is a user's commutative operation on a type without gaps; `result` is then the
  // reduction. One element of the reduction is an object of `length` elements of the type, which the
  // program's function gets whole. The host must accept the type and the operation.
  [[nodiscard]] bool find_user_defined(MPI_Datatype type, MPI_Op op, std::int64_t length,
                                       std::optional<UserReduction>& result) const;

 private:
  static constexpr std::size_t most_ops = 12;  // ReduceOp, then MINLOC and MAXLOC

  // Maps handles to small numbers, by open addressing. It never grows after the constructor.
  template <std::size_t Slots>
  class Index {
   public:
    static constexpr int not_found = -1;
    void insert(std::uintptr_t key, int value);
    [[nodiscard]] int find(std::uintptr_t key) const {
      for (std::size_t slot = hash(key);; slot = (slot + 1) % Slots) {
        if (entries_[slot].key == key || entries_[slot].value == not_found) return entries_[slot].value;
      }
    }

   private:
    struct Entry {
      std::uintptr_t key = 0;
      int value = not_found;
    };
    static std::size_t hash(std::uintptr_t key) {
      return (key * 0x9E3779B97F4A7C15ULL) >> (64 - std::countr_zero(Slots));  // Fibonacci hashing
    }
    std::array<Entry, Slots> entries_{};
  };

  // A cell uses no heap memory, because a rank that has none left would decide differently from the others.
  struct ReductionOfPair {
    Reduction reduction;
    std::optional<HostReduceLocal> by_host;
  };
  using ReductionsOfType = std::array<ReductionOfPair, most_ops>;
  static constexpr std::size_t most_types = 64;

  void create_own_communicator();
  void probe_alias_limits();
  [[nodiscard]] bool find_layout_of_user(MPI_Datatype type, Layout& layout) const;
  class Bytes;
  int send_to_self(const void* from, int sent, MPI_Datatype sent_type, void* to, int received,
                   MPI_Datatype received_type) const;
  template <class Use>
  void for_each_int_sized_part(const char* what, std::int64_t count, const Layout& layout, Use&& use) const;
  [[noreturn]] void throw_failure(const char* what, std::int64_t count, std::size_t bytes, int code) const;

  const Host* host_;
  OwnCommunicator own_communicator_;
  mutable std::atomic<unsigned> self_messages_;  // counts messages to this rank; each has its own tag
  std::array<std::int64_t, collectives.size()> least_rejected_alias_ = [] {
    std::array<std::int64_t, collectives.size()> all{};
    all.fill(1);
    return all;
  }();
  bool rejects_aliases_ = true;
  bool host_checks_unused_output_ = true;
  Index<256> types_;
  Index<32> ops_;
  std::array<ReductionsOfType, most_types> rows_;
  std::array<Layout, most_types> layouts_{};
  std::array<MPI_Datatype, most_types> type_handles_{};
  std::array<MPI_Op, most_ops> op_handles_{};
  std::size_t row_count_ = 0;
  // Handles of the host, looked up once (abi.hpp).
  MPI_Op replace_ = MPI_REPLACE;
  MPI_Op no_op_ = MPI_NO_OP;
};

}  // namespace offbeat
