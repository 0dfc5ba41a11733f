// A program that has MPI for itself and uses Lockstep beside it: `own_mpi [serialized]`. With a
// wire of its own it also sees that messages arrive whole however they are cut.
#include <mpi.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/comm/mpi/mpi_wire.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/core/error.h"

namespace {

int rank = 0, size = 1;

void expect(bool holds, const char* what) {
  if (!holds) lockstep::fail(lockstep::Fault::Internal, what);
}

/// A call of the program's own.
int sum_of_ranks() {
  int sum = rank + 1;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

void use_both(lockstep::comm::Runtime& runtime) {
  const int wanted = size * (size + 1) / 2;
  expect(runtime.rank() == rank && runtime.size() == size, "Lockstep numbers the ranks otherwise");
  std::vector<at::Tensor> tensors;
  std::vector<lockstep::comm::Work> works;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(at::full({1 << 20}, rank + 1, at::kFloat));
    works.push_back(runtime.world().all_reduce_(tensors.back(), lockstep::comm::ReduceOp::Sum));
    expect(sum_of_ranks() == wanted, "an MPI call beside the communication thread");
  }
  for (auto& work : works) work.wait();
  for (const auto& tensor : tensors) expect(tensor[12'345].item<float>() == static_cast<float>(wanted), "a sum");
}

/// Round the ranks, in pieces of 64 bytes; an empty message is one too.
void send_in_pieces() {
  lockstep::comm::MpiWire::Options options;
  options.on_error = [](const std::string& words) { lockstep::fail(lockstep::Fault::Comm, words); };
  options.most_bytes = 64;
  lockstep::comm::MpiWire wire(MPI_COMM_WORLD, options);
  const std::vector<std::size_t> lengths = {0, 1, 63, 64, 65, 128, 1000};
  std::vector<std::string> out, in;
  for (const auto length : lengths) {
    out.emplace_back(length, 0);
    for (std::size_t i = 0; i < length; ++i) out.back()[i] = static_cast<char>(i * 7 + length);
    in.emplace_back(length, 'x');
  }
  std::vector<std::unique_ptr<lockstep::comm::Wire::Message>> messages;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    messages.push_back(
        wire.receive(1, lockstep::comm::Wire::kBulk, (rank + size - 1) % size, in[i].data(), lengths[i], nullptr));
    messages.push_back(
        wire.send(1, lockstep::comm::Wire::kBulk, (rank + 1) % size, out[i].data(), lengths[i], nullptr));
  }
  for (auto& message : messages) {
    while (!message->done()) {
    }
  }
  expect(in == out, "a message cut into pieces");
}

}  // namespace

int main(int argc, char** argv) {
  const bool serialized = argc > 1 && std::strcmp(argv[1], "serialized") == 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int code = lockstep::comm::run_program(argc, argv, use_both);
  if (serialized) {
    std::cout << "refused with " << code << std::endl;
    code = code == lockstep::exit_code::kUsage ? 0 : 1;
  } else if (code == 0 && sum_of_ranks() != size * (size + 1) / 2) {
    std::cerr << "MPI does not work after the Runtime has gone" << std::endl;
    code = 1;
  }
  if (code == 0 && !serialized) send_in_pieces();
  MPI_Finalize();
  return code;
}
