// SPDX-License-Identifier: BSD-3-Clause
// Tells the program's calls from others. The preload and the tracer, two libraries, each have this flag.
#pragma once

namespace offbeat {

// True while this thread is inside this library. A call that arrives then is not the program's. It comes from
// the library itself or the host, or is the same call again, passed on as PMPI_X by a tool behind us.
inline constinit thread_local bool inside_offbeat [[gnu::tls_model("initial-exec")]] = false;

class InsideOffbeat {
 public:
  InsideOffbeat() { inside_offbeat = true; }
  ~InsideOffbeat() { inside_offbeat = false; }
  InsideOffbeat(const InsideOffbeat&) = delete;
  InsideOffbeat& operator=(const InsideOffbeat&) = delete;
};

}  // namespace offbeat
