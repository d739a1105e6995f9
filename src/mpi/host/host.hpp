// SPDX-License-Identifier: BSD-3-Clause
// The functions of the host MPI, which are found in the libmpi that the process has loaded.
//
// Nothing here is linked to libmpi. offbeat's PMPI_Allreduce comes before the host's in every look-up of the
// linker, and Python loads libmpi late and privately. So each function is looked up by hand in that library.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "base/error.hpp"
#include "mpi/host/abi.hpp"
#include "mpi/host/collective_functions.hpp"
#include "selection/host_mpi.hpp"

namespace offbeat {

// One function of the host. It converts to false if the host does not have it.
template <class Signature>
class HostFunction;
template <class Result, class... Arguments>
class HostFunction<Result(Arguments...)> {
 public:
  using Pointer = Result (*)(Arguments...);
  explicit HostFunction(void* address) : function_(reinterpret_cast<Pointer>(address)) {}
  HostFunction(Pointer function) : function_(function) {}  // NOLINT(google-explicit-constructor)
  Result operator()(Arguments... arguments) const { return function_(arguments...); }
  explicit operator bool() const { return function_ != nullptr; }

 private:
  Pointer function_;
};

// The name of a function as a template argument.
template <std::size_t Length>
struct Name {
  char text[Length]{};
  constexpr Name(
      const char (&literal)[Length]) {  // NOLINT(google-explicit-constructor): for next<"MPI_Wait">
    for (std::size_t i = 0; i < Length; ++i) text[i] = literal[i];
  }
};

// Returns the result of `find`. It is called only once, unless it found nothing.
template <class Signature, class Find>
[[nodiscard]] Signature* found_once(Find&& find) {
  static constinit std::atomic<Signature*> known{nullptr};
  Signature* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) [[unlikely]] {
    function = reinterpret_cast<Signature*>(find());
    known.store(function, std::memory_order_relaxed);
  }
  return function;
}

// The process has loaded an MPI of another family and none of this one. offbeat then serves none of its
// calls.
class OtherFamily : public UsageError {
 public:
  OtherFamily(const std::string& path, std::string_view family, void* library);
  std::string_view family;
  void* library;  // stays loaded
};

class Host {
 public:
  // Finds the loaded libmpi of this family. Throws OtherFamily, or UsageError if no MPI is loaded.
  Host();

  // Returns a symbol of the host's own libmpi, or null if it has none. Look up host functions as PMPI_X only:
  // MPI_X may find the function of a tool that is linked to the host.
  [[nodiscard]] void* find(const char* name) const;
  // Returns the host's PMPI_X for the name MPI_X or PMPI_X.
  [[nodiscard]] void* find_profiled(const char* name) const;
  // Returns the next function of this name behind the calling library, which belongs to a tool or to another
  // preload library of offbeat. Returns null if the next one belongs to an MPI library, which need not be the
  // host's.
  [[nodiscard]] static void* next(const char* name);
  // Returns the function to which offbeat's MPI_X or PMPI_X passes a call: the next one in line, or the
  // host's PMPI_X. Returns null if neither exists.
  [[nodiscard]] void* find_next(const char* name) const;

  // Returns true if a function belongs to an MPI library of this family.
  [[nodiscard]] static bool is_of_family(void* function);

  // Returns true if the host's description of itself (MPI_Get_library_version) begins with `name`.
  [[nodiscard]] bool has_version_text_prefix(std::string_view name) const;

  // These return this process's rank in a communicator and its size. Errors on the communicator must return.
  [[nodiscard]] int rank_in(MPI_Comm communicator) const {
    int rank = 0;
    Comm_rank(communicator, &rank);
    return rank;
  }
  [[nodiscard]] int size_of(MPI_Comm communicator) const {
    int size = 1;
    Comm_size(communicator, &size);
    return size;
  }

  // Returns the level of thread support (MPI_Query_thread). MPI_T_init_thread must ask for this level: Open
  // MPI 5 takes what is asked for there as the level of the whole process.
  [[nodiscard]] int thread_level() const;

