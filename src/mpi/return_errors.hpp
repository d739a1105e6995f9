// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "mpi/host.hpp"

namespace offbeat {

// While this lives, errors of calls on a communicator come back as codes instead of ending the job.
class ReturnErrors {
 public:
  ReturnErrors(const Host& host, MPI_Comm communicator) : host_(host), communicator_(communicator) {
    host_.Comm_get_errhandler(communicator_, &handler_);
    host_.Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  }
  ReturnErrors(const ReturnErrors&) = delete;
  ReturnErrors& operator=(const ReturnErrors&) = delete;
  ~ReturnErrors() {
    host_.Comm_set_errhandler(communicator_, handler_);
    host_.Errhandler_free(&handler_);
  }

 private:
  const Host& host_;
  MPI_Comm communicator_;
  MPI_Errhandler handler_;
};

}  // namespace offbeat
