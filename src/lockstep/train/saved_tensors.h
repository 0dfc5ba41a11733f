// lockstep/train/saved_tensors.h
//
// The tensors of a checkpoint. Of a parameter that was split over ranks each file has what its
// writer had; whoever asks for a part, which may be cut in any other way, gets it from the files that
// hold some of it, and no more than that is read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "lockstep/data/safetensors.h"
#include "lockstep/parallel/parameter_part.h"

namespace lockstep::train {

/// By name of a tensor, else of the parameter behind the last slash of it; those that are missing are whole.
using TensorParts = std::map<std::string, parallel::ParameterPart>;
parallel::ParameterPart part_of(const TensorParts& parts, const std::string& name, const at::Tensor& tensor);

/// What a manifest says of the tensors of a file that are not whole.
nlohmann::json noted_parts(const data::NamedTensors& tensors, const TensorParts& parts);

class SavedTensors {
 public:
  /// A file of safetensors, and what noted_parts() said of it. Of a part that several files hold the first is read.
  void add(const std::string& path, const nlohmann::json& parts);

  bool empty() const noexcept { return pieces_.empty(); }
  /// In the order of the files.
  const std::vector<std::string>& names() const noexcept { return names_; }
  /// Type and shape of the whole: of device meta.
  at::Tensor outline(const std::string& name) const;
  /// A copy of the whole. Fault::Data if some of it is in no file.
  at::Tensor read(const std::string& name) const;
  /// `target` becomes `part` of it. False: there is none of that name and shape.
  bool read_into(const at::Tensor& target, const std::string& name, const parallel::ParameterPart& part) const;

 private:
  struct Piece {
    std::shared_ptr<const data::Safetensors> file;
    parallel::ParameterPart part;
  };
  const std::vector<Piece>& pieces_of(const std::string& name) const;

  std::vector<std::string> names_;
  std::map<std::string, std::vector<Piece>> pieces_;
};

}  // namespace lockstep::train
