#include "lockstep/data/open.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

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

}  // namespace
}  // namespace lockstep::data
