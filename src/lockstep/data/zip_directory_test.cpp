#include "lockstep/data/zip_directory.h"

#include <fmt/format.h>

#include "lockstep/data/decompress.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

ZipMember stored(const std::string& name, const std::string& bytes) {
  return {name, 0, bytes.size(), {0, bytes.size(), crc32_of(as_bytes(bytes)), kStored}, true};
}

std::string archive_of(const std::vector<std::pair<std::string, std::string>>& members) {
  const Folder folder;
  ZipFile file(folder / "x.zip");
  for (const auto& [name, bytes] : members) {
    file.begin(stored(name, bytes), 1);
    file.write(bytes);
  }
  file.finish();
  return contents(folder / "x.zip");
}

std::vector<ZipMember> members(const std::string& archive) {
  ZipReader reader(as_bytes(archive));
  std::vector<ZipMember> all;
  while (auto one = reader.next()) all.push_back(*one);
  return all;
}

std::string numbers(std::initializer_list<std::uint64_t> wanted) {
  std::string bytes;
  for (const auto number : wanted) bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  return bytes;
}

TEST(ZipReader, TellsWhereBytesLie) {
  const std::string archive = archive_of({{"a.txt", "hello"}, {"folder/", ""}, {"b.txt", "world!"}});
  const auto all = members(archive);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "a.txt");
  EXPECT_EQ(archive.substr(all[0].data_offset, all[0].packed_bytes), "hello");
  EXPECT_FALSE(all[1].regular);
  EXPECT_EQ(archive.substr(all[2].data_offset, all[2].packed_bytes), "world!");
}

TEST(ZipReader, SkipsTheCommentAtTheEnd) {
  std::string archive = archive_of({{"a.txt", "hello"}});
  archive[archive.size() - 2] = 7;
  EXPECT_EQ(members(archive + "PK\x05\x06 hi").size(), 1U);
}

TEST(ZipReader, ReadsSizesOfZip64) {
  std::string archive = archive_of({{"a.txt", "hello"}});
  const auto entry = archive.find("PK\x01\x02"), end = archive.find("PK\x05\x06");
  const std::string extra = std::string("\x01\0\x18\0", 4) + numbers({5, 5, 0});
  archive.replace(entry + 20, 8, 8, '\xFF');
  archive.replace(entry + 42, 4, 4, '\xFF');
  archive[entry + 30] = static_cast<char>(extra.size());
  archive.insert(end, extra);
  archive[end + extra.size() + 12] = static_cast<char>(end + extra.size() - entry);
  const auto all = members(archive);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(archive.substr(all[0].data_offset, all[0].packed_bytes), "hello");
}

TEST(ZipFile, HoldsMoreMembersThan16BitsCount) {
  const Folder folder;
  ZipFile file(folder / "x.zip");
  for (int i = 0; i < 70000; ++i) {
    const std::string number = std::to_string(i);
    file.begin(stored(number + ".cls", number), 1);
    file.write(number);
  }
  file.finish();
  const std::string archive = contents(folder / "x.zip");
  const auto all = members(archive);
  ASSERT_EQ(all.size(), 70000U);
  EXPECT_EQ(archive.substr(all[69999].data_offset, all[69999].packed_bytes), "69999");
}

TEST(ZipFile, SaysSizesOver4GiBInZip64) {
  const Folder folder;
  ZipFile file(folder / "x.zip");
  ZipMember huge = stored("huge", "");
  huge.packing.bytes = huge.packed_bytes = std::uint64_t{5} << 30;
  file.begin(huge, 64);  // and nothing of it
  file.finish();
  const std::string archive = contents(folder / "x.zip");
  EXPECT_EQ(archive.substr(18, 8), std::string(8, '\xFF'));
  EXPECT_EQ(archive.substr(34, 20), std::string("\x01\0\x10\0", 4) + numbers({huge.packing.bytes, huge.packed_bytes}));
  EXPECT_TRUE(has(message_of([&] { members(archive); }), "5368709120 bytes of a member do not lie before"));
}

TEST(ZipReader, NamesWhatIsWrongAndWhere) {
  const std::string good = archive_of({{"a.txt", "hello"}, {"b.txt", "world"}});
  const auto message = [](const std::string& archive) { return message_of([&] { members(archive); }); };
  const auto changed = [&](std::size_t at, char byte) {
    std::string archive = good;
    archive[at] = byte;
    return message(archive);
  };
  const auto entry = good.find("PK\x01\x02"), end = good.find("PK\x05\x06");
  EXPECT_TRUE(has(message("no zip"), "not a zip archive"));
  EXPECT_TRUE(has(message(""), "not a zip archive"));
  EXPECT_TRUE(has(message(good.substr(0, good.size() - 1)), "cut short: no directory at the end"));
  EXPECT_TRUE(has(changed(entry, 'x'), fmt::format("corrupt at byte {}: no record PK 1 2", entry)));
  EXPECT_TRUE(has(changed(0, 'x'), "corrupt at byte 0: no record PK 3 4"));
  EXPECT_TRUE(has(changed(entry + 8, 1), "'a.txt', whose entry is at byte 80, is encrypted"));
  EXPECT_TRUE(has(changed(entry + 10, 12), "is compressed by method 12"));
  EXPECT_TRUE(has(changed(entry + 20, 99), "99 bytes of a member do not lie before the directory"));
  EXPECT_TRUE(has(changed(entry + 24, 99), "cannot have 99 bytes, packed into 5"));
  EXPECT_TRUE(has(changed(entry + 30, 9), "an extra field is longer than its entry"));
  EXPECT_TRUE(has(changed(end + 10, 1), "bytes more than its entries"));
  EXPECT_TRUE(has(changed(end + 10, 3), "it ends before"));
  EXPECT_TRUE(has(changed(end + 19, 1), "does not lie before it"));
  EXPECT_TRUE(has(changed(end + 4, 1), "several parts"));
}

TEST(ZipReader, RefusesMembersThatShareTheirBytes) {
  std::string archive = archive_of({{"a", std::string(200, 'x')}, {"b", ""}, {"c", ""}});
  const auto first = archive.find("PK\x01\x02");
  const std::string entry = archive.substr(first, 47);
  archive.replace(first + 47, 47, entry);
  archive.replace(first + 94, 47, entry);
  EXPECT_TRUE(has(message_of([&] { members(archive); }), "overlap"));
}

TEST(UnpackMember, ChecksSizeBeforeItTakesMemory) {
  const std::string bytes(100000, 'a'), packed = deflate_raw(as_bytes(bytes), 9);
  const ZipPacking right = {7, bytes.size(), crc32_of(as_bytes(bytes)), kDeflated};
  EXPECT_EQ(unpack_member(right, as_bytes(packed)), bytes);
  const auto message = [&](const ZipPacking& packing) {
    Scratch scratch;
    return message_of([&] { unpack_member(packing, as_bytes(packed), scratch); });
  };
  EXPECT_TRUE(has(message({7, std::uint64_t{1} << 60, right.crc, kDeflated}), "at byte 7 cannot have"));
  EXPECT_TRUE(has(message({7, right.bytes - 1, right.crc, kDeflated}), "while unpacking the zip member at byte 7"));
  EXPECT_TRUE(has(message({7, right.bytes + 1, right.crc, kDeflated}), "instead of 100001"));
  EXPECT_TRUE(has(message({7, right.bytes, right.crc + 1, kDeflated}), "at byte 7 is corrupt: its crc32 is"));
  EXPECT_TRUE(has(message({7, right.bytes, right.crc, 5}), "method 5"));
}

}  // namespace
}  // namespace lockstep::data
