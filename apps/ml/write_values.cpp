#include "ml/write_values.h"

#include <functional>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/core/file.h"
#include "lockstep/data/csv_rows.h"
#include "lockstep/data/format.h"
#include "lockstep/data/number_text.h"

namespace lockstep::apps {
namespace {

/// CSV: a line of names, then one for each row of `values` [rows, names], piece by piece.
void write_lines(const std::vector<std::string>& names, const std::vector<std::string>& value_names,
                 const at::Tensor& values, char separator, const std::function<void(std::string_view)>& write) {
  std::string line;
  const auto end_line = [&] {
    line.back() = '\n';
    write(line);
    line.clear();
  };
  for (const auto& name : names) {
    data::append_field(line, name);
    line += separator;
  }
  end_line();
  const at::Tensor labels = value_names.empty() ? at::Tensor() : values.to(at::kLong);
  const auto* value = static_cast<const std::byte*>(values.const_data_ptr());
  for (std::int64_t place = 0; place < values.numel(); ++place, value += values.element_size()) {
    if (labels.defined())
      data::append_field(line, value_names.at(static_cast<std::size_t>(labels.const_data_ptr<std::int64_t>()[place])));
    else
      data::append_number(line, values.scalar_type(), value);
    line += separator;
    if ((place + 1) % values.size(1) == 0) end_line();
  }
}

}  // namespace

void check_names_format(const std::string& path) {
  if (!path.empty()) (void)data::format_to_write(path, "");
}

void write_fields(const std::string& path, std::vector<std::pair<data::Field, at::Tensor>> fields) {
  data::Schema schema;
  for (auto& [field, values] : fields) {
    values = values.contiguous();
    field.type = values.scalar_type();
    field.shape = values.sizes().slice(1).vec();
    schema.push_back(field);
  }
  const auto writer = data::format_named(data::format_to_write(path, "")).write(path, schema, {});
  data::Sample sample;
  for (std::int64_t row = 0; row < fields.front().second.size(0); ++row) {
    sample.clear(fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const at::Tensor& values = fields[i].second;
      const auto bytes = static_cast<std::size_t>(schema[i].bytes());
      const auto* begin = static_cast<const std::byte*>(values.const_data_ptr());
      sample.values[i].bytes = {begin + static_cast<std::size_t>(row) * bytes, bytes};
      sample.values[i].shape.assign(schema[i].shape.begin(), schema[i].shape.end());
    }
    writer->add(std::to_string(row), sample);
  }
  writer->finish();
}

void write_values(const std::string& path, const std::vector<std::string>& names,
                  const std::vector<std::string>& value_names, const at::Tensor& values) {
  const at::Tensor of_names = values.reshape({values.size(0), static_cast<std::int64_t>(names.size())}).contiguous();
  if (path.empty()) {
    return write_lines(names, value_names, of_names, ',', [](std::string_view text) { fmt::print("{}", text); });
  }
  const std::string format = data::format_to_write(path, "");
  if (format == "csv") {
    WholeFile file(path);
    write_lines(names, value_names, of_names, path.ends_with(".tsv") ? '\t' : ',',
                [&](std::string_view text) { file.write(text); });
    return file.commit();
  }
  if (format == "npy" && names.size() > 1) return write_fields(path, {{{.name = "values"}, of_names}});
  std::vector<std::pair<data::Field, at::Tensor>> fields;
  for (std::size_t i = 0; i < names.size(); ++i) {
    fields.push_back({{.name = names[i], .classes = value_names}, of_names.select(1, static_cast<std::int64_t>(i))});
  }
  write_fields(path, std::move(fields));
}

}  // namespace lockstep::apps
