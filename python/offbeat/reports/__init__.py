# SPDX-License-Identifier: BSD-3-Clause
"""From data to what a person reads; nothing here opens a file or starts a program."""
