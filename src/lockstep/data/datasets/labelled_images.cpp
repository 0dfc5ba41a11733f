#include "lockstep/data/datasets/labelled_images.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/data/arguments.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

/// The same samples with names for the numbers of "label".
class WithClasses final : public Dataset {
 public:
  WithClasses(DatasetPtr set, std::vector<std::string> classes) : set_(std::move(set)), schema_(set_->schema()) {
    schema_[place_of(schema_, "label")].classes = std::move(classes);
  }
  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return set_->size(); }
  void read(std::int64_t index, Sample& sample) const override { set_->read(index, sample); }
  std::string name(std::int64_t index) const override { return set_->name(index); }
  std::string key(std::int64_t index) const override { return set_->key(index); }
  bool verify(std::int64_t index) const override { return set_->verify(index); }

 private:
  DatasetPtr set_;
  Schema schema_;
};

void write_rows(const std::string& path, Field field, std::string_view bytes) {
  const auto row = static_cast<std::size_t>(field.bytes());
  const Shape shape(field.shape.begin(), field.shape.end());
  const auto writer = format_named("idx").write(path, {std::move(field)}, {});
  Sample sample;
  for (; !bytes.empty(); bytes.remove_prefix(row)) {
    sample.clear(1);
    sample.values[0] = {as_bytes(bytes.substr(0, row)), shape, false};
    writer->add("", sample);
  }
  writer->finish();
}

}  // namespace

DatasetPtr open_labelled_images(const std::string& set, const std::string& arguments, const std::string& file,
                                const std::vector<std::string>& classes) {
  arguments_of_set(set, arguments).finish();
  return std::make_shared<WithClasses>(open(fetched_folder(set) + "/" + file), classes);
}

void write_labelled_images(const std::string& folder, const std::string& part, const std::vector<std::int64_t>& shape,
                           std::string_view pixels, std::string_view labels) {
  write_rows(fmt::format("{}/{}-images-idx{}-ubyte", folder, part, shape.size() + 1),
             {"image", Encoding::Values, c10::ScalarType::Byte, shape}, pixels);
  write_rows(fmt::format("{}/{}-labels-idx1-ubyte", folder, part), {"label", Encoding::Values, c10::ScalarType::Byte},
             labels);
}

}  // namespace lockstep::data
