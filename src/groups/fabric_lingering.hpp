// SPDX-License-Identifier: BSD-3-Clause
// LingeringEndpoints keeps the endpoints of networks that are gone. A send may be over while the provider
// still has its data, and closing the endpoint throws them away. So it stays open for a while, and is polled.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/spin_lock.hpp"
#include "groups/message_carrier.hpp"

namespace offbeat {

// A message that the provider has.
struct FabricOperation {
  fi_context2 context{};       // first, because a completion has its address
  Message* message = nullptr;  // null if it was forgotten, or the operation is unused
  bool is_send = false;
  int peer = 0;
};

struct FabricEndpoint {
  struct Close {
    template <class Object>
    void operator()(Object* object) const {
      fi_close(&object->fid);
    }
  };
  template <class Object>
  using Owned = std::unique_ptr<Object, Close>;

  std::deque<FabricOperation> operations;  // destroyed last
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  Owned<fid_av> addresses;
  Owned<fid_cq> completions;
  Owned<fid_ep> self;
};

class LingeringEndpoints {
 public:
  // Returns the endpoints of this process.
  static LingeringEndpoints& of_process();

  // Takes an endpoint on which this rank begins nothing more. Waits while 16 others linger. Throws
  // std::bad_alloc.
  void add(std::unique_ptr<FabricEndpoint> endpoint);
  // Polls all, and closes those whose time is over.
  void poll();
  // Polls until none is left, for at most a second. An exit handler may call this while its thread holds the
  // lock.
  void wait();

  // For the handlers of fork(). The child has no part in its parent's endpoints.
  void prepare_fork() { lock_.lock(); }
  void after_fork_in_parent() { lock_.unlock(); }
  void after_fork_in_child();

 private:
  struct Each {
    std::unique_ptr<FabricEndpoint> endpoint;
    std::int64_t until_ns;
  };
  [[nodiscard]] static bool is_over(const Each& each);

  SpinLock lock_;
  std::vector<Each> all_;  // the oldest first
};

}  // namespace offbeat
