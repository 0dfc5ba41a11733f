// lockstep/train/event_file.h
//
// A TensorBoard event file: scalars and histograms by tag and step, one record each. A
// run has one, which goes on where the run does: what a crashed run wrote behind the
// step that it is resumed from is cut off first.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

class EventFile {
 public:
  /// FOLDER/events.out.tfevents.lockstep; records of steps behind `last_step`, and half a record at the end, are
  /// dropped.
  EventFile(const std::string& folder, std::int64_t last_step);

  void scalar(const std::string& tag, std::int64_t step, double value);
  /// Of all elements, in the buckets of TensorFlow: 10 % wider from one to the next.
  void histogram(const std::string& tag, std::int64_t step, const at::Tensor& values);
  /// To where a reader sees it.
  void flush();

 private:
  void add_value(std::int64_t step, const std::string& value);
  void add(const std::string& event);

  std::string path_;
  std::ofstream out_;
};

/// By tag, steps and values in the order in which they were written. Half a record at the end is passed over.
using Scalars = std::map<std::string, std::vector<std::pair<std::int64_t, double>>>;
/// Of the file in `folder`; empty if there is none.
Scalars read_scalars(const std::string& folder);

}  // namespace lockstep::train
