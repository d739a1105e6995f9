// SPDX-License-Identifier: BSD-3-Clause
// The connections of a TcpNetwork: who connects to whom, who may, and how the end of one is noticed.
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/time.hpp"
#include "groups/tcp_lingering.hpp"
#include "groups/tcp_network.hpp"

namespace offbeat {
namespace {

// The first bytes on a connection.
struct Hello {
  std::uint64_t magic = 0x6f666662656174'01;
  NetworkKey key;
  std::int32_t from = 0;
  std::int32_t to = 0;
};

constexpr int most_strangers = 256;
constexpr std::int64_t patience_with_strangers_ns = 5 * ns_per_s;
// A rank whose machine refuses no connection, but does not make one either, may be very busy.
constexpr std::int64_t patience_with_attempts_ns = 30 * ns_per_s;
constexpr std::int64_t longest_between_attempts_ns = 200 * ns_per_ms;

// Returns true if the error of a system call may be gone soon, because other threads also use descriptors.
bool is_out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Takes equally long whatever differs.
bool are_equal(const NetworkKey& a, const NetworkKey& b) {
  unsigned differences = 0;
  for (std::size_t k = 0; k < a.bytes.size(); ++k)
    differences |= std::to_integer<unsigned>(a.bytes[k] ^ b.bytes[k]);
  return differences == 0;
}

}  // namespace

// -- life

constinit TcpNetwork::List TcpNetwork::all_;

TcpNetwork::TcpNetwork(const Settings& settings) : settings_(settings) { all_.add(*this); }

TcpNetwork::~TcpNetwork() { all_.remove(*this); }

// The parent's epoll still watches the sockets, because they are open there.
void TcpNetwork::leave_to_parent() {
  for (const std::unique_ptr<Connection>& on : connections_)
    static_cast<void>(Descriptor(on->stream.take_socket()));
  listener_ = Descriptor();
  epoll_ = Descriptor();
}

NetworkAddress TcpNetwork::address() {
  std::string why_not = "has no network interface with an address: OFFBEAT_INTERFACE names one";
  std::optional<TcpAddress> found;
  if (!settings_.interface.empty()) {
    found = address_of_interface(settings_.interface, why_not);
  } else {
    found = own_address_towards(meeting_host());
    if (!found) found = own_usual_address();
  }
  if (!found) return NetworkAddress::none(why_not);
  own_ = *found;
  NetworkAddress made;
  static_assert(sizeof own_ <= sizeof made.data);
  std::memcpy(made.data.data(), &own_, sizeof own_);
  return made;
}

// The name of the machine where the ranks meet may mean the loopback interface there. The other machines then
// know the right interface.
void TcpNetwork::connect(SetUp& set_up, const Locality& /*locality*/,
                         std::span<const NetworkAddress> addresses, const NetworkKey& key) {
  rank_ = set_up.rank;
  key_ = key;
  std::vector<ListeningPlace> places;
  const bool is_ready = run_unless_out_of_memory([&] {
    peers_.resize(addresses.size());
    addresses_.resize(addresses.size());
    places.resize(addresses.size());
    LingeringSockets::of_process().close_delivered();
    for (std::size_t k = 0; k < addresses.size(); ++k)
      std::memcpy(&addresses_[k], addresses[k].data.data(), sizeof addresses_[k]);
    const auto outward = std::ranges::find(addresses_, false, &TcpAddress::is_loopback);
    if (own_.is_loopback && outward != addresses_.end() && settings_.interface.empty()) {
      auto better = own_address_towards(*outward);
      if (!better || better->is_loopback) better = own_usual_address();
      if (better) own_ = *better;
    }
  });
  if (!set_up.all(is_ready)) throw BoardError(Trouble::set_up, number_of(rank_), "a rank has no memory left");
  listen(set_up, places);
}

void TcpNetwork::listen(SetUp& set_up, std::span<ListeningPlace> all) {
  listener_ = listen_at(own_);
  ListeningPlace mine{own_, listener_ ? 0 : errno};
  if (mine.error == 0) {
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN;
    if (!epoll_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) mine.error = errno;
  }
  set_up.gather(mine, all.data());
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k].error != 0)
      throw BoardError(Trouble::set_up, number_of(static_cast<int>(k)),
                       name_of(static_cast<int>(k)) + " cannot listen at " + all[k].address.text() + ": " +
                           std::strerror(all[k].error));
    addresses_[k] = all[k].address;
  }
}

