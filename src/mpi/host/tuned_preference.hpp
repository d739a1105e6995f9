// SPDX-License-Identifier: BSD-3-Clause
// TunedPreference is the info with which Open MPI makes a communicator whose collectives read its control
// variables. On several nodes other components of Open MPI would come before the one that reads them.
#pragma once

#include "mpi/host/host.hpp"

namespace offbeat {

class TunedPreference {
 public:
  explicit TunedPreference(const Host& host) : free_(host.find("PMPI_Info_free")) {
    const HostFunction<decltype(PMPI_Info_create)> create(host.find("PMPI_Info_create"));
    const HostFunction<decltype(PMPI_Info_set)> set(host.find("PMPI_Info_set"));
    if (create(&info_) == MPI_SUCCESS) set(info_, "ompi_comm_coll_preference", "tuned,^han");
  }
  ~TunedPreference() {
    if (info_ != MPI_INFO_NULL) free_(&info_);
  }
  TunedPreference(const TunedPreference&) = delete;
  TunedPreference& operator=(const TunedPreference&) = delete;
  [[nodiscard]] MPI_Info info() const { return info_; }

 private:
  HostFunction<decltype(PMPI_Info_free)> free_;
  MPI_Info info_ = MPI_INFO_NULL;
};

}  // namespace offbeat
