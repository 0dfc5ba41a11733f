#include "reference.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "background.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/safetensors.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

ReferenceCase read_case(const fs::path& path) {
  const data::Safetensors file(path.string());
  ReferenceCase one{.name = path.stem().string(),
                    .rows = {.x = file.read("x"), .targets = file.read("y")},
                    .labels = file.read("labels"),
                    .said = {}};
  if (file.contains("weights")) one.rows.weights = file.read("weights");
  for (auto& parameters : nlohmann::json::parse(file.facts().at("parameters"))) one.said.push_back({parameters});
  for (const auto& name : file.names()) {
    const auto slash = name.find('/');
    if (slash == std::string::npos) continue;
    one.said.at(std::stoul(name.substr(0, slash))).tensors.emplace(name.substr(slash + 1), file.read(name));
  }
  return one;
}

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

double difference(const at::Tensor& ours, const at::Tensor& theirs) {
  if (ours.sizes() != theirs.sizes()) return std::numeric_limits<double>::infinity();
  const double off = (ours.to(at::kDouble) - theirs.to(at::kDouble)).norm().item<double>();
  return off == 0 ? 0 : off / theirs.to(at::kDouble).norm().item<double>();
}

double difference_of_intercepts(const at::Tensor& ours, const Said& said, const at::Tensor& x) {
  const at::Tensor theirs = said["intercept"].to(at::kDouble);
  const at::Tensor terms = at::cat({said["coef"] * x.to(at::kDouble).mean(0), theirs.unsqueeze(1)}, 1);
  const double off = (ours - theirs).norm().item<double>();
  return off == 0 ? 0 : off / terms.norm().item<double>();
}

double difference(double ours, const at::Tensor& theirs) {
  return difference(at::full({1}, ours, at::kDouble), theirs);
}

void Differences::at_most(double bound, const std::string& what, double difference) {
  EXPECT_LE(difference, bound) << what;
  double& largest = largest_.try_emplace(what, difference).first->second;
  if (!(difference <= largest)) largest = difference;
}

std::string Differences::text() const {
  std::string text;
  for (const auto& [what, largest] : largest_)
    text += fmt::format("{}{} {:.1e}", text.empty() ? "" : ", ", what, largest);
  return text;
}

void compare_with_sklearn(const std::string& algorithm, Cases cases, const Compare& compare) {
  if (cases == Cases::Flights && !data::is_fetched("flights")) {
    GTEST_SKIP() << "flights is not on this machine; fetch it with: lockstep data get flights";
  }
  const TemporaryFolder folder;
  std::vector<std::string> command{LOCKSTEP_PYTHON, fmt::format("{}/{}.py", LOCKSTEP_REFERENCE, algorithm),
                                   folder.path()};
  if (cases == Cases::Flights) command.push_back(data::fetched_folder("flights") + "/flights.csv");
  const auto python = answer_of(command, 200);
  if (python.code == 77) GTEST_SKIP() << python.output;
  ASSERT_EQ(python.code, 0) << python.output << python.errors;
  // Ranks are threads already, and those of OpenMP would spin beside them.
  const OneThread in_each_rank;
  std::map<at::ScalarType, Differences> differences;
  const auto files = files_of(folder.path());
  ASSERT_EQ(files.size(), cases == Cases::Flights ? 1U : 205U);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ReferenceCase one = read_case(files[i]);
    EXPECT_FALSE(one.said.empty());
    for (const int ranks : {1, i % 2 == 0 ? 2 : 3}) {
      for (const auto& said : one.said) {
        SCOPED_TRACE(fmt::format("{} on {} ranks, {}", one.name, ranks, said.parameters.dump()));
        compare(one, said, ranks, differences[one.rows.x.scalar_type()]);
      }
    }
  }
  for (const auto& [type, of_type] : differences) {
    fmt::print("{}, {}: {}\n", algorithm, type == at::kFloat ? "float32" : "float64", of_type.text());
  }
}

}  // namespace lockstep::test
