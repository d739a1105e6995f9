// SPDX-License-Identifier: BSD-3-Clause
// liboffbeat.so has these functions instead of an MPI.
#include "base/error.hpp"
#include "capi/group_trace.hpp"
#include "groups/algorithm_text.hpp"
#include "groups/mpi_of_process.hpp"
#include "groups/network.hpp"

namespace offbeat::mpi_of_process {
namespace {

constinit thread_local const Expression* the_last_algorithm = nullptr;

[[noreturn]] void refuse() { throw CommunicationError("liboffbeat.so knows no MPI: a call needs a group"); }

}  // namespace

std::string_view family() { return "none"; }
void select(std::string_view, std::string_view) {}
const char* last_algorithm() { return algorithm_text(the_last_algorithm); }
void note_algorithm(const Expression* ran) { the_last_algorithm = ran; }
void observe(const Observer&) {}
GroupObserver* observer_of_groups() { return &trace::group_trace(); }
std::unique_ptr<Network> mpi_network() { return nullptr; }
Counts count(std::string_view) { return {}; }
void run(const Arguments&) { refuse(); }
std::unique_ptr<Request> begin(const Arguments&) { refuse(); }

}  // namespace offbeat::mpi_of_process
