! SPDX-License-Identifier: BSD-3-Clause
! Rank 1 computes for three seconds before an allreduce.
program late_solver
  implicit none
  include 'mpif.h'
  integer :: error, rank
  double precision :: mine, total
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  mine = 1
  call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 1) call relax(total)
  call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
contains
  subroutine relax(total)
    double precision, intent(inout) :: total
    double precision :: until
    integer :: k
    until = MPI_Wtime() + 3
    do while (MPI_Wtime() < until)
      do k = 1, 100000
        total = total + mod(k, 7) * 1d-9
      end do
    end do
  end subroutine
end program
