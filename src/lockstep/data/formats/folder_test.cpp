#include <unistd.h>

#include <fmt/format.h>

#include "lockstep/comm/thread_ranks.h"
#include "lockstep/data/cache.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

const std::string kJpeg = "\xFF\xD8\xFF\xE0 jpeg ";
const std::string kPng = "\x89PNG\r\n\x1A\n png ";

std::int64_t label_of(const Dataset& set, std::int64_t index) {
  Sample sample;
  set.read(index, sample);
  return numbers_of<std::int64_t>(sample.values.at(1)).at(0);
}

std::string image_of(const Dataset& set, std::int64_t index) {
  Sample sample;
  set.read(index, sample);
  return std::string(as_text(sample.values.at(0).bytes));
}

TEST(ImageFolder, FoldersAreClasses) {
  const Folder folder;
  folder.write("set/dog/2.jpg", kJpeg + "2");
  folder.write("set/dog/10.JPEG", kJpeg + "10");
  folder.write("set/dog/.hidden.jpg", "x");
  folder.write("set/dog/notes.txt", "x");
  folder.write("set/cat/deep/er/1.Jpg", kJpeg + "1");
  folder.write("set/README", "x");
  fs::create_directories(folder / "set/cow");
  fs::create_directory_symlink(folder / "set", folder / "set/dog/loop");
  const auto set = open(folder / "set");
  ASSERT_EQ(set->size(), 3);
  EXPECT_EQ(set->schema()[0].text(), "image: jpeg");
  EXPECT_EQ(set->schema()[1].text(), "label: int64");
  EXPECT_EQ(set->schema()[1].classes, (std::vector<std::string>{"cat", "cow", "dog"}));
  EXPECT_EQ(set->key(0), "cat/deep/er/1");
  EXPECT_EQ(set->key(1), "dog/10");
  EXPECT_EQ(set->key(2), "dog/2");
  EXPECT_EQ(label_of(*set, 0), 0);
  EXPECT_EQ(label_of(*set, 2), 2);
  EXPECT_EQ(image_of(*set, 2), kJpeg + "2");
}

TEST(ImageFolder, NamesMayBeAnyBytes) {
  const Folder folder;
  folder.write("set/cr\xe8me/caf\xe9.jpg", kJpeg + "1");
  folder.write("set/dog/2.jpg", kJpeg + "2");
  EXPECT_EQ(index_of(folder / "set", {}).checksums.size(), 2U) << "of the scan";
  EXPECT_TRUE(index_of(folder / "set", {}).checksums.empty()) << "it is scanned each time";
  for (const auto* mode : {"none", "node", "cluster"}) {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      const auto set = open_cached(folder / "set", {}, {.cache = mode}, world);
      ASSERT_EQ(set->size(), 2);
      EXPECT_EQ(set->key(0), "cr\xe8me/caf\xe9");
      EXPECT_EQ(set->schema()[1].classes, (std::vector<std::string>{"cr\xe8me", "dog"}));
      EXPECT_EQ(image_of(*set, 0), kJpeg + "1");
      EXPECT_EQ(label_of(*set, 1), 1);
    });
  }
}

TEST(ImageFolder, EncodingIsThatOfAllImages) {
  const Folder folder;
  folder.write("png/a/1.png", kPng);
  folder.write("mixed/a/1.png", kPng);
  folder.write("mixed/b/1.jpg", kJpeg);
  EXPECT_EQ(open(folder / "png")->schema()[0].text(), "image: png");
  EXPECT_EQ(open(folder / "mixed")->schema()[0].text(), "image: raw");
}

TEST(ImageFolder, WithoutClassesThereAreNoLabels) {
  const Folder folder;
  folder.write("set/b.png", kPng + "b");
  folder.write("set/a.png", kPng + "a");
  const auto set = open(folder / "set");
  ASSERT_EQ(set->size(), 2);
  ASSERT_EQ(set->schema().size(), 1U);
  EXPECT_EQ(image_of(*set, 0), kPng + "a");
}

TEST(ImageFolder, SeesThatImagesCameOrWent) {
  const Folder folder;
  folder.write("set/a/1.jpg", kJpeg);
  EXPECT_EQ(open(folder / "set")->size(), 1);
  folder.write("set/a/2.jpg", kJpeg);
  EXPECT_EQ(open(folder / "set")->size(), 2);
  fs::create_directories(folder / "set/before a");
  folder.write("set/A/1.jpg", kJpeg);
  EXPECT_EQ(open(folder / "set")->schema()[1].classes, (std::vector<std::string>{"A", "a", "before a"}));
  fs::remove(folder / "set/a/1.jpg");
  EXPECT_EQ(open(folder / "set")->size(), 2);
}

TEST(ImageFolder, ReadsMoreFilesThanAreMapped) {
  const Folder folder;
  for (int i = 0; i < 1100; ++i) folder.write(fmt::format("set/a/{:04}.png", i), kPng + std::to_string(i));
  const auto set = open(folder / "set");
  ASSERT_EQ(set->size(), 1100);
  EXPECT_EQ(image_of(*set, 1099), kPng + "1099");
}