// A peer that does not read may miss the goodbye. It then learns that this rank has gone.
void TcpNetwork::leave(bool /*has_failed*/) noexcept {
  constexpr int most_looks = 100;
  const std::lock_guard guard(lock_);
  run_ignoring_exceptions([&] {
    if (!epoll_) return;
    static_cast<void>(poll());
    for (const std::unique_ptr<Connection>& each : connections_) {
      if (each->state != Connection::State::open) continue;
      TcpStream& stream = each->stream;
      for (int look = 0; look < most_looks && stream.is_writing(); ++look) {
        if (stream.flush() == TcpStream::Outcome::closed) break;
        if (stream.is_writing()) usleep(1000);
      }
      if (!stream.is_writing()) {
        stream.write({.kind = TcpFrame::Kind::goodbye});
        static_cast<void>(stream.flush());
      }
      shutdown(stream.socket().get(), SHUT_WR);
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stream.socket().get(), nullptr);
      LingeringSockets::of_process().add(stream.take_socket());
      each->state = Connection::State::closed;
    }
    listener_ = Descriptor();
    epoll_ = Descriptor();
    LingeringSockets::of_process().close_delivered();
  });
}

// -- connecting

TcpNetwork::Peer& TcpNetwork::peer(int rank) {
  std::unique_ptr<Peer>& found = peers_[static_cast<std::size_t>(rank)];
  if (found == nullptr) {
    found = std::make_unique<Peer>();
    found->rank = rank;
  }
  return *found;
}

void TcpNetwork::watch_over(int rank) {
  const std::lock_guard guard(lock_);
  ensure_connection(peer(rank));
}

void TcpNetwork::ensure_connection(Peer& to) {
  if (!to.has_connection() && to.retry_ns == 0 && to.loss == Loss::none) begin_attempt(to);
}

void TcpNetwork::begin_attempt(Peer& to) {
  const std::int64_t now_ns = monotonic_ns();
  if (to.first_attempt_ns == 0) to.first_attempt_ns = now_ns;
  Descriptor socket = begin_to_connect(own_, addresses_[static_cast<std::size_t>(to.rank)]);
  if (!socket) return end_attempt(to, errno, is_out_of_descriptors(errno));
  Connection& made = *connections_.emplace_back(std::make_unique<Connection>(std::move(socket)));
  made.state = Connection::State::connecting;
  made.peer = &to;
  made.since_ns = now_ns;
  to.attempt = &made;
  epoll_event event{};
  event.events = EPOLLOUT;
  event.data.ptr = &made;
  made.wants_to_write = true;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, made.stream.socket().get(), &event) != 0)
    fail_attempt(made, errno, false);
}

// The other rank may have closed the connection because too many strangers had come.
void TcpNetwork::fail_attempt(Connection& on, int error, bool may_retry) {
  Peer& to = *on.peer;
  to.attempt = nullptr;
  close(on);
  if (to.out == nullptr && to.loss == Loss::none) end_attempt(to, error, may_retry);
}

void TcpNetwork::end_attempt(Peer& to, int error, bool may_retry) {
  const std::int64_t now_ns = monotonic_ns();
  if (may_retry && now_ns - to.first_attempt_ns < patience_with_attempts_ns) {
    const std::int64_t pause_ns =
        std::min(longest_between_attempts_ns, ns_per_ms << std::min(to.failed_attempts, 10));
    ++to.failed_attempts;
    to.retry_ns = now_ns + pause_ns;
    ++retries_;
    return;
  }
  lose(to, error == ECONNREFUSED ? Loss::refused : Loss::unreachable, error);
}

