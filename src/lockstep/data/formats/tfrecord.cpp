// TensorFlow's records: framed tf.train.Examples, a sample each. Records of anything else
// are samples of one field, "record".
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/format.h"
#include "lockstep/data/record_frames.h"
#include "lockstep/data/tf_example.h"
#include "lockstep/data/tf_example_schema.h"
#include "lockstep/data/tf_example_values.h"

namespace lockstep::data {
namespace {

constexpr const char* kExample = "example";
constexpr const char* kAnything = "anything";

/// Whether one field can hold values of both, in a set that was opened as several files.
void add_to(Schema& schema, const Field& field) {
  for (auto& known : schema) {
    if (known.name != field.name) continue;
    known = joined(known, field);
    return;
  }
  schema.push_back(field);
}

Example parsed(Bytes record) {
  auto example = Example::parse(record);
  if (!example) fail(Fault::Data, "it is no tf.train.Example, but the first record of the file is");
  return *std::move(example);
}

void add_record(ExampleSchema& schema, const Frame& frame, std::int64_t number) {
  try {
    schema.add(parsed(frame.data));
  } catch (Error& error) {
    throw error.during(fmt::format("reading record {} at byte {}", number, frame.offset));
  }
}

class TfRecordWriter final : public Writer {
 public:
  TfRecordWriter(const std::string& path, const Schema& schema) : schema_(schema), file_(path) {}

  void add(const std::string&, const Sample& sample) override {
    for (std::size_t place = 0; place < schema_.size(); ++place) {
      encode_field(builder_, schema_[place], sample.values.at(place));
    }
    file_.write(framed(as_bytes(builder_.take())));
  }
  void finish() override { file_.commit(); }

 private:
  Schema schema_;
  WholeFile file_;
  ExampleBuilder builder_;
};

class TfRecord final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".tfrecord", ".tfrecords", ".record"}; }
  bool recognises(Bytes head) const override { return begins_with_frame(head); }

  Index scan(const std::string& path, const OpenOptions&) const override {
    const auto file = map_file(path);
    Scratch scratch;
    FrameReader frames(whole(*file, scratch));
    Index index;
    index.files = {scanned_file(*file)};
    Column column;
    ExampleSchema schema;
    while (const auto frame = frames.next()) {
      // The first record decides: later ones could look like an Example by chance.
      if (index.samples == 0) column.how = Example::parse(frame->data) ? kExample : kAnything;
      if (column.how == kExample) add_record(schema, *frame, index.samples);
      column.extents.push_back({0, frame->offset, frame->data.size()});
      ++index.samples;
    }
    index.schema = column.how == kExample ? schema.schema() : Schema{{"record", Encoding::Raw}};
    if (index.schema.empty() && index.samples > 0) fail(Fault::Data, "no record has a feature");
    for (std::uint32_t place = 0; place < index.schema.size(); ++place) column.fields.push_back(place);
    index.columns = {std::move(column)};
    return index;
  }

  // A feature that a file lacks is missing there, as it may be in a record.
  Schema common_schema(const std::vector<Schema>& schemas) const override {
    Schema common;
    for (const auto& schema : schemas) {
      for (const auto& field : schema) add_to(common, field);
    }
    return common;
  }

  void decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const override {
    if (column.how == kExample) return decode_example(parsed(bytes), index.schema, sample);
    for (auto& value : sample.values) value.missing = true;
    sample.values[place_of(index.schema, "record")] = {bytes, {}, false};
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) {
      fail(Fault::Usage, "a TFRecord file is compressed as a whole: write it, then gzip it");
    }
    check_writable(schema);
    return std::make_unique<TfRecordWriter>(path, schema);
  }
};

const FormatRegistry::Add registered{"tfrecord", "TensorFlow's records of tf.train.Example",
                                     [] { return std::make_unique<TfRecord>(); }};

}  // namespace
}  // namespace lockstep::data
