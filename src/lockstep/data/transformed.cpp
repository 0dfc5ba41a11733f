#include "lockstep/data/transformed.h"

#include <utility>

#include "lockstep/core/error.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

class Transformed final : public Dataset {
 public:
  Transformed(DatasetPtr source, const std::vector<std::string>& steps, std::uint64_t seed)
      : source_(std::move(source)), pipeline_(source_->schema(), steps), seed_(seed) {}

  const Schema& schema() const noexcept override { return pipeline_.output(); }
  std::int64_t size() const noexcept override { return source_->size(); }
  void read(std::int64_t index, Sample& sample) const override {
    source_->read(index, sample);
    try {
      pipeline_.apply(sample, seed_, index);
    } catch (Error& error) {
      throw error.during("preparing " + name(index));
    }
  }
  void prefetch(std::int64_t index) const noexcept override { source_->prefetch(index); }
  std::string name(std::int64_t index) const override { return source_->name(index); }
  std::string key(std::int64_t index) const override { return source_->key(index); }
  bool verify(std::int64_t index) const override { return source_->verify(index); }
  const Holders* holders() const noexcept override { return source_->holders(); }

 private:
  DatasetPtr source_;
  Pipeline pipeline_;
  std::uint64_t seed_;
};

}  // namespace

DatasetPtr transformed(DatasetPtr source, const std::vector<std::string>& steps, std::uint64_t seed) {
  if (steps.empty()) return source;
  return std::make_shared<Transformed>(std::move(source), steps, seed);
}

}  // namespace lockstep::data
