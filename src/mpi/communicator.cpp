// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicator.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "mpi/runtime.hpp"
#include "mpi/set_up.hpp"

namespace offbeat {
namespace {

std::string size_text(std::size_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

struct Reason {
  const char*
      text;  // lives as long as the exception; null: the program knows, it has revoked the communicator
  int code;  // of the host MPI
};

Reason reason_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::bad_alloc&) {
    return {"no memory", MPI_ERR_NO_MEM};
  } catch (const CommunicationError& error) {
    if (error.code == FaultTolerance::revoked) return {nullptr, error.code};
    return {error.what(), error.code == MPI_SUCCESS ? MPI_ERR_OTHER : error.code};
  } catch (const std::exception& error) {
    return {error.what(), MPI_ERR_OTHER};
  } catch (...) {
    return {"an error", MPI_ERR_OTHER};
  }
}

// calls(first, ranks): for all ranks of a communicator, some at a time, their numbers in MPI_COMM_WORLD.
template <class Calls>
void for_world_ranks(const Host& host, MPI_Comm communicator, int size, Calls&& calls) {
  constexpr int at_once = 256;
  std::array<int, at_once> local;
  std::array<int, at_once> in_world;
  MPI_Group group;
  MPI_Group world;
  host.Comm_group(communicator, &group);
  host.Comm_group(MPI_COMM_WORLD, &world);
  for (int first = 0; first < size; first += at_once) {
    const int count = std::min(at_once, size - first);
    for (int k = 0; k < count; ++k) local[static_cast<std::size_t>(k)] = first + k;
    host.Group_translate_ranks(group, count, local.data(), world, in_world.data());
    calls(first, std::span<const int>(in_world).first(static_cast<std::size_t>(count)));
  }
  host.Group_free(&world);
  host.Group_free(&group);
}

// Why the host serves every call on a communicator; empty: it need not. No message, no memory, and the same
// answer on all ranks.
std::string_view why_never_served(const Host& host, MPI_Comm communicator) {
  int inter = 0;
  int size = 1;
  host.Comm_test_inter(communicator, &inter);
  if (inter != 0) return "inter-communicator";
  host.Comm_size(communicator, &size);
  if (size == 1) return "one rank";
  // Processes that were spawned, or that connected: nobody knows whether they run under offbeat. Each rank
  // sees some that are not of its own MPI_COMM_WORLD.
  bool is_foreign = false;
  for_world_ranks(host, communicator, size, [&](int, std::span<const int> ranks) {
    is_foreign = is_foreign || std::ranges::find(ranks, MPI_UNDEFINED) != ranks.end();
  });
  return is_foreign ? "ranks of several MPI_COMM_WORLDs" : "";
}

bool needs_messages(const ChoiceTable& table) {
  return std::ranges::any_of(table.by_class, [](const Choice& choice) {
    return !choice.expression->is_native() && choice.expression->algorithm->needs.board != OnBoard::one_node;
  });
}

// Rank 0's proposal to the others.
struct Invitation {
  std::uint64_t settings = 0;     // that must be equal: a hash
  std::uint64_t team = 0;         // its serial number
  std::uint64_t is_new_team = 0;  // which all make now
  std::uint64_t place = 0;
  std::uint64_t messages = 0;      // number of the private communicator to be shared; 0: none
  std::uint64_t new_messages = 0;  // number for one that may be made
};

// A rank's answer to an invitation, bit by bit.
namespace has {
constexpr std::uint64_t memory = 1;
constexpr std::uint64_t same_settings = 2;
constexpr std::uint64_t team = 4;
constexpr std::uint64_t place = 8;
constexpr std::uint64_t board = 16;
constexpr std::uint64_t no_board = 32;
constexpr std::uint64_t messages = 64;
constexpr std::uint64_t room_for_messages = 128;
}  // namespace has

// A program that makes many communicators is not told as often.
void say_once_that_settings_differ(int ranks) {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  try_to([&] {
    say("ranks have different OFFBEAT_ settings: the host MPI serves this communicator of " +
        std::to_string(ranks) + " ranks, and others of them");
  });
}

}  // namespace

