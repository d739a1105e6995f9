// SPDX-License-Identifier: BSD-3-Clause
#include "groups/fabric_network.hpp"

#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/launcher.hpp"
#include "base/time.hpp"
#include "groups/tcp_address.hpp"

namespace offbeat {
namespace {

// What a NetworkAddress has of a rank.
struct FabricAddress {
  TcpAddress tcp;
  std::uint64_t provider = 0;  // a hash of its name
  std::uint64_t longest_message = 0;
  std::array<std::byte, 56> data{};
};

FabricAddress from(const NetworkAddress& address) {
  FabricAddress made;
  static_assert(sizeof made == sizeof address.data);
  std::memcpy(&made, address.data.data(), sizeof made);
  return made;
}

// A tag of libfabric, from its lowest bit: the tag of the message, its stream, and the rank that sends it.
constexpr int tag_bits = 31;
constexpr int stream_bits = 2;
constexpr int bits_below_rank = tag_bits + stream_bits;
constexpr std::uint64_t any_rank_mask = ~std::uint64_t{0} << bits_below_rank;

// How much later libfabric may tell something than TCP, or TCP than libfabric.
constexpr std::int64_t patience_ns = 500 * ns_per_ms;

constexpr std::uint64_t tag_from(int rank, Message::Stream stream, int tag) {
  return static_cast<std::uint64_t>(rank) << bits_below_rank |
         static_cast<std::uint64_t>(stream) << tag_bits | static_cast<std::uint64_t>(tag);
}

}  // namespace

constinit FabricNetwork::List FabricNetwork::all_;

// -- opening and closing

// libfabric is loaded, so its destructors run after this handler.
void FabricNetwork::arrange_exit() {
  static constinit std::atomic_flag is_arranged{};
  if (is_arranged.test_and_set()) return;
  static_cast<void>(std::atexit([] {
    all_.try_visit([](FabricNetwork& each) { each.stop(); });
    LingeringEndpoints::of_process().wait();
  }));
}

// A thread that has the lock may have called exit() in a signal handler.
void FabricNetwork::stop() {
  for (int look = 0; !lock_.try_lock(); ++look) {
    if (look == 1000) return;
    usleep(1000);
  }
  const std::lock_guard guard(lock_, std::adopt_lock);
  static_cast<void>(endpoint_.release());
  closed_ns_ = std::numeric_limits<std::int64_t>::max();
}

int FabricNetwork::open() {
  endpoint_ = std::make_unique<FabricEndpoint>();
  FabricEndpoint& made = *endpoint_;
  int code = 0;
  // Calls make(&object) unless an earlier call has failed.
  const auto add = [&](auto& owner, auto&& make) {
    typename std::remove_reference_t<decltype(owner)>::pointer object = nullptr;
    if (code == 0) code = -make(&object);
    owner.reset(object);
  };
  add(made.fabric, [&](auto to) { return library_.fabric(info_->fabric_attr, to, nullptr); });
  add(made.domain, [&](auto to) { return fi_domain(made.fabric.get(), info_.get(), to, nullptr); });
  fi_av_attr table{};
  add(made.addresses, [&](auto to) { return fi_av_open(made.domain.get(), &table, to, nullptr); });
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_TAGGED;
  queue.wait_obj = FI_WAIT_FD;
  add(made.completions, [&](auto to) {
    if (fi_cq_open(made.domain.get(), &queue, to, nullptr) == 0) return 0;
    queue.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(made.domain.get(), &queue, to, nullptr);
  });
  add(made.self, [&](auto to) { return fi_endpoint(made.domain.get(), info_.get(), to, nullptr); });
  if (code == 0) code = -fi_ep_bind(made.self.get(), &made.completions->fid, FI_TRANSMIT | FI_RECV);
  if (code == 0) code = -fi_ep_bind(made.self.get(), &made.addresses->fid, 0);
  if (code == 0) code = -fi_enable(made.self.get());
  if (code == 0 && queue.wait_obj == FI_WAIT_FD &&
      fi_control(&made.completions->fid, FI_GETWAIT, &descriptor_) != 0)
    descriptor_ = -1;
  return code;
}

NetworkAddress FabricNetwork::address() {
  if (!library_.load()) return NetworkAddress::none("has no libfabric.so.1");
  LingeringEndpoints::of_process().poll();
  arrange_exit();
  NetworkAddress made = tcp_.address();
  if (!made.is_usable()) return made;
  auto own_address = std::optional(tcp_.own_address());  // the way of TCP to the other ranks
  if (own_address->is_loopback && settings_.interface.empty()) own_address = own_usual_address();
  info_ = find_provider(library_, settings_.provider, own_address, !settings_.interface.empty());
  if (info_ == nullptr)
    return NetworkAddress::none("has no fitting " + settings_.provider +
                                (settings_.provider.empty() ? "" : " ") + "provider of libfabric" +
                                (settings_.interface.empty() ? "" : " at " + settings_.interface));
  const std::string provider = info_->fabric_attr->prov_name;
  FabricAddress own = from(made);
  std::size_t bytes = own.data.size();
  int code = open();
  if (code == 0) code = -fi_getname(&endpoint_->self->fid, own.data.data(), &bytes);
  if (code != 0) {
    endpoint_.reset();
    return NetworkAddress::none("cannot open libfabric's " + provider + ": " + library_.strerror(code));
  }
  own.provider = fnv1a(provider);
  own.longest_message = info_->ep_attr->max_msg_size;
  std::memcpy(made.data.data(), &own, sizeof own);
  return made;
}

// All ranks see the same addresses, and so find the same errors.
void FabricNetwork::connect(SetUp& set_up, const Locality& locality,
                            std::span<const NetworkAddress> addresses, const NetworkKey& key) {
  rank_ = set_up.rank;
  const auto refuse = [&](int rank, const std::string& why) {
    throw BoardError(Trouble::set_up, number_of(rank), name_of(rank) + " " + why);
  };
  for (int rank = 0; rank < set_up.size; ++rank)
    if (from(addresses[static_cast<std::size_t>(rank)]).provider != from(addresses.front()).provider)
      refuse(rank, "has another provider of libfabric than " + name_of(0));
  for (const NetworkAddress& each : addresses)
    longest_message_ = std::min<std::size_t>(longest_message_, from(each).longest_message);
  tcp_.connect(set_up, locality, addresses, key);
  constexpr int highest_tag = std::numeric_limits<int>::max();
  const std::uint64_t highest = tag_from(set_up.size - 1, Message::Stream::collective, highest_tag);
  bool is_ready = std::bit_width(highest) <= std::bit_width(info_->ep_attr->mem_tag_format);
  is_ready = run_unless_out_of_memory([&] { peers_ = std::vector<Peer>(addresses.size()); }) && is_ready;
  for (std::size_t k = 0; k < peers_.size() && is_ready; ++k) {
    const FabricAddress address = from(addresses[k]);
    is_ready =
        fi_av_insert(endpoint_->addresses.get(), address.data.data(), 1, &peers_[k].address, 0, nullptr) == 1;
  }
  if (const int rank = set_up.first_without(is_ready); rank < set_up.size)
    refuse(rank, "cannot reach all ranks by libfabric");
}

void FabricNetwork::share(std::span<const int> numbers, std::string_view space) {
  OwnNetwork::share(numbers, space);
  tcp_.share(numbers, space);
}

std::string FabricNetwork::name() const {
  return std::string("libfabric, by ") + info_->fabric_attr->prov_name + " from " + info_->domain_attr->name;
}

void FabricNetwork::require_possible(int /*tag*/, std::size_t bytes) const {
  if (bytes > longest_message_)
    throw UsageError("the provider of libfabric carries messages of at most " +
                     std::to_string(longest_message_) + " bytes");
}

// All sends are over, unless the group has failed.
void FabricNetwork::leave(bool has_failed) noexcept {
  tcp_.leave(has_failed);
  const std::lock_guard guard(lock_);
  if (!has_failed && endpoint_ != nullptr)
    run_ignoring_exceptions([&] { LingeringEndpoints::of_process().add(std::move(endpoint_)); });
  endpoint_.reset();
  run_ignoring_exceptions([] { LingeringEndpoints::of_process().poll(); });
}

// -- beginning

void FabricNetwork::begin(Message& message) {
  if (message.stream == Message::Stream::failure) return tcp_.begin(message);
  const std::lock_guard guard(lock_);
  // One rank of each pair is enough.
  if (message.peer > rank_ && !std::exchange(peer(message).is_watched, true)) tcp_.watch_over(message.peer);
  message.is_misfit = false;
  message.begun_ns = 0;
  post_or_queue(message);
}

void FabricNetwork::post_or_queue(Message& message) {
  message.handle = 0;
  MessageQueue& queue = queue_of(message);
  if (queue.first() == nullptr && post(message)) return;
  queue.push(message);
  has_queued_ = true;
}

MessageQueue& FabricNetwork::queue_of(const Message& message) {
  return message.is_send ? peer(message).unsent : unposted_receives_;
}

FabricOperation& FabricNetwork::unused_operation() {
  if (!unused_.empty()) return *unused_.back();
  std::deque<FabricOperation>& all = endpoint_->operations;
  unused_.reserve(all.size() + 1);
  unused_.push_back(&all.emplace_back());
  return *unused_.back();
}

bool FabricNetwork::post(Message& message) {
  if (endpoint_ == nullptr || (message.is_send && peer(message).error != 0)) return false;
  FabricOperation& operation = unused_operation();
  const bool is_from_any = message.peer == Message::any_rank;
  const int sender = message.is_send ? rank_ : is_from_any ? 0 : message.peer;
  const std::uint64_t tag = tag_from(sender, message.stream, message.tag);
  const ssize_t code =
      message.is_send ? fi_tsend(endpoint_->self.get(), message.data, message.bytes, nullptr,
                                 peer(message).address, tag, &operation.context)
                      : fi_trecv(endpoint_->self.get(), message.data, message.bytes, nullptr, FI_ADDR_UNSPEC,
                                 tag, is_from_any ? any_rank_mask : 0, &operation.context);
  if (code == -FI_EAGAIN) return false;
  if (code != 0) {
    if (!message.is_send) fail(static_cast<int>(-code));
    lose(peer(message), static_cast<int>(-code));
    return false;
  }
  operation.message = &message;
  operation.is_send = message.is_send;
  operation.peer = message.peer;
  message.handle = reinterpret_cast<std::uintptr_t>(&operation);
  unused_.pop_back();
  return true;
}

void FabricNetwork::post_queued(MessageQueue& queue) {
  while (Message* const message = queue.first()) {
    has_queued_ = true;  // also if post() throws
    if (!post(*message)) return;
    queue.remove(*message);
  }
}

// Few providers can cancel a message under way. The group has failed, so it needs no libfabric any more. A
// shared network stays open for its other communicators, so the memory of forgotten messages is never freed.
void FabricNetwork::forget(const Message& message) noexcept {
  if (message.stream == Message::Stream::failure) return tcp_.forget(message);
  const std::lock_guard guard(lock_);
  if (message.is_over) return;
  if (message.handle == 0) return queue_of(message).remove(message);
  if (endpoint_ == nullptr) return;
  auto* const operation = reinterpret_cast<FabricOperation*>(message.handle);
  operation->message = nullptr;
  fi_cancel(&endpoint_->self->fid, &operation->context);
  run_ignoring_exceptions([&] { poll(); });
  if (is_shared() || std::ranges::find(unused_, operation) != unused_.end()) return;
  endpoint_.reset();
  closed_ns_ = monotonic_ns();
}

std::vector<int> FabricNetwork::awaited_ranks() {
  const std::lock_guard guard(lock_);
  std::vector<int> found;
  if (endpoint_ == nullptr) return found;
  for (const FabricOperation& each : endpoint_->operations)
    if (each.message != nullptr && !each.is_send && each.message->stream == Message::Stream::collective)
      found.push_back(each.peer);
  return found;
}

// -- moving

bool FabricNetwork::move(const Message& message) {
  if (message.stream == Message::Stream::failure) return tcp_.move(message);
  if (message.is_over.load(std::memory_order_acquire)) return true;
  auto* const begun = const_cast<Message*>(&message);
  return move_all({&begun, 1});
}

bool FabricNetwork::move_all(std::span<Message* const> messages) {
  if (!lock_.try_lock()) return false;
  const std::lock_guard guard(lock_, std::adopt_lock);
  if (poll()) return true;
  require_hope(messages);
  return false;
}

bool FabricNetwork::poll() {
  if (endpoint_ == nullptr) return false;
  std::array<fi_cq_tagged_entry, 16> entries;
  constexpr int most_looks = 64;  // others wait for the lock
  bool has_moved = false;
  for (int look = 0; look < most_looks; ++look) {
    const ssize_t count = fi_cq_read(endpoint_->completions.get(), entries.data(), entries.size());
    if (count == -FI_EAVAIL) {
      end_in_error();
    } else if (count > 0) {
      for (const fi_cq_tagged_entry& each : std::span(entries).first(static_cast<std::size_t>(count)))
        end(*static_cast<FabricOperation*>(each.op_context), each.tag, each.len);
      has_moved = true;
    } else if (count == -FI_EAGAIN || count == -FI_EINTR || count == 0) {
      break;
    } else {
      fail(static_cast<int>(-count));
    }
  }
  if (std::exchange(has_queued_, false)) {
    for (Peer& each : peers_) post_queued(each.unsent);
    post_queued(unposted_receives_);
  }
  return has_moved;
}

void FabricNetwork::end(FabricOperation& operation, std::uint64_t tag, std::size_t bytes) {
  unused_.push_back(&operation);
  Message* const message = std::exchange(operation.message, nullptr);
  if (message == nullptr) return;
  message->handle = 0;
  if (!message->is_send) {
    message->peer = static_cast<int>(tag >> bits_below_rank);
    message->moved_bytes = bytes;
    message->is_misfit = bytes != message->bytes;
    if (message->is_misfit) return;  // the thread that waits for the message throws
    note_arrival(*message, rank_, message->peer, message->tag, bytes);
  }
  peer(*message).ended_ns = 0;
  message->is_over.store(true, std::memory_order_release);
}

void FabricNetwork::end_in_error() {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(endpoint_->completions.get(), &error, 0) < 0) return;
  if (error.op_context == nullptr) fail(error.err);
  auto& operation = *static_cast<FabricOperation*>(error.op_context);
  Message* const message = operation.message;
  if (error.err == FI_ETRUNC && message != nullptr)
    return end(operation, error.tag, error.olen > 0 ? message->bytes + error.olen : Message::more_bytes);
  operation.message = nullptr;
  unused_.push_back(&operation);
  if (message == nullptr) return;
  message->handle = 0;
  if (message->peer == Message::any_rank) {
    if (error.tag == 0) return post_or_queue(*message);  // the provider does not say whose message it was
    message->peer = static_cast<int>(error.tag >> bits_below_rank);
  }
  lose(peer(*message), error.err);
}

