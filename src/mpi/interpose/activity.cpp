// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/interpose/activity.hpp"

#include <sched.h>

#include <functional>
#include <utility>

#include "mpi/service.hpp"

namespace offbeat {

constinit Activities activities;
constinit thread_local RequestFailure request_failure [[gnu::tls_model("initial-exec")]];

void agree_early(MPI_Comm parent, MPI_Comm made) noexcept {
  Runtime& process = runtime();
  if (made == MPI_COMM_NULL || !process.is_started()) return;
  const InsideOffbeat guard;
  if_possible([&] {
    const Communicator* known = process.known(parent);
    if (known == nullptr) known = process.existing(parent, Collective::barrier);
    if (known == nullptr || known->requested().empty()) return;
    for (std::size_t k = 0; k < collectives.size(); ++k) {
      const Collective collective = collective_at(k);
      if (!known->requested().contain(collective)) continue;
      Communicator* child = process.communicator(made, collective);
      if (child == nullptr) return;
      child->has_requests(collective);
      static_cast<void>(child->choose(collective, 0, 1));
    }
  });
}

// -- one of them

// The communicator of a blocking call may be made there and then; that of a non-blocking one waits for
// nobody.
Communicator* ByActivity::find(Runtime& process, MPI_Comm handle, Collective collective) const {
  Communicator* communicator = activity.is_persistent() ? process.communicator(handle, collective)
                                                        : process.existing(handle, collective);
  if (communicator == nullptr) return nullptr;
  communicator->has_requests(collective);
  if (!activity.is_persistent()) communicator->count(collective);
  return communicator;
}

Outcome Activity::take(Communicator& communicator, const Call& call, bool shares) {
  communicator_ = &communicator;
  call_ = call;
  shares_ = shares;
  sides_.input.keep_type(process_.host);
  if (sides_.unpacks_output || sides_.packs_output) sides_.output.keep_type(process_.host);
  if (!is_persistent_) return begin();
  // All ranks wait here for one another, as they may.
  if (!communicator.copies_alone(call.collective)) {
    apart_ = communicator.apart(call);
    if (apart_ == nullptr) return {};
  }
  communicator.hold();
  is_held_ = true;
  return {.kind = Outcome::Kind::served};
}

Outcome Activity::begin() {
  algorithm_ = last_algorithm = nullptr;
  if (is_persistent_) communicator_->count(call_.collective);
  Communicator& communicator = runner();
  const std::size_t bytes = call_.length(communicator.size());
  const Expression* chosen = communicator.choose_to_begin(call_.collective, bytes, call_.output.width);
  const bool is_alone = chosen == nullptr && communicator.copies_alone(call_.collective);
  if ((chosen == nullptr && !is_alone) || communicator.is_revoked()) return {.is_counted = true};
  communicator.require_intact();

  const Types& types = process_.types();
  Call call = call_;
  failure_ = MPI_SUCCESS;
  operation_.reset();
  communicator.or_break(call_.collective, bytes, [&] {
    sides_.pack(types);
    staged_.pack(types);
    if (shares_ && !is_alone) copy_of_input(*chosen, communicator.size(), call, copy_);
    request_ = activities.take_request(process_.host, *this);
    if (request_ == nullptr) throw CommunicationError("no request is left", MPI_ERR_OTHER);
  });
  state_.store(0, std::memory_order_relaxed);
  is_active_.store(true, std::memory_order_relaxed);
  if (is_persistent_) activities.active_persistent.fetch_add(1, std::memory_order_relaxed);
  communicator_->count_served(call_.collective);
  algorithm_ = last_algorithm = is_alone ? &copied_alone : chosen;
  if (is_alone || (bytes == 0 && is_over_if_empty(call_.collective))) {
    if (is_alone) Communicator::copy_alone(call);
    end();
    return {.kind = Outcome::Kind::served};
  }
  try {
    if (chosen->runs_on_host()) {
      communicator.or_break(
          [&] { host_pipeline_.emplace(communicator.host_pipeline(*chosen, call)).begin(); });
      communicator.hold();
    } else {
      communicator.begin(operation_, *chosen, call, bytes, {on_end, this});
      operations_under_way.settle();
    }
  } catch (...) {
    host_pipeline_.reset();
    failure_ = code_of_exception();
    end();
  }
  return {.kind = Outcome::Kind::served};
}

void Activity::wait() noexcept {
  if (operation_ != nullptr) operation_->wait_for_sequel();
  ask_host_pipeline([](HostPipeline& pipeline) {
    pipeline.wait();
    return true;
  });
  // Another thread may be at what follows the operation.
  while ((state_.load(std::memory_order_acquire) & over) == 0) sched_yield();
}

void Activity::look() noexcept { ask_host_pipeline(&HostPipeline::test); }

template <class Ask>
void Activity::ask_host_pipeline(Ask&& is_over) noexcept {
  if (!host_pipeline_) return;
  try {
    runner().or_break([&] {
      if (std::invoke(is_over, *host_pipeline_)) host_pipeline_.reset();
    });
  } catch (...) {
    failure_ = code_of_exception();
    host_pipeline_.reset();
  }
  if (host_pipeline_) return;
  runner().let_go();
  end();
}

// The operation's sequel.
void Activity::on_end(void* self) noexcept {
  auto& mine = *static_cast<Activity*>(self);
  try {
    mine.operation_->rethrow_if_failed();
  } catch (...) {
    mine.failure_ = code_of_exception();
  }
  mine.end();
}

// Every collective ends here, whoever carried it out. This may be gone as soon as the host, or the program,
// knows.
void Activity::end() noexcept {
  try {
    if (failure_ == MPI_SUCCESS) {
      sides_.unpack(process_.types());
      staged_.unpack(process_.types());
    }
  } catch (...) {
    failure_ = code_of_exception();
  }
  const Host& host = process_.host;
  const MPI_Request handle = request_->handle;
  if ((state_.fetch_or(over, std::memory_order_acq_rel) & shared_with_host) != 0)
    host.Grequest_complete(handle);
}

void Activity::share_with_host() noexcept {
  if (state_.fetch_or(shared_with_host, std::memory_order_acq_rel) == over)
    process_.host.Grequest_complete(request_->handle);
}

bool Activity::end_without_host() noexcept {
  if (state_.load(std::memory_order_acquire) != over || failure_ != MPI_SUCCESS) return false;
  HostRequest* const request = std::exchange(request_, nullptr);
  activities.give_back(*request);
  become_inactive();
  return true;
}

void set_status(const Host& host, MPI_Status* status) {
  host.Status_set_elements(status, MPI_BYTE, 0);
  host.Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
}

int Activity::on_query(void* request, MPI_Status* status) {
  const auto& mine = *static_cast<HostRequest*>(request)->serves;
  set_status(mine.process_.host, status);
  // The error handler of a generalised request is that of no communicator. So who asked tells the program.
  if (mine.failure_ != MPI_SUCCESS) request_failure = {mine.failure_, mine.handle_};
  return MPI_SUCCESS;
}

// The program has completed, or freed, the request.
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
  if (is_persistent_) activities.active_persistent.fetch_sub(1, std::memory_order_relaxed);
  if (!is_persistent_ || is_abandoned_) delete this;
}

