#include "lockstep/data/batch_slot.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::data {
namespace {

at::Tensor memory(const std::vector<std::int64_t>& sizes, at::ScalarType type, bool pinned) {
  return at::empty(sizes, at::TensorOptions(type).pinned_memory(pinned));
}

/// Somebody beside us has it.
bool kept(const at::Tensor& tensor, std::size_t ours) { return tensor.storage().use_count() > ours; }

at::ScalarType type_of(const Field& field) { return field.encoding == Encoding::Values ? field.type : at::kByte; }

}  // namespace

void BatchSlot::begin(const Layout& layout, Batch&& about, std::int64_t rows) {
  const std::size_t fields = layout.schema.size();
  const bool first = rooms_.size() != fields;
  if (first) {
    layout_ = layout;
    rooms_.assign(fields, {});
    ragged_.assign(fields, {});
  }
  batch_.tensors.clear();  // our own views of the rooms
  batch_ = std::move(about);
  batch_.schema = layout_.schema;
  batch_.ids.assign(static_cast<std::size_t>(rows), -1);
  batch_.tensors.resize(fields);
  batch_.lengths.assign(fields, {});
  skipped_.assign(static_cast<std::size_t>(rows), 0);
  error_ = nullptr;
  for (std::size_t place = 0; place < fields; ++place) {
    const Field& field = layout_.schema[place];
    if (!field.fixed()) {
      ragged_[place].rows.resize(static_cast<std::size_t>(rows));
      for (auto& row : ragged_[place].rows) row.clear();  // one that is skipped is as long as nothing
      ragged_[place].shapes.assign(static_cast<std::size_t>(rows), {});
      continue;
    }
    Room& room = rooms_[place];
    if (!room.tensor.defined() || room.tensor.size(0) < rows || kept(room.tensor, 1)) {
      std::vector<std::int64_t> sizes = {rows};
      sizes.insert(sizes.end(), field.shape.begin(), field.shape.end());
      room.tensor = memory(sizes, field.type, layout_.pinned);
      room.data = static_cast<std::byte*>(room.tensor.mutable_data_ptr());
      room.row_bytes = static_cast<std::size_t>(field.bytes());
    }
    batch_.tensors[place] = room.tensor.narrow(0, 0, rows);
  }
}

void BatchSlot::set(std::int64_t row, std::int64_t id, const Sample& sample) {
  const auto place_of_row = static_cast<std::size_t>(row);
  for (std::size_t place = 0; place < layout_.schema.size(); ++place) {
    const Field& field = layout_.schema[place];
    const Value& value = sample.values[place];
    if (!field.fixed()) {
      ragged_[place].rows[place_of_row].assign(value.bytes.begin(), value.bytes.end());
      ragged_[place].shapes[place_of_row] = value.shape;
      continue;
    }
    const Room& room = rooms_[place];
    if (value.missing) lockstep::fail(Fault::Data, fmt::format("it has no field '{}'", field.name));
    if (value.bytes.size() != room.row_bytes) {
      lockstep::fail(Fault::Data, fmt::format("its field '{}' has {} bytes instead of {}", field.name,
                                              value.bytes.size(), room.row_bytes));
    }
    std::memcpy(room.data + place_of_row * room.row_bytes, value.bytes.data(), room.row_bytes);
  }
  batch_.ids[place_of_row] = id;
}

void BatchSlot::skip(std::int64_t row, Skipped skipped) {
  const std::lock_guard lock(mutex_);
  skipped_[static_cast<std::size_t>(row)] = 1;
  batch_.skipped.push_back(std::move(skipped));
}

void BatchSlot::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

void BatchSlot::finish() {
  if (error_) return;
  for (std::size_t place = 0; place < layout_.schema.size(); ++place) {
    if (!layout_.schema[place].fixed()) pad(place);
  }
  if (!batch_.skipped.empty()) close_gaps();
}

// The first dim differs, or it is bytes; further dims must be alike.
void BatchSlot::pad(std::size_t place) {
  const Field& field = layout_.schema[place];
  const auto& [rows, shapes] = ragged_[place];
  const auto type = type_of(field);
  const auto count = static_cast<std::int64_t>(rows.size());
  const bool values = field.encoding == Encoding::Values;
  std::vector<std::int64_t> inner;
  if (values) inner.assign(field.shape.begin() + 1, field.shape.end());
  if (std::find(inner.begin(), inner.end(), -1) != inner.end()) {
    lockstep::fail(Fault::Usage,
                   fmt::format("{} differs in more than its first dim: crop or resize it to one size", field.text()));
  }
  auto row_bytes = static_cast<std::int64_t>(c10::elementSize(type));
  for (const auto size : inner) row_bytes *= size;
  auto lengths = at::empty({count}, at::kLong);
  auto* length = lengths.mutable_data_ptr<std::int64_t>();
  std::int64_t longest = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    length[row] = row_bytes == 0 ? 0 : static_cast<std::int64_t>(rows[row].size()) / row_bytes;
    longest = std::max(longest, length[row]);
  }
  longest = (longest + layout_.pad_multiple - 1) / layout_.pad_multiple * layout_.pad_multiple;
  std::vector<std::int64_t> sizes = {count, longest};
  sizes.insert(sizes.end(), inner.begin(), inner.end());
  auto tensor = memory(sizes, type, layout_.pinned);
  auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  const auto stride = static_cast<std::size_t>(longest * row_bytes);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::byte* begin = data + row * stride;
    std::byte* end = std::copy(rows[row].begin(), rows[row].end(), begin);
    std::fill(end, begin + stride, std::byte{0});
  }
  batch_.tensors[place] = std::move(tensor);
  batch_.lengths[place] = std::move(lengths);
}

void BatchSlot::close_gaps() {
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < skipped_.size(); ++row) {
    if (!skipped_[row]) rows.push_back(static_cast<std::int64_t>(row));
  }
  const auto index = at::tensor(rows, at::kLong);
  for (auto* all : {&batch_.tensors, &batch_.lengths}) {
    for (auto& tensor : *all) {
      if (tensor.defined()) tensor = tensor.index_select(0, index);
    }
  }
  std::vector<std::int64_t> ids;
  for (const auto row : rows) ids.push_back(batch_.ids[static_cast<std::size_t>(row)]);
  batch_.ids = std::move(ids);
}

}  // namespace lockstep::data
