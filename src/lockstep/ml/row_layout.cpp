#include "lockstep/ml/row_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/core/text.h"
#include "lockstep/data/number_text.h"
#include "lockstep/data/utf8.h"
#include "lockstep/ml/category_text.h"

namespace lockstep::ml {
namespace {

using data::Field;

template <class From, class To>
void convert(const std::byte* from, std::int64_t count, To* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + static_cast<std::size_t>(i) * sizeof(From), sizeof(From));
    to[i] = static_cast<To>(value);
  }
}

/// The values of a field as numbers of type To.
template <class To>
void read_numbers(const Field& field, const data::Value& value, To* to) {
  const std::int64_t count = field.elements();
  if (value.missing) {
    std::fill_n(to, count, std::numeric_limits<To>::quiet_NaN());
    return;
  }
  const std::byte* from = value.bytes.data();
  switch (field.type) {
    case at::kDouble: return convert<double>(from, count, to);
    case at::kFloat: return convert<float>(from, count, to);
    case at::kHalf: return convert<c10::Half>(from, count, to);
    case at::kBFloat16: return convert<c10::BFloat16>(from, count, to);
    case at::kLong: return convert<std::int64_t>(from, count, to);
    case at::kInt: return convert<std::int32_t>(from, count, to);
    case at::kShort: return convert<std::int16_t>(from, count, to);
    case at::kChar: return convert<std::int8_t>(from, count, to);
    case at::kByte:
    case at::kBool: return convert<std::uint8_t>(from, count, to);
    case at::kUInt16: return convert<std::uint16_t>(from, count, to);
    case at::kUInt32: return convert<std::uint32_t>(from, count, to);
    case at::kUInt64: return convert<std::uint64_t>(from, count, to);
    default: fail(Fault::Usage, fmt::format("{} holds no numbers that a table could take", field.text()));
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_text(const data::Schema& schema, const std::string& name) {
  return schema[data::place_of(schema, name)].encoding == data::Encoding::Text;
}

/// "'Ulm' in cities.csv: sample 7", the first text in a field that is no number; empty if all are.
std::string first_text(const data::Dataset& dataset, std::size_t place) {
  data::Sample sample;
  std::string scratch;
  for (std::int64_t row = 0; row < dataset.size(); ++row) {
    dataset.read(row, sample);
    const auto text = category_text(dataset.schema()[place], sample.values[place], scratch);
    if (text && !data::parse_float64(*text)) return fmt::format("'{}' in {}", *text, dataset.name(row));
  }
  return "";
}

/// Fault::Usage, naming all `fields`, if there are any that are text and are to be numbers.
void refuse_text(const data::Dataset& dataset, const std::vector<std::string>& fields, const std::string& remedy) {
  if (fields.empty()) return;
  const std::string first = first_text(dataset, data::place_of(dataset.schema(), fields.front()));
  fail(Fault::Usage,
       fmt::format("{} {} text{}; {}", list_some(fields, fields.size()), fields.size() == 1 ? "is" : "are",
                   first.empty() ? "" : fmt::format(", such as {}", first), remedy));
}

void check_choice(const ColumnChoice& choice) {
  std::set<std::string_view> seen;
  const auto refuse = [](const std::string& name, const char* what) {
    fail(Fault::Usage, fmt::format("'{}' {}", name, what));
  };
  for (const auto& name : choice.columns) {
    if (!seen.insert(name).second) refuse(name, "is named twice by --columns");
    if (contains(choice.exclude, name)) refuse(name, "is named by --columns and left out by --exclude");
    if (contains(choice.targets, name))
      refuse(name, "is the target, and cannot explain itself: leave it out of --columns");
  }
  if (contains(choice.columns, choice.weights)) refuse(choice.weights, "is named by --columns and by --weights");
  if (contains(choice.targets, choice.weights)) refuse(choice.weights, "is named by --target and by --weights");
  for (const auto& name : choice.onehot) {
    if (contains(choice.ordinal, name)) refuse(name, "is encoded by --onehot and by --ordinal: choose one");
  }
  for (const auto& name : choice.exclude) {
    if (contains(choice.onehot, name) || contains(choice.ordinal, name))
      refuse(name, "is to be encoded and left out by --exclude");
  }
  seen.clear();
  for (const auto& name : choice.targets) {
    if (!seen.insert(name).second) refuse(name, "is named twice by --target");
    if (contains(choice.onehot, name) || contains(choice.ordinal, name))
      refuse(name, "is the target, which is numbered without --onehot or --ordinal");
  }
}

}  // namespace

std::string onehot_name(const std::string& field, const std::string& category) {
  return fmt::format("{}={}", field, category);
}

Categories find_categories(comm::Communicator& group, const data::Dataset& dataset, std::int64_t first,
                           std::int64_t end, const ColumnChoice& choice, int threads, SweepObserver* observer) {
  const data::Schema& schema = dataset.schema();
  std::vector<std::string> fields = choice.onehot;
  fields.insert(fields.end(), choice.ordinal.begin(), choice.ordinal.end());
  for (const auto& target : choice.targets) {
    if (is_text(schema, target)) fields.push_back(target);
  }
  if (fields.empty()) return {};
  std::vector<std::size_t> places;
  for (const auto& field : fields) places.push_back(data::place_of(schema, field));
  using Texts = std::map<std::string, std::set<std::string, std::less<>>>;
  std::vector<Texts> found(static_cast<std::size_t>(threads));
  constexpr std::int64_t kAtOnce = 1024;
  constexpr std::size_t kMost = 10'000;
  const Sweep sweep(observer, "looking for values", end - first);
  on_threads(threads, end - first, kAtOnce, [&](std::int64_t begin, std::int64_t last, int thread) {
    data::Sample sample;
    std::string scratch;
    for (std::int64_t row = begin; row < last; ++row) {
      dataset.read(first + row, sample);
      for (const std::size_t place : places) {
        auto& texts = found[static_cast<std::size_t>(thread)][schema[place].name];
        const auto known = category_text(schema[place], sample.values[place], scratch);
        if (!known && !contains(choice.onehot, schema[place].name)) continue;
        const std::string_view text = known.value_or("");
        if (texts.size() > kMost || texts.find(text) != texts.end()) continue;
        if (!data::is_utf8(text)) {
          fail(Fault::Data, fmt::format("'{}' is not UTF-8 in {}: convert the file, e.g. with iconv",
                                        schema[place].name, dataset.name(first + row)));
        }
        texts.emplace(text);
      }
    }
    sweep.add(last - begin);
  });
  Texts all;
  for (Texts& some : found) {
    for (auto& [field, texts] : some) all[field].merge(texts);
  }
  // What is text in the part of any rank is sorted as such.
  std::set<std::string> are_text;
  for (const std::size_t place : places) {
    if (schema[place].encoding == data::Encoding::Text) are_text.insert(schema[place].name);
  }
  // As MessagePack, which takes bytes of any kind.
  const auto packed = nlohmann::json::to_msgpack(nlohmann::json::array({all, are_text}));
  for (const std::string& bytes : group.gather_bytes(std::string(packed.begin(), packed.end()))) {
    const auto theirs = nlohmann::json::from_msgpack(bytes);
    for (const auto& [field, texts] : theirs[0].items()) {
      for (const auto& text : texts) all[field].insert(text.get<std::string>());
    }
    for (const auto& field : theirs[1]) are_text.insert(field.get<std::string>());
  }
  Categories result;
  for (const auto& field : fields) {
    if (all[field].size() > kMost) {
      fail(Fault::Usage,
           fmt::format("'{}' has more than {} different values: too many to be {}", field, kMost,
                       contains(choice.targets, field) ? "classes" : "encoded; leave it out by --exclude " + field));
    }
    result[field].assign(all[field].begin(), all[field].end());
    if (!are_text.contains(field)) sort_by_value(result[field]);
  }
  return result;
}

std::int64_t RowLayout::Part::width() const noexcept {
  switch (kind) {
    case Kind::Ordinal: return 1;
    case Kind::OneHot: return static_cast<std::int64_t>(categories.size());
    case Kind::Numbers: break;
  }
  return field.elements();
}

void RowLayout::Part::name(std::vector<std::string>& names) const {
  if (kind == Kind::OneHot) {
    for (const auto& category : categories) names.push_back(onehot_name(field.name, category));
  } else if (kind == Kind::Ordinal || field.shape.empty()) {
    names.push_back(field.name);
  } else {
    for (std::int64_t i = 0; i < width(); ++i) names.push_back(fmt::format("{}[{}]", field.name, i));
  }
}

template <class T>
void RowLayout::Part::read(const data::Value& value, T* to) const {
  if (kind == Kind::Numbers) return read_numbers(field, value, to);
  std::string scratch;
  const auto known = category_text(field, value, scratch);
  if (!known && kind == Kind::Ordinal) {
    *to = std::numeric_limits<T>::quiet_NaN();
    return;
  }
  const std::string_view text = known.value_or("");
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), text,
                                      [](const auto& one, std::string_view wanted) { return one.first < wanted; });
  if (found == numbers.end() || found->first != text) {
    if (unknown_is_missing) {
      *to = std::numeric_limits<T>::quiet_NaN();
      return;
    }
    fail(Fault::Data, fmt::format("'{}' is '{}', which is none of the {} values that the model knows", field.name, text,
                                  categories.size()));
  }
  const std::int64_t number = found->second;
  if (kind == Kind::Ordinal) {
    *to = static_cast<T>(number);
  } else {
    std::fill_n(to, width(), T{0});
    to[number] = 1;
  }
}

