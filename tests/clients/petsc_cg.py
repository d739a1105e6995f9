# SPDX-License-Identifier: BSD-3-Clause
"""Solve a 2-D Poisson problem with PETSc's conjugate gradients; print every residual norm, bit by bit."""

import sys

from petsc4py import PETSc

edge = int(sys.argv[1])
grid = PETSc.DMDA().create([edge, edge], stencil_width=1)
matrix = grid.createMatrix()
(x_first, x_last), (y_first, y_last) = grid.getRanges()
row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
for y in range(y_first, y_last):
    for x in range(x_first, x_last):
        row.index = (x, y)
        for dx, dy, value in ((0, 0, 4.0), (-1, 0, -1.0), (1, 0, -1.0), (0, -1, -1.0), (0, 1, -1.0)):
            if 0 <= x + dx < edge and 0 <= y + dy < edge:
                column.index = (x + dx, y + dy)
                matrix.setValueStencil(row, column, value)
matrix.assemble()
right = grid.createGlobalVector()
low, high = right.getOwnershipRange()
right.setValues(range(low, high), [1.0 / (i + 1) for i in range(low, high)])
right.assemble()
solution = right.duplicate()

solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType("cg")
solver.getPC().setType("none")
solver.setTolerances(rtol=1e-10)
solver.setConvergenceHistory(10000)
solver.solve(right, solution)

residual = matrix * solution - right
if PETSc.COMM_WORLD.rank == 0:
    for norm in solver.getConvergenceHistory():
        print("residual", float(norm).hex())
relative = residual.norm() / right.norm()
if PETSc.COMM_WORLD.rank == 0:
    print(f"iterations {solver.getIterationNumber()} relative residual {relative:.3e}")
assert solver.getConvergedReason() > 0, solver.getConvergedReason()
assert relative < 1e-9, relative
