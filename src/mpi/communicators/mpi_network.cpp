// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/mpi_network.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "mpi/process/job_identity.hpp"

namespace offbeat {
namespace {

// Where a process is in its MPI job.
struct PlaceInJob {
  std::int32_t rank = 0;   // in MPI_COMM_WORLD
  std::int32_t ranks = 0;  // the size of MPI_COMM_WORLD
  std::uint64_t job = 0;   // differs between MPI jobs; 0: unknown
};

PlaceInJob place_of(const NetworkAddress& address) {
  PlaceInJob place;
  std::memcpy(&place, address.data.data(), sizeof place);
  return place;
}

bool may_be_one_job(const PlaceInJob& a, const PlaceInJob& b) {
  return a.ranks == b.ranks && (a.job == b.job || a.job == 0 || b.job == 0);
}

// A message has the host's request, which is a number or an address, as its handle.
MPI_Request request_of(const Message& message) {
  MPI_Request request;
  static_assert(sizeof request <= sizeof message.handle);
  std::memcpy(&request, &message.handle, sizeof request);
  return request;
}
void keep_request(Message& message, MPI_Request request) {
  std::memcpy(&message.handle, &request, sizeof request);
}

}  // namespace

NetworkAddress MpiNetwork::address() {
  if (!has_runtime() || !runtime().is_started() || !runtime().is_mpi_running())
    return NetworkAddress::none(
        "has not initialised MPI: do so first, in Python by `import mpi4py.MPI`, or set OFFBEAT_NETWORK=tcp");
  if (host().thread_level() < MPI_THREAD_MULTIPLE)
    return NetworkAddress::none(
        "has initialised MPI for fewer threads than MPI_THREAD_MULTIPLE: set OFFBEAT_NETWORK=tcp");
  const PlaceInJob place{
      .rank = host().rank_in(MPI_COMM_WORLD), .ranks = host().size_of(MPI_COMM_WORLD), .job = job_identity()};
  NetworkAddress address;
  static_assert(sizeof place <= sizeof address.data);
  std::memcpy(address.data.data(), &place, sizeof place);
  return address;
}

std::size_t MpiNetwork::first_apart(std::span<const NetworkAddress> addresses) const {
  const PlaceInJob first = place_of(addresses.front());
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    const PlaceInJob place = place_of(addresses[rank]);
    const auto has_same_place = [&](const NetworkAddress& each) { return place_of(each).rank == place.rank; };
    if (!may_be_one_job(place, first) || std::ranges::any_of(addresses.first(rank), has_same_place))
      return rank;
  }
  return addresses.size();
}

void MpiNetwork::connect(SetUp& set_up, const Locality& locality, std::span<const NetworkAddress> addresses,
                         const NetworkKey& key) {
  Runtime& process = runtime();
  locality_ = &locality;
  rank_ = set_up.rank;
  highest_tag_ = process.highest_tag();
  communicator_.emplace(process.host);
  std::vector<int> ranks;
  const auto refuse = [] {
    throw CommunicationError("the MPI has no communicator, or a process no memory, left for the group");
  };
  const bool is_ready = run_unless_out_of_memory([&] {
    for (const NetworkAddress& each : addresses) ranks.push_back(place_of(each).rank);
  });
  if (!set_up.all(is_ready && PrivateCommunicator::may_be_created(process.host, process.own_communicator())))
    refuse();
  std::uint64_t number = 0;
  std::memcpy(&number, key.bytes.data(), sizeof number);
  const auto tag = static_cast<int>(number % static_cast<std::uint64_t>(highest_tag_));
  if (!set_up.all(communicator_->create_from_world(ranks, tag))) refuse();
  longest_between_nodes_ =
      static_cast<std::size_t>(set_up.least(static_cast<int>(longest_message_between_nodes(process.host))));
  host_turn_.emplace(process.host, process.own_communicator().handle);
  improbe_ = decltype(improbe_)(process.host.find("PMPI_Improbe"));
  imrecv_ = decltype(imrecv_)(process.host.find("PMPI_Imrecv"));
  get_count_ = decltype(get_count_)(process.host.find("PMPI_Get_count"));
}

// After MPI_Finalize the communicator is gone. Before it, MPICH would end the job in MPI_Comm_free if a
// message that no rank has received is left over. If connect() has failed, there may be no communicator.
MpiNetwork::~MpiNetwork() {
  if (!communicator_ || communicator_->handle() == MPI_COMM_NULL) return;
  int is_left = 0;
  const bool is_running = runtime().is_mpi_running();
  if (is_running)
    host().Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_->handle(), &is_left, MPI_STATUS_IGNORE);
  if (!is_running || is_left != 0) communicator_->leak();
  communicator_.reset();
}

void MpiNetwork::leave(bool has_failed) noexcept {
  if (has_failed) communicator_->leak();
}

