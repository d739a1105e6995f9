! SPDX-License-Identifier: BSD-3-Clause
! MPI_Allreduce and MPI_Barrier through the module mpi_f08: handles are types, and ierror may be left out.
program sums_mpi_f08
  use mpi_f08
  implicit none
  integer, parameter :: n = 1000
  integer :: ierror, rank, ranks, i, calls, wrong, all_wrong
  integer :: whole(n), whole_sum(n), least(2)
  real :: single(n), single_sum(n)
  double precision :: double(n), double_sum(n)
  complex :: pair(n), pair_sum(n)
  logical :: flag(3), flag_all(3)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  calls = 0
  wrong = 0
  do i = 1, n
    whole(i) = rank + i
    single(i) = real(rank + i)
    double(i) = dble(rank + i)
    pair(i) = cmplx(rank + i, -i)
  end do

  call MPI_Allreduce(whole, whole_sum, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allreduce(single, single_sum, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allreduce(double, double_sum, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allreduce(pair, pair_sum, n, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD)
  calls = calls + 4
  call check_sums()

  call MPI_Allreduce(MPI_IN_PLACE, whole, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allreduce(MPI_IN_PLACE, single, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allreduce(MPI_IN_PLACE, double, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allreduce(MPI_IN_PLACE, pair, n, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD)
  calls = calls + 4
  whole_sum = whole
  single_sum = single
  double_sum = double
  pair_sum = pair
  call check_sums()

  flag = (/ .true., rank == 0, .false. /)
  call MPI_Allreduce(flag, flag_all, 3, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
  if (.not. flag_all(1) .or. (flag_all(2) .neqv. ranks == 1) .or. flag_all(3)) wrong = wrong + 1
  call MPI_Allreduce(MPI_IN_PLACE, flag, 3, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD)
  if (.not. flag(1) .or. .not. flag(2) .or. flag(3)) wrong = wrong + 1
  least = (/ mod(rank, 2) + 5, rank /)
  call MPI_Allreduce(MPI_IN_PLACE, least, 1, MPI_2INTEGER, MPI_MINLOC, MPI_COMM_WORLD)
  if (least(1) /= 5 .or. least(2) /= 0) wrong = wrong + 1
  calls = calls + 3

  call MPI_Barrier(MPI_COMM_WORLD)
  do i = 1, 4
    ierror = -1
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    if (ierror /= MPI_SUCCESS) wrong = wrong + 1
  end do
  if (wrong /= 0) print '(a, i0, a, i0, a)', 'FAIL rank ', rank, ': ', wrong, ' wrong values'

  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  calls = calls + 1
  if (rank == 0 .and. all_wrong == 0) print '(a, i0, a, i0, a)', 'ok: ', calls, ' cases, ', calls, ' calls'
  call MPI_Finalize()
  if (all_wrong /= 0) stop 1

contains

  subroutine check_sums()
    integer :: k, expected
    do k = 1, n
      expected = ranks * k + ranks * (ranks - 1) / 2
      if (whole_sum(k) /= expected) wrong = wrong + 1
      if (single_sum(k) /= real(expected)) wrong = wrong + 1
      if (double_sum(k) /= dble(expected)) wrong = wrong + 1
      if (pair_sum(k) /= cmplx(expected, -ranks * k)) wrong = wrong + 1
    end do
  end subroutine
end program