// After an error ranks no longer agree on what was sent: nobody can serve this communicator again, not even
// the host. Whoever waits on the board is told.
template <class Body>
void Communicator::or_break(Body&& body) {
  try {
    body();
  } catch (...) {
    is_broken_ = true;
    const Reason reason = reason_of(std::current_exception());
    const bool is_meant_for_the_program =
        reason.code == FaultTolerance::revoked || reason.code == FaultTolerance::process_failed;
    if (is_meant_for_the_program) failure_ = reason.code;
    if (has_board()) place_->board->give_up(reason.text, reason.code);
    throw;
  }
}

Communicator::Communicator(Runtime& process, MPI_Comm handle)
    : process_(process), handle_(handle), selection_(&process.allreduce) {
  const Host& host = process.host;
  host.Comm_rank(handle, &rank_);
  host.Comm_size(handle, &size_);
  why_native_ = why_never_served(host, handle);
  is_one_rank_ = why_native_ == "one rank";
  if (why_native_.empty()) {
    transport_ = std::make_unique<MpiTransport>(host, patience_without_board(process.settings));
    messages_ = std::make_shared<PrivateCommunicator>(host);
    may_be_revoked_ = process.fault_tolerance().is_on();
    if (may_be_revoked_) {
      transport_->watch(
          {.call = [](void* state) { static_cast<Communicator*>(state)->check_processes(); }, .state = this});
    }
  }
  apply();
}

Communicator::~Communicator() {
  if (!is_broken_ && !(has_board() && place_->board->is_given_up())) return;
  if (place_) place_->spoil();
  if (messages_ != nullptr) messages_->keep_for_ever();
}

// -- setting up

bool Communicator::start(Communicator* mine, Runtime& process, MPI_Comm handle) {
  const bool is_never_served =
      mine != nullptr ? !mine->serves() : !why_never_served(process.host, handle).empty();
  if (is_never_served) return mine != nullptr;
  try {
    SetUp set_up(process.host, handle, process.settings);
    return agree(mine, process, set_up);
  } catch (const CommunicationError&) {  // the host reports it, in the call itself
    return false;
  }
}

