# SPDX-License-Identifier: BSD-3-Clause
"""offbeat: MPI collectives that are fast when ranks do not arrive together."""

from offbeat._core import ExpressionError, algorithms, check_expression, settings, version

__version__ = version()

__all__ = ["ExpressionError", "__version__", "algorithms", "check_expression", "settings", "version"]
