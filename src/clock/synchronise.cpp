// SPDX-License-Identifier: BSD-3-Clause
#include "clock/synchronise.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "base/own_floating_point.hpp"

namespace offbeat::clock {
namespace {

enum class PingKind : std::uint8_t { more, last };

// One ping of a client: the middle of the round trip by its own clock, and how far the server's time was
// ahead.
struct Sample {
  Nanoseconds local_ns;
  Nanoseconds offset;
  Nanoseconds round_trip;
};

template <class Value>
void send_value(Messenger& messenger, int peer, const Value& value) {
  messenger.send(peer, std::as_bytes(std::span(&value, 1)));
}

template <class Value>
Value receive_value(Messenger& messenger, int peer) {
  Value value{};
  messenger.receive(peer, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

// Reads the clock in the middle of the computation, because what comes before and after it counts as a part
// of the two ways of the ping, which should take equal times.
Nanoseconds global_time(Messenger& messenger, const Model& model) {
  const OwnFloatingPoint own;
  return model.to_global(messenger.now());
}

void serve(Messenger& messenger, int client, const Model& model) {
  while (true) {
    const auto ping = receive_value<PingKind>(messenger, client);
    send_value(messenger, client, global_time(messenger, model));
    if (ping == PingKind::last) return;
  }
}

Sample ping_once(Messenger& messenger, int server, PingKind ping) {
  const Nanoseconds sent = messenger.now();
  send_value(messenger, server, ping);
  const auto answer = receive_value<Nanoseconds>(messenger, server);
  const Nanoseconds received = messenger.now();
  const Nanoseconds middle = sent + (received - sent) / 2;
  return {middle, answer - middle, received - sent};
}

// Pings at least `least` times and for at least `least_ns`. The first ping does not count: it may open a
// connection, or find the server busy with another client.
std::vector<Sample> ping(Messenger& messenger, int server, int least, Nanoseconds least_ns) {
  static_cast<void>(ping_once(messenger, server, PingKind::more));
  std::vector<Sample> samples;
  const Nanoseconds begin = messenger.now();
  bool is_last = false;
  while (!is_last) {
    is_last = std::ssize(samples) + 1 >= least && messenger.now() - begin >= least_ns;
    samples.push_back(ping_once(messenger, server, is_last ? PingKind::last : PingKind::more));
  }
  return samples;
}

// Keeps the samples whose round trip is at most a quarter of the way from the shortest to the median, and
// returns them by round trip, shortest first. Delays only add time, so these have the smallest error. It
// keeps at least 4 samples (or all, if there are fewer) and at least an eighth: fewer may come from one
// moment and say nothing about the slope.
std::vector<Sample> samples_with_least_delay(std::vector<Sample> samples) {
  std::ranges::sort(samples, {}, &Sample::round_trip);
  const Nanoseconds least = samples.front().round_trip;
  const Nanoseconds median = samples[samples.size() / 2].round_trip;
  const auto slow = std::ranges::find_if(
      samples, [&](const Sample& sample) { return sample.round_trip > least + (median - least) / 4; });
  const auto least_kept = std::min(std::max<std::ptrdiff_t>(4, std::ssize(samples) / 8), std::ssize(samples));
  const auto kept = std::max(slow - samples.begin(), least_kept);
  samples.resize(static_cast<std::size_t>(kept));
  return samples;
}

// No clock of a computer is further off than this, in seconds per second.
constexpr double largest_slope = 1e-3;

// Fits a line by least squares. An uncertain slope would do harm if it is used for minutes after some
// milliseconds of measurement. So a slope below six times its standard error counts as 0.
Model fit_model(const std::vector<Sample>& samples, Method method) {
  const OwnFloatingPoint own;
  const auto count = static_cast<double>(samples.size());
  const Sample& origin = samples.front();
  double local_ns = 0;
  double offset = 0;
  for (const Sample& sample : samples) {
    local_ns += static_cast<double>(sample.local_ns - origin.local_ns) / count;
    offset += static_cast<double>(sample.offset - origin.offset) / count;
  }
  Model model{.source = method == Method::hca3 ? Source::hca3 : Source::offset,
              .at = origin.local_ns + std::llround(local_ns),
              .offset = origin.offset + std::llround(offset)};
  if (method == Method::offset || samples.size() < 8) return model;

  double square = 0;
  double product = 0;
  for (const Sample& sample : samples) {
    const double x = static_cast<double>(sample.local_ns - origin.local_ns) - local_ns;
    const double y = static_cast<double>(sample.offset - origin.offset) - offset;
    square += x * x;
    product += x * y;
  }
  if (square == 0) return model;
  const double slope = product / square;
  double error = 0;
  for (const Sample& sample : samples) {
    const double x = static_cast<double>(sample.local_ns - origin.local_ns) - local_ns;
    const double y = static_cast<double>(sample.offset - origin.offset) - offset;
    error += (y - slope * x) * (y - slope * x);
  }
  const double standard_error = std::sqrt(error / (count - 2) / square);
  if (std::abs(slope) > 6 * standard_error && std::abs(slope) < largest_slope) model.slope = slope;
  return model;
}

// Returns the lowest rank of each host, in rank order. It takes part in the synchronisation for its host.
std::vector<int> host_representatives(std::span<const std::uint64_t> hosts) {
  std::vector<int> by_host(hosts.size());
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) by_host[rank] = static_cast<int>(rank);
  const auto host = [&](int rank) { return hosts[static_cast<std::size_t>(rank)]; };
  std::ranges::stable_sort(by_host, {}, host);
  const auto is_same_host = [&](int a, int b) { return host(a) == host(b); };
  by_host.erase(std::unique(by_host.begin(), by_host.end(), is_same_host), by_host.end());
  std::ranges::sort(by_host);
  return by_host;
}

Model learn_model(Messenger& messenger, std::span<const int> host_representatives, std::size_t me,
                  Method method, const MeasuringEffort& effort) {
  const auto learn_from = [&](std::size_t server) {
    return fit_model(samples_with_least_delay(
                         ping(messenger, host_representatives[server], effort.least_pings, effort.least_ns)),
                     method);
  };
  Model model{.source = Source::shared, .at = messenger.now()};
  const std::size_t hosts = host_representatives.size();
  if (method == Method::offset) {
    if (me != 0) return learn_from(0);
    for (std::size_t client = 1; client < hosts; ++client)
      serve(messenger, host_representatives[client], model);
    return model;
  }
  for (std::size_t step = std::bit_ceil(hosts) / 2; step > 0; step /= 2) {
    if (me % (2 * step) == step) model = learn_from(me - step);
    if (me % (2 * step) == 0 && me + step < hosts) serve(messenger, host_representatives[me + step], model);
  }
  return model;
}

// Measures the residual error: each host pings rank 0, even if it got its model from another host.
void check(Messenger& messenger, std::span<const int> host_representatives, std::size_t me, int pings,
           Model& model) {
  if (me == 0) {
    for (const int client : host_representatives.subspan(1)) serve(messenger, client, model);
    return;
  }
  const Sample best = samples_with_least_delay(ping(messenger, host_representatives[0], pings, 0)).front();
  const OwnFloatingPoint own;
  model.residual_ns =
      std::abs(static_cast<double>(best.local_ns + best.offset - model.to_global(best.local_ns)));
  model.bound_ns = model.residual_ns + static_cast<double>(best.round_trip) / 2;
}

}  // namespace

// Where /proc cannot be read, processes share a clock only if their hosts have one name.
std::uint64_t host_of_this_process() {
  const auto content = [](const char* path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::string text = content("/proc/sys/kernel/random/boot_id");
  utsname system{};
  if (text.empty() && uname(&system) == 0) text = system.nodename;
  return fnv1a(text + content("/proc/self/timens_offsets"));
}

Model synchronise(Messenger& messenger, std::span<const std::uint64_t> hosts, Method method,
                  MeasuringEffort effort) {
  const auto host = [&](int rank) { return hosts[static_cast<std::size_t>(rank)]; };
  const int rank = messenger.rank();
  const std::vector<int> all = host_representatives(hosts);
  if (all.size() == 1) return {.source = Source::shared, .at = messenger.now()};
  const auto mine = std::ranges::find(all, host(rank), host);
  if (*mine != rank) return receive_value<Model>(messenger, *mine);

  const auto me = static_cast<std::size_t>(mine - all.begin());
  Model model = learn_model(messenger, all, me, method, effort);
  check(messenger, all, me, effort.check_pings, model);
  for (int other = rank + 1; other < messenger.ranks(); ++other) {
    if (host(other) == host(rank)) send_value(messenger, other, model);
  }
  return model;
}

}  // namespace offbeat::clock
