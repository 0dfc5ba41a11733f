#include "lockstep/data/utf8.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

TEST(Utf8, AcceptsText) {
  for (const std::string text :
       {"", "plain", "more than eight letters", "Grüße", "日本語", "\xF0\x9F\x99\x82", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(Utf8, RefusesWhatIsNone) {
  for (const std::string bytes : {"\xFF\xD8\xFF", "\x89PNG", "abc\x80", "cut \xE6\x97", "\xC0\xAF", "\xE0\x80\xAF",
                                  "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "latin \xFC letter"}) {
    EXPECT_FALSE(is_utf8(bytes));
  }
}

TEST(Utf8, KnowsTheMarkInFront) {
  EXPECT_EQ(byte_order_mark("\xEF\xBB\xBF"
                            "a,b"),
            3U);
  EXPECT_EQ(byte_order_mark("\xEF\xBB"), 0U);
}

}  // namespace
}  // namespace lockstep::data
