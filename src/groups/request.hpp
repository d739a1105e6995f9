// SPDX-License-Identifier: BSD-3-Clause
// A Request is what a program has begun through the C interface: a call in a group, a message, or a call on a
// communicator of the host MPI.
#pragma once

namespace offbeat {

class Request {
 public:
  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  virtual ~Request() = default;

  // test_call() returns true if the call is complete, and wait_for_call() waits until it is. Both then
  // deliver the result to the program. Both throw what ended the call instead, as CommunicationError.
  [[nodiscard]] virtual bool test_call() = 0;
  virtual void wait_for_call() = 0;
};

}  // namespace offbeat