  // Returns true if a communicator is unchanged after MPI_Comm_set_errhandler gets back what
  // MPI_Comm_get_errhandler returned; see ReturnErrors.
  [[nodiscard]] bool handlers_can_be_put_back() const { return is_open_mpi; }

  // Returns true if the host accepts MPI_IN_PLACE in MPI_Reduce on a rank that gets no result. It is an error
  // of the program, but MPICH and its family do not report it. They take the data of that rank from its
  // output.
  [[nodiscard]] bool accepts_in_place_everywhere() const { return !is_open_mpi; }

  // Returns true if the host says that it takes memory of GPUs (MPIX_Query_cuda_support and the like).
  [[nodiscard]] bool takes_gpu_memory() const;

  // Within the scope of this object, a host call that finds nothing to do does not yield. Open MPI yields if
  // ranks share cores. Between two collectives of offbeat that would cost two context switches.
  class WithoutYield {
   public:
    explicit WithoutYield(const Host& host) : yield_flag_(host.yields_when_idle_) {
      if (yield_flag_ == nullptr) return;
      yielded_before_ = yield_flag().load(std::memory_order_relaxed);
      if (yielded_before_) yield_flag().store(false, std::memory_order_relaxed);
    }
    ~WithoutYield() {
      if (yielded_before_) yield_flag().store(true, std::memory_order_relaxed);
    }
    WithoutYield(const WithoutYield&) = delete;
    WithoutYield& operator=(const WithoutYield&) = delete;

   private:
    [[nodiscard]] std::atomic_ref<bool> yield_flag() const { return std::atomic_ref(*yield_flag_); }
    bool* yield_flag_;
    bool yielded_before_ = false;
  };

 private:
  [[nodiscard]] HostMpi mpi_by_version_text() const;

  void* library_;  // stands before the functions, whose look-up needs it
  bool* yields_when_idle_ =
      static_cast<bool*>(find("opal_progress_yield_when_idle"));  // null: the host never yields

