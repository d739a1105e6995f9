// SPDX-License-Identifier: BSD-3-Clause
// Distinguishes the program's calls from others. The preload and the tracer are two libraries, and each has
// its own flag.
#pragma once

namespace offbeat {

// True while this thread is inside this library. A call that arrives then does not come from the program. The
// library itself made it, or the host did, or it is the same call again, passed on as PMPI_X by a tool behind
// offbeat.
inline constinit thread_local bool inside_offbeat [[gnu::tls_model("initial-exec")]] = false;

class InsideOffbeat {
 public:
  InsideOffbeat() { inside_offbeat = true; }
  ~InsideOffbeat() { inside_offbeat = false; }
  InsideOffbeat(const InsideOffbeat&) = delete;
  InsideOffbeat& operator=(const InsideOffbeat&) = delete;
};

}  // namespace offbeat
