#include "lockstep/data/utf8.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

TEST(Utf8, IsToldFromOtherBytes) {
  for (const std::string text : {"", "plain", "gr\xC3\xBC\xC3\x9F", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const std::string bytes : {"\xC3", "\xFF", "\xC0\x80", "\xE2\x82", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80"}) {
    EXPECT_FALSE(is_utf8(bytes)) << bytes.size();
  }
}

}  // namespace
}  // namespace lockstep::data
