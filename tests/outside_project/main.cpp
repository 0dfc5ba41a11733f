// One all-reduce by an installed Lockstep, and an Error of its own.
#include <iostream>

#include <ATen/ATen.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/core/error.h"
#include "lockstep/core/version.h"

int main(int argc, char** argv) {
  return lockstep::comm::run_program(argc, argv, [](lockstep::comm::Runtime& runtime) {
    at::Tensor tensor = at::full({4}, runtime.rank() + 1.0);
    runtime.world().all_reduce_(tensor, lockstep::comm::ReduceOp::Sum).wait();
    std::cout << "lockstep " << lockstep::kVersion << '\n' << "the sum is " << tensor[3].item<double>() << '\n';
    try {
      lockstep::fail(lockstep::Fault::Usage, "as it should be");
    } catch (const lockstep::Error& error) {
      std::cout << lockstep::name_of(error.fault()) << ": " << error.what() << '\n';
    }
  });
}