RowLayout::Part RowLayout::part_of(const data::Dataset& dataset, const std::string& name, Kind kind,
                                   const Categories& categories) {
  const std::size_t place = data::place_of(dataset.schema(), name);
  const Field& field = dataset.schema()[place];
  const bool text = field.encoding == data::Encoding::Text;
  if (kind != Kind::Numbers) {
    if (!text && !(field.fixed() && field.elements() == 1)) {
      fail(Fault::Usage, fmt::format("{} cannot be encoded: that is for text and single numbers", field.text()));
    }
    Part part{place, field, kind, categories.at(name)};
    for (std::size_t i = 0; i < part.categories.size(); ++i) {
      const std::string& known = part.categories[i];
      part.numbers.emplace_back(text ? known : category_text_of(known), static_cast<std::int64_t>(i));
    }
    std::sort(part.numbers.begin(), part.numbers.end());
    return part;
  }
  if (!field.fixed()) {
    fail(Fault::Usage, fmt::format("{} holds no numbers of one size: name the columns by --columns, or leave it out by "
                                   "--exclude {}",
                                   field.text(), name));
  }
  return {place, field, kind};
}

RowLayout::RowLayout(const data::Dataset& dataset, const ColumnChoice& choice, const Categories& categories) {
  const data::Schema& schema = dataset.schema();
  const auto kind_of = [&](const std::string& name) {
    if (contains(choice.onehot, name)) return Kind::OneHot;
    return contains(choice.ordinal, name) ? Kind::Ordinal : Kind::Numbers;
  };
  for (const auto& name : choice.exclude) (void)data::place_of(schema, name);
  check_choice(choice);
  for (const auto& name : choice.targets) {
    targets_.push_back(part_of(dataset, name, is_text(schema, name) ? Kind::Ordinal : Kind::Numbers, categories));
    targets_.back().unknown_is_missing = choice.of_model;
  }
  if (!choice.weights.empty()) {
    if (is_text(schema, choice.weights)) refuse_text(dataset, {choice.weights}, "weights of rows are numbers");
    weights_.push_back(part_of(dataset, choice.weights, Kind::Numbers, {}));
  }
  std::vector<std::string> names = choice.columns;
  if (names.empty()) {
    for (const Field& field : schema) {
      const bool taken = contains(choice.exclude, field.name) || contains(choice.targets, field.name);
      const bool wanted = field.classes.empty() || kind_of(field.name) != Kind::Numbers;
      if (!taken && field.name != choice.weights && wanted) names.push_back(field.name);
    }
  }
  for (const auto* encoded : {&choice.onehot, &choice.ordinal}) {
    for (const auto& name : *encoded) {
      if (!contains(names, name)) names.push_back(name);
    }
  }
  std::vector<std::string> texts;
  for (const auto& name : names) {
    if (kind_of(name) == Kind::Numbers && is_text(schema, name)) texts.push_back(name);
  }
  const std::string all = fmt::format("{}", fmt::join(texts, ","));
  refuse_text(dataset, texts,
              choice.of_model
                  ? std::string("the model was fitted to numbers there")
                  : fmt::format("encode by --onehot {0} or --ordinal {0}, or leave out by --exclude {0}", all));
  for (const auto& name : names) columns_.push_back(part_of(dataset, name, kind_of(name), categories));
  if (columns_.empty()) fail(Fault::Usage, "no column is left; name some by --columns");
  // An encoded field without values is of a data set without rows, which is another fault.
  if (std::all_of(columns_.begin(), columns_.end(),
                  [](const Part& part) { return part.kind == Kind::Numbers && part.width() == 0; })) {
    fail(Fault::Usage, fmt::format("rows have no columns: '{}' holds no values", columns_[0].field.name));
  }
  for (const Part& part : columns_) part.name(names_);
  for (const Part& part : targets_) part.name(target_names_);
  if (!weights_.empty() && weights_[0].width() != 1) {
    fail(Fault::Usage, fmt::format("{} is no weight: that is one number for each row", weights_[0].field.text()));
  }
  if (!choice.type.empty() && choice.type != "float32" && choice.type != "float64")
    fail(Fault::Usage, fmt::format("type {}: it is float32 or float64", choice.type));
  const bool small = std::all_of(columns_.begin(), columns_.end(), [](const Part& part) {
    const auto type = part.field.type;
    return part.kind == Kind::Numbers && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
  });
  type_ = choice.type == "float32" || (choice.type.empty() && small) ? at::kFloat : at::kDouble;
}

