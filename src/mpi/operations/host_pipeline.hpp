// SPDX-License-Identifier: BSD-3-Clause
// HostPipeline runs pipeline(N, native): it cuts a vector into segments, and the host's own non-blocking
// collective takes each of them.
//
// Source: Castelló et al. 2021, section 4. As in the paper, the segments use Iallreduce, Ireduce and Ibcast
// of the MPI library, several in flight.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call.hpp"
#include "collectives/combinators/segments.hpp"
#include "mpi/host/host_variables.hpp"
#include "mpi/types/types.hpp"

namespace offbeat {

// One call. All ranks of the communicator must make these calls in the same order. The functions throw
// CommunicationError; after that the communicator must not be used again.
class HostPipeline {
 public:
  // `call.op` must be a reduction that `types` returned, or null if the collective combines nothing. Nothing
  // else may use `communicator`, and its errors must return. `variables` makes the host run the NAME in
  // native(NAME); it is null if the expression has no NAME.
  HostPipeline(const Host& host, const Types& types, MPI_Comm communicator, const Call& call,
               const Expression& expression, HostVariables* variables);

  // Runs the whole call.
  void run();

  // Begins all segments at once. They cannot begin one by one, because nothing would begin the next segment
  // while the program computes.
  void begin_all_segments();
  // Returns true if all segments that were begun are complete.
  [[nodiscard]] bool test();
  void wait();

 private:
  void begin_segment(std::size_t k, MPI_Request& request) const;

  // Calls the host's function for one segment.
  [[nodiscard]] int begin_part(const void* input, void* output, int count, MPI_Request& request) const;

  const Host& host_;
  HostVariables* variables_;
  MPI_Comm communicator_;
  Call call_;
  MPI_Datatype type_ = MPI_BYTE;
  MPI_Op op_{};
  // How many elements of type_ one element of the call has; above 1 if a whole vector is one element.
  int elements_per_call_element_ = 1;
  combinators::Segments segments_;
  const HostAlgorithm* algorithm_;  // null: the host chooses
  std::size_t window_;
  std::vector<MPI_Request> requests_;
  std::size_t complete_requests_ = 0;  // how many of requests_ are complete, counted from the first
};

}  // namespace offbeat
