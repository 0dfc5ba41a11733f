// lockstep/data/testing.h
//
// For the tests of this folder: files in a folder of their own, samples made by hand,
// and what is read back.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/format.h"
#include "lockstep/data/open.h"

namespace lockstep::data {

class Folder {
 public:
  std::string operator/(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, std::string_view bytes) const { return folder_.write(name, bytes); }

 private:
  test::TemporaryFolder folder_;
};

/// Set as long as it lives.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~EnvironmentVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// What an Error says, with what was being done.
inline std::string message_of(const std::function<void()>& work, Fault fault = Fault::Data) {
  return test::error_of(work, fault).what();
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Of bytes that another program wrote.
inline std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

/// Numbers as the bytes of a Value; the vector must outlive it.
template <class Number>
Value value_of(const std::vector<Number>& numbers, Shape shape) {
  return {std::as_bytes(std::span(numbers)), std::move(shape), false};
}
inline Value value_of(const std::string& text) { return {as_bytes(text), {}, false}; }

template <class Number>
std::vector<Number> numbers_of(const Value& value) {
  std::vector<Number> numbers(value.bytes.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), value.bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

/// No file of this process may grow beyond it: what a full disk does, without one. Returns the limit before.
inline rlimit limit_file_size(rlim_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit now = {bytes, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &now);
  return before;
}

/// Writes all of `source` as `format`.
inline void write_all(const Dataset& source, const std::string& path, const std::string& format,
                      const WriteOptions& options = {}) {
  const auto writer = format_named(format).write(path, source.schema(), options);
  Sample sample;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    source.read(i, sample);
    writer->add(source.key(i), sample);
  }
  writer->finish();
}

/// Field by field and byte by byte.
inline void expect_same(const Dataset& actual, const Dataset& wanted) {
  ASSERT_EQ(actual.size(), wanted.size());
  ASSERT_EQ(actual.schema().size(), wanted.schema().size());
  Sample mine, theirs;
  for (std::int64_t i = 0; i < wanted.size(); ++i) {
    actual.read(i, mine);
    wanted.read(i, theirs);
    for (std::size_t place = 0; place < wanted.schema().size(); ++place) {
      const auto& name = wanted.schema()[place].name;
      const Value& value = mine.values[place_of(actual.schema(), name)];
      ASSERT_EQ(value.missing, theirs.values[place].missing) << name << " of " << wanted.name(i);
      ASSERT_EQ(value.shape, theirs.values[place].shape) << name << " of " << wanted.name(i);
      ASSERT_EQ(as_text(value.bytes), as_text(theirs.values[place].bytes)) << name << " of " << wanted.name(i);
    }
  }
}

/// One of each type, of `shape`.
inline Schema fields_of_all_types(const std::vector<std::int64_t>& shape) {
  using c10::ScalarType;
  Schema schema;
  for (const auto type : {ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long,
                          ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64, ScalarType::Half,
                          ScalarType::Float, ScalarType::Double, ScalarType::BFloat16, ScalarType::Bool}) {
    schema.push_back({c10::toString(type), Encoding::Values, type, shape});
  }
  return schema;
}

/// Scans it anew and reads all. For torn files: whatever the bytes are, only an Error may come out.
inline bool reads_all(const std::string& path) {
  std::filesystem::remove(path + ".lsx");
  try {
    const auto set = open(path);
    Sample sample;
    for (std::int64_t i = 0; i < set->size(); ++i) set->read(i, sample);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lockstep::data
