// lockstep/comm/operation.h
//
// An Operation is one collective under way: what was asked for, the Task that
// performs it, the tensors it keeps alive, and how it ended. It is driven either
// by the thread that issued it or by the communication thread, never by both.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/task.h"
#include "lockstep/comm/types.h"
#include "lockstep/comm/update.h"
#include "lockstep/profile/span.h"

namespace lockstep::comm {

class Backend;

struct Request {
  Descriptor descriptor;
  Lane lane = Lane::Urgent;
  std::size_t element_bytes = 1;
  // Contiguous memory; what each means depends on the collective, see Backend.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::int64_t> send_counts;
  std::vector<std::int64_t> recv_counts;
  Update update;
};

class Operation {
 public:
  enum class State : std::uint32_t { Queued, Running, Done };

  Operation(Request&& asked, Backend& performed_by) : request(std::move(asked)), backend(performed_by) {}

  const Request request;
  Backend& backend;
  std::vector<at::Tensor> tensors;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_back;  // to, from: after success
  Task task;
  TaskState task_state;
  std::atomic<State> state{State::Queued};
  std::exception_ptr error;  // readable once Done
  bool on_thread = false;    // driven by the communication thread
  int rounds_waited = 0;     // there, since its last step
  std::atomic<bool> abandoned{false};
  std::int64_t waiting_since_ns = 0;  // 0: has not waited long enough to matter
  std::int64_t examined_ns = 0;
  bool named_stragglers = false;              // the end of the run: whom it waits for was said
  std::optional<profile::Interval> interval;  // on the communication thread, for the trace

  /// Runs to the next point where it must wait. False if it is still waiting there.
  /// Throws what the Task threw.
  bool step() {
    if (task_state.waiter != nullptr) {
      if (!task_state.waiter->ready()) return false;
      task_state.waiter = nullptr;
      task_state.suspended.resume();
    }
    if (task.done()) task.rethrow();
    return true;
  }
};

}  // namespace lockstep::comm
