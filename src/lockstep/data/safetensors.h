// lockstep/data/safetensors.h
//
// Tensors by name in a file: the format of the safetensors package, so that what is
// written here opens in Python and published weights open here. The length of a JSON text in
// 8 bytes, the text, then the values one tensor after another.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/data/file_bytes.h"

namespace lockstep::data {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;
using Texts = std::map<std::string, std::string>;

struct WrittenFile {
  std::uint64_t bytes = 0;
  std::string hash;  // as of Hasher
};

/// As a whole or not at all. `facts` are kept beside the tensors. Durable: on the disk when it returns.
WrittenFile write_safetensors(const std::string& path, const NamedTensors& tensors, const Texts& facts = {},
                              bool durable = false);

class Safetensors {
 public:
  /// Reads the head alone. Fault::Data, with the byte, if it is not such a file, or is cut short.
  explicit Safetensors(const std::string& path);
  /// The same of bytes that somebody has opened in another way.
  explicit Safetensors(std::shared_ptr<const FileBytes> file);

  /// In the order of the file.
  const std::vector<std::string>& names() const noexcept { return names_; }
  bool contains(const std::string& name) const { return entries_.contains(name); }
  const Texts& facts() const noexcept { return facts_; }
  const std::vector<std::int64_t>& shape(const std::string& name) const;
  at::ScalarType type(const std::string& name) const { return entry(name).type; }
  /// A copy. Fault::Usage if there is none of that name, proposing the nearest.
  at::Tensor read(const std::string& name) const;
  /// Elements [first, first + count) of it, which are there, as they lie row by row.
  void read(const std::string& name, std::int64_t first, std::int64_t count, void* to) const;

 private:
  struct Entry {
    at::ScalarType type;
    std::vector<std::int64_t> shape;
    std::uint64_t begin;  // byte in the file
    std::uint64_t bytes;
  };
  const Entry& entry(const std::string& name) const;
  void parse(Bytes head, std::uint64_t first);

  std::shared_ptr<const FileBytes> file_;
  std::vector<std::string> names_;
  std::map<std::string, Entry> entries_;
  Texts facts_;
};

}  // namespace lockstep::data
