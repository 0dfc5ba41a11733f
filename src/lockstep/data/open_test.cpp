#include "lockstep/data/open.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "lockstep/comm/thread_ranks.h"
#include "lockstep/data/cache.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using comm::Communicator;

/// As a user who may not read everything, while it lives: root may.
class Nobody {
 public:
  Nobody() : before_(geteuid()) {
    if (before_ == 0) became_ = seteuid(kNobody) == 0;
  }
  ~Nobody() {
    if (became_) (void)!seteuid(before_);
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  uid_t before_;
  bool became_ = false;
};

std::string refused(const std::string& source) {
  return message_of([&] { open(source); }, Fault::Usage);
}

TEST(Open, WhatMayNotBeReadIsNamedWithARemedy) {
  const Folder folder;
  folder.write("closed/data.mdb", "x");
  folder.write("secret.csv", "a\n1\n");
  folder.write("nameless", "x");
  fs::permissions(folder / "", fs::perms::all);
  fs::permissions(folder / "closed", fs::perms::none);
  for (const auto* name : {"secret.csv", "nameless"}) fs::permissions(folder / name, fs::perms::none);
  {
    const Nobody nobody;
    for (const auto* name : {"closed", "closed/data.mdb", "closed/blobs", "secret.csv", "nameless"}) {
      const auto message = refused(folder / name);
      EXPECT_TRUE(has(message, "cannot read " + folder / name + ": Permission denied; ask its owner")) << message;
    }
  }
  fs::permissions(folder / "closed", fs::perms::owner_all);
}

TEST(Open, LinksInACircleAreRefused) {
  const Folder folder;
  fs::create_symlink(folder / "b.csv", folder / "a.csv");
  fs::create_symlink(folder / "a.csv", folder / "b.csv");
  EXPECT_TRUE(has(refused(folder / "a.csv"), "cannot read " + folder / "a.csv"));
}

TEST(Open, PipesAreRefusedNotWaitedFor) {
  const Folder folder;
  for (const auto* name : {"x.csv", "x.csv.gz", "x"}) {
    ASSERT_EQ(mkfifo((folder / name).c_str(), 0600), 0);
    const auto message = refused(folder / name);
    EXPECT_TRUE(has(message, folder / name + " is neither an ordinary file nor a folder")) << message;
  }
  EXPECT_TRUE(has(message_of([&] { open_file(folder / "x.csv"); }, Fault::Usage), "not an ordinary file"));
}

TEST(Open, ArgumentsMayBeLongerThanNames) {
  EXPECT_EQ(open("blobs:samples=" + std::string(300, '0') + "7")->size(), 7);
}

TEST(Open, WhatIsNotThereIsRefusedWithACacheToo) {
  const Folder folder;
  for (const auto* mode : {"none", "node", "cluster"}) {
    const auto with = [&](const std::string& source) {
      return message_of(
          [&] { comm::run_ranks(2, [&](Communicator& world) { open_cached(source, {}, {.cache = mode}, world); }); },
          Fault::Usage);
    };
    EXPECT_TRUE(has(with("blob"), "did you mean 'blobs'?"));
    EXPECT_TRUE(has(with(folder / "part-{rank}.csv"), "use a pattern, " + folder / "part-*.csv"));
  }
}

TEST(OpenPart, EachRankHasItsFileAndAllHaveOneSchema) {
  const Folder folder;
  folder.write("part-0.csv", "a,b\n1,x\n2,y\n");
  folder.write("part-1.csv", "a,b\n0.5,z\n");
  folder.write("part-2.csv", "a,b\n3,\n4,\n5,\n");
  std::mutex mutex;
  std::vector<Schema> schemas;
  comm::run_ranks(3, [&](Communicator& world) {
    const auto set = open_part(folder / "part-{rank}.csv", world);
    EXPECT_EQ(set->size(), std::vector<std::int64_t>({2, 1, 3})[static_cast<std::size_t>(world.rank())]);
    Sample sample;
    set->read(0, sample);
    const double first = numbers_of<double>(sample.values.at(0)).at(0);
    EXPECT_EQ(first, std::vector<double>({1, 0.5, 3})[static_cast<std::size_t>(world.rank())]);
    const std::lock_guard lock(mutex);
    schemas.push_back(set->schema());
  });
  ASSERT_EQ(schemas.size(), 3U);
  EXPECT_EQ(schemas[0][0].text(), "a: float64");
  EXPECT_EQ(schemas[0], schemas[1]);
  EXPECT_EQ(schemas[0], schemas[2]);
  EXPECT_EQ(schemas[0], open(folder / "part-*.csv")->schema());
}

TEST(OpenPart, OfARankMayBeWithoutRows) {
  const Folder folder;
  folder.write("part-0.csv", "a,b\n");
  folder.write("part-1.csv", "a,b\n0.5,z\n");
  comm::run_ranks(2, [&](Communicator& world) {
    const auto set = open_part(folder / "part-{rank}.csv", world);
    EXPECT_EQ(set->size(), world.rank());
    EXPECT_EQ(set->schema()[0].text(), "a: float64");
  });
}

TEST(OpenPart, NeedsAsManyRanksAsFiles) {
  const Folder folder;
  folder.write("part-0.csv", "a\n1\n");
  folder.write("part-1.csv", "a\n1\n");
  const auto with = [&](int ranks, const std::string& name, Fault fault) {
    return message_of([&] { comm::run_ranks(ranks, [&](Communicator& world) { open_part(folder / name, world); }); },
                      fault);
  };
  EXPECT_TRUE(has(with(3, "part-{rank}.csv", Fault::Usage), "there are 2 files and 3 ranks"));
  EXPECT_TRUE(has(with(1, "part-{rank}.csv", Fault::Usage), "there are 2 files and 1 ranks"));
  folder.write("from-1.csv", "a\n1\n");
  EXPECT_TRUE(has(with(1, "from-{rank}.csv", Fault::Usage), "numbered from 0"));
  folder.write("part-1.csv", "b\n1\n");
  EXPECT_TRUE(has(with(2, "part-{rank}.csv", Fault::Data), "files have different"));
}

TEST(OpenPart, OneSourceIsCutIntoRuns) {
  const Folder folder;
  const auto path = folder.write("x.csv", "a\n0\n1\n2\n3\n4\n");
  comm::run_ranks(2, [&](Communicator& world) {
    const auto set = open_part(path, world);
    Sample sample;
    set->read(0, sample);
    EXPECT_EQ(set->size(), world.rank() == 0 ? 2 : 3);
    EXPECT_EQ(numbers_of<std::int64_t>(sample.values.at(0)).at(0), world.rank() == 0 ? 0 : 2);
  });
}

}  // namespace
}  // namespace lockstep::data
