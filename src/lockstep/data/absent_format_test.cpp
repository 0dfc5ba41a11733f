#include "lockstep/data/absent_format.h"

#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

const FormatRegistry::Add registered{"absent", "For this test", [] {
                                       return std::make_unique<AbsentFormat>(
                                           "Absent", std::vector<std::string>{".absent"}, "apt install libabsent-dev");
                                     }};

TEST(AbsentFormat, SaysWhatToInstall) {
  const Folder folder;
  const std::string wanted = "this build is without Absent; apt install libabsent-dev and build again";
  const std::string path = folder.write("x.absent", "bytes");
  EXPECT_TRUE(has(message_of([&] { open(path); }, Fault::Usage), wanted));
  EXPECT_TRUE(has(message_of([&] { format_named("absent").write(path, {}, {}); }, Fault::Usage), wanted));
}

TEST(AbsentFormat, EveryFormatIsKnownWithoutItsEngine) {
  for (const std::string name : {"hdf5", "lmdb", "parquet"}) {
    EXPECT_FALSE(format_named(name).extensions().empty()) << name;
  }
  const Folder folder;
  const auto refused = [&](const std::string& format, const std::string& engine) {
    const auto message = message_of([&] { format_named(format).write(folder / "x", {}, {}); }, Fault::Usage);
    EXPECT_TRUE(has(message, "this build is without " + engine)) << message;
  };
  if (!LOCKSTEP_HAS_HDF5) refused("hdf5", "HDF5");
  if (!LOCKSTEP_HAS_LMDB) refused("lmdb", "LMDB");
  if (!LOCKSTEP_HAS_ARROW) refused("parquet", "Arrow");
}

}  // namespace
}  // namespace lockstep::data
