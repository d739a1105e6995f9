# SPDX-License-Identifier: BSD-3-Clause
"""Conjugate gradients for a Poisson problem: two allreduces of 8 bytes in each iteration.

    offbeat trace -n 4 -o krylov.trace -- python examples/krylov.py

The rows of the grid are dealt out in blocks whose sizes are rounded down, and the last rank takes
the rest, as programs often do: it comes last to every dot product. ``--even`` deals out evenly.
``--petsc`` solves the same problem with PETSc instead, if petsc4py is there.
"""

import argparse
import sys

import numpy as np
from mpi4py import MPI

TOLERANCE = 1e-8


def own_rows(rows: int, rank: int, ranks: int, *, even: bool) -> int:
    """How many rows of the grid a rank has."""
    if even:
        return rows // ranks + (rank < rows % ranks)
    block = max(1, rows // (ranks + 1))
    return block if rank < ranks - 1 else rows - block * (ranks - 1)


class Poisson:
    """The five-point stencil on a block of rows; the neighbours' rows come by messages."""

    def __init__(self, world: MPI.Comm, rows: int, columns: int) -> None:
        self.world = world
        self.padded = np.zeros((rows + 2, columns + 2))
        self.above = world.rank - 1 if world.rank > 0 else MPI.PROC_NULL
        self.below = world.rank + 1 if world.rank < world.size - 1 else MPI.PROC_NULL

    def __call__(self, x: np.ndarray) -> np.ndarray:
        p = self.padded
        p[1:-1, 1:-1] = x
        self.world.Sendrecv(p[1], self.above, recvbuf=p[-1], source=self.below)
        self.world.Sendrecv(p[-2], self.below, recvbuf=p[0], source=self.above)
        return 4 * x - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]


def dot(world: MPI.Comm, a: np.ndarray, b: np.ndarray) -> float:
    mine, total = np.array([np.vdot(a, b)]), np.empty(1)
    world.Allreduce(mine, total)
    return float(total[0])


def conjugate_gradients(world: MPI.Comm, matrix: Poisson, right: np.ndarray) -> tuple[np.ndarray, int]:
    solution, residual = np.zeros_like(right), right.copy()
    direction = residual.copy()
    square = first = dot(world, residual, residual)
    iterations = 0
    while square > TOLERANCE**2 * first:
        product = matrix(direction)
        step = square / dot(world, direction, product)
        solution += step * direction
        residual -= step * product
        before, square = square, dot(world, residual, residual)
        direction = residual + square / before * direction
        iterations += 1
    return solution, iterations


def with_petsc(edge: int) -> None:
    try:
        from petsc4py import PETSc
    except ImportError:
        sys.exit("krylov.py: --petsc needs petsc4py, which is not here")
    grid = PETSc.DMDA().create([edge, edge], stencil_width=1)
    matrix = grid.createMatrix()
    row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
    (x_first, x_last), (y_first, y_last) = grid.getRanges()
    for y in range(y_first, y_last):
        for x in range(x_first, x_last):
            row.index = (x, y)
            for dx, dy, value in ((0, 0, 4.0), (-1, 0, -1.0), (1, 0, -1.0), (0, -1, -1.0), (0, 1, -1.0)):
                if 0 <= x + dx < edge and 0 <= y + dy < edge:
                    column.index = (x + dx, y + dy)
                    matrix.setValueStencil(row, column, value)
    matrix.assemble()
    right = grid.createGlobalVector()
    right.set(1.0)
    solution = right.duplicate()
    solver = PETSc.KSP().create()
    solver.setOperators(matrix)
    solver.setType("cg")
    solver.getPC().setType("none")
    solver.setTolerances(rtol=TOLERANCE)
    solver.solve(right, solution)
    done, residual = solver.getIterationNumber(), solver.getResidualNorm()
    PETSc.Sys.Print(f"PETSc: {done} iterations, residual {residual:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edge", type=int, default=400, help="rows and columns of the grid")
    parser.add_argument("--even", action="store_true", help="deal out the rows evenly")
    parser.add_argument("--petsc", action="store_true", help="let PETSc solve it")
    arguments = parser.parse_args()
    if arguments.petsc:
        with_petsc(arguments.edge)
        return
    world = MPI.COMM_WORLD
    if arguments.edge < 2 * world.size:
        sys.exit(f"krylov.py: --edge {arguments.edge} is too small for {world.size} ranks")
    rows = own_rows(arguments.edge, world.rank, world.size, even=arguments.even)
    matrix = Poisson(world, rows, arguments.edge)
    right = np.ones((rows, arguments.edge))
    started = MPI.Wtime()
    solution, iterations = conjugate_gradients(world, matrix, right)
    seconds = world.allreduce(MPI.Wtime() - started, op=MPI.MAX)
    rest = right - matrix(solution)
    relative = (dot(world, rest, rest) / dot(world, right, right)) ** 0.5
    if world.rank == 0:
        print(f"{iterations} iterations in {seconds:.2f} s, relative residual {relative:.1e}")
        if relative > 10 * TOLERANCE:
            world.Abort(1)


if __name__ == "__main__":
    main()
