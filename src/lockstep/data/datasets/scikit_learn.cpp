// The small tables that scikit-learn carries: "x" and a label or a target.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/arguments.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/datasets/memory_dataset.h"
#include "lockstep/data/datasets/number_table.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

// The newest that the user's Python can have: the files have been the same since 1.2.
const SourceRegistry::Add source{"scikit-learn", "The tables that scikit-learn carries", [] {
                                   const std::string folder = "sklearn/datasets/data/";
                                   return DataSource{
                                       DataSource::From::PypiWheel,
                                       {"scikit-learn>=1.2"},
                                       {"breast-cancer", "diabetes", "digits", "iris", "wine"},
                                       {{folder + "breast_cancer.csv", "85d34af5369d71c348efe04d7ebc2c36"},
                                        {folder + "diabetes_data_raw.csv.gz", "d57b5f015b0ed0b2e80cc0cd28a4ee2d"},
                                        {folder + "diabetes_target.csv.gz", "f26bc16163276e6b5413d2352a88273d"},
                                        {folder + "digits.csv.gz", "a3da246adbaf139d62866a47ebcb8d05"},
                                        {folder + "iris.csv", "55530f128b3c45d7525392e91fa98775"},
                                        {folder + "wine_data.csv", "6d867c4e76652f5380619124ba57feb4"}}};
                                 }};

std::string text_of(const std::string& set, const std::string& file) {
  Scratch scratch;
  return std::string(as_text(whole(*map_file(fetched_folder(set) + "/" + file), scratch)));
}

Field inputs(std::size_t columns) {
  return {"x", Encoding::Values, ScalarType::Double, {static_cast<std::int64_t>(columns)}};
}

/// Its last column is the class.
DatasetPtr with_labels(const std::string& set, const NumberTable& table, std::vector<std::string> classes) {
  std::vector<double> x;
  std::vector<std::int64_t> labels;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto first = table.numbers.begin() + static_cast<std::ptrdiff_t>(row * table.columns);
    const auto last = first + static_cast<std::ptrdiff_t>(table.columns) - 1;
    x.insert(x.end(), first, last);
    labels.push_back(static_cast<std::int64_t>(*last));
  }
  Field label{"label", Encoding::Values, ScalarType::Long};
  label.classes = std::move(classes);
  return memory_dataset(set, {inputs(table.columns - 1), std::move(label)}, {column_of(x), column_of(labels)});
}

/// Its first line is "rows,columns,class,class…".
DatasetPtr open_classified(const std::string& set, const std::string& file) {
  const std::string text = text_of(set, file);
  const std::size_t end = std::min(text.find('\n'), text.size());
  auto head = split(text.substr(0, end), ',');
  if (head.size() < 3) fail(Fault::Data, fmt::format("{} does not begin with the names of its classes", file));
  return with_labels(set, parse_numbers(std::string_view(text).substr(end)), {head.begin() + 2, head.end()});
}

DatasetPtr open_digits(const std::string& set) {
  return with_labels(set, parse_numbers(text_of(set, "digits.csv.gz")),
                     {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

/// As measured: ages are years, and nothing is scaled.
DatasetPtr open_diabetes(const std::string& set) {
  const NumberTable x = parse_numbers(text_of(set, "diabetes_data_raw.csv.gz"));
  const NumberTable target = parse_numbers(text_of(set, "diabetes_target.csv.gz"));
  return memory_dataset(set, {inputs(x.columns), {"target", Encoding::Values, ScalarType::Double}},
                        {column_of(x.numbers), column_of(target.numbers)});
}

struct Table : DatasetRegistry::Add {
  Table(const std::string& name, const std::string& description, std::function<DatasetPtr(const std::string&)> open_it)
      : Add(name, description, [name, open_it = std::move(open_it)](const std::string& arguments) {
          arguments_of_set(name, arguments).finish();
          return open_it(name);
        }) {}
};

const Table breast_cancer{"breast-cancer", "569 tumours, 30 measures, malignant or benign",
                          [](const std::string& set) { return open_classified(set, "breast_cancer.csv"); }};
const Table iris{"iris", "150 flowers, 4 measures, 3 species",
                 [](const std::string& set) { return open_classified(set, "iris.csv"); }};
const Table wine{"wine", "178 wines, 13 measures, 3 cultivars",
                 [](const std::string& set) { return open_classified(set, "wine_data.csv"); }};
const Table digits{"digits", "1797 handwritten digits, 8 x 8 in 64 columns", open_digits};
const Table diabetes{"diabetes", "442 patients, 10 measures, progression after a year", open_diabetes};

}  // namespace
}  // namespace lockstep::data