// -- ends

void FabricNetwork::fail(int error) const {
  throw CommunicationError(std::string("libfabric: ") + library_.strerror(error));
}

void FabricNetwork::lose(Peer& other, int error) {
  if (other.error != 0) return;
  other.error = error;
  other.lost_ns = monotonic_ns();
}

// TCP knows better why a rank cannot be reached, but may hear of it a little later. The thread that has
// closed libfabric knows why the group has failed, and tells the others.
void FabricNetwork::require_hope(std::span<Message* const> messages) {
  constexpr std::uint64_t looks_per_look_at_tcp = 16;
  for (Message* const each : messages) {
    if (each->is_over.load(std::memory_order_acquire)) continue;
    if (each->is_misfit) note_arrival(*each, rank_, each->peer, each->tag, each->moved_bytes);
    if (endpoint_ == nullptr && monotonic_ns() - closed_ns_ > patience_ns)
      throw BoardError(Trouble::rank, number_of(rank_),
                       name_of(rank_) + " has closed libfabric after a failure");
    if (each->peer == Message::any_rank || peer(*each).error == 0) continue;
    if (monotonic_ns() - peer(*each).lost_ns > patience_ns)
      throw BoardError(Trouble::rank, number_of(each->peer),
                       name_of(rank_) + " cannot reach " + name_of(each->peer) +
                           " by libfabric: " + library_.strerror(peer(*each).error));
  }
  if (++looks_in_vain_ % looks_per_look_at_tcp != 0) return;
  tcp_.move_all({});
  for (const Message* each : messages)
    if (!each->is_over.load(std::memory_order_acquire)) look_at_tcp(*each);
}

