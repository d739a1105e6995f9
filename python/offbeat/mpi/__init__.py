# SPDX-License-Identifier: BSD-3-Clause
"""Which MPIs there are, which one a program uses, and how it is started under offbeat."""