bool Communicator::agree(Communicator* mine, Runtime& process, SetUp& set_up) {
  std::vector<int> world_ranks;
  const bool is_ready = mine != nullptr && try_to([&] {
                          world_ranks.resize(static_cast<std::size_t>(set_up.size));
                          process.teams.reserve();
                          for_world_ranks(process.host, set_up.communicator(), set_up.size,
                                          [&](int first, std::span<const int> some) {
                                            std::ranges::copy(some, world_ranks.begin() + first);
                                          });
                        });

  bool is_new_team = false;
  auto which = Team::Which::free;
  // Twice at most, unless memory is short: a team that is new, and a place that was never used, are fine.
  for (;;) {
    std::shared_ptr<Team> team;
    std::optional<Team::Place> place;
    std::shared_ptr<PrivateCommunicator> shared;
    std::shared_ptr<const TeamChoices> choices;
    Invitation invitation{.settings = process.settings_hash};
    const auto look_for_team = [&] {
      team = invitation.is_new_team != 0 ? std::make_shared<Team>(world_ranks, set_up.rank, invitation.team)
                                         : process.teams.find(world_ranks);
      if (team == nullptr || invitation.is_new_team != 0) return;
      choices = team->choices(*mine->selection_);
      shared = team->messages();
    };

    bool has_memory = is_ready;
    if (set_up.rank == 0) {
      has_memory = has_memory && try_to([&] {
                     if (!is_new_team) look_for_team();
                     if (team == nullptr) {
                       invitation.is_new_team = 1;
                       invitation.team = process.teams.next_serial();
                       look_for_team();
                     }
                     place.emplace(Team::choose_place(team, which));
                     invitation.team = team->serial();
                     invitation.place = static_cast<std::uint64_t>(place->index());
                     invitation.messages = shared != nullptr ? shared->id() : 0;
                     invitation.new_messages = process.teams.next_serial();
                   });
    }
    set_up.broadcast(invitation);
    if (set_up.rank != 0) {
      has_memory = has_memory && try_to([&] {
                     look_for_team();
                     if (team == nullptr) return;
                     if (auto taken = Team::take_place(team, static_cast<int>(invitation.place)))
                       place.emplace(std::move(*taken));
                   });
    }

    std::uint64_t mine_to_say = 0;
    const auto say_if = [&](bool holds, std::uint64_t what) { mine_to_say |= holds ? what : 0; };
    say_if(has_memory, has::memory);
    say_if(invitation.settings == process.settings_hash, has::same_settings);
    say_if(team != nullptr && team->serial() == invitation.team, has::team);
    say_if(place.has_value(), has::place);
    say_if(place && place->board != nullptr, has::board);
    say_if(place && place->board == nullptr, has::no_board);
    say_if(shared != nullptr && shared->id() == invitation.messages, has::messages);
    say_if(PrivateCommunicator::may_be_created(), has::room_for_messages);
    const std::uint64_t all = set_up.unanimous(mine_to_say);

    if ((all & has::memory) == 0) return false;
    if ((all & has::same_settings) == 0) {
      mine->leave_to_host("the ranks have different settings");
      if (set_up.rank == 0) say_once_that_settings_differ(set_up.size);
      return true;
    }
    is_new_team = (all & has::team) == 0;
    which = (all & has::place) == 0 ? Team::Which::never_used : Team::Which::free;
    if (is_new_team || which == Team::Which::never_used) continue;

    if (invitation.is_new_team != 0) {
      team->locate(set_up, process.settings);
      if (!set_up.all(try_to([&] { choices = team->choices(*mine->selection_); }))) return false;
      process.teams.add(team);
    }
    if ((all & (has::board | has::no_board)) == 0) place->board.reset();
    mine->place_.emplace(std::move(*place));
    mine->transport_->locality = &team->locality();
    mine->share_messages((all & has::messages) != 0 ? std::move(shared) : nullptr, invitation.new_messages);
    mine->provide(set_up, std::move(choices), (all & has::room_for_messages) != 0);
    return true;
  }
}

// Each place has tags of its own, so that communicators of a team can share one of the host's for messages.
void Communicator::share_messages(std::shared_ptr<PrivateCommunicator> shared, std::uint64_t new_id) {
  const int base = MpiTransport::tags * place_->index();
  const bool tags_suffice = base <= process_.highest_tag() - MpiTransport::tags;
  if (tags_suffice && shared != nullptr) messages_ = std::move(shared);
  tag_base_ = tags_suffice ? base : 0;
  new_messages_id_ = tags_suffice ? new_id : 0;
}

void Communicator::provide(SetUp& set_up, std::shared_ptr<const TeamChoices> choices,
                           bool has_room_for_messages) {
  choices_ = std::move(choices);
  if (process_.settings.window_bytes > 0 && choices_->with_board.any_on_board()) find_board(set_up);
  if (needs_messages(table()) && !find_messages(set_up, has_room_for_messages)) {
    leave_to_host("the MPI has no communicator, or the process no memory, left for offbeat");
    return;
  }
  tell_board();
  apply();
}

void Communicator::find_board(SetUp& set_up) {
  if (board_tried_) return;
  board_tried_ = true;
  Team& team = place_->team();
  if (place_->board == nullptr) {
    place_->board = NodeBoard::create(set_up, team.locality(), team.world_ranks(), process_.settings);
  }
  if (place_->board == nullptr) return;
  Board& board = place_->board->board();
  board.waiters = transport_.get();
  transport_->use(board);
}

bool Communicator::find_messages(SetUp& set_up, bool has_room) {
  if (messages_->handle() == MPI_COMM_NULL) {
    if (!has_room || !messages_->create(set_up.communicator(), new_messages_id_)) return false;
    if (new_messages_id_ != 0) place_->team().offer_messages(messages_);
  }
  transport_->use(messages_->handle(), tag_base_);
  tell_board();
  return true;
}

