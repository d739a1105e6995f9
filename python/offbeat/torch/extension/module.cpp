// SPDX-License-Identifier: BSD-3-Clause
// What Python sees. The extension is compiled as one file, because torch's headers take most of the time.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.hpp"
#include "collectives.cpp"

PYBIND11_MODULE(offbeat_torch_extension, m) {
  using namespace offbeat_torch;
  m.def("load", [](const std::string& path) { library.load(path); });
  m.def(
      "make",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout) {
        return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<Backend>(*store, rank, size, timeout));
      },
      pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("leave_all", &Ranks::leave_all, pybind11::call_guard<pybind11::gil_scoped_release>());
}
