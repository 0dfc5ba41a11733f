// Prints the version of an installed Lockstep and makes it throw.
#include <iostream>

#include <ATen/core/Tensor.h>

#include "lockstep/core/error.h"
#include "lockstep/core/version.h"

int main() {
  std::cout << "lockstep " << lockstep::kVersion << '\n';
  try {
    lockstep::fail(lockstep::Fault::Usage, "as it should be");
  } catch (const lockstep::Error& error) {
    std::cout << lockstep::name_of(error.fault()) << ": " << error.what() << '\n';
    return at::Tensor().defined() ? 1 : 0;
  }
  return 1;
}