bool Activity::abandon() {
  if (!is_active()) return true;
  is_abandoned_ = true;
  const Host& host = process_.host;
  MPI_Request request = request_->handle;
  share_with_host();
  host.Request_free(&request);
  return false;
}

Activity::~Activity() {
  sides_.input.free_type(process_.host);
  sides_.output.free_type(process_.host);
  operation_.reset();
  if (apart_ != nullptr) Communicator::abandon(std::move(apart_));
  if (is_held_) communicator_->let_go();
}

// -- all of them

class Activities::Turn {
 public:
  explicit Turn(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  ~Turn() { flag_.clear(std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic_flag& flag_;
};

Activity* Activities::find(MPI_Request request) {
  const Turn turn(is_taken_);
  if (table_ == nullptr) return nullptr;
  const Target* found = table_->find(abi::bits(request), [](const Target&) { return true; });
  if (found == nullptr) return nullptr;
  return found->request != nullptr ? found->request->serves : found->persistent;
}

void Activities::add(MPI_Request request, const Target& target) {
  if (table_ == nullptr) table_ = new HandleTable<Target>;
  table_->insert(abi::bits(request), target);
}

void Activities::insert(MPI_Request request, Activity& persistent) {
  const Turn turn(is_taken_);
  add(request, {&persistent, nullptr});
  change_size(1);
}

void Activities::erase(MPI_Request request) {
  const Turn turn(is_taken_);
  table_->erase(abi::bits(request), [](const Target& target) { return target.persistent != nullptr; });
  change_size(-1);
}

HostRequest* Activities::take_request(const Host& host, Activity& activity) {
  {
    const Turn turn(is_taken_);
    if (spare_ != nullptr) {
      HostRequest* const request = std::exchange(spare_, spare_->next_spare);
      request->serves = &activity;
      change_size(1);
      return request;
    }
  }
  auto made = std::make_unique<HostRequest>();
  made->serves = &activity;
  if (host.Grequest_start(Activity::on_query, Activity::on_free, Activity::on_cancel, made.get(),
                          &made->handle) != MPI_SUCCESS)
    return nullptr;
  const Turn turn(is_taken_);
  add(made->handle, {nullptr, made.get()});
  change_size(1);
  return made.release();
}

void Activities::give_back(HostRequest& request) {
  const Turn turn(is_taken_);
  request.serves = nullptr;
  request.next_spare = std::exchange(spare_, &request);
  change_size(-1);
}

void Activities::forget(const HostRequest& request) {
  const Turn turn(is_taken_);
  table_->erase(abi::bits(request.handle), [&](const Target& target) { return target.request == &request; });
  if (request.serves != nullptr) change_size(-1);
}

void Activities::free_spare_requests(const Host& host) noexcept {
  while (spare_ != nullptr) {
    HostRequest* const request = std::exchange(spare_, spare_->next_spare);
    MPI_Request handle = request->handle;
    host.Grequest_complete(handle);
    host.Request_free(&handle);
  }
}

}  // namespace offbeat

// For the tracer: what a persistent collective ran when it was started last, as one MPI_Startall may start
// several. `request` is an MPI_Request.
extern "C" const char* offbeat_started_algorithm(const void* request) {
  const offbeat::Activity* started = offbeat::activities.find(*static_cast<const MPI_Request*>(request));
  return started != nullptr ? offbeat::service::algorithm_text(started->algorithm()) : nullptr;
}
