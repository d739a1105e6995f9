// SPDX-License-Identifier: BSD-3-Clause
// Serves one intercepted collective, however the call is spelt.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <numeric>
#include <optional>
#include <type_traits>

#include "base/copy.hpp"
#include "base/error.hpp"
#include "mpi/host/collective_call.hpp"
#include "mpi/interpose/side.hpp"
#include "mpi/process/runtime.hpp"

namespace offbeat {

// The result of an attempt to serve a call.
struct Outcome {
  // Rejected: offbeat has served the other ranks, and the host shall tell the program what is wrong.
  enum class Kind : std::uint8_t { served, native, rejected, failed };
  Kind kind = Kind::native;
  bool is_counted = false;  // by a communicator; without one the call is counted for the process
  int code = MPI_SUCCESS;   // of the host MPI, if the call failed
};

// Errors of the program in the count and the buffer on one rank.
[[nodiscard]] inline bool is_wrong_input(const void* data, std::int64_t count) {
  return count < 0 || (count > 0 && data == nullptr);
}
[[nodiscard]] inline bool is_wrong_output(const void* data, std::int64_t count) {
  return is_wrong_input(data, count) || data == MPI_IN_PLACE;
}

// Moves the input of a call that shares its memory with the output into `copy`. The board needs no copy where
// all blocks are equal.
inline void copy_of_input(const Expression& chosen, int ranks, Call& call, std::optional<pool::Block>& copy) {
  const bool has_lists = call.collective == Collective::reduce_scatter;
  const bool is_careful = chosen.algorithm->needs.board == OnBoard::one_node && !has_lists;
  if (is_careful || call.input.bytes() == 0) return;
  const ConstVector all = call.input_blocks.span(call.input, ranks);
  copy.emplace(all.bytes());
  offbeat::copy(copy->data(), all.data, all.bytes());
  call.input.data = copy->data() + (call.input.data - all.data);
}

// One call on its way. Every function here may throw what Communicator::run throws.
//
// A Service decides by values that MPI guarantees equal on all ranks: operation, root, communicator, type and
// count. If ranks may describe the same data by different types, it uses the bytes instead of type and count.
// So all ranks decide alike.
//
// An error may be on one rank alone, and the host reports it without asking another rank. So the Service
// judges the arguments before it does anything collective. If a root passes its output as its input, only the
// root is told, and the other ranks do not know. The root then takes part with an output that is dropped.
//
// carrier.find(...) gives the communicator and counts the call there; null: the host has to serve it. A call
// that may be served ends in carrier(communicator, call, shares, kept), whose outcome is that of the whole.
// `shares`: the input and the output are the same memory, and an algorithm may write a block of the output
// before it has read another block of the input. `kept`, of type Kept, has to last as long as the collective;
// its pack() comes before the collective, its unpack() after it. For vectors in device memory,
// carrier.keep(here) gives `kept`; `here` lasts until the carrier returns. carrier.may_have_stand_ins(...):
// whether long vectors with gaps may have stand-ins.
template <Collective collective, class Arguments, class Carrier>
class Service {
 public:
  using Kept = std::conditional_t<facts(collective).has_operation || !moves_data(collective), Lists, Sides>;
  Service(Runtime& process, const Arguments& call, Carrier& carrier, Kept& kept)
      : process_(process), call_(call), carrier_(carrier), kept_(kept) {}

  // Whether only the root has both an input and an output; the other ranks then know nothing of them.
  static constexpr bool root_judges = facts(collective).has_root && collective != Collective::bcast;

  // The process is started.
  Outcome run() {
    if constexpr (needs_place) {
      if (!find_place()) return {};
    }
    if constexpr (!has_data) {
      if (!is_counted()) return leave_to_host();
      if (checks()) [[unlikely]]
        check_barrier();
      return carry_out({collective}, false, kept_);
    } else if constexpr (known.has_operation) {
      return combine();
    } else {
      return copy();
    }
  }

