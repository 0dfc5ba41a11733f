// lockstep/comm/work.h
//
// A Work is a collective that was queued. Its tensors hold the result after
// wait(). Dropping a Work does not drop the collective: it goes on, and its error,
// if any, is that of the next call on the communicator.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace lockstep::comm {

class Endpoint;
class Operation;
struct OperationQueue;

class [[nodiscard]] Work {
 public:
  /// Already done.
  Work() = default;
  Work(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<OperationQueue> queue, std::shared_ptr<Operation> operation);

  Work(Work&&) = default;
  Work& operator=(Work&&) = default;

  /// Blocks until the collective is done. Throws the first Error of any rank
  /// instead of waiting for a dead one. A second call returns, or throws, at once.
  void wait() {
    if (pending_) finish();
  }
  /// Whether wait() would not block.
  bool done() const noexcept;

  /// Makes wait() wait for `other` too.
  void add(Work other);
  /// Makes wait() run `step` once the collective is done.
  void after(std::function<void()> step);

 private:
  struct Pending;
  struct Release {
    void operator()(Pending* pending) const noexcept;
  };
  Pending& pending();
  void finish();

  std::unique_ptr<Pending, Release> pending_;  // null: done
};

}  // namespace lockstep::comm
