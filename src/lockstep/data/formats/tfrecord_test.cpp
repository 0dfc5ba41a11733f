#include "lockstep/data/record_frames.h"
#include "lockstep/data/testing.h"
#include "lockstep/data/tf_example.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

/// Of bytes that hold zeros.
template <std::size_t size>
std::string bytes(const char (&text)[size]) {
  return {text, size - 1};
}

std::string feature(const std::string& name, int kind, const std::string& list) {
  const auto field = [](int number, const std::string& content) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} + content;
  };
  return field(1, field(1, name) + field(2, field(kind, list)));
}

/// Of features that are short enough for lengths of one byte.
std::string example(const std::string& features) {
  return "\x0A" + std::string(1, static_cast<char>(features.size())) + features;
}

std::string file_of(const std::vector<std::string>& records) {
  std::string file;
  for (const auto& record : records) file += framed(as_bytes(record));
  return file;
}

/// What open() says of such records.
std::string refusal(const Folder& folder, const std::string& file) {
  return message_of([&] { open(folder.write("bad.tfrecord", file)); });
}

// By hand from the wire format: x is an int64_list of 3 and 300 packed and 5 not, name a bytes_list of "".
const std::string kGoldenRecord = bytes(
    "\x0A\x1E"
    "\x0A\x0E\x0A\x01x\x12\x09\x1A\x07\x0A\x03\x03\xAC\x02\x08\x05"
    "\x0A\x0C\x0A\x04name\x12\x04\x0A\x02\x0A\x00");

TEST(TfRecord, ReadsTheWireFormat) {
  const Folder folder;
  const auto set = open(folder.write("x.tfrecord", file_of({kGoldenRecord})));
  ASSERT_EQ(set->size(), 1);
  EXPECT_EQ(set->schema(), (Schema{{"x", Encoding::Values, ScalarType::Long, {3}}, {"name", Encoding::Text}}));
  Sample sample;
  set->read(0, sample);
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[0]), (std::vector<std::int64_t>{3, 300, 5}));
  EXPECT_EQ(sample.values[0].shape, Shape({3}));
  EXPECT_EQ(as_text(sample.values[1].bytes), "");
  EXPECT_FALSE(sample.values[1].missing);
}

TEST(TfRecord, FramesAsTensorFlowDoes) {
  // An empty record, as tf.io.TFRecordWriter writes it.
  EXPECT_EQ(framed({}), bytes("\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xD8\xEA\x82\xA2"));
  EXPECT_TRUE(begins_with_frame(as_bytes(framed(as_bytes("abc")))));
  EXPECT_FALSE(begins_with_frame(as_bytes("no record, but text")));
}

TEST(TfRecord, ReadsFloatsPackedOrNot) {
  const Folder folder;
  const std::string one = bytes("\0\0\x80\x3F"), two = bytes("\0\0\0\x40");
  const auto packed = example(feature("x", 2, "\x0A\x08" + one + two));
  const auto loose = example(feature("x", 2, "\x0D" + one + "\x0D" + two));
  const auto longer = example(feature("x", 2, "\x0D" + two + "\x0A\x08" + one + two));
  const auto set = open(folder.write("x.tfrecord", file_of({packed, loose, longer})));
  EXPECT_EQ(set->schema()[0].text(), "x: float32[?]");
  Sample sample;
  for (const int i : {0, 1}) {
    set->read(i, sample);
    EXPECT_EQ(numbers_of<float>(sample.values[0]), (std::vector<float>{1, 2})) << i;
  }
  set->read(2, sample);
  EXPECT_EQ(numbers_of<float>(sample.values[0]), (std::vector<float>{2, 1, 2}));
  EXPECT_EQ(sample.values[0].shape, Shape({3}));
}

TEST(TfRecord, SkipsWhatItDoesNotKnow) {
  const Folder folder;
  const std::string unknown = bytes(
      "\x78\x05"
      "\x7D"
      "abcd"
      "\x79"
      "12345678"
      "\x7A\x02zz");  // field 15, in each form
  const auto record = example(feature("x", 3, "\x08\x07" + unknown) + unknown) + unknown;
  const auto set = open(folder.write("x.tfrecord", file_of({record})));
  EXPECT_EQ(set->schema()[0].text(), "x: int64");
  Sample sample;
  set->read(0, sample);
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[0]), std::vector<std::int64_t>{7});
}

