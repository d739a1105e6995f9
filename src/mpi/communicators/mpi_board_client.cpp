// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/communicators/mpi_board_client.hpp"

namespace offbeat {

int MpiBoardClient::take_turn(FailureNotice& told) noexcept {
  int code = host_turn_.give_turn();
  if (code != MPI_SUCCESS) return code;
  if (by_network_) {
    if (by_network_->take_turn(told) != 0) return MPI_ERR_OTHER;  // the number is not one of the host
    if (told.word != 0) return MPI_SUCCESS;
  }
  if (failure_tag_ < 0) return code;
  int is_told = 0;
  code = host_.Iprobe(MPI_ANY_SOURCE, failure_tag_, messages_, &is_told, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS || is_told == 0) return code;
  return host_.Recv(&told, sizeof told, MPI_BYTE, MPI_ANY_SOURCE, failure_tag_, messages_, MPI_STATUS_IGNORE);
}

std::optional<BoardError> MpiBoardClient::find_loss() {
  return by_network_ ? by_network_->find_loss() : std::nullopt;
}

// All ranks of the other nodes get the notice, because it is unknown which of them have left the collective
// and look no more.
void MpiBoardClient::tell_other_nodes(const FailureNotice& failure) noexcept {
  if (by_network_) return by_network_->tell_other_nodes(failure);
  notice_ = failure;
  const Membership& all = locality_.membership;
  for (int rank = 0; rank < all.ranks(); ++rank) {
    if (all.node_of(rank) == locality_.node) continue;
    MPI_Request request;
    if (host_.Isend(&notice_, sizeof notice_, MPI_BYTE, rank, failure_tag_, messages_, &request) ==
        MPI_SUCCESS) {
      host_.Request_free(&request);
    }
  }
}

// If a thread of offbeat calls this, the error is offbeat's own, and the host is asked for nothing.
int MpiBoardClient::error_class(int code) noexcept {
  int found = code;
  if (code != MPI_ERR_NO_MEM && code != MPI_ERR_OTHER && code != MPI_ERR_TRUNCATE)
    host_.Error_class(code, &found);
  return found;
}

}  // namespace offbeat
