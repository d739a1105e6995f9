// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/mpi_messages.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.hpp"

namespace offbeat {

void MpiMessages::check(int code) const {
  if (code != MPI_SUCCESS) throw CommunicationError("the MPI cannot carry a message of a group", code);
}

void MpiMessages::require_possible(int tag, std::size_t bytes) const {
  if (tag > highest_tag_ - tag_base_)
    throw UsageError("in a group of several nodes, a tag is at most " +
                     std::to_string(highest_tag_ - tag_base_));
  if (bytes > std::size_t{std::numeric_limits<int>::max()})
    throw UsageError("in a group of several nodes, a message has at most 2 GiB - 1 bytes");
}

void MpiMessages::begin(Message& message) {
  under_way_.push_back({&message});
  if (message.is_send)
    check(host_.Isend(message.data, static_cast<int>(message.bytes), MPI_BYTE, message.peer,
                      tag_base_ + message.tag, communicator_, &under_way_.back().request));
}

bool MpiMessages::must_wait_for_earlier(const UnderWay& receive) const {
  const Message& mine = *receive.message;
  for (const UnderWay& each : under_way_) {
    const Message& other = *each.message;
    if (&mine == &other) return false;
    if (other.is_send || each.request != MPI_REQUEST_NULL || other.tag != mine.tag) continue;
    if (other.peer == mine.peer || other.peer == Message::any_rank || mine.peer == Message::any_rank)
      return true;
  }
  return false;
}

bool MpiMessages::find(UnderWay& receive) {
  Message& mine = *receive.message;
  const int from = mine.peer == Message::any_rank ? MPI_ANY_SOURCE : mine.peer;
  int is_found = 0;
  int bytes = 0;
  MPI_Message found = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(improbe_(from, tag_base_ + mine.tag, communicator_, &is_found, &found, &status));
  if (is_found == 0) return false;
  check(get_count_(&status, MPI_BYTE, &bytes));
  mine.peer = status.MPI_SOURCE;
  if (mine.arrival.rank != nullptr) {
    *mine.arrival.rank = mine.peer;
    *mine.arrival.tag = mine.tag;
    *mine.arrival.bytes = static_cast<std::size_t>(bytes);
  }
  if (static_cast<std::size_t>(bytes) != mine.bytes)
    throw BoardError(Trouble::mismatch, mine.peer,
                     "rank " + std::to_string(mine.peer) + " sends " + std::to_string(bytes) +
                         " bytes with tag " + std::to_string(mine.tag) + ", and the receive has " +
                         std::to_string(mine.bytes) + " bytes");
  check(imrecv_(mine.data, bytes, MPI_BYTE, &found, &receive.request));
  return true;
}

bool MpiMessages::move(const Message& message) {
  const auto mine =
      std::ranges::find_if(under_way_, [&](const UnderWay& each) { return each.message == &message; });
  if (mine->request == MPI_REQUEST_NULL && (must_wait_for_earlier(*mine) || !find(*mine))) return false;
  int is_over = 0;
  check(host_.Test(&mine->request, &is_over, MPI_STATUS_IGNORE));
  if (is_over == 0) return false;
  mine->message->is_over = true;
  under_way_.erase(mine);
  return true;
}

void MpiMessages::forget(const Message& message) noexcept {
  const auto mine =
      std::ranges::find_if(under_way_, [&](const UnderWay& each) { return each.message == &message; });
  if (mine == under_way_.end()) return;
  if (mine->request != MPI_REQUEST_NULL) host_.Request_free(&mine->request);
  under_way_.erase(mine);
}

}  // namespace offbeat
