// `lockstep naivebayes`: naive Bayes of normal columns or of counts.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/algorithms/gaussian_nb.h"
#include "lockstep/ml/algorithms/multinomial_nb.h"
#include "ml/cv_options.h"
#include "ml/ml_options.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep naivebayes iris --target label -n 2 -o model.safetensors     normal columns
  lockstep naivebayes words.npz --target topic --kind multinomial       counts
  lockstep naivebayes iris --target label --var-smoothing 1e-9,1e-3 --cv 5   the better of two by five folds
The model has the same bits on any number of ranks and threads. See 'lockstep predict'.)";

struct Options {
  MlOptions ml;
  std::string kind = "gaussian";
  ml::GaussianNBOptions gaussian;
  ml::MultinomialNBOptions multinomial;
  std::vector<double> priors;
  std::vector<double> var_smoothings{gaussian.var_smoothing}, alphas{multinomial.alpha};
  CvOptions cv;
};

/// One of the two kinds, and the parameter of it that folds choose.
template <class Bayes, class BayesOptions>
struct Kind {
  BayesOptions options;
  const char* parameter;
  double BayesOptions::* place;
  std::vector<double> values;

  Bayes with(double value) const {
    auto own = options;
    own.*place = value;
    return Bayes(own);
  }
  CvChoice choose(const CvOptions& cv, const ml::Table& table) const {
    return choose_by_fits(table, cv.of_classes(table), parameter, "accuracy", values,
                          [&](double value, const ml::Table& train, const ml::Table& test) {
                            Bayes bayes = with(value);
                            bayes.fit(train);
                            return bayes.score(test);
                          });
  }
};

template <class Bayes, class BayesOptions>
void run(const Options& options, const Kind<Bayes, BayesOptions>& kind, comm::Communicator& world) {
  const auto table = read_source(options.ml, world);
  const Stopwatch watch;
  std::optional<CvChoice> chosen;
  if (options.cv.folds > 0) chosen = kind.choose(options.cv, *table);
  Bayes bayes = kind.with(chosen ? chosen->best().front() : kind.values.front());
  bayes.fit(*table);
  const double seconds = watch.seconds();
  const double score = bayes.score(*table);
  if (world.rank() != 0) return;
  write_output(options.ml.output, bayes.file(*table));
  if (options.ml.json) {
    const double* counts = bayes.class_count().template const_data_ptr<double>();
    nlohmann::json report = {{"algorithm", "naivebayes"},
                             {"kind", options.kind},
                             {"rows", table->rows()},
                             {"columns", table->columns()},
                             {"ranks", world.size()},
                             {"classes", bayes.classes().values()},
                             {"class_count", std::vector<double>(counts, counts + bayes.classes().count())},
                             {"accuracy", score},
                             {"seconds", seconds},
                             {"output", options.ml.output}};
    if (chosen) report["cv"] = chosen->json();
    fmt::print("{}", json_text(report));
    return;
  }
  if (chosen) chosen->print();
  fmt::print("{}, {}: accuracy {:.6f} in {}\n", size_text(*table), counted(bayes.classes().count(), "class"), score,
             format_seconds(seconds));
  if (!options.ml.output.empty()) fmt::print("{}\n", options.ml.output);
}

}  // namespace

void add_naivebayes(CLI::App& app, const std::vector<std::string>& words) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("naivebayes", "Naive Bayes of normal columns or counts, on any number of ranks");
  command->footer(kExamples);
  options->ml.add_to(*command);
  options->ml.choice.targets.resize(1);
  command->add_option("--target", options->ml.choice.targets.front(), "Field of the classes")->required();
  command->add_option("--kind", options->kind, "gaussian: normal columns; multinomial: counts")
      ->check(CLI::IsMember({"gaussian", "multinomial"}))
      ->capture_default_str();
  command
      ->add_option("--priors", options->priors,
                   "Of the classes in ascending order; by default their shares of the rows")
      ->delimiter(',')
      ->allow_extra_args(false);
  auto* smoothing = command
                        ->add_option("--var-smoothing", options->var_smoothings,
                                     "gaussian: part of the largest variance added to all; a,b with --cv")
                        ->delimiter(',')
                        ->allow_extra_args(false)
                        ->capture_default_str();
  auto* alpha =
      command->add_option("--alpha", options->alphas, "multinomial: what is added to each count; a,b with --cv")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->capture_default_str();
  auto* no_fit_prior = command->add_flag("!--no-fit-prior", options->multinomial.fit_prior,
                                         "multinomial: all classes are equally likely");
  options->cv.add_to(*command);
  command->add_option("-o,--output", options->ml.output, "File for the model (.safetensors)")->check(file_name());
  command->callback([options, words, smoothing, alpha, no_fit_prior] {
    const bool gaussian_kind = options->kind == "gaussian";
    refuse_given(gaussian_kind ? std::vector<CLI::Option*>{alpha, no_fit_prior} : std::vector{smoothing},
                 "--kind " + options->kind);
    options->gaussian.priors = options->multinomial.class_prior = options->priors;
    const Kind<ml::GaussianNB, ml::GaussianNBOptions> gaussian{
        options->gaussian, "var_smoothing", &ml::GaussianNBOptions::var_smoothing, options->var_smoothings};
    const Kind<ml::MultinomialNB, ml::MultinomialNBOptions> multinomial{
        options->multinomial, "alpha", &ml::MultinomialNBOptions::alpha, options->alphas};
    for (const double value : options->var_smoothings) (void)gaussian.with(value);
    for (const double value : options->alphas) (void)multinomial.with(value);
    options->cv.check(options->var_smoothings.size(), "--var-smoothing");
    options->cv.check(options->alphas.size(), "--alpha");
    options->ml.endings = {{options->ml.output, ".safetensors"}};
    on_ml_ranks(options->ml, words, {options->ml.output}, [&](comm::Communicator& world) {
      gaussian_kind ? run(*options, gaussian, world) : run(*options, multinomial, world);
    });
  });
}

}  // namespace lockstep::apps
