# SPDX-License-Identifier: BSD-3-Clause
# Makes the targets GTest::gtest and GTest::gtest_main. No package has the library of another architecture, so
# Debian's sources (libgtest-dev) are compiled for it.
set(OFFBEAT_GOOGLETEST "" CACHE PATH "folder with GoogleTest's sources")
if(CMAKE_CROSSCOMPILING AND NOT OFFBEAT_GOOGLETEST)
  set(OFFBEAT_GOOGLETEST /usr/src/googletest)
endif()
if(OFFBEAT_GOOGLETEST)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  add_subdirectory("${OFFBEAT_GOOGLETEST}" googletest EXCLUDE_FROM_ALL SYSTEM)
else()
  find_package(GTest REQUIRED)
endif()
