// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/host/longest_message.hpp"

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace offbeat {
namespace {

// Reads the host's own variables through the tools interface of MPI (MPI 4.1, section 15.3). It declares the
// types as Open MPI has them, because no other host is asked.
class ControlVariables {
 public:
  explicit ControlVariables(const Host& host)
      : init_(host.find("PMPI_T_init_thread")),
        finalize_(host.find("PMPI_T_finalize")),
        index_(host.find("PMPI_T_cvar_get_index")),
        allocate_(host.find("PMPI_T_cvar_handle_alloc")),
        read_(host.find("PMPI_T_cvar_read")),
        free_(host.find("PMPI_T_cvar_handle_free")) {
    int provided = 0;
    is_there_ = init_ && finalize_ && index_ && allocate_ && read_ && free_ &&
                init_(host.thread_level(), &provided) == MPI_SUCCESS;
  }
  ControlVariables(const ControlVariables&) = delete;
  ControlVariables& operator=(const ControlVariables&) = delete;
  ~ControlVariables() {
    if (is_there_) finalize_();
  }

  // Returns true if Open MPI has an MCA variable of this name. A component's variables exist only while it is
  // loaded, so this tells whether it is.
  [[nodiscard]] bool has_variable(const char* name) const {
    int index = 0;
    return is_there_ && index_(name, &index) == MPI_SUCCESS;
  }
  // Returns the value of a variable of type size_t, or 0 if there is none.
  [[nodiscard]] std::size_t size(const char* name) const {
    int index = 0;
    int count = 0;
    void* handle = nullptr;
    std::size_t value = 0;
    if (!is_there_ || index_(name, &index) != MPI_SUCCESS) return 0;
    if (allocate_(index, nullptr, &handle, &count) != MPI_SUCCESS) return 0;
    if (count != 1 || read_(handle, &value) != MPI_SUCCESS) value = 0;
    free_(&handle);
    return value;
  }

 private:
  HostFunction<int(int, int*)> init_;
  HostFunction<int()> finalize_;
  HostFunction<int(const char*, int*)> index_;
  HostFunction<int(int, void*, void**, int*)> allocate_;
  HostFunction<int(void*, void*)> read_;
  HostFunction<int(void**)> free_;
  bool is_there_ = false;
};

}  // namespace

std::size_t longest_message_between_nodes(const Host& host) {
  if (!host.is_open_mpi) return longest_message;
  const ControlVariables variables(host);
  if (!variables.has_variable("pml_ob1_priority")) return longest_message;
  for (const char* faster : {"btl_uct_eager_limit", "btl_ofi_eager_limit", "btl_ugni_eager_limit",
                             "btl_usnic_eager_limit", "btl_portals4_eager_limit", "btl_openib_eager_limit"}) {
    if (variables.has_variable(faster)) return longest_message;
  }
  constexpr std::size_t headers = 4096;
  constexpr std::size_t shortest = 8192;  // in bytes; cutting shorter messages costs more than it saves
  const std::size_t eager = variables.size("btl_tcp_eager_limit");
  return eager < headers + shortest ? longest_message : eager - headers;
}

}  // namespace offbeat
