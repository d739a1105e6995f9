// SPDX-License-Identifier: BSD-3-Clause
#include "groups/message_carrier.hpp"

#include <string>
#include <utility>

#include "base/error.hpp"

namespace offbeat {

void MessageQueue::push(Message& message) {
  message.next = nullptr;
  (last_ != nullptr ? last_->next : first_) = &message;
  last_ = &message;
}

void MessageQueue::remove(const Message& message) noexcept {
  Message* before = nullptr;
  for (Message* each = first_; each != nullptr; before = std::exchange(each, each->next)) {
    if (each != &message) continue;
    (before != nullptr ? before->next : first_) = each->next;
    if (last_ == each) last_ = before;
    return;
  }
}

void note_arrival(Message& receive, int receiver, int from, int tag, std::size_t bytes) {
  receive.peer = from;
  if (receive.arrival.rank != nullptr) {
    *receive.arrival.rank = from;
    *receive.arrival.tag = tag;
    *receive.arrival.bytes = bytes;
  }
  if (bytes == receive.bytes) [[likely]]
    return;
  throw BoardError(Trouble::mismatch, from,
                   "rank " + std::to_string(receiver) + " receives " + std::to_string(receive.bytes) +
                       " bytes from rank " + std::to_string(from) + " with tag " + std::to_string(tag) +
                       ", which sends " +
                       (bytes == Message::more_bytes ? "more" : std::to_string(bytes) + " bytes"));
}

}  // namespace offbeat
