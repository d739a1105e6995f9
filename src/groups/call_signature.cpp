// SPDX-License-Identifier: BSD-3-Clause
#include "groups/call_signature.hpp"

#include <cstring>

#include "base/hash.hpp"

namespace offbeat {

CallSignature::CallSignature(Collective collective, std::int64_t count, std::string_view type,
                             std::string_view op, int root)
    : collective(collective), count(count), root(root) {
  type.copy(this->type, sizeof this->type - 1);
  op.copy(this->op, sizeof this->op - 1);
}

void CallSignature::add_block(std::int64_t length) {
  const std::string text = std::to_string(length);
  blocks = fnv1a(text + ',', blocks);
  const std::size_t used = std::strlen(block_text);
  constexpr std::string_view more = ", ...";
  const std::string next = (used == 0 ? "" : ", ") + text;
  if (used + next.size() + more.size() < sizeof block_text) {
    std::strcat(block_text, next.c_str());
  } else if (!std::string_view(block_text).ends_with("...")) {
    std::strcat(block_text, more.data());
  }
}

void CallSignature::set_own_block_bytes(std::int64_t given_bytes, std::int64_t taken_bytes) {
  if (given_bytes == taken_bytes) return;
  bytes_to_itself = given_bytes;
  bytes_from_itself = taken_bytes;
}

bool CallSignature::matches(const CallSignature& first) const {
  return bytes_to_itself == bytes_from_itself && collective == first.collective && count == first.count &&
         root == first.root && blocks == first.blocks && std::strcmp(type, first.type) == 0 &&
         std::strcmp(op, first.op) == 0;
}

std::string CallSignature::text() const {
  if (!moves_data(collective)) return "nothing";
  std::string text = std::to_string(count) + (type[0] == '\0' ? " bytes" : std::string(" x ") + type);
  if (has_unknown_length(collective)) text = "lists";  // which differ between ranks
  if (op[0] != '\0') text += std::string(", ") + op;
  if (block_text[0] != '\0') text += std::string(", blocks of ") + block_text;
  if (block_text[0] == '\0' && blocks != 0) text += ", lists " + std::to_string(blocks % 10000);
  if (facts_of(collective).has_root) text += ", root " + std::to_string(root);
  return text;
}

std::string CallSignature::function() const {
  if (!is_of_mpi) return std::string(name_of(collective));
  return "MPI_" + std::string(facts_of(collective).function);
}

std::string mismatch_text(const CallSignature& first, int first_rank, const CallSignature& other,
                          int other_rank) {
  if (other.bytes_to_itself != other.bytes_from_itself) {
    return "mismatched " + other.function() + ": rank " + std::to_string(other_rank) + " gives itself " +
           std::to_string(other.bytes_to_itself) + " bytes and takes " +
           std::to_string(other.bytes_from_itself);
  }
  const bool is_one_function = first.collective == other.collective;
  const auto call = [&](const CallSignature& each, int rank) {
    return "rank " + std::to_string(rank) + " has " + (is_one_function ? "" : each.function() + " of ") +
           each.text();
  };
  return "mismatched " + (is_one_function ? first.function() : "collectives") + ": " +
         call(first, first_rank) + "; " + call(other, other_rank);
}

}  // namespace offbeat
