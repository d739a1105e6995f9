// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cfenv>

namespace offbeat {

// Keeps what offbeat computes for itself apart from the floating-point environment of the program, which may
// trap exceptions (feenableexcept, -ffpe-trap), round in another direction, or flush denormals to zero. While
// an object lives, this thread has the default environment: nothing traps, and all ranks compute the same.
// Then it has the program's environment again, with the flags that the program had raised and no others.
//
// This takes about 100 ns. So what runs in every call, or in every wait, computes with integers instead. No
// function of the host or of the program may run meanwhile, and none of the program's reductions.
class OwnFloatingPoint {
 public:
  OwnFloatingPoint() {
    std::fegetenv(&of_program_);
    std::fesetenv(FE_DFL_ENV);
  }
  OwnFloatingPoint(const OwnFloatingPoint&) = delete;
  OwnFloatingPoint& operator=(const OwnFloatingPoint&) = delete;
  ~OwnFloatingPoint() { std::fesetenv(&of_program_); }

 private:
  std::fenv_t of_program_;
};

}  // namespace offbeat
