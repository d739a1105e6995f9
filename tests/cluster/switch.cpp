// SPDX-License-Identifier: BSD-3-Clause
// The network of a virtual cluster: one process that carries packets between TUN devices.
//
//     switch PORTS
//
// It makes the devices port0, port1, ... in its own network namespace, from where each goes to the host it
// belongs to. Address 10.77.0.(k + 1) is behind port k. Every port is full duplex and has the same rate and
// delay, which are none at first; each line "MEGABITS MICROSECONDS" on standard input sets them. A packet
//
//     waits for its port | leaves, length / rate | travels, delay | waits for the other port | comes in,
//     length / rate
//
// where the last step begins with the first byte, so that a packet through idle ports pays for its length
// once. The connections of a port take turns. A mere acknowledgement only travels: in a network it would slip
// between the packets of 1500 bytes, which here come as segments of up to 32 KiB.
//
// The switch ends when standard input does, and where it is the first process of its namespace all others end
// with it.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using std::chrono::nanoseconds;

constexpr std::size_t most_connections = 64;  // that take turns at a port; more share a turn
constexpr std::size_t header_bytes = 10;  // of virtio, which says how the kernel has put segments together
constexpr int packets_at_once = 16;       // taken from a port before the others have a turn

struct Packet {
  std::array<unsigned char, 65536 + header_bytes> bytes;
  std::size_t length = 0;
  std::size_t destination = 0;

  [[nodiscard]] const unsigned char* ip() const { return bytes.data() + header_bytes; }
  [[nodiscard]] std::size_t ip_length() const { return length - header_bytes; }

  // IPv4 within the cluster; nothing else is carried.
  [[nodiscard]] bool is_ours() const {
    return length >= header_bytes + 20 && ip()[0] >> 4 == 4 && ip()[16] == 10 && ip()[17] == 77 &&
           ip()[18] == 0 && ip()[19] > 0;
  }
  [[nodiscard]] std::size_t destination_port() const { return ip()[19] - 1U; }

  [[nodiscard]] std::size_t connection() const {
    const unsigned char* ports = ip() + ip_header_bytes();
    return (ip()[19] * 31U + ports[0] * 7U + ports[1] * 13U + ports[2] * 17U + ports[3] * 23U) %
           most_connections;
  }

  [[nodiscard]] bool is_acknowledgement() const {
    constexpr unsigned char tcp = 6, syn_fin_reset = 7;
    if (ip()[9] != tcp || ip_length() < ip_header_bytes() + 20) return false;
    const unsigned char* header = ip() + ip_header_bytes();
    return ip_length() == ip_header_bytes() + (header[12] >> 4) * 4U && (header[13] & syn_fin_reset) == 0;
  }

 private:
  [[nodiscard]] std::size_t ip_header_bytes() const { return (ip()[0] & 15) * 4U; }
};

using PacketPointer = std::unique_ptr<Packet>;

// A TUN device. When its host has gone, the device is gone, too, and a new one has to be made.
class Device {
 public:
  explicit Device(std::size_t number) : name_("port" + std::to_string(number)) { open(); }
  Device(Device&& other) noexcept : name_(std::move(other.name_)), file_(std::exchange(other.file_, -1)) {}
  Device& operator=(Device&&) = delete;
  ~Device() {
    if (file_ >= 0) close(file_);
  }

  [[nodiscard]] int file() const { return file_; }

  void reopen() {
    close(std::exchange(file_, -1));
    open();
  }

  [[nodiscard]] bool read(Packet& packet) const {
    const ssize_t length = ::read(file_, packet.bytes.data(), packet.bytes.size());
    packet.length = length > 0 ? static_cast<std::size_t>(length) : 0;
    return length > 0;
  }

  // What a full queue or a host that has gone does not take is lost, as in any network.
  void write(const Packet& packet) const {
    if (::write(file_, packet.bytes.data(), packet.length) < 0) return;
  }

 private:
  void open() {
    file_ = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    name_.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    if (file_ < 0 || ioctl(file_, TUNSETIFF, &request) < 0 ||
        ioctl(file_, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0)
      throw std::system_error(errno, std::generic_category(), name_);
  }

  std::string name_;
  int file_ = -1;
};

struct Port {
  Device device;
  std::array<std::deque<PacketPointer>, most_connections> waiting{};
  std::size_t turn = 0;  // of which connection it is
  bool is_sending = false;
  Time in_is_free{};

  PacketPointer next() {
    for (std::size_t k = 0; k < most_connections; ++k) {
      auto& connection = waiting[(turn + k) % most_connections];
      if (connection.empty()) continue;
      PacketPointer packet = std::move(connection.front());
      connection.pop_front();
      turn = (turn + k + 1) % most_connections;
      return packet;
    }
    return nullptr;
  }
};

class Switch {
 public:
  explicit Switch(std::size_t ports) {
    for (std::size_t number = 0; number < ports; ++number) ports_.push_back(Port{Device(number)});
  }

  void shape(double megabits, double microseconds) {
    nanoseconds_per_byte_ = megabits > 0 ? 8000 / megabits : 0;
    delay_ = nanoseconds(static_cast<long>(microseconds * 1000));
  }

  [[nodiscard]] std::span<Port> ports() { return ports_; }

