# SPDX-License-Identifier: BSD-3-Clause
"""Rules: which algorithm runs where. The parser and the plans live in the C++ core."""
