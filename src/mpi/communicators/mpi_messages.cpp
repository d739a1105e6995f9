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
  message.number = ++begun_;
  if (!message.is_send) return waiting_[{message.tag, message.peer}].push(message);
  UnderWay& send = under_way_[&message] = {&message};
  check(host_.Isend(message.data, static_cast<int>(message.bytes), MPI_BYTE, message.peer,
                    tag_base_ + message.tag, communicator_, &send.request));
}

Message* MpiMessages::find_if_first(const Message& receive) {
  Message* const first = waiting_.at({receive.tag, receive.peer}).first();
  if (first != &receive) return nullptr;
  const auto is_earlier = [&](const auto& each) { return each.second.first()->number < receive.number; };
  if (receive.peer != Message::any_rank) {
    const auto from_any = waiting_.find({receive.tag, Message::any_rank});
    return from_any != waiting_.end() && is_earlier(*from_any) ? nullptr : first;
  }
  const auto begin = waiting_.lower_bound({receive.tag, Message::any_rank});
  const auto end = waiting_.lower_bound({receive.tag + 1, Message::any_rank});
  return std::any_of(begin, end, is_earlier) ? nullptr : first;
}

bool MpiMessages::find(Message& receive) {
  const int from = receive.peer == Message::any_rank ? MPI_ANY_SOURCE : receive.peer;
  int is_found = 0;
  int bytes = 0;
  MPI_Message found = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(improbe_(from, tag_base_ + receive.tag, communicator_, &is_found, &found, &status));
  if (is_found == 0) return false;
  check(get_count_(&status, MPI_BYTE, &bytes));
  MPI_Request& request = (under_way_[&receive] = {&receive}).request;
  stop_waiting(receive);
  note_arrival(receive, rank_, status.MPI_SOURCE, receive.tag, static_cast<std::size_t>(bytes));
  check(imrecv_(receive.data, bytes, MPI_BYTE, &found, &request));
  return true;
}

void MpiMessages::stop_waiting(const Message& receive) noexcept {
  const auto queue = waiting_.find({receive.tag, receive.peer});
  if (queue == waiting_.end()) return;
  queue->second.remove(receive);
  if (queue->second.first() == nullptr) waiting_.erase(queue);
}

bool MpiMessages::move(const Message& message) {
  auto mine = under_way_.find(&message);
  if (mine == under_way_.end()) {
    Message* const receive = find_if_first(message);
    if (receive == nullptr || !find(*receive)) return false;
    mine = under_way_.find(&message);
  }
  int is_over = 0;
  check(host_.Test(&mine->second.request, &is_over, MPI_STATUS_IGNORE));
  if (is_over == 0) return false;
  mine->second.message->is_over = true;
  under_way_.erase(mine);
  return true;
}

void MpiMessages::forget(const Message& message) noexcept {
  stop_waiting(message);
  const auto mine = under_way_.find(&message);
  if (mine == under_way_.end()) return;
  if (mine->second.request != MPI_REQUEST_NULL) host_.Request_free(&mine->second.request);
  under_way_.erase(mine);
}

}  // namespace offbeat