 private:
  static constexpr CollectiveFacts known = facts(collective);
  static constexpr Roles who = roles(collective);
  static constexpr bool has_data = moves_data(collective);
  static constexpr bool has_lists = collective == Collective::reduce_scatter;
  static constexpr bool has_blocks = has_lists || collective == Collective::reduce_scatter_block;
  static constexpr bool needs_place = known.has_root || has_blocks || (has_data && !known.has_operation);

  // False: the root is none.
  [[nodiscard]] bool find_place() {
    if (const Communicator* mine = process_.known(call_.communicator)) {
      rank_ = mine->rank();
      size_ = mine->size();
    } else if (call_.communicator == MPI_COMM_NULL) {
      return false;
    } else {
      rank_ = process_.host.rank_in(call_.communicator);
      size_ = process_.host.size_of(call_.communicator);
    }
    return call_.root >= 0 && call_.root < size_;
  }
  [[nodiscard]] bool gives() const { return who.gives(rank_, call_.root); }
  [[nodiscard]] bool takes() const { return who.takes(rank_, call_.root); }

  // Finds the communicator, once, and counts the call there.
  [[nodiscard]] bool is_counted() {
    if (communicator_ != nullptr) return true;
    communicator_ = carrier_.find(process_, call_.communicator, collective);
    return communicator_ != nullptr;
  }
  [[nodiscard]] Outcome leave_to_host() const { return {.is_counted = communicator_ != nullptr}; }

  // Whether OFFBEAT_CHECK applies to this call. Call after the communicator has been found, and not inside
  // or_break: a mismatch is no failure, and later calls are served.
  [[nodiscard]] bool checks() const { return Carrier::may_wait && process_.settings.check; }

  void check_barrier() { communicator_->check({process_.host, process_.types(), collective}); }

  void check_combined(std::int64_t count) {
    CallSignature mine{process_.host,     process_.types(), collective, count,
                       call_.output.type, call_.op,         call_.root};
    if constexpr (has_lists) {
      for (int rank = 0; rank < size_; ++rank) mine.add_block(call_.output.counts[rank]);
    }
    communicator_->check(mine);
  }

  void check_copied(const Call& call) {
    CallSignature mine{
        process_.host, process_.types(), collective, static_cast<std::int64_t>(call.length(size_)),
        MPI_BYTE,      MPI_OP_NULL,      call_.root};
    const auto bytes_of = [&](const auto& blocks, const auto& vector, int block) {
      return static_cast<std::int64_t>(blocks.of(vector, block, size_).bytes());
    };
    if constexpr (collective == Collective::allgatherv) {
      for (int rank = 0; rank < size_; ++rank)
        mine.add_block(bytes_of(call.output_blocks, call.output, rank));
    }
    if (collective != Collective::bcast && gives() && takes()) {
      const auto bytes = [](const auto& vector) { return static_cast<std::int64_t>(vector.bytes()); };
      const std::int64_t given = who.root_gives || who.is_personal
                                     ? bytes_of(call.input_blocks, call.input, rank_)
                                     : bytes(call.input);
      const std::int64_t taken =
          who.root_gives ? bytes(call.output) : bytes_of(call.output_blocks, call.output, rank_);
      mine.gives_itself(given, taken);
    }
    communicator_->check(mine);
  }

  // -- collectives that combine

  [[nodiscard]] std::int64_t count_of_block() const {
    if constexpr (has_lists) {
      return call_.output.counts[rank_];
    } else {
      return call_.output.count;
    }
  }
  // -1: the program has given a wrong one.
  [[nodiscard]] std::int64_t count_of_input() const {
    if constexpr (has_lists) {
      if (call_.output.counts.empty()) return -1;
      std::int64_t total = 0;
      for (int rank = 0; rank < size_; ++rank) {
        if (call_.output.counts[rank] < 0) return -1;
        total += call_.output.counts[rank];
      }
      return total;
    } else if constexpr (has_blocks) {
      return call_.output.count * size_;
    } else {
      return call_.output.count;
    }
  }

