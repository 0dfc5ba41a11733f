#include "ml/write_values.h"

#include <cstddef>

#include "lockstep/data/format.h"

namespace lockstep::apps {

void write_values(const std::string& path, const std::vector<std::string>& names,
                  const std::vector<std::string>& value_names, const at::Tensor& values) {
  data::Schema schema;
  for (const auto& name : names) {
    schema.push_back({.name = name, .type = values.scalar_type(), .classes = value_names});
  }
  const auto writer = data::format_named(data::format_to_write(path, "")).write(path, schema, {});
  data::Sample sample;
  const at::Tensor in_order = values.contiguous();
  const auto bytes = static_cast<std::size_t>(in_order.element_size());
  const auto* next = static_cast<const std::byte*>(in_order.const_data_ptr());
  for (std::int64_t row = 0; row < in_order.size(0); ++row) {
    sample.clear(names.size());
    for (auto& value : sample.values) {
      value.bytes = {next, bytes};
      next += bytes;
    }
    writer->add(std::to_string(row), sample);
  }
  writer->finish();
}

}  // namespace lockstep::apps
