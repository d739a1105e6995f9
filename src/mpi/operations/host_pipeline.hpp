// SPDX-License-Identifier: BSD-3-Clause
// pipeline(N, native): a vector in segments, each by the host's own non-blocking collective.
//
// Source: Castello et al. 2021, section 4, as published: theirs is Iallreduce, Ireduce and Ibcast of the MPI
// library at hand, several in flight.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call.hpp"
#include "collectives/combinators/segments.hpp"
#include "mpi/types/types.hpp"

namespace offbeat {

// All ranks of the communicator make these calls in the same order. The functions throw CommunicationError,
// after which the communicator must not be used again.
class HostPipeline {
 public:
  // The call has an operation of `types`, or none. `communicator` is for nothing else; its errors return.
  HostPipeline(const Host& host, const Types& types, MPI_Comm communicator, const Call& call,
               const Expression& expression);

  // From beginning to end.
  void run();

  // Begins all segments at once: nobody could begin further ones while the program computes.
  void begin();
  // True: all that was begun is complete.
  [[nodiscard]] bool test();
  void wait();

 private:
  void begin_segment(std::size_t k, MPI_Request& request) const;

  const Host& host_;
  MPI_Comm communicator_;
  Call call_;
  MPI_Datatype type_ = MPI_BYTE;
  MPI_Op op_{};
  int length_ = 1;  // elements of the type in one of the call: a single one, then
  combinators::Segments segments_;
  std::size_t window_;
  std::vector<MPI_Request> requests_;
  std::size_t complete_ = 0;  // of requests_, the first ones
};

}  // namespace offbeat
