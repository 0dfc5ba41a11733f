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

}  // namespace
}  // namespace lockstep::data
