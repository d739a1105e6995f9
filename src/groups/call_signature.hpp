// SPDX-License-Identifier: BSD-3-Clause
// A CallSignature holds what must be equal in the calls that all ranks make together, and says how two calls
// differ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/collective.hpp"

namespace offbeat {

// Plain data, which ranks send to one another. It holds the names of types and operations, because handles
// differ between ranks.
struct CallSignature {
  Collective collective{};
  bool is_of_mpi = false;  // the collective is called as in MPI
  std::int64_t count = 0;  // elements, or bytes if `type` is empty
  char type[40] = {};
  char op[16] = {};  // empty if the collective has no operation
  int root = 0;
  // Only for collectives whose blocks may differ in length, with lengths that are equal on all ranks: a hash
  // of all lengths, and the first lengths as text, if they are known.
  std::uint64_t blocks = 0;
  char block_text[64] = {};
  // The bytes that this rank gives itself and takes from itself, if they differ; otherwise -1.
  std::int64_t bytes_to_itself = -1;
  std::int64_t bytes_from_itself = -1;

  CallSignature() = default;
  CallSignature(Collective collective, std::int64_t count, std::string_view type, std::string_view op,
                int root);
  void add_block(std::int64_t length);
  void set_own_block_bytes(std::int64_t given_bytes, std::int64_t taken_bytes);
  // Returns true if this call matches `first`, the call of another rank.
  [[nodiscard]] bool matches(const CallSignature& first) const;
  // Returns the call as text for people, without the collective.
  [[nodiscard]] std::string text() const;
  // Returns the collective as the program calls it.
  [[nodiscard]] std::string function() const;
};

// Returns one line that says how the calls of two ranks differ.
[[nodiscard]] std::string mismatch_text(const CallSignature& first, int first_rank,
                                        const CallSignature& other, int other_rank);

}  // namespace offbeat
