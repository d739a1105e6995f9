// SPDX-License-Identifier: BSD-3-Clause
// From (MPI_Datatype, MPI_Op) to Reduction.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "mpi/host.hpp"
#include "reduction/reduction.hpp"

namespace offbeat {

// Combines by the host's MPI_Reduce_local. Throws CommunicationError with the host's code.
class HostReduceLocal final : public HostCombine {
 public:
  HostReduceLocal(const Host& host, MPI_Datatype type, MPI_Op op) : host_(&host), type_(type), op_(op) {}
  void combine(const void* left, void* right, std::size_t count) const override;

 private:
  const Host* host_;
  MPI_Datatype type_;
  MPI_Op op_;
};

// A user's own type or operation, made anew in each call: its handle may name another one tomorrow.
struct UserReduction {
  HostReduceLocal combine;
  Reduction reduction;
};

class Types {
 public:
  // Looks up the host's handles. MPI must be initialised.
  explicit Types(const Host& host);
  Types(const Types&) = delete;
  Types& operator=(const Types&) = delete;

  // A communicator of this rank alone, on which the host is asked what it thinks of arguments. Its errors
  // return.
  [[nodiscard]] MPI_Comm own_communicator() const { return own_communicator_; }
  // From how many elements on an input that is the output, without MPI_IN_PLACE, is an error for the host:
  // for MPICH from 1, for Open MPI from 2.
  [[nodiscard]] std::int64_t least_rejected_alias() const { return least_rejected_alias_; }

  // The reduction of a predefined type and operation; null if MPI does not define it or we do not know it.
  // Constant time.
  [[nodiscard]] const Reduction* predefined(MPI_Datatype type, MPI_Op op) const;

  // "MPI_SUM", or "user operation".
  [[nodiscard]] const char* name_of(MPI_Op op) const;

  // Whether the host accepts them in an allreduce: not an uncommitted type, a null handle, an operation that
  // MPI does not define on the type.
  [[nodiscard]] bool are_accepted(MPI_Datatype type, MPI_Op op) const;

  // The reduction of a user's commutative operation on a type without gaps; otherwise false. They are
  // accepted.
  [[nodiscard]] bool user_defined(MPI_Datatype type, MPI_Op op, std::optional<UserReduction>& result) const;

 private:
  static constexpr std::size_t most_ops = 12;  // ReduceOp, then MINLOC and MAXLOC

  // From handle to small number, by open addressing; never grows after the constructor.
  template <std::size_t Slots>
  class Index {
   public:
    static constexpr int missing = -1;
    void insert(std::uintptr_t key, int value);
    [[nodiscard]] int find(std::uintptr_t key) const {
      for (std::size_t slot = hash(key);; slot = (slot + 1) % Slots) {
        if (entries_[slot].value == missing || entries_[slot].key == key) return entries_[slot].value;
      }
    }

   private:
    struct Entry {
      std::uintptr_t key = 0;
      int value = missing;
    };
    static std::size_t hash(std::uintptr_t key) {
      return (key * 0x9E3779B97F4A7C15ULL) >> (64 - std::countr_zero(Slots));  // Fibonacci hashing
    }
    std::array<Entry, Slots> entries_{};
  };

  // Without memory of the heap, of which one rank may have none left: it would decide by itself.
  struct Cell {
    Reduction reduction;
    std::optional<HostReduceLocal> by_host;
  };
  using Row = std::array<Cell, most_ops>;
  static constexpr std::size_t most_types = 64;

  const Host* host_;
  MPI_Comm own_communicator_ = MPI_COMM_SELF;
  std::int64_t least_rejected_alias_ = 1;
  Index<256> types_;
  Index<32> ops_;
  std::array<Row, most_types> rows_;
  std::size_t row_count_ = 0;
  // Looked up once: see abi.hpp.
  MPI_Op replace_ = MPI_REPLACE;
  MPI_Op no_op_ = MPI_NO_OP;
};

}  // namespace offbeat
