#include "lockstep/ml/algorithms/multinomial_nb.h"

#include <cmath>
#include <memory>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include "lockstep/ml/check_option.h"

namespace lockstep::ml {
namespace {

constexpr const char kName[] = "multinomial_nb";

}  // namespace

MultinomialNB::MultinomialNB(MultinomialNBOptions options) : NaiveBayes(options.threads), options_(std::move(options)) {
  check_from_zero_on(options_.alpha, "alpha");
  check_priors(options_.class_prior, "class_prior");
}

void MultinomialNB::update(const Table& table, const std::vector<double>& classes, bool anew) {
  Seen seen = seen_with(table, classes, anew);
  if (seen.moments.least.min().item<double>() < 0) check_not_negative(table);
  const std::int64_t count = seen.classes.count();
  class_log_prior_ = options_.class_prior.empty() && !options_.fit_prior
                         ? at::full({count}, -std::log(static_cast<double>(count)), at::kDouble)
                         : log_priors(seen, options_.class_prior);
  const at::Tensor smoothed = seen.moments.sum + options_.alpha;
  feature_log_prob_ = (smoothed.log() - smoothed.sum(1, /*keepdim=*/true).log()).contiguous();
  become(std::move(seen));
}

void MultinomialNB::joint(const double* row, double* result) const {
  const double* log_prob = feature_log_prob_.const_data_ptr<double>();
  for (std::int64_t number = 0; number < classes_.count(); ++number) {
    double sum = class_log_prior_.const_data_ptr<double>()[number];
    for (std::int64_t column = 0; column < columns(); ++column, ++log_prob) {
      // What is not there says nothing, however unlikely it is.
      sum += row[column] == 0 ? 0 : row[column] * *log_prob;
    }
    result[number] = sum;
  }
}

MultinomialNB MultinomialNB::from(const ModelFile& file) {
  MultinomialNBOptions options;
  options.alpha = file.parameter("alpha", options.alpha);
  options.fit_prior = file.parameter("fit_prior", options.fit_prior);
  MultinomialNB result(options);
  result.classes_ = Classes::from(file);
  result.moments_.sum = file.by_columns("feature_count");
  result.moments_.weight = file["class_count"];
  result.feature_log_prob_ = file.by_columns("feature_log_prob");
  result.class_log_prior_ = file["class_log_prior"];
  check_tensors(result.classes_, {result.moments_.sum, result.feature_log_prob_},
                {result.moments_.weight, result.class_log_prior_});
  return result;
}

ModelFile MultinomialNB::file(const Table& table) const {
  ModelFile file = file_for(table, kName, {{"alpha", options_.alpha}, {"fit_prior", options_.fit_prior}},
                            {{"feature_count", feature_count()},
                             {"feature_log_prob", feature_log_prob_},
                             {"class_log_prior", class_log_prior_},
                             {"class_count", class_count()}});
  classes_.add_to(file);
  return file;
}

namespace {

const PredictorRegistry::Add registered{kName, "The class that naive Bayes of counts says", [](const ModelFile& model) {
                                          return std::make_unique<ClassPredictor<MultinomialNB>>(model);
                                        }};

}  // namespace
}  // namespace lockstep::ml
