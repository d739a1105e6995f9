// SPDX-License-Identifier: BSD-3-Clause
// The functions that start, complete and free requests, for a library that keeps data about some requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/error.hpp"
#include "mpi/host/requests.hpp"

namespace offbeat {

// Each function calls `next`, which does the work. A `Library` has:
//
//     tracer_if_called_by_program()            static; null if the call does not come from the program
//     lock()                                   held while `requests` is used
//     requests                                 of type Requests<Kept>
//     now()                                    marks a moment, before and after `next`
//     begins_persistent_call(kept, arrival)    a persistent request is about to start; returns true if
//                                              record_start() must follow
//     record_start(kept, request, exit, code)  the request has been started
//     record_completion(kept, completion)      the operation is complete; may be called again for it
//
// and Kept has is_persistent(). `next` may run any code of the host or of a tool, so no lock is held during
// that call.
template <class Library>
class RequestWrappers {
 public:
  static int start(decltype(PMPI_Start)* next, MPI_Request* request) {
    return starts(1, request, [&] { return next(request); });
  }
  static int startall(decltype(PMPI_Startall)* next, int count, MPI_Request requests[]) {
    return starts(count, requests, [&] { return next(count, requests); });
  }

  static int wait(decltype(PMPI_Wait)* next, MPI_Request* request, MPI_Status* status) {
    return completes(
        1, request, [&] { return next(request, status); }, [](int code, int) { return code == MPI_SUCCESS; });
  }
  static int waitall(decltype(PMPI_Waitall)* next, int count, MPI_Request requests[], MPI_Status statuses[]) {
    return completes(
        count, requests, [&] { return next(count, requests, statuses); },
        [](int code, int) { return code == MPI_SUCCESS; });
  }
  static int waitany(decltype(PMPI_Waitany)* next, int count, MPI_Request requests[], int* index,
                     MPI_Status* status) {
    return completes(
        count, requests, [&] { return next(count, requests, index, status); },
        [&](int code, int i) { return code == MPI_SUCCESS && *index == i; });
  }
  static int waitsome(decltype(PMPI_Waitsome)* next, int count, MPI_Request requests[], int* done,
                      int indices[], MPI_Status statuses[]) {
    const auto is_listed = [&](int code, int i) {
      if (code != MPI_SUCCESS || *done == MPI_UNDEFINED) return false;
      return std::find(indices, indices + *done, i) != indices + *done;
    };
    return completes(
        count, requests, [&] { return next(count, requests, done, indices, statuses); }, is_listed);
  }
  static int test(decltype(PMPI_Test)* next, MPI_Request* request, int* flag, MPI_Status* status) {
    return completes(
        1, request, [&] { return next(request, flag, status); },
        [&](int code, int) { return code == MPI_SUCCESS && *flag != 0; });
  }
  static int testall(decltype(PMPI_Testall)* next, int count, MPI_Request requests[], int* flag,
                     MPI_Status statuses[]) {
    return completes(
        count, requests, [&] { return next(count, requests, flag, statuses); },
        [&](int code, int) { return code == MPI_SUCCESS && *flag != 0; });
  }
  static int testany(decltype(PMPI_Testany)* next, int count, MPI_Request requests[], int* index, int* flag,
                     MPI_Status* status) {
    return completes(
        count, requests, [&] { return next(count, requests, index, flag, status); },
        [&](int code, int i) { return code == MPI_SUCCESS && *flag != 0 && *index == i; });
  }
  static int testsome(decltype(PMPI_Testsome)* next, int count, MPI_Request requests[], int* done,
                      int indices[], MPI_Status statuses[]) {
    return waitsome(next, count, requests, done, indices, statuses);
  }

  // MPI_Request_get_status tells the program that a request is complete, but keeps the request.
  static int request_get_status(decltype(PMPI_Request_get_status)* next, MPI_Request request, int* flag,
                                MPI_Status* status) {
    const int code = next(request, flag, status);
    Library* library = Library::tracer_if_called_by_program();
    if (library == nullptr || code != MPI_SUCCESS || *flag == 0) return code;
    const auto lock = library->lock();
    if (auto* kept = library->requests.find(request)) library->record_completion(*kept, Library::now());
    return code;
  }

  static int request_free(decltype(PMPI_Request_free)* next, MPI_Request* request) {
    Library* library = Library::tracer_if_called_by_program();
    if (library == nullptr) return next(request);
    const InsideOffbeat guard;
    const Handle handle = abi::bits(*request);
    const int code = next(request);
    if (code == MPI_SUCCESS) {
      const auto lock = library->lock();
      library->requests.erase(handle);
    }
    return code;
  }

 private:
  template <class Body>
  static int starts(int count, MPI_Request* requests, Body&& body) {
    Library* library = Library::tracer_if_called_by_program();
    if (library == nullptr) return body();
    const auto arrival = Library::now();
    const InsideOffbeat guard;
    bool goes_on = false;
    run_ignoring_exceptions([&] {
      const auto lock = library->lock();
      for (int i = 0; i < count && library->requests.size() > 0; ++i) {
        auto* kept = library->requests.find(requests[i]);
        if (kept != nullptr && kept->is_persistent())
          goes_on |= library->begins_persistent_call(*kept, arrival);
      }
    });
    const int code = body();
    if (!goes_on) return code;
    const auto exit = Library::now();
    run_ignoring_exceptions([&] {
      const auto lock = library->lock();
      for (int i = 0; i < count; ++i) {
        auto* kept = library->requests.find(requests[i]);
        if (kept != nullptr && kept->is_persistent()) library->record_start(*kept, requests[i], exit, code);
      }
    });
    return code;
  }

  // Runs `body`, a completion call. After it, is_complete(code, i) returns true if request i is complete.
  template <class Body, class IsComplete>
  static int completes(int count, MPI_Request* requests, Body&& body, IsComplete&& is_complete) {
    Library* library = Library::tracer_if_called_by_program();
    if (library == nullptr) return body();
    const InsideOffbeat guard;
    std::optional<ClaimedRequests> claims;
    run_ignoring_exceptions([&] {
      const auto lock = library->lock();
      const std::size_t most = std::min<std::size_t>(library->requests.size(), count > 0 ? count : 0);
      if (most > 0) library->requests.claim(count, requests, claims.emplace(most));
    });
    const int code = body();
    if (!claims || claims->all().empty()) return code;
    const auto completion = Library::now();
    run_ignoring_exceptions([&] {
      const auto lock = library->lock();
      library->requests.release_claims(*claims, [&](int index, auto& kept) {
        const bool is_gone = !kept.is_persistent() && library->requests.is_null(requests[index]);
        if (!is_gone && !is_complete(code, index)) return false;
        library->record_completion(kept, completion);
        return !kept.is_persistent();
      });
    });
    return code;
  }
};

}  // namespace offbeat
