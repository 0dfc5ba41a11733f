#include "lockstep/comm/work.h"

#include <algorithm>
#include <utility>

#include "lockstep/comm/endpoint.h"
#include "lockstep/comm/operation.h"
#include "lockstep/profile/span.h"

namespace lockstep::comm {

struct Work::Pending {
  std::shared_ptr<Endpoint> endpoint;
  std::shared_ptr<OperationQueue> queue;
  std::shared_ptr<Operation> operation;
  std::vector<Work> others;
  std::vector<std::function<void()>> after;
};

Work::Work(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<OperationQueue> queue,
           std::shared_ptr<Operation> operation)
    : pending_(
          std::make_shared<Pending>(Pending{std::move(endpoint), std::move(queue), std::move(operation), {}, {}})) {}

Work::Pending& Work::pending() {
  if (!pending_) pending_ = std::make_shared<Pending>();
  return *pending_;
}

void Work::finish() {
  const auto pending = std::exchange(pending_, nullptr);
  if (pending->operation) {
    const profile::Span span("wait");
    pending->endpoint->wait(*pending->queue, *pending->operation);
  }
  for (auto& work : pending->others) work.wait();
  for (const auto& step : pending->after) step();
}

bool Work::done() const noexcept {
  if (!pending_) return true;
  if (pending_->operation && pending_->operation->state.load(std::memory_order_acquire) != Operation::State::Done)
    return false;
  return std::all_of(pending_->others.begin(), pending_->others.end(), [](const Work& work) { return work.done(); });
}

void Work::add(Work other) { pending().others.push_back(std::move(other)); }
void Work::after(std::function<void()> step) { pending().after.push_back(std::move(step)); }

}  // namespace lockstep::comm
