// SPDX-License-Identifier: BSD-3-Clause
// TcpNetwork connects the nodes of a group by TCP, without MPI.
//
// A rank connects to another one when it first sends to it, or when it has waited for it in vain for a
// moment. So there are only connections that an algorithm uses, and a rank hears at once if one that it waits
// for has died. If both ranks of a pair connect at the same time, both connections stay: each rank always
// sends on the same one. The first bytes on a connection are a key that only the ranks of the group know.
//
// A short message travels with its header. The receiver keeps it if nobody has asked for it, up to a limit
// for each sender. A long message of a collective travels when the receiver has said that it is ready, which
// it says as soon as it begins to receive. Any other message is announced, and travels when the receiver
// requests it. So no message is in another one's way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "base/spin_lock.hpp"
#include "groups/fork_list.hpp"
#include "groups/own_network.hpp"
#include "groups/tcp_address.hpp"
#include "groups/tcp_lingering.hpp"
#include "groups/tcp_stream.hpp"

namespace offbeat {

class TcpNetwork final : public OwnNetwork {
 public:
  explicit TcpNetwork(const Settings& settings);
  ~TcpNetwork() override;

  [[nodiscard]] NetworkAddress address() override;
  void connect(SetUp& set_up, const Locality& locality, std::span<const NetworkAddress> addresses,
               const NetworkKey& key) override;

  void begin(Message& message) override;
  bool move(const Message& message) override;
  bool move_all(std::span<Message* const> messages) override;
  void forget(const Message& message) noexcept override;

  [[nodiscard]] SleepCall sleep() override;
  [[nodiscard]] std::optional<BoardError> find_loss() override;
  [[nodiscard]] std::vector<int> awaited_ranks() override;
  [[nodiscard]] std::string name() const override { return "TCP, from " + own_.text(); }
  void leave(bool has_failed) noexcept override;

  // Connects to a rank to which this one does not send, to hear of its end.
  void watch_over(int rank);
  // Where the rank listens. connect() may still change it.
  [[nodiscard]] const TcpAddress& own_address() const { return own_; }
  // Returns how many connections there are, including those of strangers.
  [[nodiscard]] std::size_t connections() const { return connections_.size(); }

  using List = ForkList<TcpNetwork, LingeringSockets>;
  static List& all() { return all_; }

 private:
  friend List;
  struct Peer;
  // A message that came before its receive.
  struct Unexpected {
    TcpFrame frame;
    std::vector<std::byte> data;  // of a short message
    bool is_complete = false;
    Message* taker = nullptr;  // the receive that has found it before it was complete
    bool is_given_away = false;
  };
  struct Connection {
    enum class State : std::uint8_t {
      stranger,    // accepted; has not sent the key yet
      connecting,  // by this rank
      greeting,    // this rank has sent the key
      open,
      closed  // to be destroyed
    };
    explicit Connection(Descriptor socket) : stream(std::move(socket)) {}

    TcpStream stream;
    State state = State::stranger;
    Peer* peer = nullptr;  // null for a stranger
    std::int64_t since_ns = 0;
    bool has_goodbye = false;
    bool is_broken = false;  // nothing can be written any more
    bool wants_to_write = false;
    Message* sending = nullptr;  // whose data are in the present frame
    bool ends_message = false;
    Message* receiving = nullptr;
    Unexpected* keeping = nullptr;
  };
  enum class Loss : std::uint8_t {
    none,
    left,        // it has said goodbye
    died,        // its connection was closed
    refused,     // it listens no more
    silent,      // its machine does not answer any more
    unreachable  // there was no connection
  };
  // All that this rank has to do with another one.
  struct Peer {
    int rank = 0;
    Connection* out = nullptr;      // on which this rank sends
    Connection* attempt = nullptr;  // which this rank makes
    int failed_attempts = 0;
    std::int64_t retry_ns = 0;          // when to connect again; 0: not at all
    std::int64_t first_attempt_ns = 0;  // 0: there was none
    bool has_left = false;              // it has said goodbye
    Loss loss = Loss::none;
    std::int64_t lost_ns = 0;
    int error = 0;
    std::int64_t next_look_ns = 0;  // when to look again whether its machine still answers
    MessageQueue unsent;            // sends of which nothing has travelled
    MessageQueue long_sends;        // of collectives, until the receiver is ready
    MessageQueue announced;         // sends
    MessageQueue streaming;         // sends whose pieces travel
    MessageQueue arriving;          // receives for which pieces travel
    std::deque<TcpFrame> control;
    std::list<TcpFrame> readies;  // the receives that have found no send
    std::list<Unexpected> unexpected;
    std::uint64_t announcements = 0;
    std::uint64_t short_bytes = 0;   // that were sent and not taken, with a part for each message
    std::uint64_t untold_bytes = 0;  // that this rank has taken, and not said so

