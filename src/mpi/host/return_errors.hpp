// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "mpi/host/host.hpp"

namespace offbeat {

// While this object lives, errors of calls on a communicator are returned as codes instead of ending the job.
//
// There is one exception. MPICH and its family report MPI_ERRORS_ARE_FATAL for a communicator whose handler
// was never set. When an error occurs there, they look up the handler of MPI_COMM_SELF, then that of
// MPI_COMM_WORLD. Setting the reported handler would end that forever, so such a communicator is left as it
// is. A call on it must therefore fail only if the program's own call would fail, too.
class ReturnErrors {
 public:
  ReturnErrors(const Host& host, MPI_Comm communicator) : host_(host), communicator_(communicator) {
    host_.Comm_get_errhandler(communicator_, &handler_);
    is_set_ = host_.handlers_can_be_put_back() || handler_ != MPI_ERRORS_ARE_FATAL;
    if (is_set_) host_.Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  }
  ReturnErrors(const ReturnErrors&) = delete;
  ReturnErrors& operator=(const ReturnErrors&) = delete;
  ~ReturnErrors() {
    if (is_set_) host_.Comm_set_errhandler(communicator_, handler_);
    host_.Errhandler_free(&handler_);
  }

 private:
  const Host& host_;
  MPI_Comm communicator_;
  MPI_Errhandler handler_;
  bool is_set_;
};

}  // namespace offbeat