TEST(TfRecord, TellsImagesFromTextByTheirBytes) {
  const Folder folder;
  const std::string jpeg = "\xFF\xD8\xFF\xE0 one", png = "\x89PNG\r\n\x1A\n one";
  const auto record = [](const std::string& image, const std::string& other, const std::string& text) {
    ExampleBuilder builder;
    builder.add_bytes("image", as_bytes(image));
    builder.add_bytes("png", as_bytes(other));
    builder.add_bytes("text", as_bytes(text));
    builder.add_bytes("mixed", as_bytes(text == "a" ? image : text));
    return builder.take();
  };
  const auto set = open(folder.write("x.tfrecord", file_of({record(jpeg, png, "a"), record(jpeg, png, "Grüße")})));
  EXPECT_EQ(
      set->schema(),
      (Schema{{"image", Encoding::Jpeg}, {"png", Encoding::Png}, {"text", Encoding::Text}, {"mixed", Encoding::Raw}}));
}

TEST(TfRecord, RecordsOfAnythingElseAreOneField) {
  const Folder folder;
  const auto set = open(folder.write("x.record", file_of({"plain text", "\xFF\x01", ""})));
  EXPECT_EQ(set->schema(), (Schema{{"record", Encoding::Raw}}));
  Sample sample;
  set->read(1, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "\xFF\x01");
  // The feature_lists of a SequenceExample are not left out silently.
  const std::string sequence = kGoldenRecord + bytes("\x12\x02\x0A\x00");
  EXPECT_EQ(open(folder.write("y.record", file_of({sequence})))->schema()[0].name, "record");
}

struct Everything {
  std::vector<float> weights = {0.5F, -2, 3}, one = {7}, some = {1, 2};
  std::vector<std::int64_t> label = {-3}, matrix = {1, 2, 3, 4, 5, 6};
  std::vector<std::uint8_t> pixels = {1, 2, 3, 4}, flag = {1};
  std::vector<double> number = {0.1};
  std::string text = "Grüße", raw = "\xFE\x01", jpeg = "\xFF\xD8\xFF rest";

  Schema schema = {{"weights", Encoding::Values, ScalarType::Float, {3}},
                   {"one", Encoding::Values, ScalarType::Float, {1}},
                   {"some", Encoding::Values, ScalarType::Float, {-1}},
                   {"label", Encoding::Values, ScalarType::Long, {}},
                   {"matrix", Encoding::Values, ScalarType::Long, {-1, 3}},
                   {"pixels", Encoding::Values, ScalarType::Byte, {2, 2, 1}},
                   {"flag", Encoding::Values, ScalarType::Bool, {}},
                   {"number", Encoding::Values, ScalarType::Double, {}},
                   {"text", Encoding::Text},
                   {"raw", Encoding::Raw},
                   {"jpeg", Encoding::Jpeg}};

  std::vector<Value> values() const {
    return {value_of(weights, {3}),
            value_of(one, {1}),
            value_of(some, {2}),
            value_of(label, {}),
            value_of(matrix, {2, 3}),
            value_of(pixels, {2, 2, 1}),
            value_of(flag, {}),
            value_of(number, {}),
            value_of(text),
            value_of(raw),
            value_of(jpeg)};
  }
};

TEST(TfRecord, HoldsAnyTypeAndShape) {
  const Folder folder;
  const Everything all;
  const auto writer = format_named("tfrecord").write(folder / "x.tfrecord", all.schema, {});
  Sample sample;
  sample.values = all.values();
  writer->add("0", sample);
  sample.values[2] = value_of(all.one, {1});
  sample.values[4] = value_of(all.matrix, {1, 3});
  sample.values[4].bytes = sample.values[4].bytes.first(24);
  writer->add("1", sample);
  for (auto& value : sample.values) value = {{}, {}, true};
  writer->add("2", sample);
  writer->finish();

  const auto set = open(folder / "x.tfrecord");
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->schema(), all.schema);
  const auto wanted = all.values();
  set->read(0, sample);
  for (std::size_t place = 0; place < wanted.size(); ++place) {
    EXPECT_EQ(as_text(sample.values[place].bytes), as_text(wanted[place].bytes)) << all.schema[place].name;
    EXPECT_EQ(sample.values[place].shape, wanted[place].shape) << all.schema[place].name;
    EXPECT_FALSE(sample.values[place].missing) << all.schema[place].name;
  }
  set->read(1, sample);
  EXPECT_EQ(sample.values[2].shape, Shape({1}));
  EXPECT_EQ(sample.values[4].shape, Shape({1, 3}));
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[4]), (std::vector<std::int64_t>{1, 2, 3}));
  set->read(2, sample);
  for (const auto& value : sample.values) EXPECT_TRUE(value.missing);

  write_all(*set, folder / "y.tfrecord", "tfrecord");
  EXPECT_EQ(contents(folder / "y.tfrecord"), contents(folder / "x.tfrecord"));
}

