// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/operations/host_pipeline.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace offbeat {
namespace {

// More segments at once would cost more than they gain, and many hosts have only few tags for them.
constexpr std::size_t most_segments = 1024;
// The number of elements that a count of type int allows.
constexpr std::size_t longest_segment = std::numeric_limits<int>::max();

// Returns the segments that the expression asks for, or other ones if the host could not take those.
combinators::Segments segments_of(const Call& call, const Expression& expression) {
  const std::size_t elements = call.output.count;
  const combinators::Segments wanted(elements, call.output.width, expression);
  const std::size_t least = (elements + longest_segment - 1) / longest_segment;
  const std::size_t count = std::max(least, std::min(wanted.count(), most_segments));
  return count == wanted.count() ? wanted : combinators::Segments(elements, count);
}

void require(int code) {
  if (code != MPI_SUCCESS) throw CommunicationError("a collective of the host failed", code);
}

}  // namespace

HostPipeline::HostPipeline(const Host& host, const Types& types, MPI_Comm communicator, const Call& call,
                           const Expression& expression, HostVariables* variables)
    : host_(host),
      variables_(variables),
      communicator_(communicator),
      call_(call),
      segments_(segments_of(call, expression)),
      algorithm_(variables == nullptr
                     ? nullptr
                     : variables->offer().find(call.collective, true, expression.host_algorithm())),
      window_(std::min(static_cast<std::size_t>(combinators::in_flight(expression)), segments_.count())) {
  if (call.op == nullptr) return;
  const Types::Handles handles = types.handles_of(*call.op);
  type_ = handles.type;
  op_ = handles.op;
  elements_per_call_element_ = handles.length;
}

void HostPipeline::begin_segment(std::size_t k, MPI_Request& request) const {
  const Stripe stripe = segments_[k];
  const void* input = stripe.part_of(call_.input).data;
  Vector output = stripe.part_of(call_.output);
  const int count = static_cast<int>(output.count) * elements_per_call_element_;
  request = MPI_REQUEST_NULL;
  if (count == 0) return;
  if (input == output.data) input = MPI_IN_PLACE;
  if (algorithm_ != nullptr) {
    variables_->restore();
    variables_->set(*algorithm_);
  }
  const int code = begin_part(input, output.data, count, request);
  if (algorithm_ != nullptr) variables_->restore();
  require(code);
}

int HostPipeline::begin_part(const void* input, void* output, int count, MPI_Request& request) const {
  constexpr auto counts = CountKind::int_counts;
  const auto& functions = host_.collectives;
  switch (call_.collective) {
    case Collective::allreduce: {
      const auto begin = functions.find<Collective::allreduce, Form::nonblocking, counts>(
          input, output, count, type_, op_, communicator_, &request);
      return begin(input, output, count, type_, op_, communicator_, &request);
    }
    case Collective::reduce: {
      const auto begin = functions.find<Collective::reduce, Form::nonblocking, counts>(
          input, output, count, type_, op_, call_.root, communicator_, &request);
      return begin(input, output, count, type_, op_, call_.root, communicator_, &request);
    }
    default: {
      const auto begin = functions.find<Collective::bcast, Form::nonblocking, counts>(
          output, count, type_, call_.root, communicator_, &request);
      return begin(output, count, type_, call_.root, communicator_, &request);
    }
  }
}

// Every rank begins the segments in the same order, as the host demands. So the next segment waits for the
// oldest one.
void HostPipeline::run() {
  requests_.assign(window_, MPI_REQUEST_NULL);
  for (std::size_t k = 0; k < segments_.count(); ++k) {
    MPI_Request& request = requests_[k % window_];
    require(host_.Wait(&request, MPI_STATUS_IGNORE));
    begin_segment(k, request);
  }
  wait();
}

void HostPipeline::begin_all_segments() {
  requests_.assign(segments_.count(), MPI_REQUEST_NULL);
  for (std::size_t k = 0; k < segments_.count(); ++k) begin_segment(k, requests_[k]);
}

bool HostPipeline::test() {
  for (; complete_requests_ < requests_.size(); ++complete_requests_) {
    int is_over = 0;
    require(host_.Test(&requests_[complete_requests_], &is_over, MPI_STATUS_IGNORE));
    if (is_over == 0) return false;
  }
  return true;
}

void HostPipeline::wait() {
  for (; complete_requests_ < requests_.size(); ++complete_requests_)
    require(host_.Wait(&requests_[complete_requests_], MPI_STATUS_IGNORE));
}

}  // namespace offbeat
