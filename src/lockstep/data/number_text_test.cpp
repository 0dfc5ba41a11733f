#include "lockstep/data/number_text.h"

#include <cmath>
#include <limits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

template <class Number>
std::string text_of(c10::ScalarType type, Number number) {
  std::string text;
  append_number(text, type, reinterpret_cast<const std::byte*>(&number));
  return text;
}

TEST(NumberText, ReadsWholeNumbers) {
  EXPECT_EQ(parse_int64("42"), 42);
  EXPECT_EQ(parse_int64(" -7\t"), -7);
  EXPECT_EQ(parse_int64("+5"), 5);
  EXPECT_EQ(parse_int64("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const auto* text : {"", "+", "+-5", "5x", "1.0", "9223372036854775808", "0x10", "1 2"}) {
    EXPECT_FALSE(parse_int64(text)) << text;
  }
}

TEST(NumberText, ReadsFloats) {
  EXPECT_EQ(parse_float64("1e5"), 1e5);
  EXPECT_EQ(parse_float64(" .5"), 0.5);
  EXPECT_EQ(parse_float64("0.1"), 0.1);
  EXPECT_EQ(parse_float64("-inf"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_float64("1e999"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_float64("-1e999"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_float64("1e-999"), 0.0);
  EXPECT_TRUE(std::isnan(parse_float64("nan").value()));
  for (const auto* text : {"", ".", "e5", "1,5", "1.5.2", "1e5x", "--1"}) EXPECT_FALSE(parse_float64(text)) << text;
}

TEST(NumberText, ReadsWords) {
  EXPECT_EQ(parse_bool("True"), true);
  EXPECT_EQ(parse_bool("FALSE "), false);
  EXPECT_FALSE(parse_bool("yes"));
  EXPECT_FALSE(parse_bool("truer"));
  for (const auto* text : {"", "  ", "NA", "NaN", "null", "N/A"}) EXPECT_TRUE(is_missing(text)) << text;
  EXPECT_FALSE(is_missing("nothing"));
}

TEST(NumberText, WritesTheFewestDigitsThatComeBack) {
  using c10::ScalarType;
  EXPECT_EQ(text_of(ScalarType::Float, 0.1F), "0.1");
  EXPECT_EQ(text_of(ScalarType::Double, 0.1), "0.1");
  EXPECT_EQ(text_of(ScalarType::Double, -2.0), "-2.0");
  EXPECT_EQ(text_of(ScalarType::Double, 1e300), "1e+300");
  EXPECT_EQ(text_of(ScalarType::Half, c10::Half(0.5F)), "0.5");
  EXPECT_EQ(text_of(ScalarType::BFloat16, c10::BFloat16(3.0F)), "3.0");
  EXPECT_EQ(text_of(ScalarType::UInt64, UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(text_of(ScalarType::Char, std::int8_t{-5}), "-5");
  EXPECT_EQ(text_of(ScalarType::Bool, true), "true");
  for (const double number : {1.0 / 3, 5e-324, std::numeric_limits<double>::max(), -1e-7}) {
    EXPECT_EQ(parse_float64(text_of(ScalarType::Double, number)), number);
  }
}

}  // namespace
}  // namespace lockstep::data
