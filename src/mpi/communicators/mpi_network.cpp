// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/mpi_network.hpp"

#include "mpi/communicators/mpi_board_client.hpp"
#include "mpi/communicators/mpi_messages.hpp"
#include "mpi/process/job_identity.hpp"

namespace offbeat {

NetworkAddress MpiNetwork::address() const {
  if (!has_runtime() || !runtime().is_started() || !runtime().is_mpi_running())
    return {.state = NetworkAddress::State::not_running};
  const Host& host = runtime().host;
  if (host.thread_level() < MPI_THREAD_MULTIPLE) return {.state = NetworkAddress::State::one_thread};
  return {.state = NetworkAddress::State::ready,
          .rank = host.rank_in(MPI_COMM_WORLD),
          .ranks = host.size_of(MPI_COMM_WORLD),
          .job = job_identity()};
}

bool MpiNetwork::connect(SetUp& set_up, const Locality& locality, std::span<const int> ranks,
                         std::uint64_t number) {
  Runtime& process = runtime();
  locality_ = &locality;
  communicator_.emplace(process.host);
  if (!set_up.all(PrivateCommunicator::may_be_created(process.host, process.own_communicator())))
    return false;
  const auto tag = static_cast<int>(number % static_cast<std::uint64_t>(process.highest_tag()));
  if (!set_up.all(communicator_->create_from_world(ranks, tag))) return false;
  longest_between_nodes_ =
      static_cast<std::size_t>(set_up.least(static_cast<int>(longest_message_between_nodes(process.host))));
  return true;
}

// After MPI_Finalize the communicator is gone. Before it, MPICH would end the job in MPI_Comm_free if a
// message that no rank has received is left over. If connect() has failed, there may be no communicator.
MpiNetwork::~MpiNetwork() {
  if (!communicator_ || communicator_->handle() == MPI_COMM_NULL) return;
  int is_left = 0;
  const bool is_running = runtime().is_mpi_running();
  if (is_running)
    runtime().host.Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_->handle(), &is_left, MPI_STATUS_IGNORE);
  if (!is_running || is_left != 0) communicator_->leak();
  communicator_.reset();
}

std::unique_ptr<BoardTransport> MpiNetwork::transport(Board& board, int index) {
  auto made = std::make_unique<MpiTransport>(runtime().host, board.patience);
  made->use(*locality_, longest_between_nodes_);
  made->use(communicator_->handle(), index * most_lanes);
  made->use(board);
  return made;
}

std::unique_ptr<BoardClient> MpiNetwork::client() {
  Runtime& process = runtime();
  auto made = std::make_unique<MpiBoardClient>(process.host, process.fault_tolerance(),
                                               process.own_communicator().handle, *locality_);
  made->use(communicator_->handle(), MpiTransport::failure_tag);
  return made;
}

std::unique_ptr<MessageCarrier> MpiNetwork::carrier() {
  return std::make_unique<MpiMessages>(runtime().host, communicator_->handle(), MpiTransport::tags,
                                       runtime().highest_tag());
}

}  // namespace offbeat
