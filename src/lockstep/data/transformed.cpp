#include "lockstep/data/transformed.h"

#include <utility>

#include "lockstep/core/error.h"
#include "lockstep/data/one_for_one.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

class Transformed final : public OneForOne {
 public:
  Transformed(DatasetPtr from, const std::vector<std::string>& steps, std::uint64_t seed)
      : OneForOne(std::move(from)), pipeline_(source().schema(), steps), seed_(seed) {}

  const Schema& schema() const noexcept override { return pipeline_.output(); }
  void read(std::int64_t index, Sample& sample) const override {
    source().read(index, sample);
    try {
      pipeline_.apply(sample, seed_, index);
    } catch (Error& error) {
      throw error.during("preparing " + name(index));
    }
  }

 private:
  Pipeline pipeline_;
  std::uint64_t seed_;
};

}  // namespace

DatasetPtr transformed(DatasetPtr source, const std::vector<std::string>& steps, std::uint64_t seed) {
  if (steps.empty()) return source;
  return std::make_shared<Transformed>(std::move(source), steps, seed);
}

}  // namespace lockstep::data