  void take(std::size_t number) {
    for (int k = 0; k < packets_at_once; ++k) {
      PacketPointer packet = fresh();
      if (!ports_[number].device.read(*packet)) return keep(std::move(packet));
      packet->destination = packet->is_ours() ? packet->destination_port() : number;
      if (packet->destination == number || packet->destination >= ports_.size()) {
        keep(std::move(packet));
      } else if (packet->is_acknowledgement()) {
        at(Clock::now() + delay_, Event::arrived, std::move(packet));
      } else {
        const std::size_t connection = packet->connection();
        ports_[number].waiting[connection].push_back(std::move(packet));
        if (!ports_[number].is_sending) send(number, Clock::now());
      }
    }
  }

  [[nodiscard]] std::optional<nanoseconds> until_next_event() const {
    if (events_.empty()) return std::nullopt;
    return std::max(nanoseconds(0), events_.front().time - Clock::now());
  }

  void do_what_is_due() {
    const Time now = Clock::now();
    while (!events_.empty() && events_.front().time <= now) {
      std::ranges::pop_heap(events_, later);
      Event event = std::move(events_.back());
      events_.pop_back();
      carry_out(event);
    }
  }

 private:
  struct Event {
    enum Kind { port_is_free, first_byte_arrives, arrived };
    Time time;
    unsigned long number;  // of several at one time, the one that was made first comes first
    Kind kind;
    std::size_t port;
    PacketPointer packet;
  };

  static bool later(const Event& one, const Event& other) {
    return one.time != other.time ? one.time > other.time : one.number > other.number;
  }

  void at(Time time, Event::Kind kind, PacketPointer packet, std::size_t port = 0) {
    events_.push_back(Event{time, ++made_, kind, port, std::move(packet)});
    std::ranges::push_heap(events_, later);
  }

  void send(std::size_t number, Time now) {
    Port& port = ports_[number];
    PacketPointer packet = port.next();
    port.is_sending = packet != nullptr;
    if (!port.is_sending) return;
    at(now + duration(*packet), Event::port_is_free, nullptr, number);
    at(now + delay_, Event::first_byte_arrives, std::move(packet));
  }

  void carry_out(Event& event) {
    switch (event.kind) {
      case Event::port_is_free:
        return send(event.port, event.time);
      case Event::first_byte_arrives: {
        Time& free = ports_[event.packet->destination].in_is_free;
        free = std::max(free, event.time) + duration(*event.packet);
        return at(free, Event::arrived, std::move(event.packet));
      }
      case Event::arrived:
        ports_[event.packet->destination].device.write(*event.packet);
        return keep(std::move(event.packet));
    }
  }

  [[nodiscard]] nanoseconds duration(const Packet& packet) const {
    return nanoseconds(static_cast<long>(static_cast<double>(packet.ip_length()) * nanoseconds_per_byte_));
  }

  PacketPointer fresh() {
    if (unused_.empty()) return std::make_unique_for_overwrite<Packet>();
    PacketPointer packet = std::move(unused_.back());
    unused_.pop_back();
    return packet;
  }
  void keep(PacketPointer packet) { unused_.push_back(std::move(packet)); }

  std::vector<Port> ports_;
  std::vector<Event> events_;  // a heap
  unsigned long made_ = 0;
  std::vector<PacketPointer> unused_;
  double nanoseconds_per_byte_ = 0;
  nanoseconds delay_{0};
};

// The lines of standard input; false when there are no more.
bool read_shape(Switch& carrier) {
  static std::string text;
  std::array<char, 256> part;
  const ssize_t length = read(STDIN_FILENO, part.data(), part.size());
  if (length <= 0) return false;
  text.append(part.data(), static_cast<std::size_t>(length));
  for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
    double megabits = 0, microseconds = 0;
    if (std::sscanf(text.c_str(), "%lf %lf", &megabits, &microseconds) != 2) return false;
    carrier.shape(megabits, microseconds);
  }
  return true;
}

void run(Switch& carrier) {
  for (;;) {
    std::vector<pollfd> files{{STDIN_FILENO, POLLIN, 0}};
    for (const Port& port : carrier.ports()) files.push_back({port.device.file(), POLLIN, 0});
    timespec time{};
    const auto wait = carrier.until_next_event();
    if (wait) time = {wait->count() / 1'000'000'000, wait->count() % 1'000'000'000};
    if (ppoll(files.data(), files.size(), wait ? &time : nullptr, nullptr) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "ppoll");
    if (files[0].revents != 0 && !read_shape(carrier)) return;
    for (std::size_t number = 0; number + 1 < files.size(); ++number) {
      const short events = files[number + 1].revents;
      if ((events & POLLERR) != 0)
        carrier.ports()[number].device.reopen();
      else if ((events & POLLIN) != 0)
        carrier.take(number);
    }
    carrier.do_what_is_due();
  }
}

// Where ranks burn all cores, packets must not wait for them.
void come_first() {
  const sched_param priority{.sched_priority = 50};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) std::perror("switch: no real-time priority");
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  std::signal(SIGCHLD, SIG_IGN);  // the first process of a namespace inherits those whose parent has ended
  Switch carrier(std::strtoul(argv[1], nullptr, 10));
  come_first();
  std::puts("ready");
  std::fflush(stdout);
  run(carrier);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "switch: %s\n", error.what());
  return 1;
}
