#include "lockstep/parallel/offload.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/testing.h"

namespace lockstep::parallel {
namespace {

namespace fs = std::filesystem;

TEST(OffloadFile, ReadsWhatWasWrittenBefore) {
  constexpr int kWords = 1000;
  const test::TemporaryFolder folder;
  OffloadFile file(folder.path(), kWords * 4);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  std::vector<int> last(kWords, -1), numbers(kWords), again(kWords);
  file.wait(file.read((kWords - 1) * 4, &last.back(), 4));
  EXPECT_EQ(last.back(), 0);
  std::iota(numbers.begin(), numbers.end(), 0);
  OffloadFile::Ticket ticket = 0;
  for (int word = 0; word < kWords; ++word) {
    const auto place = static_cast<std::size_t>(word);
    file.write(word * 4, &numbers[place], 4);
    ticket = file.read(word * 4, &again[place], 4);
  }
  file.wait(ticket);
  EXPECT_EQ(again, numbers);
  EXPECT_THROW(file.read(kWords * 4 - 3, last.data(), 4), Error);
}

TEST(OffloadFile, SaysHowMuchRoomItNeeds) {
  const test::TemporaryFolder folder;
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "a file system cannot be mounted here";
  const std::string message = test::message_of([&] { OffloadFile(folder.path(), 4 << 20); }, Fault::Io);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  umount2(folder.path().c_str(), MNT_DETACH);
  EXPECT_EQ(message, "parallel.offload needs 4194304 bytes (4 MiB) in " + folder.path() +
                         " for what this rank keeps there, which has 1 MiB left: No space left on device; make room, "
                         "or set parallel.offload_folder to a folder on a larger local disk");
}

TEST(OffloadFile, SaysThatThereIsNoSuchFolder) {
  const std::string message = test::message_of([] { OffloadFile("/nowhere", 1); });
  EXPECT_EQ(message,
            "parallel.offload needs /nowhere: No such file or directory; set parallel.offload_folder to a folder of "
            "yours on a local disk");
}

/// Makes the one file without a name that this process has in the folder shorter.
void cut_short(const std::string& folder, off_t bytes) {
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!fs::read_symlink(entry.path(), gone).string().starts_with(folder)) continue;
    const FileDescriptor file(open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(ftruncate(file.get(), bytes), 0);
    ++found;
  }
  ASSERT_EQ(found, 1);
}

TEST(OffloadFile, NamesBytesThatAreNotThere) {
  const test::TemporaryFolder folder;
  OffloadFile file(folder.path(), 4096);
  cut_short(folder.path(), 1000);
  std::vector<char> memory(4096, 'x');
  const auto first = file.read(500, memory.data(), 1000);
  file.write(0, memory.data(), 4096);  // is not done any more
  const std::string says = "cannot read bytes 1000 to 1500 of the file of parallel.offload in " + folder.path() +
                           ": it ends before; go on from the last checkpoint with parallel.offload_folder on "
                           "another disk";
  EXPECT_EQ(test::message_of([&] { file.wait(first); }, Fault::Io), says);
  EXPECT_EQ(test::message_of([&] { file.wait(file.read(0, memory.data(), 1)); }, Fault::Io), says);
}

/// Two units, of different types, in pieces that do not divide them.
class Pieces : public testing::Test {
 protected:
  static constexpr std::int64_t kPieceBytes = 64;
  Offload make(bool weights, int states) const {
    return {{.folder = folder_.path(), .weights = weights, .states = states, .piece_bytes = kPieceBytes},
            {{100, at::kFloat}, {7, at::kDouble}, {33, at::kDouble}}};
  }
  const test::TemporaryFolder folder_;
};

TEST_F(Pieces, AreAllChangedOnce) {
  Offload offload = make(true, 2);
  EXPECT_EQ(offload.bytes(), 3 * (400 + 56 + 264));
  EXPECT_EQ(offload.memory_bytes(), 2 * 3 * kPieceBytes);
  for (int step = 0; step < 3; ++step) {
    offload.update([](const Offload::Piece& piece) {
      for (std::size_t part = 0; part < piece.parts.size(); ++part) {
        for (std::int64_t i = 0; i < piece.count; ++i) {
          const double more = static_cast<double>(part) * 1000 + static_cast<double>(piece.first + i);
          if (piece.unit == 0) {
            reinterpret_cast<float*>(piece.parts[part])[i] += static_cast<float>(more);
          } else {
            reinterpret_cast<double*>(piece.parts[part])[i] += more;
          }
        }
      }
    });
  }
  const auto expected = [](int part, std::int64_t first, std::int64_t count, at::ScalarType type) {
    return 3 * (part * 1000 + torch::arange(first, first + count, type));
  };
  EXPECT_TRUE(torch::equal(offload.read(0, Offload::kWeights, 0, 100), expected(0, 0, 100, at::kFloat)));
  EXPECT_TRUE(torch::equal(offload.read(0, offload.state(1), 17, 50), expected(2, 17, 50, at::kFloat)));
  EXPECT_TRUE(torch::equal(offload.read(2, offload.state(0), 0, 33), expected(1, 0, 33, at::kDouble)));
}

TEST_F(Pieces, AreWhatWasWrittenToThem) {
  Offload offload = make(false, 1);
  offload.write(1, offload.state(0), 2, torch::full({3}, 5.0, at::kDouble));
  const at::Tensor all = torch::empty({7}, at::kDouble);
  offload.wait(offload.begin_read(1, offload.state(0), all));
  EXPECT_TRUE(torch::equal(all, torch::tensor({0, 0, 5, 5, 5, 0, 0}, at::kDouble)));
  double sum = 0;
  offload.update([&](const Offload::Piece& piece) {
    const auto* values = reinterpret_cast<const double*>(piece.parts[0]);
    if (piece.unit == 1) sum = std::accumulate(values, values + piece.count, sum);
  });
  EXPECT_EQ(sum, 15);
}

TEST_F(Pieces, EndWithTheError) {
  Offload offload = make(true, 1);
  cut_short(folder_.path(), 1000);
  const std::string message = test::message_of([&] { offload.update([](const Offload::Piece&) {}); }, Fault::Io);
  EXPECT_NE(message.find("cannot read bytes"), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep::parallel