void TcpNetwork::accept_strangers() {
  for (int k = 0; k < most_strangers; ++k) {
    Descriptor socket = accept_at(listener_);
    if (!socket) return wait_for_descriptors(errno);
    refused_since_ns_ = 0;
    if (strangers_ == most_strangers) {
      const auto oldest = std::ranges::find(connections_, Connection::State::stranger,
                                            [](const auto& each) { return each->state; });
      if (oldest != connections_.end()) close(**oldest);
    }
    Connection& made = *connections_.emplace_back(std::make_unique<Connection>(std::move(socket)));
    made.since_ns = monotonic_ns();
    ++strangers_;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &made;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, made.stream.socket().get(), &event) != 0)
      close(made);
    else
      static_cast<void>(look(made, false));  // the key usually comes with the connection
  }
}

// The connection stays in the queue of the listener.
void TcpNetwork::wait_for_descriptors(int error) {
  constexpr std::int64_t patience_ns = 5 * ns_per_s;
  if (!is_out_of_descriptors(error)) {
    refused_since_ns_ = 0;
  } else if (refused_since_ns_ == 0) {
    refused_since_ns_ = monotonic_ns();
  } else if (monotonic_ns() - refused_since_ns_ > patience_ns) {
    throw BoardError(Trouble::rank, number_of(rank_),
                     std::string("cannot accept a connection: ") + std::strerror(error));
  }
}

TcpNetwork::Peer* TcpNetwork::who_is(Connection& stranger) {
  Hello hello;
  std::memcpy(&hello, stranger.stream.buffered().data(), sizeof hello);
  stranger.stream.consume(sizeof hello);
  const bool is_one_of_us = are_equal(hello.key, key_) && hello.magic == Hello{}.magic && hello.to == rank_ &&
                            hello.from >= 0 && hello.from < static_cast<int>(peers_.size()) &&
                            hello.from != rank_;
  return is_one_of_us ? &peer(hello.from) : nullptr;
}

void TcpNetwork::open(Connection& on, Peer& other) {
  on.state = Connection::State::open;
  on.peer = &other;
  if (other.retry_ns != 0) {
    other.retry_ns = 0;
    --retries_;
  }
  if (other.out == nullptr) other.out = &on;
  pump(other);
}

// -- looking

