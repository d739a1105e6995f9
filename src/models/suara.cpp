// SPDX-License-Identifier: BSD-3-Clause
#include "models/suara.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <vector>

namespace offbeat::suara {
namespace {

// Table 1 of the paper, adapted to our algorithms. Each function equals the text in Algorithm::cost, which
// people read, if all messages have the same a and b (tests/unit/suara_test.cpp compares them).

int power_of_two(int p) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(p))); }
int log2_of_power(int q) { return std::countr_zero(static_cast<unsigned>(q)); }

// Returns the time to fold p ranks into q groups, and to send them the result.
double fold(const Costs& k, int p, int q) {
  if (q >= p) return 0;
  const int largest = (p + q - 1) / q;
  const auto [a, b] = k.message(k.n, p, largest);
  const double others = largest - 1;
  const double collect = k.w() > 0 ? others * (a + k.n * b + k.n * k.c)
                                   : a + k.n * b + (others - 1) * k.n * std::max(b, k.c) + k.n * k.c;
  return collect + a + others * k.n * b + k.w() * (others - 1) * a;
}

double linear(const Costs& k, int p) {
  const auto [a, b] = k.message(k.n);
  const double move = k.n * b;
  const double combine = k.n * k.c;
  const double o = k.messages->o;
  if (k.w() > 0) return (p - 1) * (2 * a + 2 * move + combine);
  const double at_once = std::min(p - 1.0, std::max(1.0, std::min(7.0, std::floor((1 << 20) / k.n))));
  const double last = p - 1 - at_once * (std::ceil((p - 1) / at_once) - 1);
  const double each = std::max(move, o);
  const double combined_last = (p - 2 - last) * each + std::min(p - 1.0, at_once + last) * combine + last * o;
  const double busy_since_first = (at_once - 1) * each + (p - 1) * combine + (p - 1 - at_once) * o;
  const double after_first = std::max({(p - 2) * each + last * combine, combined_last, busy_since_first});
  return 2 * (a + move) + after_first + (p - 2) * (move + o);
}

double binomial(const Costs& k, int p) {
  const int q = power_of_two(p);
  const double log = log2_of_power(q);
  const double surplus = p > q ? 1 : 0;
  const auto [a, b] = k.message(k.n);
  const double combine = k.n * k.c;
  double port = surplus * k.n * b;  // of the root
  double moving = 0;
  for (int distance = 1; distance < q; distance *= 2) {
    const Hockney each = k.message(k.n, p, 2L * distance);
    port += k.n * each.b;
    moving += each.a + k.n * each.b;
  }
  const double reduce =
      std::max(moving + log * combine + surplus * (combine + k.w() * (a + k.n * b)), a + port + combine);
  return reduce + moving + surplus * (k.n * b + k.w() * a);
}

double recursive_doubling(const Costs& k, int p) {
  const int q = power_of_two(p);
  const double early = k.w() == 0 && p > q && 2 * p <= 3 * q ? k.message(k.n, p, 2).a : 0;
  double moving = 0;
  for (int distance = 1; distance < q; distance *= 2) {
    const auto [a, b] = k.exchange(k.n, p, distance);
    moving += a + k.n * b;
  }
  return moving + log2_of_power(q) * k.n * k.c + fold(k, p, q) - early;
}

double ring(const Costs& k, int p) {
  const auto [a, b] = k.step_of_ring(k.n / p, p);
  const double part = k.n * (p - 1) / p;
  return 2.0 * (p - 1) * a + part * (2 * b + k.c);
}

// Two segments are in flight. Each step of a pair ends with the slower of latency and work; the last segment
// may be shorter than the others. Then a ring of whole blocks follows.
double ring_segmented(const Costs& k, int p) {
  const double block = k.n / p;
  const double s = std::max(1.0, std::ceil(block / k.segment));
  const double full = std::min(block, k.segment);
  const double last = block - (s - 1) * full;
  const auto [a, b] = k.step_of_ring(full, p);
  const Hockney of_last = k.step_of_ring(last, p);
  const Hockney of_block = k.step_of_ring(block, p);
  const double alone = a + full * (b + k.c);
  const double work = std::max(full * b, full * k.c + k.messages->v);
  const double work_of_last = std::max(last * of_last.b, last * k.c + k.messages->v);
  const double pairs = std::floor(s / 2);
  const double whole = of_block.a + block * of_block.b;
  if (s > 2 * pairs) {
    const double steps = pairs * std::max(alone, 2 * work) + of_last.a + last * (of_last.b + k.c);
    return (p - 1) * (steps + whole);
  }
  const double last_pair = std::max(alone, work + work_of_last);
  const double steps = (pairs - 1) * std::max(alone, 2 * work) + last_pair;
  return (p - 1) * (steps + whole) + alone + work_of_last - last_pair;
}

