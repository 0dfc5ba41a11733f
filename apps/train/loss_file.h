// apps/train/loss_file.h
//
// The loss of every step as lines of text, in full precision, which the float32 of an event file is not: for
// scripts, and to compare runs. It goes on where the run does.
#pragma once

#include <fstream>
#include <string>

#include "lockstep/train/observer.h"

namespace lockstep::apps {

class LossFile final : public train::Observer {
 public:
  explicit LossFile(std::string path);
  /// Lines behind the step that the run is resumed from are dropped.
  void on_start(const train::RunInfo& info) override;
  void on_step(const train::StepReport& report) override;

 private:
  void write(const std::string& line);

  std::string path_;
  std::ofstream out_;
};

}  // namespace lockstep::apps
