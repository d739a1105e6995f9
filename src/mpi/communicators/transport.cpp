// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/transport.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "groups/operations_under_way.hpp"
#include "node/wanted_core.hpp"

namespace offbeat {
namespace {

// If a vector is cut into messages, this part of it is under way at once. With twice as much, eight nodes are
// 1 % faster.
constexpr std::size_t bytes_at_once = std::size_t{4} << 20;

}  // namespace

void MpiTransport::check(int code) const {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  host_->Error_string(code, text, &length);
  const std::string_view first_line = std::string_view(text).substr(0, std::string_view(text).find('\n'));
  throw CommunicationError("a message of offbeat failed: " + std::string(first_line), code);
}

void MpiTransport::use(Board& node_board) {
  BoardTransport::use(node_board);
  // A rank inside a blocking call of the host sees no failure: those of another node come as a message with a
  // special tag, those of this node show on the board.
  if (locality->membership.nodes() > 1) may_block_ = false;
}

bool MpiTransport::start(Transfer& transfer) {
  // A rank inside a blocking call of the host advances nothing else.
  if (running_coroutines == 1 && !operations_under_way.any() && try_blocking_transfer(transfer)) return true;
  transfer.pending_halves =
      static_cast<int>(transfer.from != Transfer::nobody) + static_cast<int>(transfer.to != Transfer::nobody);
  // The exception is not thrown into the coroutine: half of the transfer may be under way, and its memory
  // must stay.
  try {
    post_receive(transfer);
    post_send(transfer);
  } catch (...) {
    if (!first_coroutine_failure) first_coroutine_failure = std::current_exception();
  }
  return false;
}

bool MpiTransport::try_blocking_transfer(const Transfer& transfer) const {
  if (patience_.shares_cores || !may_block_ || WantedCore::is_wanted_in_host()) return false;
  if (transfer.to != Transfer::nobody && transfer.outgoing.bytes() > longest_message_of(transfer.to))
    return false;
  if (transfer.from != Transfer::nobody && transfer.incoming.bytes() > longest_message_of(transfer.from))
    return false;
  const int sent = static_cast<int>(transfer.outgoing.bytes());
  const int received = static_cast<int>(transfer.incoming.bytes());
  if (transfer.from == Transfer::nobody) {
    check(host_->Send(transfer.outgoing.data, sent, byte_type_, transfer.to, tag(transfer), communicator_));
  } else if (transfer.to == Transfer::nobody) {
    check(host_->Recv(transfer.incoming.data, received, byte_type_, transfer.from, tag(transfer),
                      communicator_, MPI_STATUS_IGNORE));
  } else {
    check(host_->Sendrecv(transfer.outgoing.data, sent, byte_type_, transfer.to, tag(transfer),
                          transfer.incoming.data, received, byte_type_, transfer.from, tag(transfer),
                          communicator_, MPI_STATUS_IGNORE));
  }
  return true;
}

std::size_t MpiTransport::longest_message_of(int rank) const {
  const bool is_on_this_node = locality == nullptr || locality->membership.node_of(rank) == locality->node;
  return is_on_this_node ? longest_message : longest_between_nodes_;
}

template <class Begin>
void MpiTransport::post(RequestOwner owner, Begin&& begin) {
  // The places come first: that may fail, and then no message may be under way.
  requests_.push_back(MPI_REQUEST_NULL);
  owners_.push_back(owner);
  ++(owner.is_send ? owner.transfer->sending : owner.transfer->receiving).messages_under_way;
  check(begin(&requests_.back()));
}

void MpiTransport::post_receive(Transfer& transfer) {
  if (transfer.from == Transfer::nobody) return;
  const std::size_t bytes = transfer.incoming.bytes();
  const std::size_t longest = longest_message_of(transfer.from);
  std::size_t& begun = transfer.receiving.begun_bytes;
  const std::size_t end = std::min(bytes, begun + std::max(longest, bytes_at_once));
  do {
    const std::size_t first = begun;
    const std::size_t length = std::min(longest, end - first);
    begun += length;
    post({&transfer, false}, [&](MPI_Request* request) {
      return host_->Irecv(transfer.incoming.data + first, static_cast<int>(length), byte_type_, transfer.from,
                          tag(transfer), communicator_, request);
    });
  } while (begun < end);
}

// The host counts short messages as sent as soon as it has copied them. The last message of a part is
// synchronous, so that these copies take no more memory than one part.
void MpiTransport::post_send(Transfer& transfer) {
  if (transfer.to == Transfer::nobody) return;
  const std::size_t bytes = transfer.outgoing.bytes();
  const std::size_t longest = longest_message_of(transfer.to);
  std::size_t& begun = transfer.sending.begun_bytes;
  const std::size_t end = std::min(bytes, begun + std::max(longest, bytes_at_once));
  do {
    const std::size_t first = begun;
    const std::size_t length = std::min(longest, end - first);
    begun += length;
    const auto& send = begun == end && end < bytes ? host_->Issend : host_->Isend;
    post({&transfer, true}, [&](MPI_Request* request) {
      return send(transfer.outgoing.data + first, static_cast<int>(length), byte_type_, transfer.to,
                  tag(transfer), communicator_, request);
    });
  } while (begun < end);
}

bool MpiTransport::test_messages() {
  const auto count = requests_.size();
  if (count == 0 && awaits_others()) return false;
  completed_indices_.resize(count);
  statuses_.resize(count);
  int done = 0;
  const int code = host_->Testsome(static_cast<int>(count), requests_.data(), &done,
                                   completed_indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS) {
    for (int k = 0; code == MPI_ERR_IN_STATUS && k < done; ++k)
      check(statuses_[static_cast<std::size_t>(k)].MPI_ERROR);
    check(code);
  }
  // If nothing is in flight and the task has not ended, no message of this rank can change that.
  if (done == MPI_UNDEFINED)
    throw CommunicationError("a collective has not ended, but has no message under way", MPI_ERR_INTERN);
  if (done <= 0) return false;

  // Free the places before resuming, because resumed tasks post new messages.
  resumable_.clear();
  transfers_with_more_parts_.clear();
  for (int k = 0; k < done; ++k) {
    RequestOwner& owner = owners_[static_cast<std::size_t>(completed_indices_[static_cast<std::size_t>(k)])];
    Transfer& transfer = *std::exchange(owner.transfer, nullptr);
    Transfer::Direction& direction = owner.is_send ? transfer.sending : transfer.receiving;
    if (--direction.messages_under_way > 0) continue;
    if (direction.begun_bytes < (owner.is_send ? transfer.outgoing.bytes() : transfer.incoming.bytes())) {
      transfers_with_more_parts_.push_back({&transfer, owner.is_send});
    } else if (--transfer.pending_halves == 0) {
      resumable_.push_back(transfer.waiter);
    }
  }
  std::size_t kept = 0;
  for (std::size_t k = 0; k < count; ++k) {
    if (owners_[k].transfer == nullptr) continue;
    owners_[kept] = owners_[k];
    requests_[kept++] = requests_[k];
  }
  owners_.resize(kept);
  requests_.resize(kept);
  for (const auto [transfer, is_send] : transfers_with_more_parts_)
    is_send ? post_send(*transfer) : post_receive(*transfer);
  for (const std::coroutine_handle<> waiter : resumable_) waiter.resume();
  return true;
}

bool MpiTransport::abandon_messages() noexcept {
  bool any_under_way = false;
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    host_->Request_free(&request);
    any_under_way = true;
  }
  requests_.clear();
  owners_.clear();
  return any_under_way;
}

}  // namespace offbeat
