#include "ml/write_values.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/csv_rows.h"
#include "lockstep/data/number_text.h"

namespace lockstep::apps {
namespace {

using Fields = std::vector<std::pair<data::Field, at::Tensor>>;

std::unique_ptr<data::Writer> writer_of(const std::string& path, Fields& fields) {
  data::Schema schema;
  for (auto& [field, values] : fields) {
    values = values.contiguous();
    field.type = values.scalar_type();
    field.shape = values.sizes().slice(1).vec();
    schema.push_back(field);
  }
  return data::format_named(data::format_to_write(path, "")).write(path, schema, {});
}

/// Rows whose keys are their numbers from `first` on.
void add_rows(data::Writer& writer, const Fields& fields, std::int64_t first) {
  data::Sample sample;
  for (std::int64_t row = 0; row < fields.front().second.size(0); ++row) {
    sample.clear(fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const at::Tensor& values = fields[i].second;
      const std::size_t bytes = values.nbytes() / static_cast<std::size_t>(values.size(0));
      const auto* begin = static_cast<const std::byte*>(values.const_data_ptr());
      sample.values[i].bytes = {begin + static_cast<std::size_t>(row) * bytes, bytes};
      sample.values[i].shape = values.sizes().slice(1).vec();
    }
    writer.add(std::to_string(first + row), sample);
  }
}

/// Empty, and gone at the end.
class ScratchFolder {
 public:
  ScratchFolder() : path_((std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) fail_errno("cannot make the folder " + path_, errno);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace

void check_can_hold(const std::string& path, const data::Schema& schema) {
  if (path.empty()) return;
  const std::string name = data::format_to_write(path, "");
  const auto& format = data::format_named(name);
  // A writer says it, of a file that nobody will see.
  const ScratchFolder folder;
  (void)format.write(folder / std::filesystem::path(path).filename().string(), schema, {});
}

void check_names_format(const std::string& path) {
  try {
    check_can_hold(path, {{.name = "value", .type = at::kDouble}});
  } catch (const Error&) {
    check_can_hold(path, {{.name = "value", .type = at::kLong}});  // labels may do
  }
}

void write_fields(const std::string& path, Fields fields) {
  const auto writer = writer_of(path, fields);
  add_rows(*writer, fields, 0);
  writer->finish();
}

/// A line of names, then one for each row, into a file or onto standard output.
class ValuesFile::Lines {
 public:
  Lines(const std::string& path, const std::vector<std::string>& names)
      : separator_(path.ends_with(".tsv") ? '\t' : ',') {
    if (!path.empty()) file_.emplace(path);
    for (const auto& name : names) {
      data::append_field(line_, name);
      line_ += separator_;
    }
    end_line();
  }

  void add(const at::Tensor& values, const std::vector<std::string>& value_names) {
    const at::Tensor labels = value_names.empty() ? at::Tensor() : values.to(at::kLong);
    const auto* value = static_cast<const std::byte*>(values.const_data_ptr());
    for (std::int64_t place = 0; place < values.numel(); ++place, value += values.element_size()) {
      const std::int64_t label = labels.defined() ? labels.const_data_ptr<std::int64_t>()[place] : -1;
      // A data set may have more classes than it names.
      if (label >= 0 && label < std::ssize(value_names)) {
        data::append_field(line_, value_names[static_cast<std::size_t>(label)]);
      } else {
        data::append_number(line_, values.scalar_type(), value);
      }
      line_ += separator_;
      if ((place + 1) % values.size(1) == 0) end_line();
    }
  }

  void finish() {
    if (file_) file_->commit();
  }

 private:
  void end_line() {
    line_.back() = '\n';
    if (file_)
      file_->write(line_);
    else
      fmt::print("{}", line_);
    line_.clear();
  }

  char separator_;
  std::optional<WholeFile> file_;
  std::string line_;
};

ValuesFile::ValuesFile(std::string path, std::vector<std::string> names, std::vector<std::string> value_names)
    : path_(std::move(path)), names_(std::move(names)), value_names_(std::move(value_names)) {
  if (path_.empty() || data::format_to_write(path_, "") == "csv") lines_ = std::make_unique<Lines>(path_, names_);
}

ValuesFile::~ValuesFile() = default;

void ValuesFile::add(const at::Tensor& values) {
  const at::Tensor of_names = values.reshape({values.size(0), static_cast<std::int64_t>(names_.size())}).contiguous();
  lines_ ? lines_->add(of_names, value_names_) : add_samples(of_names);
  rows_ += values.size(0);
}

void ValuesFile::add_samples(const at::Tensor& values) {
  Fields fields;
  if (names_.size() > 1 && data::format_to_write(path_, "") == "npy") {
    fields = {{{.name = "values"}, values}};
  } else {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      fields.push_back(
          {{.name = names_[i], .classes = value_names_}, values.select(1, static_cast<std::int64_t>(i)).contiguous()});
    }
  }
  if (!writer_) writer_ = writer_of(path_, fields);
  add_rows(*writer_, fields, rows_);
}

void ValuesFile::finish() { lines_ ? lines_->finish() : writer_->finish(); }

void write_values(const std::string& path, const std::vector<std::string>& names,
                  const std::vector<std::string>& value_names, const at::Tensor& values) {
  ValuesFile file(path, names, value_names);
  file.add(values);
  file.finish();
}

}  // namespace lockstep::apps
