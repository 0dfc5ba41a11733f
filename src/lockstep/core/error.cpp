#include "lockstep/core/error.h"

#include <cstring>
#include <utility>

namespace lockstep {

const char* name_of(Fault fault) noexcept {
  switch (fault) {
    case Fault::Usage: return "usage";
    case Fault::Data: return "data";
    case Fault::Comm: return "communication";
    case Fault::Device: return "device";
    case Fault::Io: return "input/output";
    case Fault::Internal: return "internal";
  }
  return "unknown";
}

Error::Error(Fault fault, std::string message, std::source_location where)
    : fault_(fault), message_(std::move(message)), where_(where), text_(message_) {}

Error& Error::during(std::string activity) {
  context_.push_back(std::move(activity));
  text_ = message_;
  for (const auto& step : context_) text_ += (&step == &context_.front() ? " (while " : ", while ") + step;
  text_ += ')';
  return *this;
}

int Error::exit_code() const noexcept { return fault_ == Fault::Usage ? exit_code::kUsage : exit_code::kFailed; }

void fail(Fault fault, const std::string& message, std::source_location where) { throw Error(fault, message, where); }

void fail_errno(const std::string& message, int error_number, std::source_location where) {
  throw Error(Fault::Io, message + ": " + std::strerror(error_number), where);
}

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  const std::string text = exception.what();
  return {Fault::Internal, text.substr(0, text.find('\n')), std::source_location::current()};
}

}  // namespace lockstep