TEST(ImageFolder, IsWrittenAsItIsRead) {
  const Folder folder;
  folder.write("set/cat/1.jpg", kJpeg + "1");
  folder.write("set/cat/deep/2.png", kPng + "2");
  folder.write("set/dog/1.jpg", kJpeg + "3");
  fs::create_directories(folder / "set/cow");
  const auto set = open(folder / "set");
  write_all(*set, folder / "copy/", "folder");
  const auto copy = open(folder / "copy");
  expect_same(*copy, *set);
  EXPECT_EQ(copy->schema(), set->schema());
  EXPECT_EQ(copy->key(1), "cat/deep_2");
}

TEST(ImageFolder, ClassesWithoutNamesKeepTheirNumbers) {
  const Folder folder;
  const auto writer = format_named("folder").write(
      folder / "set", {{"label", Encoding::Values, c10::ScalarType::Long}, {"jpg", Encoding::Jpeg}}, {});
  for (const std::int64_t label : {11, 2}) {
    Sample sample;
    sample.clear(2);
    const std::vector<std::int64_t> labels = {label};
    sample.values = {value_of(labels, {}), value_of(kJpeg)};
    writer->add("../../escape", sample);
  }
  EXPECT_FALSE(fs::exists(folder / "set"));
  writer->finish();
  const auto set = open(folder / "set");
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(label_of(*set, 0), 2);
  EXPECT_EQ(label_of(*set, 1), 11);
  EXPECT_EQ(set->schema()[1].classes.at(11), "00011");
}

TEST(ImageFolder, NoClassLeadsOutOfTheFolder) {
  const Folder folder;
  Field label = {"label", Encoding::Values, c10::ScalarType::Long};
  label.classes = {"..", "T-shirt/top"};
  const auto writer = format_named("folder").write(folder / "set", {{"image", Encoding::Jpeg}, label}, {});
  Sample sample;
  sample.clear(2);
  const std::vector<std::int64_t> labels = {0};
  sample.values = {value_of(kJpeg), value_of(labels, {})};
  writer->add("..", sample);
  writer->finish();
  const auto set = open(folder / "set");
  EXPECT_EQ(set->key(0), "_../_..");
  EXPECT_EQ(set->schema()[1].classes, (std::vector<std::string>{"T-shirt_top", "_.."}));
}

TEST(ImageFolder, WriterRefusesWhatAFolderCannotHold) {
  const Folder folder;
  const Field image = {"image", Encoding::Jpeg}, label = {"label", Encoding::Values, c10::ScalarType::Long};
  const auto refused = [&](const Schema& schema) {
    return message_of([&] { format_named("folder").write(folder / "x", schema, {}); }, Fault::Usage);
  };
  EXPECT_TRUE(has(refused({image}), "not image: jpeg"));
  EXPECT_TRUE(has(refused({image, {"x", Encoding::Text}}), "image: jpeg, x: text"));
  Field twice = label;
  twice.classes = {"a/b", "a_b"};
  EXPECT_TRUE(has(refused({image, twice}), "two classes"));
  folder.write("full/a", "x");
  EXPECT_TRUE(has(message_of([&] { format_named("folder").write(folder / "full", {image, label}, {}); }, Fault::Usage),
                  "exists already"));
  const auto added = [&](const std::string& bytes, std::int64_t number, int times) {
    Field named = label;
    named.classes = {"a"};
    return message_of([&] {
      const auto writer = format_named("folder").write(folder / "y", {image, named}, {});
      Sample sample;
      sample.clear(2);
      const std::vector<std::int64_t> labels = {number};
      sample.values = {value_of(bytes), value_of(labels, {})};
      for (int i = 0; i < times; ++i) writer->add("key", sample);
    });
  };
  EXPECT_TRUE(has(added("GIF", 0, 1), "sample 'key' has no JPEG or PNG"));
  EXPECT_TRUE(has(added(kJpeg, 1, 1), "the label 1 is none of the 1 classes"));
  EXPECT_TRUE(has(added(kJpeg, 0, 2), "two samples would be a/key.jpg"));
  for (const auto& entry : fs::directory_iterator(folder / "")) EXPECT_EQ(entry.path().filename(), "full");
}

TEST(ImageFolder, NamesWhatIsWrong) {
  const Folder folder;
  folder.write("loose/a/1.jpg", kJpeg);
  folder.write("loose/2.jpg", kJpeg);
  EXPECT_TRUE(has(message_of([&] { open(folder / "loose"); }), "2.jpg lies beside the folders of classes"));
  folder.write("loose/3.jpg", kJpeg);
  EXPECT_TRUE(has(message_of([&] { open(folder / "loose"); }), "2.jpg and another image lie beside"));
  folder.write("loose/4.jpg", kJpeg);
  EXPECT_TRUE(has(message_of([&] { open(folder / "loose"); }), "2.jpg and 2 other images lie beside"));
  fs::create_directories(folder / "empty/a");
  EXPECT_TRUE(has(message_of([&] { open(folder / "empty"); }), "holds no samples"));
  if (geteuid() == 0) return;  // who may read everything
  folder.write("closed/a/1.jpg", kJpeg);
  fs::permissions(folder / "closed/a", fs::perms::none);
  EXPECT_TRUE(has(message_of([&] { open(folder / "closed"); }, Fault::Usage), "cannot read the folder"));
  fs::permissions(folder / "closed/a", fs::perms::owner_all);
}

}  // namespace
}  // namespace lockstep::data