TEST(TfRecord, ShowsAShapeThatDoesNotFit) {
  const Folder folder;
  const auto record = example(feature("x", 3, "\x0A\x02\x01\x02") + feature("x/shape", 3, "\x0A\x01\x05"));
  const auto set = open(folder.write("x.tfrecord", file_of({record})));
  EXPECT_EQ(set->schema()[0].text(), "x: int64[2]");
  EXPECT_EQ(set->schema()[1].text(), "x/shape: int64");
}

TEST(TfRecord, FilesAreReadAsOne) {
  const Folder folder;
  folder.write("part-0.tfrecord", file_of({example(feature("x", 3, "\x08\x01") + feature("y", 1, "\x0A\x01z"))}));
  folder.write("part-1.tfrecord",
               file_of({example(feature("y", 1, "\x0A\x01\xFF") + feature("x", 3, "\x0A\x02\x02\x03"))}));
  folder.write("part-2.tfrecord", file_of({example(feature("x", 3, "\x08\x04"))}));
  const auto set = open(folder / "part-*.tfrecord");
  EXPECT_EQ(set->schema(), (Schema{{"x", Encoding::Values, ScalarType::Long, {-1}}, {"y", Encoding::Raw}}));
  Sample sample;
  set->read(1, sample);
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[0]), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(as_text(sample.values[1].bytes), "\xFF");
  set->read(2, sample);
  EXPECT_EQ(sample.values[0].shape, Shape({1}));
  EXPECT_TRUE(sample.values[1].missing);
}

TEST(TfRecord, NamesWhatIsTornOrCorrupt) {
  const Folder folder;
  const std::string good = file_of({kGoldenRecord, kGoldenRecord});
  const std::size_t second = good.size() / 2;
  for (std::size_t size = second + 1; size < good.size(); ++size) {
    EXPECT_TRUE(has(refusal(folder, good.substr(0, size)), "record 1 at byte 48 is cut short")) << size;
  }
  for (std::size_t place = second; place < good.size(); ++place) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0x10);
    const auto message = refusal(folder, bad);
    EXPECT_TRUE(has(message, "record 1 at byte 48 is corrupt") && has(message, "bad.tfrecord")) << message;
  }
  EXPECT_TRUE(has(refusal(folder, "this is no record, but text"), "no TFRecord file"));
  EXPECT_TRUE(has(refusal(folder, ""), "holds no samples"));
}

TEST(TfRecord, NamesAFeatureThatIsNoField) {
  const Folder folder;
  EXPECT_TRUE(has(refusal(folder, file_of({example(feature("x", 1,
                                                           "\x0A\x01"
                                                           "a\x0A\x01"
                                                           "b"))})),
                  "'x' holds 2 byte strings"));
  const auto message =
      refusal(folder, file_of({example(feature("x", 3, "\x08\x01")), example(feature("x", 1, "\x0A\x01z"))}));
  EXPECT_TRUE(has(message, "x: int64 and x: text") && has(message, "record 1 at byte")) << message;
  EXPECT_TRUE(has(refusal(folder, file_of({kGoldenRecord, "other"})), "no tf.train.Example"));
  EXPECT_TRUE(has(refusal(folder, file_of({bytes("\x0A\x00")})), "no record has a feature"));
  const Schema twice = {{"x", Encoding::Values, ScalarType::Byte, {2}}, {"x/shape", Encoding::Text}};
  EXPECT_TRUE(
      has(message_of([&] { format_named("tfrecord").write(folder / "y", twice, {}); }, Fault::Usage), "'x/shape'"));
}

TEST(TfRecord, RefusesValuesThatAreNotOfTheirShape) {
  const Folder folder;
  const std::vector<float> numbers = {1, 2, 3};
  const auto writer =
      format_named("tfrecord").write(folder / "x.tfrecord", {{"x", Encoding::Values, ScalarType::Float, {-1}}}, {});
  Sample sample;
  sample.values = {value_of(numbers, {4})};
  EXPECT_TRUE(has(message_of([&] { writer->add("0", sample); }), "'x' has 12 bytes, but its shape asks for 16"));
}

// Whatever the bytes of a record are, with right checksums: an answer or an Error.
TEST(TfRecord, TakesCutAndChangedExamples) {
  const Folder folder;
  std::size_t others = 0;
  for (std::size_t place = 0; place < kGoldenRecord.size(); ++place) {
    std::string changed = kGoldenRecord;
    changed[place] = static_cast<char>(changed[place] ^ 0x81);
    for (const auto& record : {kGoldenRecord.substr(0, place), changed}) {
      const auto file = folder.write("x.tfrecord", file_of({record}));
      try {
        const auto set = open(file);
        Sample sample;
        set->read(0, sample);
        others += set->schema()[0].name == "record";
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::Data);
      }
    }
  }
  EXPECT_GT(others, kGoldenRecord.size());
}

}  // namespace
}  // namespace lockstep::data