 public:
  const HostMpi mpi = mpi_by_version_text();  // which MPI this is
  // True if the host is Open MPI, under its own ABI or the standard one.
  const bool is_open_mpi = abi::family == "openmpi" || mpi == HostMpi::open_mpi;
  // `collectives` takes the program's calls. The functions below it are for offbeat's own calls.
  const CollectiveFunctions collectives{"PMPI_", [this](const char* name) { return find(name); }};
  HostFunction<decltype(PMPI_Allgather)> Allgather{find("PMPI_Allgather")};
  HostFunction<decltype(PMPI_Allgatherv)> Allgatherv{find("PMPI_Allgatherv")};
  HostFunction<decltype(PMPI_Allreduce)> Allreduce{find("PMPI_Allreduce")};
  HostFunction<decltype(PMPI_Bcast)> Bcast{find("PMPI_Bcast")};
  HostFunction<decltype(PMPI_Cancel)> Cancel{find("PMPI_Cancel")};
  HostFunction<decltype(PMPI_Comm_call_errhandler)> Comm_call_errhandler{find("PMPI_Comm_call_errhandler")};
  HostFunction<decltype(PMPI_Comm_create)> Comm_create{find("PMPI_Comm_create")};
  HostFunction<decltype(PMPI_Comm_create_keyval)> Comm_create_keyval{find("PMPI_Comm_create_keyval")};
  HostFunction<decltype(PMPI_Comm_delete_attr)> Comm_delete_attr{find("PMPI_Comm_delete_attr")};
#if defined(OFFBEAT_FAMILY_MPIABI)
  HostFunction<decltype(PMPI_Comm_fromint)> Comm_f2c{find("PMPI_Comm_fromint")};
#elif defined(OFFBEAT_FAMILY_OPENMPI)
  HostFunction<decltype(PMPI_Comm_f2c)> Comm_f2c{find("PMPI_Comm_f2c")};
#else
  // In this family a handle is its own Fortran number. Intel MPI 2021.18 no longer has the function.
  static MPI_Comm Comm_f2c(int fortran_communicator) { return fortran_communicator; }
#endif
  HostFunction<decltype(PMPI_Comm_free)> Comm_free{find("PMPI_Comm_free")};
  HostFunction<decltype(PMPI_Comm_get_attr)> Comm_get_attr{find("PMPI_Comm_get_attr")};
  HostFunction<decltype(PMPI_Comm_get_errhandler)> Comm_get_errhandler{find("PMPI_Comm_get_errhandler")};
  HostFunction<decltype(PMPI_Comm_get_name)> Comm_get_name{find("PMPI_Comm_get_name")};
  HostFunction<decltype(PMPI_Comm_group)> Comm_group{find("PMPI_Comm_group")};
  HostFunction<decltype(PMPI_Comm_rank)> Comm_rank{find("PMPI_Comm_rank")};
  HostFunction<decltype(PMPI_Comm_set_attr)> Comm_set_attr{find("PMPI_Comm_set_attr")};
  HostFunction<decltype(PMPI_Comm_set_errhandler)> Comm_set_errhandler{find("PMPI_Comm_set_errhandler")};
  HostFunction<decltype(PMPI_Comm_size)> Comm_size{find("PMPI_Comm_size")};
  HostFunction<decltype(PMPI_Comm_test_inter)> Comm_test_inter{find("PMPI_Comm_test_inter")};
  HostFunction<decltype(PMPI_Errhandler_free)> Errhandler_free{find("PMPI_Errhandler_free")};
  HostFunction<decltype(PMPI_Error_class)> Error_class{find("PMPI_Error_class")};
  HostFunction<decltype(PMPI_Error_string)> Error_string{find("PMPI_Error_string")};
  HostFunction<decltype(PMPI_Finalized)> Finalized{find("PMPI_Finalized")};
  HostFunction<decltype(PMPI_Grequest_complete)> Grequest_complete{find("PMPI_Grequest_complete")};
  HostFunction<decltype(PMPI_Grequest_start)> Grequest_start{find("PMPI_Grequest_start")};
  // This is MPICH's extension: the host asks the request whether it is complete. It is unused under the
  // standard ABI, where it would get a status with another layout.
  using RequestPollFunction = int(void*, MPI_Status*);
  using WaitForSome = int(int, void**, double, MPI_Status*);
  HostFunction<int(MPI_Grequest_query_function*, MPI_Grequest_free_function*, MPI_Grequest_cancel_function*,
                   RequestPollFunction*, WaitForSome*, void*, MPI_Request*)>
      Grequest_start_polled{find("PMPIX_Grequest_start")};
  HostFunction<decltype(PMPI_Group_free)> Group_free{find("PMPI_Group_free")};
  HostFunction<decltype(PMPI_Group_size)> Group_size{find("PMPI_Group_size")};
  HostFunction<decltype(PMPI_Group_translate_ranks)> Group_translate_ranks{
      find("PMPI_Group_translate_ranks")};
  HostFunction<decltype(PMPI_Iallgather)> Iallgather{find("PMPI_Iallgather")};
  HostFunction<decltype(PMPI_Iallgatherv)> Iallgatherv{find("PMPI_Iallgatherv")};
  HostFunction<decltype(PMPI_Ibarrier)> Ibarrier{find("PMPI_Ibarrier")};
  HostFunction<decltype(PMPI_Ibcast)> Ibcast{find("PMPI_Ibcast")};
  HostFunction<decltype(PMPI_Initialized)> Initialized{find("PMPI_Initialized")};
  HostFunction<decltype(PMPI_Iprobe)> Iprobe{find("PMPI_Iprobe")};
  HostFunction<decltype(PMPI_Irecv)> Irecv{find("PMPI_Irecv")};
  HostFunction<decltype(PMPI_Ireduce)> Ireduce{find("PMPI_Ireduce")};
  HostFunction<decltype(PMPI_Isend)> Isend{find("PMPI_Isend")};
  HostFunction<decltype(PMPI_Issend)> Issend{find("PMPI_Issend")};
  HostFunction<decltype(PMPI_Op_commutative)> Op_commutative{find("PMPI_Op_commutative")};
  HostFunction<decltype(PMPI_Pack)> Pack{find("PMPI_Pack")};
  // This function came with MPI 4; older hosts lack it.
  HostFunction<int(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Count*, MPI_Comm)> Pack_c{
      find("PMPI_Pack_c")};
  HostFunction<decltype(PMPI_Recv)> Recv{find("PMPI_Recv")};
  HostFunction<decltype(PMPI_Reduce)> Reduce{find("PMPI_Reduce")};
  HostFunction<decltype(PMPI_Reduce_local)> Reduce_local{find("PMPI_Reduce_local")};
  HostFunction<decltype(PMPI_Request_free)> Request_free{find("PMPI_Request_free")};
  HostFunction<decltype(PMPI_Request_get_status)> Request_get_status{find("PMPI_Request_get_status")};
  HostFunction<decltype(PMPI_Send)> Send{find("PMPI_Send")};
  HostFunction<decltype(PMPI_Sendrecv)> Sendrecv{find("PMPI_Sendrecv")};
  HostFunction<decltype(PMPI_Start)> Start{find("PMPI_Start")};
  HostFunction<decltype(PMPI_Status_set_cancelled)> Status_set_cancelled{find("PMPI_Status_set_cancelled")};
  HostFunction<decltype(PMPI_Status_set_elements)> Status_set_elements{find("PMPI_Status_set_elements")};
  HostFunction<decltype(PMPI_Test)> Test{find("PMPI_Test")};
  HostFunction<decltype(PMPI_Testall)> Testall{find("PMPI_Testall")};
  HostFunction<decltype(PMPI_Testany)> Testany{find("PMPI_Testany")};
  HostFunction<decltype(PMPI_Testsome)> Testsome{find("PMPI_Testsome")};
  HostFunction<decltype(PMPI_Type_commit)> Type_commit{find("PMPI_Type_commit")};
  HostFunction<decltype(PMPI_Type_contiguous)> Type_contiguous{find("PMPI_Type_contiguous")};
  HostFunction<decltype(PMPI_Type_create_struct)> Type_create_struct{find("PMPI_Type_create_struct")};
  HostFunction<decltype(PMPI_Type_dup)> Type_dup{find("PMPI_Type_dup")};
  HostFunction<decltype(PMPI_Type_free)> Type_free{find("PMPI_Type_free")};
  HostFunction<decltype(PMPI_Type_get_contents)> Type_get_contents{find("PMPI_Type_get_contents")};
  HostFunction<decltype(PMPI_Type_get_envelope)> Type_get_envelope{find("PMPI_Type_get_envelope")};
  // These functions came with MPI 4. Only they describe types that were made with counts of MPI_Count. Older
  // hosts have neither the functions nor such types.
  HostFunction<int(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int*, MPI_Aint*, MPI_Count*,
                   MPI_Datatype*)>
      Type_get_contents_c{find("PMPI_Type_get_contents_c")};
  HostFunction<int(MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*)> Type_get_envelope_c{
      find("PMPI_Type_get_envelope_c")};
  HostFunction<decltype(PMPI_Type_get_extent)> Type_get_extent{find("PMPI_Type_get_extent")};
  HostFunction<decltype(PMPI_Type_get_true_extent)> Type_get_true_extent{find("PMPI_Type_get_true_extent")};
  HostFunction<decltype(PMPI_Type_get_name)> Type_get_name{find("PMPI_Type_get_name")};
  HostFunction<decltype(PMPI_Type_size)> Type_size{find("PMPI_Type_size")};
  HostFunction<decltype(PMPI_Type_size_x)> Type_size_x{find("PMPI_Type_size_x")};
  HostFunction<decltype(PMPI_Unpack)> Unpack{find("PMPI_Unpack")};
  // This function came with MPI 4; older hosts lack it.
  HostFunction<int(const void*, MPI_Count, MPI_Count*, void*, MPI_Count, MPI_Datatype, MPI_Comm)> Unpack_c{
      find("PMPI_Unpack_c")};
  HostFunction<decltype(PMPI_Wait)> Wait{find("PMPI_Wait")};
  HostFunction<decltype(PMPI_Waitall)> Waitall{find("PMPI_Waitall")};
  HostFunction<decltype(PMPI_Waitany)> Waitany{find("PMPI_Waitany")};
};

}  // namespace offbeat
