#include "lockstep/core/error.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace lockstep {
namespace {

std::string current_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "that another language threw";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                         &std::free);
  return name ? name.get() : type->name();
}

}  // namespace

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

Error current_error() {
  std::string text;
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& exception) {
    text = exception.what();
  } catch (...) {
  }
  text = text.substr(0, text.find('\n'));
  if (text.empty()) text = "an exception of the type " + current_type();
  return {Fault::Internal, text, std::source_location::current()};
}

}  // namespace lockstep