  [[nodiscard]] bool is_wrong(std::int64_t count) const {
    if (is_wrong_input(call_.input.data, count)) return true;
    if (!takes()) {
      // If the host accepts this on all ranks, one rank must not leave the call to the host alone.
      return call_.input.data == MPI_IN_PLACE &&
             (!abi::accepts_in_place_everywhere || is_wrong_input(call_.output.data, count));
    }
    return is_wrong_output(call_.output.data, count_of_block());
  }
  // The number of elements that a user's operation must get in one piece. Many programs take the whole
  // vector, or a block of it, for one object, and do not look at the length.
  [[nodiscard]] std::int64_t length_of_object(std::int64_t count) const {
    std::int64_t length = has_blocks ? count_of_block() : count;
    if constexpr (has_lists) {
      for (int rank = 0; rank < size_; ++rank) length = std::gcd(length, call_.output.counts[rank]);
    }
    return std::max<std::int64_t>(length, 1);
  }

  Outcome combine() {
    const Types& types = process_.types();
    const Reduction* reduction = types.predefined(call_.output.type, call_.op);
    const std::int64_t count = count_of_input();
    if (is_wrong(count)) return {};
    const bool is_alias =
        takes() && call_.input.data == call_.output.data && count >= types.least_rejected_alias(collective);
    if (is_alias && !root_judges) return {};
    is_rejected_ = root_judges && is_alias;
    if constexpr (Carrier::may_wait) {
      if (reduction == nullptr && !types.are_accepted(call_.output.type, call_.op)) return {};
      if (checks() && is_counted()) [[unlikely]]
        check_combined(count);
      return reduction != nullptr ? combine(reduction, count) : combine_by_user(*this, count);
    } else {
      // Nobody may call the host, or the program's function, while the operation advances.
      const bool is_own = reduction != nullptr && reduction->host == nullptr;
      return is_counted() && is_own ? combine(reduction, count) : leave_to_host();
    }
  }

  // Out of line, because other calls need no room for a reduction of their own. Takes a copy, so that the
  // caller's Service stays in registers.
  [[gnu::noinline]] static Outcome combine_by_user(Service self, std::int64_t count) {
    std::optional<UserReduction> own;
    const std::int64_t length = self.length_of_object(count);
    const bool is_known =
        self.process_.types().user_defined(self.call_.output.type, self.call_.op, length, own);
    return is_known ? self.combine(&own->reduction, count, length) : self.leave_to_host();
  }

  // `length`: how many of the `count` elements make one element of the reduction.
  template <class Length = std::integral_constant<std::int64_t, 1>>
  Outcome combine(const Reduction* reduction, std::int64_t count, Length length = {}) {
    if (!is_counted()) return leave_to_host();
    const bool in_place = call_.input.data == MPI_IN_PLACE;
    const void* input = in_place ? call_.output.data : call_.input.data;
    void* output = takes() ? call_.output.data : nullptr;
    count /= length;
    if (root_judges && is_rejected_) [[unlikely]]
      output = unwanted_output(*communicator_, kept_, static_cast<std::size_t>(count) * reduction->width);
    const std::int64_t block = has_blocks ? count_of_block() / length : count;
    Call call{collective,
              {static_cast<const std::byte*>(input), static_cast<std::size_t>(count), reduction->width},
              {static_cast<std::byte*>(output), static_cast<std::size_t>(block), reduction->width},
              reduction,
              known.has_root ? call_.root : 0};
    if constexpr (has_lists) {
      communicator_->or_break([&] { kept_.blocks.emplace(call_.output.counts, size_, length); });
      call.input_blocks = kept_.blocks->blocks();
    }
    const bool shares = has_blocks && (in_place || call_.input.data == call_.output.data);
    if (devices::may_have_memory()) [[unlikely]]
      return carry_out_staged(*this, call, shares);
    return carry_out(call, shares, kept_);
  }

  // Takes a copy of the Service, like combine_by_user.
  [[gnu::noinline]] static Outcome carry_out_staged(Service self, Call call, bool shares) {
    Outcome outcome;
    const std::size_t bytes = call.length(self.communicator_->size());
    self.communicator_->or_break(collective, bytes, [&] {
      std::optional<Staged> here;
      Staged& staged = self.carrier_.keep(here);
      staged.call.take(call);
      outcome = self.carry_out(call, shares, staged);
    });
    return outcome;
  }