    [[nodiscard]] bool has_connection() const { return out != nullptr || attempt != nullptr; }
  };

  // -- messages (tcp_messages.cpp). All functions below need the lock.
  void send(Message& message);
  void receive(Message& message);
  void begin_from_any(Message& receive);
  [[nodiscard]] static std::list<Unexpected>::iterator find_unexpected(Peer& from, const Message& receive);
  void take(Message& receive, Peer& from, std::list<Unexpected>::iterator found);
  void deliver(Peer& from, std::list<Unexpected>::iterator found);
  void request(Message& receive, Peer& from, const TcpFrame& announcement);
  // Records what a receive has found. Returns false if the lengths differ.
  [[nodiscard]] bool match(Message& receive, const Peer& from, const TcpFrame& frame);
  void stream(Peer& to, Message& message, std::uint64_t number);
  void obey_ready(Peer& to, Message& send, const TcpFrame& ready);
  void credit(Peer& to, const TcpFrame& taken);
  [[nodiscard]] Message* find_receive(const Peer& from, const TcpFrame& frame) const;
  // Writes what this rank owes a peer, as far as possible.
  void pump(Peer& to);
  [[nodiscard]] static bool write_next(Peer& to, Connection& on);
  [[nodiscard]] std::byte* begin_frame(Connection& on, const TcpFrame& frame);
  [[nodiscard]] std::byte* begin_message(Connection& on, const TcpFrame& frame);
  void end_frame(Connection& on, const TcpFrame& frame);
  void obey(Connection& on, const TcpFrame& frame);
  // Ends the connections to a rank whose machine no longer answers. Call it while this rank waits for it.
  void look_for_silence(Peer& other);
  // Throws BoardError if the message will never be over.
  void require_hope(const Message& message);

  // -- connections (tcp_connections.cpp)
  [[nodiscard]] Peer& peer(int rank);
  // Where a rank listens, or the error that keeps it from that.
  struct ListeningPlace {
    TcpAddress address;
    int error = 0;
  };
  // `all` is scratch space, with one element for each rank.
  void listen(SetUp& set_up, std::span<ListeningPlace> all);
  void ensure_connection(Peer& to);
  void begin_attempt(Peer& to);
  void fail_attempt(Connection& on, int error, bool may_retry);
  // Makes another attempt later, or gives the rank up.
  void end_attempt(Peer& to, int error, bool may_retry);
  // Handles what has come on all connections. Returns true if there was anything.
  bool poll();
  void accept_strangers();
  // Called when no connection was accepted, with the error. Throws BoardError if that has lasted too long.
  void wait_for_descriptors(int error);
  void look_at_clock();
  [[nodiscard]] bool look(Connection& on, bool is_writable);
  // Returns the rank that has sent its key, or null.
  [[nodiscard]] Peer* who_is(Connection& stranger);
  void open(Connection& on, Peer& other);
  void read(Connection& on);
  void end_connection(Connection& on);
  void lose(Peer& other, Loss how, int error);
  [[nodiscard]] BoardError loss_of(const Peer& other) const;
  void watch(Connection& on, bool wants_to_write);
  void close(Connection& on);
  void destroy_closed();
  // Closes all connections in the child of a fork(), so that the others see the end of its parent.
  void leave_to_parent();

  static List all_;
  const Settings& settings_;
  SpinLock lock_;
  TcpAddress own_;
  NetworkKey key_;
  int rank_ = 0;
  std::vector<TcpAddress> addresses_;
  Descriptor listener_;
  Descriptor epoll_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::list<std::unique_ptr<Connection>> connections_;
  int strangers_ = 0;
  int retries_ = 0;  // the peers with a `retry_ns`
  int losses_ = 0;
  // A rank that tells of a failure ends its connections soon after, which is no loss. If the network is
  // shared, it goes on for other communicators, so this stays false.
  bool has_heard_of_failure_ = false;
  std::int64_t refused_since_ns_ = 0;  // when the system first refused to accept a connection; 0: it does not
  bool has_closed_ = false;            // some connection is to be destroyed
  MessageQueue receives_;              // those that have found no message
  std::uint64_t numbers_ = 0;
  int first_of_any_ = 0;
  TcpNetwork* next_in_list_ = nullptr;
};

}  // namespace offbeat
