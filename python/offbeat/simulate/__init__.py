# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on machines that one does not have, in virtual time."""
