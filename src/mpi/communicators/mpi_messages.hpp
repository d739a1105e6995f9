// SPDX-License-Identifier: BSD-3-Clause
// MpiMessages carries the messages of a group of several nodes, as messages of the host MPI.
#pragma once

#include <list>

#include "base/pool.hpp"
#include "groups/message_carrier.hpp"
#include "mpi/host/host.hpp"

namespace offbeat {

// A receive asks the host for a message before it gives the host a buffer. So it knows the length, and a
// receive that ends without a message leaves nothing behind.
class MpiMessages final : public MessageCarrier {
 public:
  // Messages have tags from `tag_base` to `highest_tag`. The communicator must outlive this.
  MpiMessages(const Host& host, MPI_Comm communicator, int tag_base, int highest_tag)
      : host_(host), communicator_(communicator), tag_base_(tag_base), highest_tag_(highest_tag) {}

  void require_possible(int tag, std::size_t bytes) const override;
  void begin(Message& message) override;
  bool move(const Message& message) override;
  void forget(const Message& message) noexcept override;

 private:
  struct UnderWay {
    Message* message;
    MPI_Request request = MPI_REQUEST_NULL;  // null: a receive that has found no message
  };
  // Lets the host receive the message that belongs to this receive. Returns false if there is none yet.
  [[nodiscard]] bool find(UnderWay& receive);
  // Returns true if an earlier receive could take the same message.
  [[nodiscard]] bool must_wait_for_earlier(const UnderWay& receive) const;
  void check(int code) const;

  const Host& host_;
  const MPI_Comm communicator_;
  const int tag_base_;
  const int highest_tag_;
  const HostFunction<decltype(PMPI_Improbe)> improbe_{host_.find("PMPI_Improbe")};
  const HostFunction<decltype(PMPI_Imrecv)> imrecv_{host_.find("PMPI_Imrecv")};
  const HostFunction<decltype(PMPI_Get_count)> get_count_{host_.find("PMPI_Get_count")};
  std::list<UnderWay, pool::Allocator<UnderWay>> under_way_;  // in the order in which they were begun
};

}  // namespace offbeat
