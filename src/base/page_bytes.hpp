// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <unistd.h>

#include <cstddef>

namespace offbeat {

// Returns the page size of this kernel: 4 KiB on x86-64, up to 64 KiB on Arm and POWER.
[[nodiscard]] inline std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// Returns what one entry of a table of pages maps, the least size of a huge page. Such a table fills a page
// with entries of 8 bytes.
[[nodiscard]] inline std::size_t huge_page_bytes() { return page_bytes() / 8 * page_bytes(); }

}  // namespace offbeat