std::size_t MpiNetwork::longest_message(int rank) const {
  const bool is_on_this_node = locality_->membership.node_of(rank) == locality_->node;
  return is_on_this_node ? offbeat::longest_message : longest_between_nodes_;
}

void MpiNetwork::check(int code) const {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  host().Error_string(code, text, &length);
  const std::string_view first_line = std::string_view(text).substr(0, std::string_view(text).find('\n'));
  throw CommunicationError("a message of offbeat failed: " + std::string(first_line), code);
}

void MpiNetwork::require_possible(int tag, std::size_t bytes) const {
  if (tag > highest_tag_ - MpiTransport::tags)
    throw UsageError("in a group of several nodes, a tag is at most " +
                     std::to_string(highest_tag_ - MpiTransport::tags));
  if (bytes > std::size_t{std::numeric_limits<int>::max()})
    throw UsageError("in a group of several nodes, a message has at most 2 GiB - 1 bytes");
}

int MpiNetwork::tag_of(const Message& message) {
  switch (message.stream) {
    case Message::Stream::collective:
      return message.tag;
    case Message::Stream::failure:
      return MpiTransport::failure_tag;
    case Message::Stream::program:
      break;
  }
  return MpiTransport::tags + message.tag;
}

// From here on `is_requested` says that the host has the message.
void MpiNetwork::begin(Message& message) {
  if (message.is_send) return send(message);
  switch (message.stream) {
    case Message::Stream::collective: {
      MPI_Request request = MPI_REQUEST_NULL;
      check(host().Irecv(message.data, static_cast<int>(message.bytes), MPI_BYTE, message.peer,
                         tag_of(message), communicator_->handle(), &request));
      keep_request(message, request);
      message.is_requested = true;
      return;
    }
    case Message::Stream::failure:
      return;
    case Message::Stream::program:
      message.number = ++begun_;
      waiting_[{message.tag, message.peer}].push(message);
  }
}

void MpiNetwork::send(Message& message) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto& send = message.is_synchronous ? host().Issend : host().Isend;
  check(send(message.data, static_cast<int>(message.bytes), MPI_BYTE, message.peer, tag_of(message),
             communicator_->handle(), &request));
  keep_request(message, request);
  message.is_requested = true;
}

bool MpiNetwork::is_first(const Message& receive) const {
  if (waiting_.at({receive.tag, receive.peer}).first() != &receive) return false;
  const auto is_earlier = [&](const auto& each) { return each.second.first()->number < receive.number; };
  if (receive.peer != Message::any_rank) {
    const auto from_any = waiting_.find({receive.tag, Message::any_rank});
    return from_any == waiting_.end() || !is_earlier(*from_any);
  }
  const auto begin = waiting_.lower_bound({receive.tag, Message::any_rank});
  const auto end = waiting_.lower_bound({receive.tag + 1, Message::any_rank});
  return std::none_of(begin, end, is_earlier);
}

bool MpiNetwork::find(Message& receive) {
  const int from = receive.peer == Message::any_rank ? MPI_ANY_SOURCE : receive.peer;
  int is_found = 0;
  int bytes = 0;
  MPI_Message found = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(improbe_(from, tag_of(receive), communicator_->handle(), &is_found, &found, &status));
  if (is_found == 0) return false;
  check(get_count_(&status, MPI_BYTE, &bytes));
  MPI_Request request = MPI_REQUEST_NULL;
  if (receive.stream == Message::Stream::program) stop_waiting(receive);
  note_arrival(receive, rank_, status.MPI_SOURCE, receive.tag, static_cast<std::size_t>(bytes));
  check(imrecv_(receive.data, bytes, MPI_BYTE, &found, &request));
  keep_request(receive, request);
  receive.is_requested = true;
  return true;
}

void MpiNetwork::stop_waiting(const Message& receive) noexcept {
  const auto queue = waiting_.find({receive.tag, receive.peer});
  if (queue == waiting_.end()) return;
  queue->second.remove(receive);
  if (queue->second.first() == nullptr) waiting_.erase(queue);
}

// Every message was given to begin() as one that may change.
bool MpiNetwork::move(const Message& begun) {
  auto& message = const_cast<Message&>(begun);
  if (!message.is_requested) {
    if (message.stream == Message::Stream::program && !is_first(message)) return false;
    if (!find(message)) return false;
  }
  int is_over = 0;
  MPI_Request request = request_of(message);
  check(host().Test(&request, &is_over, MPI_STATUS_IGNORE));
  keep_request(message, request);
  if (is_over == 0) return false;
  message.is_over.store(true, std::memory_order_release);
  return true;
}

void MpiNetwork::forget(const Message& message) noexcept {
  if (!message.is_requested) {
    if (!message.is_send && message.stream == Message::Stream::program) stop_waiting(message);
    return;
  }
  MPI_Request request = request_of(message);
  if (request != MPI_REQUEST_NULL) host().Request_free(&request);
}

}  // namespace offbeat
