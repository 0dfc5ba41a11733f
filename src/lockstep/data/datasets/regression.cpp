// A linear model with normal inputs and noise: the weights that fit it best are known.
#include "lockstep/data/datasets/generator.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

class Regression final : public Generator {
 public:
  explicit Regression(Arguments& arguments)
      : Generator("regression", arguments), noise_(arguments.get("noise", 0.1, 0, 1e6)) {
    const std::int64_t dims = arguments.get("dims", std::int64_t{10}, 1, 1 << 20);
    add_field({"x", Encoding::Values, c10::ScalarType::Float, {dims}});
    add_field({"target", Encoding::Values, c10::ScalarType::Float});
    Random random = shared_random(0);
    bias_ = random.normal();
    for (std::int64_t dim = 0; dim < dims; ++dim) weights_.push_back(random.normal());
  }

 protected:
  void fill(std::int64_t, Random random, Sample& sample) const override {
    double target = bias_ + noise_ * random.normal();
    const auto x = value_in<float>(sample, 0);
    for (std::size_t dim = 0; dim < weights_.size(); ++dim) {
      x[dim] = static_cast<float>(random.normal());
      target += weights_[dim] * x[dim];
    }
    value_in<float>(sample, 1)[0] = static_cast<float>(target);
  }

 private:
  double noise_;
  double bias_ = 0;
  std::vector<double> weights_;
};

const DatasetRegistry::Add registered{
    "regression", "Generated: a linear model of normal inputs with noise (samples, dims, noise, seed)",
    [](const std::string& arguments) { return generate<Regression>("regression", arguments); }};

}  // namespace
}  // namespace lockstep::data