// Tells the board which communicator now uses it.
void Communicator::tell_board() {
  if (!has_board()) return;
  if (!turn_) turn_.emplace(process_.host, process_.own_communicator());
  BoardClient client{.turn = &*turn_};
  if (messages_->handle() != MPI_COMM_NULL) {
    client.messages = messages_->handle();
    client.failure_tag = tag_base_ + MpiTransport::tags - 1;
  }
  if (may_be_revoked_) {
    client.check = [](void* state) { static_cast<Communicator*>(state)->check_processes(); };
    client.state = this;
  }
  place_->board->serve(client);
}

void Communicator::refresh() {
  if (!serves()) {
    generation_ = selection_->generation();
    return;
  }
  or_break([&] {
    SetUp set_up(process_.host, handle_, process_.settings);
    std::shared_ptr<const TeamChoices> choices;
    std::uint64_t mine = 0;
    if (try_to([&] { choices = place_->team().choices(*selection_); })) mine |= has::memory;
    if (PrivateCommunicator::may_be_created()) mine |= has::room_for_messages;
    const std::uint64_t all = set_up.unanimous(mine);
    // Without memory somewhere all stay with what they have, and try again in the next call.
    if ((all & has::memory) != 0) provide(set_up, std::move(choices), (all & has::room_for_messages) != 0);
  });
}

void Communicator::leave_to_host(std::string_view why) {
  why_native_ = why;
  transport_.reset();
  apply();
}

const ChoiceTable& Communicator::table() const {
  return has_board() ? choices_->with_board : choices_->without_board;
}

void Communicator::apply() {
  runnable_.fill(nullptr);
  if (serves() && choices_ != nullptr) {
    generation_ = choices_->without_board.generation;
    std::ranges::transform(table().by_class, runnable_.begin(), [](const Choice& choice) {
      return choice.expression->is_native() ? nullptr : choice.expression;
    });
  }
  unannounced_.fill(process_.settings.verbose > 0 && launcher_rank() == 0);
}

void Communicator::announce(std::size_t index) {
  unannounced_[index] = false;
  // Never destroyed: a program may call MPI while it exits.
  static std::mutex mutex;
  static auto* said = new std::set<std::pair<int, std::string>>;
  const std::size_t smallest = index == 0 ? 0 : std::size_t{1} << (index - 1);
  try_to([&] {
    const std::string range =
        index == 0 ? "0 B" : "from " + size_text(smallest) + " to below " + size_text(smallest * 2);
    const Expression* expression = runnable_[index];
    const std::string algorithm = expression != nullptr ? expression->text() : "native";
    const bool varies = expression != nullptr && !expression->every_run();
    const std::string why(why_native_.empty() ? table().by_class[index].reason : why_native_);
    const std::string line = "allreduce " + range + ", ranks: " + std::to_string(size_) + ": " + algorithm +
                             " (" + why + (varies ? "; bits differ from run to run)" : ")");
    const std::lock_guard lock(mutex);
    if (said->emplace(size_, line).second) say(line);
  });
}

// -- calls

void Communicator::check(const CallSignature& mine) {
  if (!serves()) return;
  require_intact();
  complete_open();
  enter_board(0);
  std::string mismatch;
  or_break([&] {
    // On several nodes the board only names who is late; its ranks must not leave the others alone with a
    // mismatch.
    if (has_board()) mismatch = find_mismatch(place_->board->board(), mine);
    if (!has_board() || place_->team().locality().membership.nodes() > 1) {
      SetUp set_up(process_.host, handle_, process_.settings);
      mismatch = find_mismatch(set_up, mine);
    }
  });
  if (mismatch.empty()) return;
  if (rank_ == 0) say(mismatch);
  throw CommunicationError(mismatch, MPI_ERR_ARG);
}

