# SPDX-License-Identifier: BSD-3-Clause
"""A module for each verb of the command line. Each has ``register(app)`` and is imported when needed."""
