#include "lockstep/data/datasets/memory_dataset.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data {
namespace {

class MemoryDataset final : public Dataset {
 public:
  MemoryDataset(std::string name, Schema schema, std::vector<std::string> columns)
      : name_(std::move(name)), schema_(std::move(schema)), columns_(std::move(columns)) {
    for (std::size_t place = 0; place < schema_.size(); ++place) {
      const std::int64_t bytes = schema_[place].bytes();
      const auto rows = static_cast<std::int64_t>(columns_.at(place).size()) / bytes;
      if (place == 0) samples_ = rows;
      if (rows != samples_) {
        fail(Fault::Internal, fmt::format("{}: {} has {} rows, not {}", name_, schema_[place].text(), rows, samples_));
      }
    }
  }
  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return samples_; }
  void read(std::int64_t index, Sample& sample) const override {
    sample.clear(schema_.size());
    for (std::size_t place = 0; place < schema_.size(); ++place) {
      const Field& field = schema_[place];
      const auto bytes = static_cast<std::size_t>(field.bytes());
      sample.values[place] = {as_bytes(columns_[place]).subspan(static_cast<std::size_t>(index) * bytes, bytes),
                              Shape(field.shape.begin(), field.shape.end()), false};
    }
  }
  std::string name(std::int64_t index) const override { return fmt::format("{}: sample {}", name_, index); }

 private:
  std::string name_;
  Schema schema_;
  std::vector<std::string> columns_;
  std::int64_t samples_ = 0;
};

}  // namespace

DatasetPtr memory_dataset(std::string name, Schema schema, std::vector<std::string> columns) {
  return std::make_shared<MemoryDataset>(std::move(name), std::move(schema), std::move(columns));
}

}  // namespace lockstep::data
