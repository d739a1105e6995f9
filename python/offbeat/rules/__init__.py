# SPDX-License-Identifier: BSD-3-Clause
"""Rules, which say which algorithm runs where. The C++ core parses them and makes the plans."""
