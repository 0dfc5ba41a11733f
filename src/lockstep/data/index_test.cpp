#include "lockstep/data/index.h"

#include "lockstep/core/random.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kSamples = 5000;

/// As of a tar archive of photographs of different size with their classes.
Index archive() {
  Index index;
  index.format = "tar";
  index.schema = {{"jpg", Encoding::Jpeg}, {"cls", Encoding::Text}};
  index.samples = kSamples;
  index.columns.resize(2);
  index.columns[0].fields = {0};
  index.columns[1].fields = {1};
  Random random(1, 2);
  std::uint64_t place = 512;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t length = 2000 + random.below(400);
    index.columns[0].extents.push_back({0, place, length});
    place += (length + 511) / 512 * 512 + 512;
    index.columns[1].extents.push_back({0, place, i % 7 == 0 ? kAbsent : 1});
    place += 1024;
    index.add_key("n" + std::to_string(1'000'000 + i));
  }
  index.files = {{"x.tar", place, place, 1, 2}};
  return index;
}

TEST(IndexFile, HoldsWhatTheIndexHolds) {
  const Index index = archive();
  const Index again = Index::parse(index.serialize());
  ASSERT_EQ(again.samples, kSamples);
  EXPECT_EQ(again.files, index.files);
  for (std::size_t column = 0; column < 2; ++column) {
    EXPECT_EQ(again.columns[column].extents, index.columns[column].extents);
  }
  for (const std::int64_t sample : {0, 1, 4999}) EXPECT_EQ(again.key(sample), index.key(sample));
}

TEST(IndexFile, HoldsAnyBytesInNames) {
  const std::string odd = "caf\xe9 \"\n";
  Index index = archive();
  index.asked = index.notes = odd;
  index.files[0].path = "photos/" + odd + ".tar";
  index.columns[1].how = odd;
  index.schema[1] = {odd, Encoding::Values, c10::ScalarType::Long, {}, {odd, "dog", ""}};
  const Index again = Index::parse(index.serialize());
  EXPECT_EQ(again.asked, odd);
  EXPECT_EQ(again.notes, odd);
  EXPECT_EQ(again.files, index.files);
  EXPECT_EQ(again.columns[1].how, odd);
  EXPECT_EQ(again.schema, index.schema);
}

TEST(IndexFile, IsSmall) {
  EXPECT_LT(archive().serialize().size(), 8 * kSamples) << "a fraction of a percent of what it points to";
}

TEST(IndexFile, TornBytesAreNoIndex) {
  const std::string bytes = archive().serialize();
  for (const std::size_t length : {std::size_t{0}, std::size_t{31}, std::size_t{32}, bytes.size() - 1}) {
    EXPECT_TRUE(has(message_of([&] { Index::parse(bytes.substr(0, length)); }), "cannot be read")) << length;
  }
  for (std::size_t place = 0; place < bytes.size(); place += 97) {
    std::string torn = bytes;
    torn[place] = static_cast<char>(torn[place] ^ 4);
    message_of([&] { Index::parse(torn); });
  }
}

TEST(IndexFile, IsMadeAnewWhenTheTimeOfAScannedFileChanged) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(10'000 + i) + "\n";
  const auto path = folder.write("x.txt", text);
  index_of(path, {});
  // As long as before, and alike at both ends, but lines lie elsewhere in the middle.
  text.replace(text.size() / 2 / 6 * 6, 12, "1\n234567890\n");
  folder.write("x.txt", text);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  const auto set = open(path);
  Sample sample;
  set->read(20'000, sample);
  EXPECT_EQ(as_text(sample.values[0].bytes), "1");
}

TEST(IndexFile, KnowsFilesThatWereCut) {
  const Folder folder;
  const auto path = folder.write("x.txt", "one\ntwo\nthree\n");
  EXPECT_TRUE(files_of_other_size(path).empty());
  index_of(path, {});
  EXPECT_TRUE(files_of_other_size(path).empty());
  folder.write("x.txt", "one\ntwo\n");
  ASSERT_EQ(files_of_other_size(path).size(), 1U);
  EXPECT_TRUE(has(files_of_other_size(path)[0], "x.txt has 8 bytes, not 14")) << files_of_other_size(path)[0];
  std::filesystem::remove(path);
  EXPECT_TRUE(has(files_of_other_size(path).at(0), "is gone"));
}

TEST(IndexFile, ChecksumsAreReadOnlyWhenAskedFor) {
  const Folder folder;
  const auto path = folder.write("x.txt", "one\ntwo\nthree\n");
  OpenOptions options;
  EXPECT_EQ(index_of(path, options).checksums.size(), 3U) << "of the scan";
  EXPECT_TRUE(index_of(path, options).checksums.empty());
  options.checksums = true;
  const auto kept = index_of(path, options).checksums;
  EXPECT_EQ(kept.size(), 3U);
  // Torn, they are taken anew.
  std::string bytes = contents(path + ".lsx");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder.write("x.txt.lsx", bytes);
  EXPECT_EQ(index_of(path, options).checksums, kept);
}

TEST(IndexFile, AnOldOneBesideTheDataDoesNotHideTheOneInTheCache) {
  const Folder folder;
  const EnvironmentVariable cache("XDG_CACHE_HOME", folder / "cache");
  const auto path = folder.write("x.txt", "one\ntwo\nthree\n");
  index_of(path, {});
  const std::string old = contents(path + ".lsx");
  // Where none can be kept beside the data, it is kept in the cache.
  std::filesystem::remove(path + ".lsx");
  std::filesystem::create_directory(path + ".lsx");
  folder.write("x.txt", "one\ntwo\nthree\nfour\n");
  EXPECT_EQ(index_of(path, {}).checksums.size(), 4U) << "of the scan";
  std::filesystem::remove(path + ".lsx");
  folder.write("x.txt.lsx", old);
  const Index index = index_of(path, {});
  EXPECT_EQ(index.samples, 4);
  EXPECT_TRUE(index.checksums.empty()) << "it was scanned again";
}

}  // namespace
}  // namespace lockstep::data
