#include "lockstep/comm/mpi/mpi_wire.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

std::string words_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

}  // namespace

void check_mpi(int code, const char* what) {
  if (code != MPI_SUCCESS) fail(Fault::Comm, fmt::format("MPI failed while {}: {}", what, words_of(code)));
}

class MpiWire::MpiMessage final : public Wire::Message {
 public:
  MpiMessage(MpiWire& wire, std::shared_ptr<const void> owner, bool receives)
      : wire_(wire), owner_(std::move(owner)), receives_(receives) {}

  ~MpiMessage() override {
    if (done_) return;
    // MPI cannot take a message back, and waiting could hang while an exception
    // unwinds. A receive that has not matched can be cancelled; else its memory stays.
    int finished = 0, finalized = 0;
    MPI_Finalized(&finalized);
    if (receives_ && finalized == 0) {
      const std::lock_guard lock(wire_.mutex_);
      for (auto& request : requests_) {
        if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
      }
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &finished, MPI_STATUSES_IGNORE);
    }
    if (finished == 0) new std::pair(std::move(owner_), wire_.options_.memory);
  }

  bool done() override {
    if (done_) return true;
    int finished = 0;
    int code;
    {
      const std::lock_guard lock(wire_.mutex_);
      code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &finished, MPI_STATUSES_IGNORE);
    }
    if (code != MPI_SUCCESS) wire_.options_.on_error(words_of(code));
    return done_ = finished != 0;
  }

  std::vector<MPI_Request>& requests() { return requests_; }

 private:
  MpiWire& wire_;
  std::shared_ptr<const void> owner_;
  bool receives_;
  bool done_ = false;
  std::vector<MPI_Request> requests_;
};

MpiWire::MpiWire(MPI_Comm world, Options options) : options_(std::move(options)) {
  check_mpi(MPI_Comm_dup(world, &communicator_), "duplicating the communicator");
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  int found = 0;
  int* bound = nullptr;
  MPI_Comm_get_attr(communicator_, MPI_TAG_UB, &bound, &found);
  if (found != 0) highest_tag_ = *bound;
}

MpiWire::~MpiWire() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // Freeing is collective; after a failure peers may never join, though the exception was
  // caught long ago.
  if (finalized == 0 && !options_.aborted() && std::uncaught_exceptions() == 0) MPI_Comm_free(&communicator_);
}

int MpiWire::tag(int group, Channel channel) const {
  const int tag = group * kChannels + channel;
  if (tag > highest_tag_) fail(Fault::Comm, fmt::format("{} groups are more than this MPI can tell apart", group));
  return tag;
}

std::unique_ptr<Wire::Message> MpiWire::send(int group, Channel channel, int to, const void* data, std::size_t bytes,
                                             std::shared_ptr<const void> owner) {
  auto message = std::make_unique<MpiMessage>(*this, std::move(owner), false);
  const auto* next = static_cast<const std::byte*>(data);
  do {
    const std::size_t part = std::min(bytes, options_.most_bytes);
    const std::lock_guard lock(mutex_);
    message->requests().push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(next, static_cast<int>(part), MPI_BYTE, to, tag(group, channel), communicator_,
                        &message->requests().back()),
              "sending");
    next += part;
    bytes -= part;
  } while (bytes > 0);
  return message;
}

std::unique_ptr<Wire::Message> MpiWire::receive(int group, Channel channel, int from, void* data, std::size_t bytes,
                                                std::shared_ptr<const void> owner) {
  auto message = std::make_unique<MpiMessage>(*this, std::move(owner), true);
  auto* next = static_cast<std::byte*>(data);
  do {
    const std::size_t part = std::min(bytes, options_.most_bytes);
    const std::lock_guard lock(mutex_);
    message->requests().push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Irecv(next, static_cast<int>(part), MPI_BYTE, from, tag(group, channel), communicator_,
                        &message->requests().back()),
              "receiving");
    next += part;
    bytes -= part;
  } while (bytes > 0);
  return message;
}

}  // namespace lockstep::comm
