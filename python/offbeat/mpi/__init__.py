# SPDX-License-Identifier: BSD-3-Clause
"""Find the installed MPIs and the one that a program uses, and start the program under offbeat."""
