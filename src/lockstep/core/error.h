// lockstep/core/error.h
//
// Error is the one exception type of Lockstep: what ends a run. It carries the
// kind of fault, the message (which values disagree, and the remedy where one is
// known), what was being done on the way up, and where it was thrown. An expected
// outcome is a value, never an Error.
#pragma once

#include <exception>
#include <source_location>
#include <string>
#include <vector>

namespace lockstep {

enum class Fault { Usage, Data, Comm, Device, Io, Internal };

/// "usage", "data", …
const char* name_of(Fault fault) noexcept;

/// Exit codes of every Lockstep program.
namespace exit_code {
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;     // wrong option, recipe or input file
inline constexpr int kRequeue = 75;  // saved on request, start again
inline constexpr int kSignal = 128;  // plus the signal that killed a rank
}  // namespace exit_code

class Error : public std::exception {
 public:
  Error(Fault fault, std::string message, std::source_location where);

  Fault fault() const noexcept { return fault_; }
  const std::string& message() const noexcept { return message_; }
  const std::source_location& where() const noexcept { return where_; }
  const std::vector<std::string>& context() const noexcept { return context_; }

  /// Adds what was being done, innermost first: "loading shard 3".
  Error& during(std::string activity);
  /// Message and context in one line, as the user reads it.
  const char* what() const noexcept override { return text_.c_str(); }
  int exit_code() const noexcept;

 private:
  Fault fault_;
  std::string message_;
  std::source_location where_;
  std::vector<std::string> context_;
  std::string text_;
};

[[noreturn]] void fail(Fault fault, const std::string& message,
                       std::source_location where = std::source_location::current());

/// fail(Fault::Io) with the text of `error_number` (an errno) appended.
[[noreturn]] void fail_errno(const std::string& message, int error_number,
                             std::source_location where = std::source_location::current());

/// The exception being handled. An Error is taken as it is; of any other one its first line, as
/// Fault::Internal, because libtorch appends a stack trace; of what says nothing its type.
Error current_error();

}  // namespace lockstep
