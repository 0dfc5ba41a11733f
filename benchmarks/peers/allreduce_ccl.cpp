// oneCCL's all-reduce on CPUs, timed: mpirun -n RANKS allreduce_ccl BYTES:REPS…
// MPI hands round the address of the key-value store and gives the barrier.
#include <exception>

#include <oneapi/ccl.hpp>

#include "mpi_timing.h"

namespace {

ccl::communicator connect() {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  ccl::shared_ptr_class<ccl::kvs> store;
  ccl::kvs::address_type address;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) store = ccl::create_kvs(address);
  return ccl::create_communicator(ranks, rank, store);
}

void all_reduce(float* values, int count, void* context) {
  auto& communicator = *static_cast<ccl::communicator*>(context);
  ccl::allreduce(values, values, static_cast<std::size_t>(count), ccl::datatype::float32, ccl::reduction::sum,
                 communicator)
      .wait();
}

}  // namespace

int main(int argc, char** argv) {
  ccl::init();
  MPI_Init(&argc, &argv);
  try {
    auto communicator = connect();  // destroyed before MPI_Finalize, which it needs
    time_items(argc, argv, all_reduce, &communicator);
  } catch (const std::exception& error) {
    stop("oneCCL failed", error.what());
  }
  MPI_Finalize();
  return 0;
}
