# SPDX-License-Identifier: BSD-3-Clause
"""A module for each verb of the command line. Each has a ``COMMAND`` and is imported when needed."""
