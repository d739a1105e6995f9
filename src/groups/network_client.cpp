// SPDX-License-Identifier: BSD-3-Clause
#include "groups/network_client.hpp"

#include <cstddef>
#include <string>

#include "base/time.hpp"

namespace offbeat {

NetworkClient::NetworkClient(Network& network, const Locality& locality, int tag)
    : network_(network),
      locality_(locality),
      tag_(tag),
      notices_(std::make_unique<Message[]>(static_cast<std::size_t>(locality.membership.ranks()))) {
  listener_.stream = Message::Stream::failure;
  listener_.tag = tag_;
  listener_.data = reinterpret_cast<std::byte*>(&heard_);
  listener_.bytes = sizeof heard_;
  network_.begin(listener_);
}

NetworkClient::~NetworkClient() {
  if (!listener_.is_over) network_.forget(listener_);
}

// Only the first notice counts. It may have come while other messages were moved.
int NetworkClient::take_turn(FailureNotice& told) noexcept {
  if (const int code = network_.give_turn(); code != 0) return code;
  if (has_heard_) return 0;
  try {
    if (!listener_.is_over) network_.move(listener_);
  } catch (const CommunicationError& error) {
    return error.code != 0 ? error.code : 1;
  } catch (...) {
    return 1;
  }
  has_heard_ = listener_.is_over;
  if (has_heard_) told = heard_;
  return 0;
}

// All ranks of the other nodes get the notice, because it is unknown which of them have left the call and
// look no more. A rank that does not take it at once may hear of the failure later: when this process ends,
// or from the others.
void NetworkClient::tell_other_nodes(const FailureNotice& failure) noexcept {
  constexpr std::int64_t patience_ns = 500 * ns_per_ms;
  constexpr std::int64_t nap_ns = ns_per_ms;
  told_ = failure;
  const Membership& all = locality_.membership;
  const auto for_each_notice = [&](auto&& body) {
    for (int rank = 0; rank < all.ranks(); ++rank) {
      Message& notice = notices_[static_cast<std::size_t>(rank)];
      if (all.node_of(rank) == locality_.node || notice.is_over) continue;
      // Nothing can be told to a rank that is lost.
      try {
        body(rank, notice);
      } catch (...) {
        network_.forget(notice);
        notice.is_over = true;
      }
    }
  };
  for_each_notice([&](int rank, Message& notice) {
    notice.stream = Message::Stream::failure;
    notice.is_send = true;
    notice.peer = rank;
    notice.tag = tag_;
    notice.data = reinterpret_cast<std::byte*>(&told_);
    notice.bytes = sizeof told_;
    network_.begin(notice);
  });
  const std::int64_t until_ns = monotonic_ns() + patience_ns;
  for (;;) {
    bool is_left = false;
    for_each_notice([&](int, Message& notice) {
      network_.move(notice);
      is_left = is_left || !notice.is_over;
    });
    if (!is_left || monotonic_ns() > until_ns) break;
    if (const SleepCall sleep = network_.sleep(); sleep.call != nullptr) sleep(nap_ns);
  }
  for_each_notice([&](int, const Message& notice) { network_.forget(notice); });
}

}  // namespace offbeat