bool TcpNetwork::poll() {
  std::array<epoll_event, 32> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool has_moved = false;
  for (int k = 0; k < count; ++k) {
    const epoll_event& event = events[static_cast<std::size_t>(k)];
    if (event.data.ptr == nullptr) {
      accept_strangers();
    } else {
      auto& on = *static_cast<Connection*>(event.data.ptr);
      if (on.state != Connection::State::closed)
        has_moved = look(on, (event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) || has_moved;
    }
  }
  if (strangers_ + retries_ > 0) look_at_clock();
  if (has_closed_) destroy_closed();
  return has_moved;
}

void TcpNetwork::look_at_clock() {
  const std::int64_t now_ns = monotonic_ns();
  if (strangers_ > 0)
    for (const std::unique_ptr<Connection>& each : connections_)
      if (each->state == Connection::State::stranger && now_ns - each->since_ns > patience_with_strangers_ns)
        close(*each);
  if (retries_ == 0) return;
  for (const std::unique_ptr<Peer>& each : peers_) {
    if (each == nullptr || each->retry_ns == 0 || now_ns < each->retry_ns) continue;
    each->retry_ns = 0;
    --retries_;
    if (!each->has_connection()) begin_attempt(*each);
  }
}

bool TcpNetwork::look(Connection& on, bool is_writable) {
  switch (on.state) {
    case Connection::State::connecting: {
      if (!is_writable) return false;
      if (const int error = connect_error(on.stream.socket()); error != 0) {
        fail_attempt(on, error, error == ECONNRESET || error == ETIMEDOUT || error == ECONNABORTED);
        return true;
      }
      const Hello hello{.key = key_, .from = rank_, .to = on.peer->rank};
      if (::send(on.stream.socket().get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) {
        fail_attempt(on, errno, true);
        return true;
      }
      on.state = Connection::State::greeting;
      watch(on, false);
      return true;
    }
    case Connection::State::stranger: {
      const std::ptrdiff_t got = on.stream.fill();
      if (got < 0) close(on);
      if (got <= 0 || on.stream.buffered().size() < sizeof(Hello)) return false;
      Peer* const other = who_is(on);
      on.stream.write({.kind = TcpFrame::Kind::welcome});
      if (other == nullptr || on.stream.flush() == TcpStream::Outcome::closed) {
        close(on);
        return false;
      }
      --strangers_;
      open(on, *other);
      return true;
    }
    case Connection::State::greeting: {
      const std::ptrdiff_t got = on.stream.fill();
      if (got < 0) fail_attempt(on, on.stream.error(), true);
      if (got <= 0 || on.stream.buffered().size() < sizeof(TcpFrame)) return false;
      on.stream.consume(sizeof(TcpFrame));
      Peer& other = *on.peer;
      other.attempt = nullptr;
      open(on, other);
      on.stream.parse([&](const TcpFrame& frame) { return begin_frame(on, frame); },
                      [&](const TcpFrame& frame) { end_frame(on, frame); });
      return true;
    }
    case Connection::State::open:
      if (is_writable && on.wants_to_write) pump(*on.peer);
      read(on);
      return true;
    case Connection::State::closed:
      break;
  }
  return false;
}

void TcpNetwork::read(Connection& on) {
  const TcpStream::Outcome outcome =
      on.stream.read([&](const TcpFrame& frame) { return begin_frame(on, frame); },
                     [&](const TcpFrame& frame) { end_frame(on, frame); });
  if (outcome == TcpStream::Outcome::closed) end_connection(on);
}

// -- ends

void TcpNetwork::end_connection(Connection& on) {
  if (on.state == Connection::State::closed) return;
  Peer& other = *on.peer;
  other.has_left = other.has_left || on.has_goodbye;
  const int error = on.stream.error();
  close(on);
  if (other.out == &on) other.out = nullptr;
  if (other.has_left) return lose(other, Loss::left, 0);
  // Frames on this connection may be gone, so nothing may follow on the other one of the same rank.
  for (const std::unique_ptr<Connection>& each : connections_)
    if (each->peer == &other && each->state == Connection::State::open)
      shutdown(each->stream.socket().get(), SHUT_RDWR);
  const bool is_silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  lose(other, is_silent ? Loss::silent : Loss::died, error);
}

// A rank may have left with a message under way on its other connection, which is then still to be read.
void TcpNetwork::lose(Peer& other, Loss how, int error) {
  if (other.loss != Loss::none) return;
  const auto has_more = [&](const std::unique_ptr<Connection>& each) {
    return each->peer == &other && each->state == Connection::State::open;
  };
  if (std::ranges::any_of(connections_, has_more)) return;
  other.loss = how;
  other.error = error;
  other.lost_ns = monotonic_ns();
  if (how != Loss::left) ++losses_;
}

// The system of a machine acknowledges what comes, also for a process that is stopped or does not read. So a
// frame goes out if nothing has come for a while. It is repeated at growing intervals, first after at least
// 200 ms. A group says soon which machine is missing. Communicators of MPI also survive the pause of a switch
// or of a virtual machine.
void TcpNetwork::look_for_silence(Peer& other) {
  constexpr std::int64_t between_looks_ns = 200 * ns_per_ms;
  constexpr std::int64_t patience_before_nudge_ms = 500;
  const std::int64_t patience_ms = is_shared() ? 10'000 : 1500;
  constexpr int least_repeats = 2;
  const std::int64_t now_ns = monotonic_ns();
  if (now_ns < other.next_look_ns) return;
  other.next_look_ns = now_ns + between_looks_ns;
  const TcpSilence silence = silence_of(other.out->stream.socket());
  if (silence.since_ms < patience_before_nudge_ms) return;
  if (!silence.owes_answer) {
    other.control.push_back({.kind = TcpFrame::Kind::nudge});
    return pump(other);
  }
  if (silence.since_ms < patience_ms || silence.repeats < least_repeats) return;
  for (const std::unique_ptr<Connection>& each : connections_)
    if (each->peer == &other && each->state == Connection::State::open) close(*each);
  other.out = nullptr;
  lose(other, Loss::silent, ETIMEDOUT);
}

BoardError TcpNetwork::loss_of(const Peer& other) const {
  const std::string name = name_of(other.rank);
  const auto error = [&](const std::string& text, Trouble trouble = Trouble::rank) {
    return BoardError(trouble, number_of(other.rank), text);
  };
  switch (other.loss) {
    case Loss::left:
      return error(name + " has left the group");
    case Loss::refused:
      return error("the process of " + name + " has died, or has left the group");
    case Loss::silent:
      return error("the machine of " + name + " no longer answers: " + std::strerror(other.error));
    case Loss::unreachable:
      return error(name_of(rank_) + " at " + own_.text() + " cannot reach " + name + " at " +
                   addresses_[static_cast<std::size_t>(other.rank)].text() + ": " +
                   std::strerror(other.error) + "; OFFBEAT_INTERFACE names another interface");
    default:
      return error("the process of " + name + " has died", Trouble::death);
  }
}

// What a rank has sent before it died still counts, so this rank waits a little longer.
std::optional<BoardError> TcpNetwork::find_loss() {
  constexpr std::int64_t patience_ns = 500 * ns_per_ms;
  const std::lock_guard guard(lock_);
  if (losses_ == 0 || has_heard_of_failure_) return std::nullopt;
  const std::int64_t now_ns = monotonic_ns();
  for (const std::unique_ptr<Peer>& each : peers_)
    if (each != nullptr && each->loss != Loss::none && each->loss != Loss::left &&
        now_ns - each->lost_ns > patience_ns)
      return loss_of(*each);
  return std::nullopt;
}

void TcpNetwork::watch(Connection& on, bool wants_to_write) {
  if (on.wants_to_write == wants_to_write || on.state == Connection::State::closed) return;
  on.wants_to_write = wants_to_write;
  epoll_event event{};
  event.events = EPOLLIN | (wants_to_write ? EPOLLOUT : 0U);
  event.data.ptr = &on;
  static_cast<void>(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, on.stream.socket().get(), &event));
}

// It is destroyed later, because functions further up may still use it.
void TcpNetwork::close(Connection& on) {
  if (on.state == Connection::State::stranger) --strangers_;
  on.state = Connection::State::closed;
  static_cast<void>(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, on.stream.socket().get(), nullptr));
  static_cast<void>(Descriptor(on.stream.take_socket()));
  has_closed_ = true;
}

void TcpNetwork::destroy_closed() {
  has_closed_ = false;
  std::erase_if(connections_, [](const auto& each) { return each->state == Connection::State::closed; });
}

SleepCall TcpNetwork::sleep() {
  return {.call =
              [](void* self, std::int64_t at_most_ns) {
                pollfd all{
                    .fd = static_cast<TcpNetwork*>(self)->epoll_.get(), .events = POLLIN, .revents = 0};
                const timespec limit{static_cast<time_t>(at_most_ns / ns_per_s),
                                     static_cast<long>(at_most_ns % ns_per_s)};
                ppoll(&all, 1, &limit, nullptr);
              },
          .state = this};
}

}  // namespace offbeat
