#include "lockstep/comm/work.h"

#include <algorithm>
#include <exception>
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
  std::exception_ptr error;
};

void Work::Release::operator()(Pending* pending) const noexcept { delete pending; }

Work::Work(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<OperationQueue> queue,
           std::shared_ptr<Operation> operation)
    : pending_(new Pending{std::move(endpoint), std::move(queue), std::move(operation), {}, {}, {}}) {}

Work::Pending& Work::pending() {
  if (!pending_) pending_.reset(new Pending);
  return *pending_;
}

void Work::finish() {
  if (pending_->error) std::rethrow_exception(pending_->error);
  try {
    if (pending_->operation) {
      const profile::Span span("wait");
      pending_->endpoint->wait(*pending_->queue, *pending_->operation);
    }
    for (auto& work : pending_->others) work.wait();
    for (const auto& step : pending_->after) step();
  } catch (...) {
    pending_->error = std::current_exception();
    throw;
  }
  pending_.reset();
}

bool Work::done() const noexcept {
  if (!pending_ || pending_->error) return true;
  if (pending_->operation && pending_->operation->state.load(std::memory_order_acquire) != Operation::State::Done)
    return false;
  return std::all_of(pending_->others.begin(), pending_->others.end(), [](const Work& work) { return work.done(); });
}

void Work::add(Work other) { pending().others.push_back(std::move(other)); }
void Work::after(std::function<void()> step) { pending().after.push_back(std::move(step)); }

}  // namespace lockstep::comm