void Communicator::report_earlier_failure() const {
  throw CommunicationError("an earlier collective on this communicator failed", failure_);
}

bool Communicator::asks_whether_revoked() const { return process_.fault_tolerance().is_revoked(handle_); }

void Communicator::check_processes() const {
  if (handle_ == MPI_COMM_NULL) return;
  const FaultTolerance& faults = process_.fault_tolerance();
  if (faults.is_revoked(handle_))
    throw CommunicationError("the communicator was revoked", FaultTolerance::revoked);
  if (faults.has_lost_a_process(handle_))
    throw CommunicationError("a process of the communicator has died", FaultTolerance::process_failed);
}

void Communicator::run(const Expression& expression, const Call& call) {
  if (open_ != nullptr) [[unlikely]]
    complete_open();
  if (call.output.count == 0) return;
  enter_board(call.output.bytes());
  or_break([&] {
    if (is_immediate(*expression.algorithm, size_, call.output.bytes())) {
      expression.algorithm->immediate->run(*transport_->board, call);
      return;
    }
    Task task = carry_out(Endpoint(*transport_, rank_, size_, expression.lanes()), call, expression);
    transport_->drive(task);
  });
  if (ProgressDue::after_call(call.output.bytes())) [[unlikely]]
    give_progress();
}

// This call is complete, so a rank that has failed meanwhile is the next one's concern.
void Communicator::give_progress() {
  ProgressDue::give([&] {
    if (has_board()) place_->board->let_host_move();
  });
}

const Expression* Communicator::choose_without_host(const Expression& fallback, const Vector& output) {
  const Expression* chosen = choose(output.count, output.width);
  if (chosen != nullptr || !serves()) return chosen;
  bool has_messages = false;
  or_break([&] {
    SetUp set_up(process_.host, handle_, process_.settings);
    has_messages = find_messages(set_up, set_up.all(PrivateCommunicator::may_be_created()));
  });
  return has_messages ? &fallback : nullptr;
}

bool Communicator::run_without_host(const Expression& fallback, Call call) {
  ++other_calls_;
  require_intact();
  if (is_one_rank_) {
    if (call.input.data != call.output.data)
      std::copy_n(call.input.data, call.input.bytes(), call.output.data);
    return true;
  }
  const Expression* expression = choose_without_host(fallback, call.output);
  if (expression != nullptr) run(*expression, call);
  return expression != nullptr;
}

bool Communicator::begin(const Expression& fallback, Open& open, Call call) {
  require_intact();
  complete_open();
  if (is_one_rank_ || call.output.count == 0) {
    open.is_complete = true;
    return run_without_host(fallback, call);
  }
  ++other_calls_;
  const Expression* expression = choose_without_host(fallback, call.output);
  if (expression == nullptr) return false;
  enter_board(call.output.bytes());
  or_break([&] {
    open.task = carry_out(Endpoint(*transport_, rank_, size_, expression->lanes()), call, *expression);
    transport_->begin(open.task);
  });
  open_ = &open;
  return true;
}

bool Communicator::advance(Open& open) {
  go_on(open, [&] { open.is_complete = transport_->advance(open.task); });
  return open.is_complete;
}

void Communicator::complete(Open& open) {
  go_on(open, [&] {
    transport_->complete(open.task);
    open.is_complete = true;
  });
}

template <class Body>
void Communicator::go_on(Open& open, Body&& body) {
  if (open.is_complete) return;
  try {
    require_intact();
    or_break(body);
  } catch (...) {
    open_ = nullptr;  // whoever holds it gives it up
    if (is_abandoned_) delete this;
    throw;
  }
  if (!open.is_complete) return;
  open_ = nullptr;
  if (is_abandoned_) delete this;
}

void Communicator::complete_open() {
  if (open_ != nullptr) complete(*open_);
}

bool Communicator::abandon() {
  handle_ = MPI_COMM_NULL;
  may_be_revoked_ = false;
  is_abandoned_ = true;
  return open_ == nullptr;
}

}  // namespace offbeat
