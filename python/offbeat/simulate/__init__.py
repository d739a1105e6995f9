# SPDX-License-Identifier: BSD-3-Clause
"""Run collectives in virtual time, on machines that the user does not have."""
