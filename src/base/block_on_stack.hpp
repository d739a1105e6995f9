// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>

#include "base/pool.hpp"

namespace offbeat {

// A block of memory for partial results. A short one lies on the stack, which may be that of a thread with
// 16 KiB; a longer one comes from the pool.
class BlockOnStack {
 public:
  explicit BlockOnStack(std::size_t bytes) {
    if (bytes > sizeof short_) long_.emplace(bytes);
  }
  [[nodiscard]] std::byte* data() { return long_ ? long_->data() : short_; }

 private:
  alignas(pool::alignment) std::byte short_[1024];
  std::optional<pool::Block> long_;
};

}  // namespace offbeat
