// SPDX-License-Identifier: BSD-3-Clause
// LingeringEndpoints keeps the endpoints of networks that are gone. A send may be over while the provider
// still has its data, and closing the endpoint throws them away. So it stays open for a while, and is polled.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <unistd.h>

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
  // Returns the endpoints of this process. When it ends, it waits until their time is over.
  static LingeringEndpoints& of_process();

  // Takes an endpoint on which this rank begins nothing more. Throws std::bad_alloc.
  void add(std::unique_ptr<FabricEndpoint> endpoint);
  // Polls all, and closes those whose time is over. Returns true if none is left.
  bool poll();

 private:
  struct Each {
    std::unique_ptr<FabricEndpoint> endpoint;
    std::int64_t until_ns;
    pid_t process;
  };
  [[nodiscard]] static bool is_over(Each& each);

  SpinLock lock_;
  std::vector<Each> all_;  // the oldest first
};

}  // namespace offbeat