// In both phases the messages have n/2, n/4 and so on to n/q bytes.
double rabenseifner(const Costs& k, int p) {
  const int q = power_of_two(p);
  double moving = 0;
  for (int distance = 1; distance < q; distance *= 2) {
    const double bytes = k.n / 2 / distance;
    const auto [a, b] = k.exchange(bytes, p, distance);
    moving += 2 * (a + bytes * b);
  }
  return moving + k.n * (q - 1) / q * k.c + fold(k, p, q);
}

CostTerms terms_of_linear(const Costs& k, double) {
  const auto [a, b] = k.message(k.n);
  return {.linear = 2 * k.w() * a + k.n * (2 * b + k.c)};
}
CostTerms terms_of_binomial(const Costs& k, double) {
  const auto [a, b] = k.message(k.n);
  return {.logarithmic = 2 * a + k.n * (2 * b + k.c)};
}
CostTerms terms_of_recursive_doubling(const Costs& k, double) {
  const auto [a, b] = k.message(k.n);
  return {.logarithmic = a + k.n * (b + k.c)};
}
CostTerms terms_of_ring(const Costs& k, double p) {
  const auto [a, b] = k.message(k.n / p);
  return {.linear = 2 * a, .reciprocal = -k.n * (2 * b + k.c)};
}
CostTerms terms_of_ring_segmented(const Costs& k, double p) {
  if (k.n / p <= k.segment) return terms_of_ring(k, p);
  const double g = k.segment;
  const auto [a, b] = k.message(g);
  const Hockney of_block = k.message(k.n / p);
  const double segment = std::max(a + g * (b + k.c), 2 * std::max(g * b, g * k.c + k.messages->v)) / 2;
  return {.linear = of_block.a, .reciprocal = -k.n * (segment / g + of_block.b)};
}
CostTerms terms_of_rabenseifner(const Costs& k, double p) {
  const auto [a, b] = k.message(k.n / p);
  return {.logarithmic = 2 * a, .reciprocal = -k.n * (2 * b + k.c)};
}

constexpr std::array base_algorithms{
    BaseAlgorithm{"linear", linear, terms_of_linear},
    BaseAlgorithm{"binomial", binomial, terms_of_binomial},
    BaseAlgorithm{"recursive_doubling", recursive_doubling, terms_of_recursive_doubling},
    BaseAlgorithm{"ring", ring, terms_of_ring},
    BaseAlgorithm{"ring_segmented", ring_segmented, terms_of_ring_segmented},
    BaseAlgorithm{"rabenseifner", rabenseifner, terms_of_rabenseifner},
};

// Stands for a number of neighbours on a node: the whole line is on one.
constexpr int all_ranks = 0;

class Search {
 public:
  Search(const Problem& problem, std::span<const Candidate> candidates)
      : problem_(problem), candidates_(candidates) {
    folding_ = {.n = std::max(1.0, problem.bytes),
                .messages = &problem.messages,
                .near = problem.ranks_per_node > 1 ? &problem.near : nullptr,
                .near_ranks = problem.ranks_per_node,
                .c = problem.c};
  }

  // T is a sum over the dimensions. So the best pair of algorithms for a grid is the best algorithm of each
  // dimension, and all pairs and all divisors cost one table: P up to 1,024 has at most 32 divisors.
  void try_divisors(int core) {
    find_divisors(core);
    const std::size_t whole = divisors_.size() - 1;
    if (core == problem_.ranks) compare_with_best({whole});
    if (problem_.most_dimensions < 2) return;
    for (std::size_t first = 1; first < whole; ++first) {
      const int rest = core / divisors_[first];
      compare_with_best({first, index_of(rest)});
      if (problem_.most_dimensions < 3) continue;
      for (std::size_t second = 1; second < whole && divisors_[second] < rest; ++second) {
        if (rest % divisors_[second] == 0)
          compare_with_best({first, second, index_of(rest / divisors_[second])});
      }
    }
  }

  [[nodiscard]] double seconds(const Grid& grid) const {
    double sum = folding_seconds(grid);
    int stride = 1;
    for (std::size_t k = 0; k < static_cast<std::size_t>(grid.dimensions); ++k) {
      const Candidate& candidate = candidates_[grid.algorithms[k]];
      Costs of_line = costs(near_ranks(grid.ranks(), stride, grid.sizes[k]));
      set_candidate(of_line, candidate);
      sum += candidate.base->time(of_line, grid.sizes[k]);
      stride *= grid.sizes[k];
    }
    return sum;
  }

