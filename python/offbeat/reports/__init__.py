# SPDX-License-Identifier: BSD-3-Clause
"""Turn data into tables, sentences, figures and pages. Only ``images`` writes files and starts a program."""