// What a rank has sent by libfabric may come later than the news of its end, which goes by TCP.
void FabricNetwork::look_at_tcp(const Message& awaited) {
  try {
    tcp_.move(awaited);
  } catch (const BoardError&) {
    if (awaited.peer == Message::any_rank) throw;
    Peer& other = peer(awaited);
    if (other.ended_ns == 0) other.ended_ns = monotonic_ns();
    if (other.error != 0 || monotonic_ns() - other.ended_ns > patience_ns) throw;
  }
}

SleepCall FabricNetwork::sleep() {
  if (descriptor_ < 0) return {};
  return {
      .call = [](void* self, std::int64_t at_most_ns) { static_cast<FabricNetwork*>(self)->nap(at_most_ns); },
      .state = this};
}

// If fi_trywait() fails, a completion may be there, so do not sleep.
void FabricNetwork::nap(std::int64_t at_most_ns) {
  const timespec limit{static_cast<time_t>(at_most_ns / ns_per_s), static_cast<long>(at_most_ns % ns_per_s)};
  pollfd each{.fd = -1, .events = POLLIN, .revents = 0};  // sleeps for all the time
  {
    const std::lock_guard guard(lock_);
    if (endpoint_ != nullptr) {
      fid* all = &endpoint_->completions->fid;
      if (fi_trywait(endpoint_->fabric.get(), &all, 1) != 0) return;
      each.fd = descriptor_;
    }
  }
  ppoll(&each, 1, &limit, nullptr);
}

}  // namespace offbeat
