// SPDX-License-Identifier: BSD-3-Clause
// Whose call is it? The preload and the tracer, which are libraries apart, each have this flag.
#pragma once

namespace offbeat {

// True while this thread is inside this library. What arrives then is no call of the program's: it is one of
// the library's own or of the host's, or the same call once more, which a tool behind us sends on as PMPI_X.
inline constinit thread_local bool inside_offbeat [[gnu::tls_model("initial-exec")]] = false;

class InsideOffbeat {
 public:
  InsideOffbeat() { inside_offbeat = true; }
  ~InsideOffbeat() { inside_offbeat = false; }
  InsideOffbeat(const InsideOffbeat&) = delete;
  InsideOffbeat& operator=(const InsideOffbeat&) = delete;
};

}  // namespace offbeat
