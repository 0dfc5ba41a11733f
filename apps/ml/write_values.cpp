#include "ml/write_values.h"

#include "lockstep/data/format.h"

namespace lockstep::apps {

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
  const at::Tensor of_names = values.reshape({values.size(0), static_cast<std::int64_t>(names.size())});
  std::vector<std::pair<data::Field, at::Tensor>> fields;
  for (std::size_t i = 0; i < names.size(); ++i) {
    fields.push_back({{.name = names[i], .classes = value_names}, of_names.select(1, static_cast<std::int64_t>(i))});
  }
  write_fields(path, std::move(fields));
}

}  // namespace lockstep::apps
