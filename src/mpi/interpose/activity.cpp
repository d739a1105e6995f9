// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/interpose/activity.hpp"

#include <sched.h>

#include <functional>
#include <utility>

#include "groups/algorithm_text.hpp"
#include "mpi/interpose/measured_requests.hpp"

namespace offbeat {

void agree_early(MPI_Comm parent, MPI_Comm made) noexcept {
  Runtime& process = runtime();
  if (made == MPI_COMM_NULL || !process.is_started()) return;
  const InsideOffbeat guard;
  run_ignoring_exceptions([&] {
    const Communicator* known = process.find_in_cache(parent);
    if (known == nullptr) known = process.find_without_waiting(parent, Collective::barrier);
    if (known == nullptr || known->requested_collectives().empty()) return;
    for (std::size_t k = 0; k < collectives.size(); ++k) {
      const Collective collective = collective_at(k);
      if (!known->requested_collectives().contain(collective)) continue;
      Communicator* child = process.communicator(made, collective);
      if (child == nullptr) return;
      child->has_requests(collective);
      static_cast<void>(child->choose(collective, 0, 1));
    }
  });
}

// Only a persistent call may make its communicator here, because a non-blocking call must not wait for other
// ranks.
Communicator* ActivityCarrier::find(Runtime& process, MPI_Comm handle, Collective collective) const {
  Communicator* communicator = known != nullptr ? known : process.communicator(handle, collective);
  if (communicator == nullptr) return nullptr;
  communicator->has_requests(collective);
  if (!activity.is_persistent()) communicator->count(collective);
  return communicator;
}

Activity::Activity(Runtime& process, Form form)
    : process_(process), is_persistent_(form == Form::persistent) {
  if (is_persistent_) activities.reserve_persistent();
}

void Activity::register_persistent(MPI_Request request) noexcept {
  host_request_ = {request, this};
  activities.insert_persistent(host_request_);
}

Outcome Activity::begin_or_keep(Communicator& communicator, const Call& call, bool shares) {
  communicator_ = &communicator;
  call_ = call;
  shares_ = shares;
  sides_.input.keep_type(process_.host);
  if (sides_.unpacks_output || sides_.packs_output) sides_.output.keep_type(process_.host);
  if (!is_persistent_) return begin();
  if (communicator.copies_alone(call.collective)) {
    if (!communicator.copies_alone(call)) return {};
  } else {
    // All ranks wait for one another here, which MPI allows.
    persistent_communicator_ = communicator.make_for_request(call);
    if (persistent_communicator_ == nullptr) return {};
  }
  communicator.add_reference();
  holds_reference_ = true;
  return {.kind = Outcome::Kind::served};
}

Outcome Activity::begin() {
  algorithm_ = last_algorithm = nullptr;
  if (is_persistent_) communicator_->count(call_.collective);
  Communicator& communicator = running_communicator();
  const std::size_t bytes = call_.length(communicator.size());
  communicator_->count_bytes(call_.collective, bytes);
  const Choice choice = communicator.choose_to_begin(call_.collective, bytes, call_.output.width);
  const ChosenAlternative chosen = choice;
  communicator.announce_begun(call_.collective, bytes);
  const bool is_alone = !chosen && communicator.copies_alone(call_.collective);
  measured_ = {};
  if (choice.trial != nullptr) [[unlikely]]
    measured_ = communicator.begin_measured_request(*choice.trial, call_);
  if ((!chosen && !is_alone) || communicator.life().is_revoked()) {
    Outcome outcome{.is_counted = true};
    // The host's own request of a persistent collective was made without a name.
    if (!chosen && !is_alone && !is_persistent_) outcome = leave_to_host(chosen);
    if (measured_) outcome.measured_where = measured_requests.reserve_entry(std::move(measured_));
    return outcome;
  }
  communicator.life().require_intact();

  Call call = call_;
  failure_ = MPI_SUCCESS;
  host_saw_it_over_ = false;
  operation_.reset();
  communicator.break_on_error(call_.collective, bytes, [&] {
    const bool is_operation = !is_alone && !chosen.expression->runs_on_host();
    const bool copies_input =
        shares_ && !is_alone && needs_copy_of_input(*chosen.expression, call.collective);
    is_operation && !copies_input ? begin_pack() : pack();
    if (copies_input) copy_input_if_needed(*chosen.expression, communicator.size(), call, copy_);
    request_ = activities.take_request(*this);
    if (request_ == nullptr) throw CommunicationError("no request is left", MPI_ERR_OTHER);
  });
  state_.store(0, std::memory_order_relaxed);
  is_active_.store(true, std::memory_order_relaxed);
  communicator_->count_served(call_.collective);
  algorithm_ = last_algorithm = is_alone ? &copy_on_single_rank : chosen.expression;
  if (is_alone || (bytes == 0 && skips_empty_calls(call_.collective))) {
    if (is_alone) Communicator::copy_alone(call);
    end();
    return {.kind = Outcome::Kind::served};
  }
  try {
    if (chosen.expression->runs_on_host()) {
      communicator.break_on_error([&] {
        host_pipeline_.emplace(communicator.host_pipeline(*chosen.expression, call)).begin_all_segments();
      });
      communicator.add_reference();
    } else {
      communicator.begin(operation_, chosen, call, bytes, {on_end, this}, stand_ins());
      operations_under_way.settle();
    }
  } catch (...) {
    host_pipeline_.reset();
    failure_ = code_of_exception();
    end();
  }
  if (measured_) [[unlikely]]
    measured_.add_since(measured_.begun());
  return {.kind = Outcome::Kind::served};
}

void Activity::pack() {
  sides_.pack(process_.types());
  if (staged_) staged_->pack(process_.types());
}

void Activity::begin_pack() {
  sides_.begin_pack(process_.types());
  if (staged_) staged_->call.begin_fetch();
}

void Activity::end_measured(std::uint64_t waited) noexcept {
  measured_.add(waited);
  measured_.end();
  measured_ = {};
}

void Activity::wait() noexcept {
  if (operation_ != nullptr) operation_->wait_for_sequel();
  ask_host_pipeline([](HostPipeline& pipeline) {
    pipeline.wait();
    return true;
  });
  // Another thread may still run what follows the operation.
  while (!is_over()) sched_yield();
}

void Activity::poll_host_pipeline() noexcept { ask_host_pipeline(&HostPipeline::test); }

template <class Ask>
void Activity::ask_host_pipeline(Ask&& is_over) noexcept {
  if (!host_pipeline_) return;
  try {
    running_communicator().break_on_error([&] {
      if (std::invoke(is_over, *host_pipeline_)) host_pipeline_.reset();
    });
  } catch (...) {
    failure_ = code_of_exception();
    host_pipeline_.reset();
  }
  if (host_pipeline_) return;
  running_communicator().remove_reference();
  end();
}

// The sequel of the operation. If the program has ended MPI before it completed the request, the host can
// neither unpack the result nor be told. A group that lives longer calls this.
void Activity::on_end(void* self) noexcept {
  auto& mine = *static_cast<Activity*>(self);
  if (operations_under_way.has_host_ended() && !mine.process_.is_mpi_running()) return;
  try {
    mine.operation_->rethrow_if_failed();
  } catch (...) {
    mine.failure_ = code_of_exception();
  }
  mine.end();
}

// Every collective ends here, whichever thread ran it. `this` may be gone as soon as the host or the program
// knows of the end.
void Activity::end() noexcept {
  try {
    if (failure_ == MPI_SUCCESS) {
      // An operation has copied to the device by itself.
      if (operation_ != nullptr) {
        sides_.end_unpack(process_.types());
      } else {
        sides_.unpack(process_.types());
        if (staged_) staged_->unpack(process_.types());
      }
    }
  } catch (...) {
    failure_ = code_of_exception();
  }
  const Host& host = process_.host;
  const MPI_Request handle = request_->handle;
  const int before = state_.fetch_or(over, std::memory_order_acq_rel);
  if ((before & shared_with_host) != 0) host.Grequest_complete(handle);
  if ((before & unclaimed) != 0) free_unclaimed_request((before & shared_with_host) != 0);
}

void Activity::share_with_host() noexcept {
  if (state_.fetch_or(shared_with_host, std::memory_order_acq_rel) == over)
    process_.host.Grequest_complete(request_->handle);
}

RequestFailure Activity::finish() noexcept {
  const RequestFailure told = failure();
  if (activities.give_back(*this)) {
    become_inactive();
  } else {
    MPI_Request request = request_->handle;
    process_.host.Wait(&request, MPI_STATUS_IGNORE);
  }
  return told;
}

void set_status(const Host& host, MPI_Status* status) {
  host.Status_set_elements(status, MPI_BYTE, 0);
  host.Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
}

// If one of offbeat's functions asks, that function reports the failure itself: the host would call an error
// handler, but not that of the communicator. MPICH takes the error of a list's status from `status`.
int Activity::on_query(void* request, MPI_Status* status) {
  const auto& mine = *static_cast<HostRequest*>(request)->serves;
  set_status(mine.process_.host, status);
  if (inside_offbeat || mine.failure_ == MPI_SUCCESS) return MPI_SUCCESS;
  status->MPI_ERROR = mine.failure_;
  return mine.failure_;
}

// MPICH and its family call on_poll and on_wait while they wait for the request. Open MPI calls offbeat
// whenever it polls (Activities::on_poll_of_host).
bool Activity::make(HostRequest& request) noexcept {
  const Host& host = process_.host;
  const int code = host.Grequest_start_polled
                       ? host.Grequest_start_polled(on_query, on_free, on_cancel, on_poll, on_wait, &request,
                                                    &request.handle)
                       : host.Grequest_start(on_query, on_free, on_cancel, &request, &request.handle);
  return code == MPI_SUCCESS;
}

// The host calls this inside the function that has to complete this request. The program may have called that
// function directly, so no function of offbeat need be on the stack.
int Activity::on_poll(void* request, MPI_Status* /*status*/) {
  const bool was_inside = std::exchange(inside_offbeat, true);
  operations_under_way.advance(HostCalls::none);
  operations_under_way.settle();
  if (Activity* mine = static_cast<HostRequest*>(request)->serves) {
    mine->poll_host_pipeline();
    // If one of offbeat's functions has called the host, it finds the end before the host asks a second time.
    if (mine->is_over() && std::exchange(mine->host_saw_it_over_, true)) mine->share_with_host();
  }
  inside_offbeat = was_inside;
  return MPI_SUCCESS;
}

int Activity::on_wait(int count, void** requests, double /*timeout*/, MPI_Status* /*status*/) {
  const bool was_inside = std::exchange(inside_offbeat, true);
  for (int i = 0; i < count; ++i) {
    Activity* mine = static_cast<HostRequest*>(requests[i])->serves;
    if (mine == nullptr) continue;
    mine->wait();
    mine->share_with_host();
  }
  inside_offbeat = was_inside;
  return MPI_SUCCESS;
}

// The host calls this when the program has completed, or freed, the request.
int Activity::on_free(void* request) {
  auto* of_host = static_cast<HostRequest*>(request);
  activities.forget(*of_host);
  if (Activity* mine = of_host->serves) {
    mine->request_ = nullptr;
    mine->become_inactive();
  }
  delete of_host;
  return MPI_SUCCESS;
}

void Activity::become_inactive() noexcept {
  copy_.reset();
  is_active_.store(false, std::memory_order_release);
  if (!is_persistent_ || is_abandoned_) delete this;
}

// The host does not get the request of a collective that is still under way: MPICH before 4.2 would call
// on_free at once.
bool Activity::abandon() {
  if (host_request_.serves != nullptr) activities.erase_persistent(host_request_);
  if (!is_active()) return true;
  is_abandoned_ = true;
  const int before = state_.fetch_or(unclaimed, std::memory_order_acq_rel);
  if ((before & over) != 0) free_unclaimed_request((before & shared_with_host) != 0);
  return false;
}

void Activity::free_unclaimed_request(bool host_was_told) noexcept {
  if (!host_was_told && activities.give_back(*this)) {
    become_inactive();
    return;
  }
  MPI_Request request = request_->handle;
  process_.host.Request_free(&request);  // calls on_free
}

Activity::~Activity() {
  if (is_persistent_ && host_request_.serves == nullptr) activities.cancel_reservation();
  sides_.input.free_type(process_.host);
  sides_.output.free_type(process_.host);
  operation_.reset();
  if (persistent_communicator_ != nullptr) Communicator::abandon(std::move(persistent_communicator_));
  if (holds_reference_) communicator_->remove_reference();
}

}  // namespace offbeat

// The tracer calls this. It returns what a persistent collective ran when it was last started. It takes the
// request, because one MPI_Startall may start several. `request` points to an MPI_Request.
extern "C" const char* offbeat_started_algorithm(const void* request) {
  const offbeat::Activity* started = offbeat::activities.find(*static_cast<const MPI_Request*>(request));
  return started != nullptr ? offbeat::algorithm_text(started->algorithm()) : nullptr;
}