  // Returns a number of ranks, less than P, into which folding pays most: a grid near the stationary point of
  // a pair. Each rank of the grid then has at most one surplus rank. Returns 0 if there is none.
  [[nodiscard]] int best_folded_ranks() const {
    const int least = (problem_.ranks + 1) / 2;
    const double around = std::sqrt(least);
    Costs of_row = costs(near_ranks(least, 1, static_cast<int>(around)));
    Costs of_column = costs(1);
    std::vector<int> columns;
    for (const Candidate& row : candidates_) {
      set_candidate(of_row, row);
      const CostTerms row_terms = row.base->terms(of_row, around);
      for (const Candidate& column : candidates_) {
        set_candidate(of_column, column);
        const std::optional<double> x =
            stationary_point(row_terms, column.base->terms(of_column, around), least);
        if (!x) continue;
        const int below = static_cast<int>(*x);
        for (const int each : {below, below + 1, power_of_two(below), 2 * power_of_two(below)})
          if (std::ranges::find(columns, each) == columns.end()) columns.push_back(each);
      }
    }
    int best = 0;
    double seconds = std::numeric_limits<double>::infinity();
    for (const int x : columns) {
      const int y = (least + x - 1) / x;
      for (const int rows : {y, static_cast<int>(std::bit_ceil(static_cast<unsigned>(y)))}) {
        if (static_cast<long>(x) * rows >= problem_.ranks) continue;
        const double time = best_line(x, near_ranks(x * rows, 1, x)).seconds +
                            best_line(rows, near_ranks(x * rows, x, rows)).seconds;
        if (time >= seconds) continue;
        seconds = time;
        best = x * rows;
      }
    }
    return best;
  }

  [[nodiscard]] const Grid& best() const { return best_; }

 private:
  // The best algorithm of one line.
  struct Line {
    double seconds = std::numeric_limits<double>::infinity();
    std::size_t algorithm = 0;
  };

  // Returns what candidates cost along lines of which this many neighbours are on a node.
  [[nodiscard]] Costs costs(int near) const {
    const double on_node = near == all_ranks ? 0 : problem_.ranks_per_node;
    return {.n = folding_.n,
            .near_ranks = near,
            .least_b = on_node / std::max(1, near) * problem_.node_b,
            .c = problem_.c};
  }
  static void set_candidate(Costs& costs, const Candidate& candidate) {
    costs.messages = costs.near_ranks == all_ranks ? &candidate.within : &candidate.between;
    costs.near = costs.near_ranks > 1 ? &candidate.within : nullptr;
    costs.segment = candidate.segment;
  }

  [[nodiscard]] Line best_line(int ranks, int near) const {
    Line best;
    Costs of_line = costs(near);
    for (std::size_t k = 0; k < candidates_.size(); ++k) {
      set_candidate(of_line, candidates_[k]);
      const double seconds = candidates_[k].base->time(of_line, ranks);
      if (seconds < best.seconds) best = {seconds, k};
    }
    return best;
  }

  // Returns how many neighbours of a line are on a node, or all_ranks. `stride` ranks of the core are between
  // neighbours. If ranks are folded, the first ranks of the core stand for two and the others for one.
  [[nodiscard]] int near_ranks(int core, int stride, int size) const {
    const int ppn = problem_.ranks_per_node;
    if (ppn == problem_.ranks) return all_ranks;
    if (stride >= ppn) return 1;
    const int surplus = problem_.ranks - core;
    int near = ppn;
    if (surplus > 0) near = ppn % 2 == 0 ? std::gcd(ppn / 2, surplus) : 1;
    near = near % stride == 0 ? near / stride : 1;
    return near % size == 0 ? all_ranks : near;
  }

  // The best algorithm of a line with as many ranks as this divisor.
  [[nodiscard]] const Line& line(std::size_t divisor, int stride) {
    const int near = near_ranks(divisors_.back(), stride, divisors_[divisor]);
    const std::size_t column = near > 1 ? 2 + index_of(stride) : static_cast<std::size_t>(near);
    std::optional<Line>& found = lines_[divisor * columns_ + column];
    if (!found) found = best_line(divisors_[divisor], near);
    return *found;
  }

