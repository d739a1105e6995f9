// SPDX-License-Identifier: BSD-3-Clause
// The functions of offbeat. Under `offbeat run` they are those of the preload library, which knows the MPI of
// the process. Otherwise liboffbeat.so is loaded, late and privately, so nothing here is linked to it.
#pragma once

#include <dlfcn.h>
#include <offbeat/offbeat.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace offbeat_torch {

class Library {
 public:
  decltype(&offbeat_group_make) group_make = nullptr;
  decltype(&offbeat_group_free) group_free = nullptr;
  decltype(&offbeat_group_give_up) group_give_up = nullptr;
  decltype(&offbeat_run) run = nullptr;
  decltype(&offbeat_begin) begin = nullptr;
  decltype(&offbeat_begin_send) begin_send = nullptr;
  decltype(&offbeat_begin_receive) begin_receive = nullptr;
  decltype(&offbeat_wait_until) wait_until = nullptr;
  decltype(&offbeat_error_text) error_text = nullptr;

  void load(const std::string& path) {
    const bool is_preloaded = dlsym(RTLD_DEFAULT, "offbeat_group_make") != nullptr;
    void* const handle = is_preloaded ? RTLD_DEFAULT : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    TORCH_CHECK(is_preloaded || handle != nullptr, "offbeat: ", dlerror());
    find(handle, group_make, "offbeat_group_make");
    find(handle, group_free, "offbeat_group_free");
    find(handle, group_give_up, "offbeat_group_give_up");
    find(handle, run, "offbeat_run");
    find(handle, begin, "offbeat_begin");
    find(handle, begin_send, "offbeat_begin_send");
    find(handle, begin_receive, "offbeat_begin_receive");
    find(handle, wait_until, "offbeat_wait_until");
    find(handle, error_text, "offbeat_error_text");
  }

 private:
  template <class Function>
  static void find(void* handle, Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    TORCH_CHECK(function != nullptr, "offbeat: the library has no ", name);
  }
};

inline Library library;

inline std::string error_line(const std::string& text) { return "offbeat: " + text; }

[[noreturn]] inline void fail(const std::string& text) {
  C10_THROW_ERROR(DistBackendError, error_line(text));
}

}  // namespace offbeat_torch
