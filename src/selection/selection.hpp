// SPDX-License-Identifier: BSD-3-Clause
// What is chosen in this process: by the user for one collective, by the user's rules, by the built-in rules,
// in this order.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "selection/plan.hpp"

namespace offbeat {

class Selection {
 public:
  // `window_bytes`: of the boards that communicators have.
  explicit Selection(HostMpi host = HostMpi::other, std::size_t window_bytes = any_length);

  // The expression that every length starts with, and returns to. Before the first call only. Throws
  // ExpressionError.
  void start_with(Collective collective, std::string_view expression, std::string_view origin);

  // Rules that come before the built-in ones. Before the first call only.
  void start_with(Rules rules) { users_ = std::move(rules); }

  // `expression` for every length from now on; empty: back to the start. Throws ExpressionError.
  void choose_always(Collective collective, std::string_view expression, std::string_view origin);

  // For a communicator there.
  [[nodiscard]] Plans plans(const Placement& placement) const;
  [[nodiscard]] Plan plan(Collective collective, const Placement& placement) const;

  // For a communicator that the host serves, whatever is chosen. No reason is given.
  [[nodiscard]] const Plans& native() const { return native_; }

  // Whether `native` is chosen for every length and communicator.
  [[nodiscard]] bool is_left_to_host(Collective collective) const {
    const FixedChoice* always = of_[index_of(collective)].always.load(std::memory_order_acquire);
    return always != nullptr && always->expression->is_native();
  }

  // Extends `hash` by everything built in that decides, which belongs to the identity of the build.
  [[nodiscard]] std::uint64_t hash_of_built_in(std::uint64_t hash) const;
  // A number that differs, almost surely, when the user's rules decide differently; 0: there are none.
  [[nodiscard]] std::uint64_t hash_of_users_rules() const;

  // Moves whenever a choice changes: the plans of a communicator are stale when it differs.
  [[nodiscard]] std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  struct OfCollective {
    std::atomic<const FixedChoice*> always{nullptr};
    const FixedChoice* at_start = nullptr;  // null: the rules
  };
  const HostMpi host_;
  const std::size_t window_bytes_;
  Rules users_;
  std::array<OfCollective, collectives.size()> of_;
  std::mutex mutex_;
  std::set<FixedChoice> ever_chosen_;  // each once, and never freed: plan() reads `always` without the lock
  Plans native_;
  std::atomic<std::uint64_t> generation_{1};
};

}  // namespace offbeat