  void find_divisors(int core) {
    divisors_.clear();
    for (int d = 1; static_cast<long>(d) * d <= core; ++d)
      if (core % d == 0) divisors_.push_back(d);
    for (std::size_t k = divisors_.size(); k-- > 0;) {
      const int partner = core / divisors_[k];
      if (partner != divisors_[k]) divisors_.push_back(partner);
    }
    columns_ = 2 + index_of(problem_.ranks_per_node);  // no neighbours share a node at longer strides
    lines_.assign(divisors_.size() * columns_, {});
  }
  [[nodiscard]] std::size_t index_of(int divisor) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(divisors_, divisor) - divisors_.begin());
  }

  // Compares the grid of these divisors with the best one.
  void compare_with_best(std::initializer_list<std::size_t> divisors) {
    Grid grid;
    int stride = 1;
    for (const std::size_t k : divisors) {
      const Line& best = line(k, stride);
      const auto at = static_cast<std::size_t>(grid.dimensions++);
      grid.sizes[at] = divisors_[k];
      grid.algorithms[at] = best.algorithm;
      grid.seconds += best.seconds;
      stride *= divisors_[k];
    }
    grid.seconds += folding_seconds(grid);
    if (best_.dimensions == 0 || grid.seconds < best_.seconds) best_ = grid;
  }

  // Returns what folding surplus ranks into the grid costs.
  [[nodiscard]] double folding_seconds(const Grid& grid) const {
    const int core = grid.ranks();
    const int surplus = problem_.ranks - core;
    if (surplus == 0) return 0;
    const double whole = fold(folding_, problem_.ranks, core);
    if (folding_.w() > 0 || surplus > grid.sizes[0]) return whole;
    // Folding delays only the first row. The others begin before it ends.
    const std::string_view first = candidates_[grid.algorithms[0]].base->name;
    const auto last = static_cast<std::size_t>(grid.dimensions) - 1;
    const double saved =
        surplus == 1 && first == "linear"
            ? 2  // the late rank is the root: all else is there when it begins, and it has the result first
            : saved_latencies(candidates_[grid.algorithms[last]].base->name, grid.sizes[last]);
    // Each hidden latency shrinks by the time that the message keeps the port busy.
    const auto [a, b] = folding_.message(folding_.n, problem_.ranks, 2);
    return whole - saved * std::max(0.0, a - folding_.n * b);
  }

  // A column whose first rank is late hides up to two latencies of folding: one if all data of the others are
  // there when that rank begins, and one if it has the result first.
  [[nodiscard]] static double saved_latencies(std::string_view algorithm, int ranks) {
    const bool needs_power_of_two = algorithm == "recursive_doubling" || algorithm == "rabenseifner";
    if (algorithm == "linear" || algorithm == "binomial" ||
        (needs_power_of_two && power_of_two(ranks) < ranks))
      return 2;
    return algorithm == "rabenseifner" ? 0 : 1;
  }

  const Problem& problem_;
  const std::span<const Candidate> candidates_;
  Costs folding_;
  std::vector<int> divisors_;
  std::size_t columns_ = 0;
  // For each number of ranks: on one node, each on its own node, and with each stride.
  std::vector<std::optional<Line>> lines_;
  Grid best_;
};

}  // namespace

std::span<const BaseAlgorithm> bases() { return base_algorithms; }

// T'(x) = 0 is a quadratic equation, whatever the pair: with T_row = L log2 x + U x + V / x and the same for
// the column at P/x, T'(x) x^2 = u x^2 + l x - v. T''(x) > 0 where 2v > l x.
std::optional<double> stationary_point(const CostTerms& row, const CostTerms& column, double ranks) {
  const double u = row.linear + column.reciprocal / ranks;
  const double l = (row.logarithmic - column.logarithmic) / std::numbers::ln2;
  const double v = row.reciprocal + column.linear * ranks;
  const double root = std::sqrt(l * l + 4 * u * v);  // not a number if there is no stationary point
  // Both roots, without a difference of nearly equal numbers; one is infinite if u is 0.
  const double sum = -(l + std::copysign(root, l)) / 2;
  for (const double x : {sum / u, -v / sum}) {
    if (x > 1 && x < ranks && 2 * v > l * x) return x;
  }
  return {};
}

double seconds(const Problem& problem, std::span<const Candidate> candidates, const Grid& grid) {
  return Search(problem, candidates).seconds(grid);
}

Grid cheapest_grid(const Problem& problem, std::span<const Candidate> candidates) {
  Search search(problem, candidates);
  search.try_divisors(problem.ranks);
  if (problem.may_fold && problem.ranks > 3 && problem.most_dimensions > 1) {
    const int power = power_of_two(problem.ranks);
    if (power < problem.ranks) search.try_divisors(power);
    const int core = search.best_folded_ranks();
    if (core > 1 && core != power) search.try_divisors(core);
    // Short messages do not wait for their receivers, so a few surplus ranks cost next to nothing.
    if (problem.bytes <= problem.messages.eager_bytes) {
      for (const int near : {problem.ranks - 1, problem.ranks - 2}) search.try_divisors(near);
    }
  }
  return search.best();
}

}  // namespace offbeat::suara
