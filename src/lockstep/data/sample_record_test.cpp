#include "lockstep/data/sample_record.h"

#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

const Schema kSchema = {{"image", Encoding::Values, c10::ScalarType::Short, {2, 1}},
                        {"label", Encoding::Values, c10::ScalarType::Long, {}, {"cat", "dog"}},
                        {"text", Encoding::Text}};

std::string made(bool with_text = true) {
  const std::vector<std::int16_t> pixels = {-1, 2};
  const std::vector<std::int64_t> label = {1};
  const std::string text(300, 't');
  Sample sample;
  sample.clear(3);
  sample.values = {value_of(pixels, {2, 1}), value_of(label, {}), value_of(text)};
  sample.values[2].missing = !with_text;
  return record_of(kSchema, sample, true);
}

TEST(SampleRecord, HoldsAllFields) {
  const std::string bytes = made();
  ASSERT_TRUE(is_record(as_bytes(bytes)));
  const auto record = parse_record(as_bytes(bytes));
  ASSERT_EQ(record.size(), 3U);
  for (std::size_t place = 0; place < 3; ++place) EXPECT_EQ(record[place].field, kSchema[place]);
  EXPECT_EQ(as_text(record[0].bytes), std::string_view("\xFF\xFF\2\0", 4));
  EXPECT_EQ(record[2].bytes.size(), 300U);
  EXPECT_EQ(parse_record(as_bytes(made(false))).size(), 2U);
}

TEST(SampleRecord, TakesTheShortFormsOfOthers) {
  // msgpack.packb({"lockstep": 1, "x": {"t": "uint8", "s": [2], "d": b"ab"}}) of Python
  const std::string bytes(
      "\x82\xA8lockstep\x01\xA1x\x83\xA1t\xA5uint8\xA1s\x91\x02\xA1"
      "d\xC4\x02"
      "ab");
  const auto record = parse_record(as_bytes(bytes));
  ASSERT_EQ(record.size(), 1U);
  EXPECT_EQ(record[0].field.text(), "x: uint8[2]");
  EXPECT_EQ(as_text(record[0].bytes), "ab");
}

TEST(SampleRecord, TornOnesAreErrors) {
  const std::string good = made();
  for (std::size_t size = 0; size < good.size(); ++size) {
    message_of([&] { parse_record(as_bytes(good.substr(0, size))); });
  }
  EXPECT_TRUE(has(message_of([&] { parse_record(as_bytes(good + "x")); }), "bytes are left"));
  std::string other = good;
  other.replace(other.find("int16"), 5, "int64");
  EXPECT_TRUE(has(message_of([&] { parse_record(as_bytes(other)); }), "does not have 4 bytes"));
  EXPECT_FALSE(is_record(as_bytes("\x82\xA8other")));
}

TEST(SampleRecord, SchemasWidenToHoldAll) {
  Schema schema = {{"x", Encoding::Values, c10::ScalarType::Float, {2, 3}}};
  widen(schema, {{{"x", Encoding::Values, c10::ScalarType::Float, {2, 5}}, {}}, {{"t", Encoding::Text}, {}}});
  EXPECT_EQ(schema[0].text(), "x: float32[2, ?]");
  EXPECT_EQ(schema[1].text(), "t: text");
  EXPECT_TRUE(has(message_of([&] { widen(schema, {{{"t", Encoding::Raw}, {}}}); }), "t: text and t: raw"));
}

}  // namespace
}  // namespace lockstep::data