  [[gnu::noinline]] static void* unwanted_output(Communicator& communicator, Kept& kept, std::size_t bytes) {
    communicator.or_break(collective, bytes, [&] { kept.unwanted.emplace(bytes); });
    return kept.unwanted->data();
  }

  // -- collectives that do not

  Outcome copy() {
    constexpr bool is_bcast = collective == Collective::bcast;
    const Types& types = process_.types();
    Side& input = kept_.input;
    Side& output = kept_.output;
    bool in_place = false;  // the block, or the blocks, that this rank gives itself
    if constexpr (collective == Collective::scatter) {
      in_place = gives() && call_.output.data == MPI_IN_PLACE;
    } else if constexpr (!is_bcast) {
      in_place = takes() && call_.input.data == MPI_IN_PLACE;
    }
    const bool has_output = takes() && !(in_place && collective == Collective::scatter);
    const bool has_input = gives() && !is_bcast && !(in_place && collective != Collective::scatter);
    if (has_output && !output.read(types, call_.output, who.root_gives ? 1 : size_)) return {};
    if (has_input && !input.read(types, call_.input, who.is_personal ? size_ : 1)) return {};
    const bool is_aliased = has_input && has_output && is_alias(input, output);
    const bool is_rejected = is_aliased && types.rejects_aliases();
    if (is_rejected && !root_judges) return {};
    is_rejected_ = root_judges && is_rejected;
    if (!is_counted()) return leave_to_host();
    if (root_judges && is_rejected_) output.keep_apart();

    Call call{collective};
    std::size_t bytes = 0;
    communicator_->or_break(collective, bytes, [&] {
      input.measure(types);
      output.measure(types);
      call = call_on_sides(in_place);
      bytes = call.length(size_);
    });
    if (checks()) [[unlikely]]
      check_copied(call);
    Outcome outcome = leave_to_host();
    communicator_->or_break(collective, bytes, [&] {
      if (input.needs_packing() || output.needs_packing()) [[unlikely]] {
        const bool may_stand_in =
            !is_aliased && carrier_.may_have_stand_ins(*communicator_, collective, bytes);
        kept_.provide(types, may_stand_in, Carrier::may_wait);
        call = call_on_sides(in_place);
      }
      const bool shares = (in_place || is_aliased) && who.is_personal && !who.root_gives;
      const bool is_source = is_bcast && gives();
      kept_.packs_output = in_place || is_source;
      kept_.unpacks_output = has_output && !is_source && !(root_judges && is_rejected_);
      outcome = carry_out(call, shares, kept_);
    });
    return outcome;
  }

  [[nodiscard]] Call call_on_sides(bool in_place) const {
    const Side& input = kept_.input;
    const Side& output = kept_.output;
    Call call{collective,     input.vector(), output.vector(), nullptr, known.has_root ? call_.root : 0,
              input.blocks(), output.blocks()};
    if constexpr (collective == Collective::bcast) {
      if (gives()) call.input = call.output;
    } else if (in_place && collective == Collective::scatter) {
      call.output = input.blocks().of(input.vector(), rank_, size_);
    } else if (in_place && who.is_personal) {
      call.input = call.output;
      call.input_blocks = call.output_blocks;
    } else if (in_place) {
      call.input = output.blocks().of(output.vector(), rank_, size_);
    }
    return call;
  }

  // Whether the block that this rank gives itself is where it is to go. Types of absolute addresses at
  // MPI_BOTTOM and lists of blocks may describe different memory that begins at the same address.
  [[nodiscard]] bool is_alias(const Side& input, const Side& output) const {
    if (input.is_empty() || call_.input.data == nullptr || call_.output.data == nullptr) return false;
    if constexpr (collective == Collective::alltoallv) {
      if (!call_.input.counts.is_same_array(call_.output.counts)) return false;
    }
    const auto* given = who.root_gives ? input.address(rank_, size_) : input.address(0, 1);
    const auto* taken =
        who.root_gives || who.is_personal ? output.address(0, 1) : output.address(rank_, size_);
    return given == taken;
  }

