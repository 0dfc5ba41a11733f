#include "lockstep/data/tar_members.h"

#include <fmt/format.h>

#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

std::string member(const std::string& name, const std::string& bytes) {
  return tar_header(name, bytes.size()) + bytes + tar_padding(bytes.size());
}

/// With the checksum set right again after a change.
std::string summed(std::string block) {
  block.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return block;
}

/// A header of another type, or with another size field.
std::string header(const std::string& name, std::uint64_t bytes, char type, const std::string& size_field = "") {
  std::string block = tar_header(name, bytes);
  block[156] = type;
  if (!size_field.empty()) block.replace(124, 12, size_field);
  return summed(block);
}

std::vector<TarMember> members(const std::string& archive) {
  TarReader reader(as_bytes(archive));
  std::vector<TarMember> all;
  while (auto one = reader.next()) all.push_back(*one);
  return all;
}

std::string content(const std::string& archive, const TarMember& one) {
  return archive.substr(one.data_offset, one.bytes);
}

TEST(TarReader, TellsWhereBytesLie) {
  const std::string archive = member("a/1.txt", "hello") + member("a/2.txt", "") + member("b", "x") + tar_end();
  const auto all = members(archive);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "a/1.txt");
  EXPECT_EQ(content(archive, all[0]), "hello");
  EXPECT_EQ(all[1].bytes, 0U);
  EXPECT_EQ(all[2].header_offset, 1536U);
  EXPECT_EQ(content(archive, all[2]), "x");
  EXPECT_TRUE(all[2].regular);
}

TEST(TarReader, ReadsLongNames) {
  const std::string name = "folder/" + std::string(200, 'n') + ".txt";
  const std::string by_pax = member(name, "1");
  const std::string gnu = header("././@LongLink", name.size() + 1, 'L') + name + std::string(1, '\0') +
                          tar_padding(name.size() + 1) + member("cut off", "2");
  std::string ustar = tar_header("tail.txt", 1);
  ustar.replace(345, 5, "front");
  const std::string archive = by_pax + gnu + summed(ustar) + "3" + tar_padding(1) + tar_end();
  const auto all = members(archive);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, name);
  EXPECT_EQ(content(archive, all[0]), "1");
  EXPECT_EQ(all[1].name, name);
  EXPECT_EQ(content(archive, all[1]), "2");
  EXPECT_EQ(all[2].name, "front/tail.txt");
}

TEST(TarReader, ReadsSizesInEveryForm) {
  const std::string records = "10 size=3\n16 comment=hello\n";
  const std::string base256 = std::string("\x80", 1) + std::string(10, '\0') + "\x03";
  const std::string archive = header("pax", 10, 'x') + records.substr(0, 10) + tar_padding(10) +
                              tar_header("by pax", 0) + "abc" + tar_padding(3) + header("by 256", 0, '0', base256) +
                              "def" + tar_padding(3) + tar_end();
  const auto all = members(archive);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(content(archive, all[0]), "abc");
  EXPECT_EQ(content(archive, all[1]), "def");
}

TEST(TarReader, KnowsWhatIsNoFile) {
  // The size of a link says how long what it points to is.
  const std::string archive = header("folder/", 0, '5') + header("link", 700, '1') + header("symbolic", 0, '2') +
                              member("file", "x") + tar_end();
  const auto all = members(archive);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_FALSE(all[0].regular);
  EXPECT_FALSE(all[1].regular);
  EXPECT_FALSE(all[2].regular);
  EXPECT_TRUE(all[3].regular);
  EXPECT_EQ(content(archive, all[3]), "x");
}

TEST(TarReader, NamesWhatIsWrongAndWhere) {
  const auto message = [](const std::string& archive) { return message_of([&] { members(archive); }); };
  const std::string good = member("a.txt", "hello") + member("b.txt", "world") + tar_end();
  EXPECT_TRUE(has(message("no tar at all" + std::string(600, ' ')), "not a tar archive"));
  EXPECT_TRUE(has(message(""), "cut short"));
  EXPECT_TRUE(has(message(good.substr(0, 1024)), "no end mark where the next header is due, at byte 1024"));
  EXPECT_TRUE(has(message(good.substr(0, 514)), "'a.txt' at byte 0 has 5 bytes, but only 2 are left"));
  std::string flipped = good;
  flipped[1024] ^= 1;
  EXPECT_TRUE(has(message(flipped), "header at byte 1024 is corrupt: its checksum is"));
  EXPECT_TRUE(has(message(header("a", 0, '0', "77777777777Z")), "has no possible size"));
  EXPECT_TRUE(has(message(header("a", 0, '0', std::string(12, '\xFF'))), "has no possible size"));
  EXPECT_TRUE(has(message(header("a", 0, '0', "\x80" + std::string(11, '\xFF'))), "has no possible size"));
  EXPECT_TRUE(has(message(header("a", 0, '0', "\x80" + std::string(4, '\0') + "\x7F" + std::string(6, '\xFF'))),
                  "but only 0 are left"));
  EXPECT_TRUE(has(message(header("p", 8, 'x') + "99 pa=1\n" + tar_padding(8)), "pax records"));
  EXPECT_TRUE(has(message(header("p", 8, 'x') + "8 path1\n" + tar_padding(8)), "without '='"));
  EXPECT_TRUE(has(message(header("p", 10, 'x') + "10 size=x\n" + tar_padding(10)), "pax size 'x'"));
  EXPECT_TRUE(has(message(header("s", 0, 'S')), "--sparse"));
}

TEST(TarHeader, IsTheSameWhereverItIsWritten) {
  const std::string block = tar_header("a.txt", 5);
  EXPECT_EQ(block.size(), 512U);
  EXPECT_TRUE(is_tar(as_bytes(block)));
  EXPECT_EQ(block.substr(100, 8), std::string("0000644\0", 8));
  EXPECT_EQ(block.substr(136, 12), std::string("00000000000\0", 12));
}

TEST(TarHeader, HoldsSizesOverEightGiB) {
  const std::uint64_t bytes = std::uint64_t{9} << 30;
  const std::string archive = tar_header("huge.bin", bytes);
  EXPECT_TRUE(has(archive, "size=9663676416\n"));
  EXPECT_TRUE(has(message_of([&] { members(archive); }), "'huge.bin' at byte 1024 has 9663676416 bytes"));
}

}  // namespace
}  // namespace lockstep::data
