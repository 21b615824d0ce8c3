!> A communicator without MPI and without a unique id; twice, as its environment says who is who.
program launch
  use kolo
  use checks
  implicit none
  integer :: ierror, round, mine

  do round = 1, 2
    call kolo_comm_init_env(comm)
    call know_ranks()
    mine = rank + 1
    call kolo_allreduce(mine, KOLO_SUM, comm)
    call expect(mine == nranks * (nranks + 1) / 2, 'the sum over all ranks')
    if (round == 1) call kolo_comm_destroy(comm)
  end do
  call outside_of_slurm()
  if (rank == 0) print '(a)', 'launch: ok'
  call kolo_comm_destroy(comm)

contains

  subroutine outside_of_slurm()
    type(kolo_comm) :: none
    call kolo_comm_init_slurm(none, ierror)
    call expect_error(ierror, ['srun              ', 'kolo_comm_init_env'], 'no Slurm step')
    call expect(kolo_comm_is_null(none), 'no communicator was made')
  end subroutine outside_of_slurm
end program launch