template <class T>
void RowLayout::read_parts(const std::vector<Part>& parts, const data::Sample& sample, T* to) {
  for (const Part& part : parts) {
    part.read(sample.values[part.place], to);
    to += part.width();
  }
}

template <class T>
void RowLayout::read(const data::Sample& sample, T* columns, double* targets, double* weight) const {
  read_parts(columns_, sample, columns);
  read_parts(targets_, sample, targets);
  read_parts(weights_, sample, weight);
  if (!weights_.empty() && !(*weight >= 0 && std::isfinite(*weight))) {
    fail(Fault::Data,
         fmt::format("'{}' is {}: weights of rows are numbers from 0 on", weights_[0].field.name, *weight));
  }
}
template void RowLayout::read(const data::Sample& sample, float* columns, double* targets, double* weight) const;
template void RowLayout::read(const data::Sample& sample, double* columns, double* targets, double* weight) const;

std::vector<bool> RowLayout::encoded() const {
  std::vector<bool> result;
  for (const Part& part : columns_)
    result.insert(result.end(), static_cast<std::size_t>(part.width()), part.kind != Kind::Numbers);
  return result;
}

std::vector<std::string> RowLayout::value_names() const {
  if (targets_.size() != 1) return {};
  return targets_[0].kind == Kind::Numbers ? targets_[0].field.classes : targets_[0].categories;
}

std::vector<std::string> RowLayout::fields() const {
  std::vector<std::string> names;
  for (const Part& part : columns_) names.push_back(part.field.name);
  return names;
}

}  // namespace lockstep::ml
