#include "lockstep/data/protobuf_reader.h"

#include <string>

#include <gtest/gtest.h>

#include "lockstep/data/file_bytes.h"
#include "lockstep/data/varint.h"

namespace lockstep::data {
namespace {

using Wire = ProtobufReader::Wire;

bool is_broken(const std::string& message) {
  ProtobufReader reader(as_bytes(message));
  while (reader.next()) {
  }
  EXPECT_FALSE(reader.next());
  return reader.broken();
}

TEST(ProtobufReader, WalksEachKindOfField) {
  const std::string message =
      "\x08\xAC\x02"
      "\x12\x03one"
      "\x1D\x01\x02\x03\x04"
      "\x21"
      "12345678"
      "\xFA\x7F\x01z";
  ProtobufReader reader(as_bytes(message));
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.is(1, Wire::Varint));
  EXPECT_EQ(reader.varint(), 300U);
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.is(2, Wire::Sized));
  EXPECT_EQ(as_text(reader.bytes()), "one");
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.is(3, Wire::Fixed32));
  EXPECT_EQ(as_text(reader.bytes()), "\x01\x02\x03\x04");
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.is(4, Wire::Fixed64));
  EXPECT_EQ(as_text(reader.bytes()), "12345678");
  ASSERT_TRUE(reader.next());
  EXPECT_TRUE(reader.is(2047, Wire::Sized));
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.broken());
}

TEST(ProtobufReader, StopsWhereBytesAreNoMessage) {
  EXPECT_FALSE(is_broken(""));
  EXPECT_TRUE(is_broken("\x08")) << "no value";
  EXPECT_TRUE(is_broken("\x08\x80")) << "half a number";
  EXPECT_TRUE(is_broken("\x12\x04one")) << "too few bytes";
  EXPECT_TRUE(is_broken("\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01")) << "2^64 - 1 bytes";
  EXPECT_TRUE(is_broken("\x1D\x01\x02\x03"));
  EXPECT_TRUE(
      is_broken("\x21"
                "1234567"));
  EXPECT_TRUE(is_broken("\x02\x01x")) << "field 0";
  EXPECT_TRUE(is_broken("\x0B\x0C")) << "a group";
  EXPECT_TRUE(is_broken("\x0E")) << "no such kind";
  EXPECT_TRUE(is_broken("\x88\x80\x80\x80\x10\x01")) << "a number of 33 bits";
}

TEST(ProtobufReader, TakesNumbersOfUpTo64Bits) {
  const std::string largest = "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01rest";
  Bytes bytes = as_bytes(largest);
  EXPECT_EQ(take_varint(bytes), UINT64_MAX);
  EXPECT_EQ(as_text(bytes), "rest");
  for (const std::string longer :
       {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"}) {
    bytes = as_bytes(longer);
    EXPECT_FALSE(take_varint(bytes));
  }
}

}  // namespace
}  // namespace lockstep::data