  template <class Keeping>
  Outcome carry_out(const Call& call, bool shares, Keeping& kept) {
    Outcome outcome = carrier_(*communicator_, call, shares, kept);
    if (root_judges && is_rejected_ && outcome.kind == Outcome::Kind::served)
      outcome.kind = Outcome::Kind::rejected;
    return outcome;
  }

  Runtime& process_;
  Arguments call_;
  Carrier& carrier_;
  Kept& kept_;
  Communicator* communicator_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  bool is_rejected_ = false;
};

// Carries out a blocking call.
struct AtOnce {
  static constexpr bool may_wait = true;  // until other ranks agree, and so call the host on its way
  const Types& types;

  [[nodiscard]] static Communicator* find(Runtime& process, MPI_Comm handle, Collective collective) {
    Communicator* communicator = process.communicator(handle, collective);
    if (communicator != nullptr) communicator->count(collective);
    return communicator;
  }

  static Staged& keep(std::optional<Staged>& here) { return here.emplace(); }

  [[nodiscard]] static bool may_have_stand_ins(Communicator& communicator, Collective collective,
                                               std::size_t bytes) {
    return Communicator::may_have_stand_ins(communicator.choose(collective, bytes, 1), collective);
  }

  template <class Kept>
  Outcome operator()(Communicator& communicator, const Call& call, bool shares, Kept& kept) const {
    const std::size_t bytes = call.length(communicator.size());
    Chosen chosen = communicator.choose(call.collective, bytes, call.output.width);
    communicator.announce(call.collective, bytes);
    const bool is_alone = !chosen && communicator.copies_alone(call.collective);
    if ((!chosen && !is_alone) || communicator.is_revoked()) return {.is_counted = true};
    communicator.require_intact();
    kept.pack(types);
    if (is_alone) [[unlikely]] {
      Communicator::copy_alone(call);
      chosen = {&copied_alone};
    } else if (shares) [[unlikely]] {
      carry_out_apart(communicator, chosen, call, bytes, kept.stand_ins());
    } else {
      communicator.run(chosen, call, bytes, kept.stand_ins());
    }
    kept.unpack(types);
    communicator.count_served(call.collective);
    last_algorithm = chosen.expression;
    return {.kind = Outcome::Kind::served};
  }

 private:
  [[gnu::noinline]] static void carry_out_apart(Communicator& communicator, Chosen chosen, Call call,
                                                std::size_t bytes, const StandInCopies* stand_ins) {
    std::optional<pool::Block> copy;
    communicator.or_break([&] { copy_of_input(*chosen.expression, communicator.size(), call, copy); });
    communicator.run(chosen, call, bytes, stand_ins);
  }
};

// The error of the exception that is being handled.
[[nodiscard]] inline int code_of_exception() {
  try {
    throw;
  } catch (const CommunicationError& error) {
    return error.code != MPI_SUCCESS ? error.code : MPI_ERR_INTERN;
  } catch (const std::bad_alloc&) {
    return MPI_ERR_NO_MEM;
  } catch (...) {
    return MPI_ERR_INTERN;
  }
}

// Serves a blocking call, or says that the host has to. Calls neither the host's own function nor the
// program's error handler: these may throw, or jump out of the call, and must not skip a destructor of
// offbeat's.
template <Collective collective, class Arguments>
[[gnu::always_inline]] inline Outcome serve(Runtime& process, const Arguments& call) noexcept {
  const InsideOffbeat guard;
  last_algorithm = nullptr;
  try {
    if (!process.is_started()) {
      process.count_native(collective);
      return {};
    }
    AtOnce carrier{process.types()};
    typename Service<collective, Arguments, AtOnce>::Kept kept;
    using Serving = Service<collective, Arguments, AtOnce>;
    Outcome outcome = Serving(process, call, carrier, kept).run();
    if (Serving::root_judges && outcome.kind == Outcome::Kind::rejected) outcome = {.is_counted = true};
    if (outcome.kind == Outcome::Kind::native && !outcome.is_counted) process.count_native(collective);
    return outcome;
  } catch (...) {
    return {.kind = Outcome::Kind::failed, .code = code_of_exception()};
  }
}

}  // namespace offbeat
