#include "lockstep/ml/read_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/on_threads.h"

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
void read_field(const Field& field, const data::Value& value, To* to) {
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

at::ScalarType type_of(const std::vector<std::pair<std::size_t, Field>>& columns, const std::string& wanted) {
  if (wanted == "float32") return at::kFloat;
  if (wanted == "float64") return at::kDouble;
  if (!wanted.empty()) fail(Fault::Usage, fmt::format("type {}: it is float32 or float64", wanted));
  const bool small = std::all_of(columns.begin(), columns.end(), [](const auto& column) {
    const auto type = column.second.type;
    return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  });
  return small ? at::kFloat : at::kDouble;
}

std::vector<std::string> names_of(const std::vector<std::pair<std::size_t, Field>>& fields) {
  std::vector<std::string> names;
  for (const auto& [place, field] : fields) {
    if (field.shape.empty()) names.push_back(field.name);
    for (std::int64_t i = 0; !field.shape.empty() && i < field.elements(); ++i) {
      names.push_back(fmt::format("{}[{}]", field.name, i));
    }
  }
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

RowLayout::RowLayout(const data::Schema& schema, const ColumnChoice& choice) {
  const auto field_named = [&](const std::string& name) {
    const std::size_t place = data::place_of(schema, name);
    const Field& field = schema[place];
    if (!field.fixed()) {
      fail(Fault::Usage, fmt::format("{} holds no numbers of one size: name the columns by --columns, or leave it out "
                                     "by --exclude {}",
                                     field.text(), field.name));
    }
    return std::pair(place, field);
  };
  for (const auto& name : choice.exclude) (void)data::place_of(schema, name);
  for (const auto& name : choice.targets) targets_.push_back(field_named(name));
  if (!choice.weights.empty()) weights_.push_back(field_named(choice.weights));
  for (const auto& name : choice.columns) columns_.push_back(field_named(name));
  if (choice.columns.empty()) {
    for (const Field& field : schema) {
      const bool taken = contains(choice.exclude, field.name) || contains(choice.targets, field.name);
      if (!taken && field.name != choice.weights && field.classes.empty()) columns_.push_back(field_named(field.name));
    }
  }
  if (columns_.empty()) fail(Fault::Usage, "no column is left; name some by --columns");
  names_ = names_of(columns_);
  target_names_ = names_of(targets_);
  if (!weights_.empty() && weights_[0].second.elements() != 1) {
    fail(Fault::Usage, fmt::format("{} is no weight: that is one number for each row", weights_[0].second.text()));
  }
  type_ = type_of(columns_, choice.type);
}

namespace {

template <class Fields, class To>
void read_fields(const Fields& fields, const data::Sample& sample, To* to) {
  for (const auto& [place, field] : fields) {
    read_field(field, sample.values[place], to);
    to += field.elements();
  }
}

}  // namespace

void RowLayout::read(const data::Sample& sample, float* columns, double* targets, double* weight) const {
  read_fields(columns_, sample, columns);
  read_fields(targets_, sample, targets);
  read_fields(weights_, sample, weight);
}

void RowLayout::read(const data::Sample& sample, double* columns, double* targets, double* weight) const {
  read_fields(columns_, sample, columns);
  read_fields(targets_, sample, targets);
  read_fields(weights_, sample, weight);
}

std::vector<std::string> RowLayout::value_names() const {
  return targets_.size() == 1 ? targets_.front().second.classes : std::vector<std::string>();
}

std::vector<std::string> fields_of(const std::vector<std::string>& columns) {
  std::vector<std::string> fields;
  for (const auto& column : columns) {
    const bool one_of_several = column.ends_with(']') && column.find('[') != std::string::npos;
    const std::string field = one_of_several ? column.substr(0, column.rfind('[')) : column;
    if (fields.empty() || fields.back() != field) fields.push_back(field);
  }
  return fields;
}

TableRows read_rows(const data::Dataset& dataset, std::int64_t first, std::int64_t count, const RowLayout& layout,
                    int threads) {
  TableRows rows;
  rows.x = at::empty({count, layout.columns()}, layout.type());
  if (layout.targets() > 0) rows.targets = at::empty({count, layout.targets()}, at::kDouble);
  if (layout.weighted()) rows.weights = at::empty({count}, at::kDouble);
  rows.names = layout.names();
  rows.target_names = layout.target_names();
  rows.value_names = layout.value_names();
  constexpr std::int64_t kAtOnce = 1024;
  std::vector<data::Sample> samples(static_cast<std::size_t>(threads));
  const auto read = [&]<class T>(T* x) {
    on_threads(threads, count, kAtOnce, [&](std::int64_t begin, std::int64_t end, int thread) {
      data::Sample& sample = samples[static_cast<std::size_t>(thread)];
      for (std::int64_t row = begin; row < end; ++row) {
        dataset.read(first + row, sample);
        layout.read(sample, x + row * layout.columns(),
                    rows.targets.defined() ? rows.targets.mutable_data_ptr<double>() + row * layout.targets() : nullptr,
                    rows.weights.defined() ? rows.weights.mutable_data_ptr<double>() + row : nullptr);
      }
    });
  };
  layout.type() == at::kFloat ? read(rows.x.mutable_data_ptr<float>()) : read(rows.x.mutable_data_ptr<double>());
  return rows;
}

std::unique_ptr<Table> read_table(comm::Communicator& group, const std::string& source,
                                  const data::OpenOptions& options, const ColumnChoice& choice, int threads) {
  const bool in_parts = source.find("{rank}") != std::string::npos;
  const auto dataset = in_parts ? data::open_part(source, group, options) : data::open(source, options);
  const RowLayout layout(dataset->schema(), choice);
  std::int64_t first = 0, end = dataset->size();
  if (!in_parts) {
    const auto plan = BlockPlan::even(dataset->size(), layout.columns(), group.size());
    first = plan.begin(plan.first_block[static_cast<std::size_t>(group.rank())]);
    end = plan.begin(plan.first_block[static_cast<std::size_t>(group.rank()) + 1]);
  }
  return make_table(group, read_rows(*dataset, first, end - first, layout, threads));
}

}  // namespace lockstep::ml
