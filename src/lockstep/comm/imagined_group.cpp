#include "lockstep/comm/imagined_group.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/endpoint.h"
#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

class ImaginedGroup final : public Backend {
 public:
  explicit ImaginedGroup(int size) : size_(size) {}
  const char* name() const noexcept override { return "imagined"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return size_; }
  int world_rank(int rank) const noexcept override { return rank; }
  std::vector<Slice> owned(std::int64_t count, std::size_t element_bytes) const override {
    return {slice_of(count, size_, 0, element_bytes)};
  }
  Task run(const Request& request) override {
    perform(request);
    co_return;
  }
  bool begin_at_once(const Request& request) override {
    perform(request);
    return true;
  }
  bool finish_at_once(const Request&, int) override { return true; }
  void issued(const Descriptor&) noexcept override {}
  void examine(const Operation&) override {}
  std::string absentees(const Operation&) override { return "nobody"; }
  std::unique_ptr<Backend> subgroup(const std::vector<int>&, const Exchange&) override {
    fail(Fault::Internal, "an imagined group has no parts: imagine a group of their size");
  }

 private:
  /// Where others would be read, this rank is; sums stay what this rank brought.
  void perform(const Request& request) const {
    switch (request.descriptor.collective) {
      case Collective::Barrier:
      case Collective::AllReduce:
      case Collective::Reduce:
      case Collective::ReduceUpdate:
      case Collective::Broadcast: return;
      case Collective::ReduceScatter: return copy(request, request.descriptor.count);
      case Collective::Scatter: return copy(request, request.recv_counts.at(0));
      case Collective::AllGather:
      case Collective::Gather: return repeat(request);
      case Collective::AllToAll: return copy(request, sum(request.recv_counts));
      case Collective::Send:
      case Collective::Recv: fail(Fault::Internal, "a message between ranks of a group that is only imagined");
    }
  }

  static std::int64_t sum(const std::vector<std::int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }

  static void copy(const Request& request, std::int64_t elements) {
    std::memcpy(request.output, request.input, static_cast<std::size_t>(elements) * request.element_bytes);
  }

  static void repeat(const Request& request) {
    std::byte* to = request.output;
    const std::int64_t own = request.send_counts.at(0);
    for (const std::int64_t count : request.recv_counts) {
      const auto bytes = static_cast<std::size_t>(std::min(own, count)) * request.element_bytes;
      std::memcpy(to, request.input, bytes);
      to += static_cast<std::size_t>(count) * request.element_bytes;
    }
  }

  int size_;
};

}  // namespace

std::unique_ptr<Communicator> imagine_group(int size) {
  if (size < 1) fail(Fault::Usage, fmt::format("a group of {} ranks: it is from 1 on", size));
  constexpr double kForEver = 0;
  auto endpoint = std::make_shared<Endpoint>(Segment::for_threads(1), 0, EndpointOptions{0, {0}, kForEver, {}, false});
  return std::make_unique<Communicator>(std::move(endpoint), std::make_unique<ImaginedGroup>(size));
}

}  // namespace lockstep::comm
