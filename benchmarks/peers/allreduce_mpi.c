// MPI's all-reduce, timed: mpirun -n RANKS allreduce_mpi BYTES:REPS…
// One source for Open MPI, MPICH and Intel MPI.
#include "mpi_timing.h"

static void all_reduce(float* values, int count, void* context) {
  (void)context;
  MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  time_items(argc, argv, all_reduce, NULL);
  MPI_Finalize();
  return 0;
}
