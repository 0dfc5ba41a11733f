#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/core/cgroup.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/log.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/registry.h"
#include "lockstep/core/testing.h"
#include "lockstep/core/text.h"

namespace lockstep {
namespace {

using Strings = std::vector<std::string>;
using test::message_of;
using test::TemporaryFolder;

/// Sets a variable of the environment (or removes it) and puts it back.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Environment() { set(old_ ? old_->c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const char* value) { value == nullptr ? unsetenv(name_) : setenv(name_, value, 1); }
  const char* name_;
  std::optional<std::string> old_;
};

TEST(ParseBytes, Units) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("123"), 123);
  EXPECT_EQ(parse_bytes("7B"), 7);
  EXPECT_EQ(parse_bytes("64KiB"), 65536);
  EXPECT_EQ(parse_bytes("3MiB"), 3 * 1048576);
  EXPECT_EQ(parse_bytes("2GiB"), 2147483648);
  EXPECT_EQ(parse_bytes("1TiB"), 1099511627776);
  EXPECT_EQ(parse_bytes("5KB"), 5000);
  EXPECT_EQ(parse_bytes("5MB"), 5000000);
  EXPECT_EQ(parse_bytes("5GB"), 5000000000);
  EXPECT_EQ(parse_bytes("5TB"), 5000000000000);
  EXPECT_EQ(parse_bytes("64 kib"), 65536);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1610612736);
  EXPECT_EQ(parse_bytes("0.5KiB"), 512);
}

TEST(ParseBytes, IsExactForWholeNumbers) {
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993);
  EXPECT_EQ(parse_bytes("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
}

TEST(ParseBytes, Refuses) {
  for (const char* bad : {"", "MiB", "-1", "-1KiB", "1XiB", "1 2", "1.2.3", ".", "1e3", "9223372036854775808",
                          "9000000TiB", "99999999999999.5TiB", "1KiBB", "0x10", " 1", "1KiB "}) {
    EXPECT_NE(message_of([&] { parse_bytes(bad); }).find("'" + std::string(bad) + "' is not a size"), std::string::npos)
        << bad;
  }
}

TEST(FormatBytes, LargestUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(65536), "64 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(1048576 + 10486), "1.01 MiB");
  EXPECT_EQ(format_bytes(100LL << 30), "100 GiB");
  EXPECT_EQ(format_bytes(3LL << 40), "3 TiB");
  EXPECT_EQ(format_bytes(5LL << 50), "5120 TiB");
  EXPECT_EQ(format_bytes(-65536), "-64 KiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::int64_t>::min()), "-8388608 TiB");
}

TEST(FormatBytes, RoundTrips) {
  for (const std::int64_t bytes : {1LL, 1000LL, 1024LL, 1LL << 20, 5LL << 30, 7LL << 40}) {
    EXPECT_EQ(parse_bytes(format_bytes(bytes)), bytes);
  }
}

TEST(FormatSeconds, ThreeDigits) {
  EXPECT_EQ(format_seconds(3.2e-6), "3.20 us");
  EXPECT_EQ(format_seconds(3.2e-5), "32.0 us");
  EXPECT_EQ(format_seconds(3.2e-4), "320 us");
  EXPECT_EQ(format_seconds(5e-9), "5.00 ns");
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(1), "1.00 s");
  EXPECT_EQ(format_seconds(59.94), "59.9 s");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(-2.5e-3), "-2.50 ms");
}

TEST(FormatSeconds, RoundsIntoTheNextUnit) {
  EXPECT_EQ(format_seconds(9.999e-6), "10.0 us");
  EXPECT_EQ(format_seconds(99.99e-6), "100 us");
  EXPECT_EQ(format_seconds(999.9e-6), "1.00 ms");
  EXPECT_EQ(format_seconds(0.9999), "1.00 s");
}

TEST(FormatSeconds, LongTimes) {
  EXPECT_EQ(format_seconds(119), "119 s");
  EXPECT_EQ(format_seconds(119.7), "2m00s");
  EXPECT_EQ(format_seconds(125), "2m05s");
  EXPECT_EQ(format_seconds(3599.6), "1h00m00s");
  EXPECT_EQ(format_seconds(3725), "1h02m05s");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "inf s");
  EXPECT_EQ(format_seconds(std::nan("")), "nan s");
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("a,b,c", ','), (Strings{"a", "b", "c"}));
  EXPECT_EQ(split(",a,,b,", ','), (Strings{"", "a", "", "b", ""}));
  EXPECT_EQ(split("a", ','), (Strings{"a"}));
  EXPECT_EQ(split(",", ','), (Strings{"", ""}));
  EXPECT_EQ(split("", ','), Strings{});
}

TEST(Join, IsTheInverse) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "", "b"}, ", "), "a, , b");
  EXPECT_EQ(join(split("x.y..z", '.'), "."), "x.y..z");
}

TEST(ParseInteger, Range) {
  EXPECT_EQ(parse_integer("n", "5", 1, 10), 5);
  EXPECT_EQ(parse_integer("n", "1", 1, 10), 1);
  EXPECT_EQ(parse_integer("n", "10", 1, 10), 10);
  EXPECT_EQ(parse_integer("n", "-3", -5, 0), -3);
  EXPECT_EQ(message_of([] { parse_integer("ranks", "0", 1, 10); }),
            "ranks is '0', expected a whole number from 1 to 10");
  for (const char* bad : {"", "11", "x", "5x", " 5", "5 ", "1.0", "+5", "99999999999999999999"}) {
    EXPECT_NE(message_of([&] { parse_integer("ranks", bad, 1, 10); }), "") << bad;
  }
}

TEST(Proposal, NearestName) {
  const Strings names{"momentum", "lr", "weight_decay", "optimizer.warmup"};
  EXPECT_EQ(proposal("momentom", names), "; did you mean 'momentum'?");
  EXPECT_EQ(proposal("momnetum", names), "; did you mean 'momentum'?");
  EXPECT_EQ(proposal("lrr", names), "; did you mean 'lr'?");
  EXPECT_EQ(proposal("rl", names), "; did you mean 'lr'?") << "a swap is one slip";
  EXPECT_EQ(proposal("LR", names), "; did you mean 'lr'?");
  EXPECT_EQ(proposal("weightdecay", names), "; did you mean 'weight_decay'?");
  EXPECT_EQ(proposal("warmup", names), "; did you mean 'optimizer.warmup'?");
}

TEST(Proposal, TheNearerOfTwo) {
  EXPECT_EQ(proposal("betas2", {"beta", "betas1", "betas22"}), "; did you mean 'betas1'?");
  EXPECT_EQ(proposal("epoch", {"epsilon", "epochs"}), "; did you mean 'epochs'?");
}

TEST(Proposal, ListsWhenNothingIsNear) {
  EXPECT_EQ(proposal("zzz", {"sgd", "adam"}), "; known: sgd, adam");
  EXPECT_EQ(proposal("optimizer.momentum", {"optimizer.betas"}), "; known: optimizer.betas");
  EXPECT_EQ(proposal("optimiser.lr", {"optimizer.lr"}), "; did you mean 'optimizer.lr'?");
  EXPECT_EQ(proposal("", {"sgd"}), "; known: sgd");
  EXPECT_EQ(proposal("x", {}), "");
  const auto many = proposal("zzz", Strings(100, "alpha"));
  EXPECT_EQ(std::count(many.begin(), many.end(), ','), 24);
  EXPECT_TRUE(many.ends_with(", …"));
}

// The reference values of XXH3 for empty input.
TEST(Hash, KnownValues) {
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2U);
  EXPECT_EQ(Hasher().hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, DependsOnBytesAndSeed) {
  EXPECT_EQ(hash64("abc"), hash64(std::string("abc")));
  EXPECT_NE(hash64("abc"), hash64("abd"));
  EXPECT_NE(hash64("abc"), hash64("abc", 1));
  EXPECT_NE(hash64(std::string_view("a\0", 2)), hash64("a"));
}

TEST(Hash, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 31);
  Hasher whole, pieces;
  whole.update(text.data(), text.size());
  for (std::size_t i = 0, size = 1; i < text.size(); i += size, size = size * 2 % 509) {
    pieces.update(text.data() + i, std::min(size, text.size() - i));
    pieces.update(nullptr, 0);
  }
  EXPECT_EQ(whole.hex(), pieces.hex());
  EXPECT_EQ(whole.hex(), whole.hex()) << "reading does not change it";
  EXPECT_EQ(whole.hex().size(), 32U);
  pieces.update("x", 1);
  EXPECT_NE(whole.hex(), pieces.hex());
}

TEST(ErrorType, OfAnyException) {
  const auto error_of = [](const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      return current_error();
    }
    return Error(Fault::Internal, "nothing was thrown", std::source_location::current());
  };
  EXPECT_STREQ(error_of([] { fail(Fault::Data, "torn"); }).what(), "torn");
  EXPECT_EQ(error_of([] { fail(Fault::Data, "torn"); }).fault(), Fault::Data);
  EXPECT_STREQ(error_of([] { throw std::runtime_error("short\nlong\nlonger"); }).what(), "short");
  EXPECT_STREQ(error_of([] { throw std::runtime_error(""); }).what(), "an exception of the type std::runtime_error");
  EXPECT_STREQ(error_of([] { throw 42; }).what(), "an exception of the type int");
}

TEST(ErrorType, CarriesContextInnermostFirst) {
  Error error(Fault::Data, "bad header", std::source_location::current());
  EXPECT_STREQ(error.what(), "bad header");
  error.during("loading shard 3").during("opening mnist");
  EXPECT_STREQ(error.what(), "bad header (while loading shard 3, while opening mnist)");
  EXPECT_EQ(error.message(), "bad header");
  EXPECT_EQ(error.context(), (Strings{"loading shard 3", "opening mnist"}));
  EXPECT_EQ(error.exit_code(), exit_code::kFailed);
  EXPECT_EQ(Error(Fault::Usage, "", std::source_location::current()).exit_code(), exit_code::kUsage);
}

TEST(ErrorType, FailNamesItsCaller) {
  const auto line = std::source_location::current().line();
  try {
    fail(Fault::Comm, "gone");
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Comm);
    EXPECT_EQ(e.where().line(), line + 2);
  }
  EXPECT_EQ(message_of([] { fail_errno("cannot open x", ENOENT); }, Fault::Io),
            "cannot open x: No such file or directory");
}

struct CountTraits {
  using Raw = int;
  static inline int released = 0;
  static Raw empty() noexcept { return 0; }
  static void release(Raw raw) noexcept { released += raw; }
};

TEST(HandleType, ReleasesOnce) {
  CountTraits::released = 0;
  {
    Handle<CountTraits> a(1);
    Handle<CountTraits> b(std::move(a));
    EXPECT_FALSE(a);
    EXPECT_TRUE(b);
    Handle<CountTraits> c;
    c = std::move(b);
    EXPECT_EQ(c.get(), 1);
    EXPECT_EQ(CountTraits::released, 0);
  }
  EXPECT_EQ(CountTraits::released, 1);
}

TEST(HandleType, ResetReleasesNowAndTakeNever) {
  CountTraits::released = 0;
  Handle<CountTraits> handle(10);
  handle.reset();
  EXPECT_EQ(CountTraits::released, 10);
  EXPECT_FALSE(handle);
  handle.reset();
  EXPECT_EQ(CountTraits::released, 10);
  Handle<CountTraits> given(5);
  EXPECT_EQ(given.take(), 5);
  EXPECT_FALSE(given);
  EXPECT_EQ(CountTraits::released, 10);
}

TEST(HandleType, ClosesFileDescriptors) {
  int raw = -1;
  {
    const FileDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file);
    raw = file.get();
    EXPECT_NE(fcntl(raw, F_GETFD), -1);
  }
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

using Numbers = Registry<int(int)>;
const Numbers::Add doubler{"double", "Twice as much", [](int x) { return 2 * x; }};
const Numbers::Add negator{"negate", "The other sign", [](int x) { return -x; }};

TEST(RegistryType, FindsByName) {
  const auto& numbers = Numbers::instance();
  EXPECT_EQ(numbers.at("function", "double")(21), 42);
  EXPECT_EQ(numbers.at("function", "negate")(1), -1);
  EXPECT_TRUE(numbers.contains("double"));
  EXPECT_FALSE(numbers.contains("triple"));
  EXPECT_EQ(numbers.names(), (Strings{"double", "negate"}));
  EXPECT_EQ(numbers.entries().at("negate").description, "The other sign");
  EXPECT_EQ(message_of([&] { numbers.at("function", "doubel"); }), "unknown function 'doubel'; did you mean 'double'?");
}

TEST(RegistryType, RefusesASecondOfTheSameName) {
  EXPECT_EQ(message_of([] { const Numbers::Add again{"double", "Also twice", [](int x) { return x + x; }}; },
                       Fault::Internal),
            "'double' is registered twice: 'Twice as much' and 'Also twice'");
  EXPECT_EQ(Numbers::instance().at("function", "double")(21), 42);
}

TEST(Log, PutsTheRankInFront) {
  const auto level = log().level();
  log().set_level(spdlog::level::info);
  testing::internal::CaptureStderr();
  log().info("alone");
  set_log_rank(3, 128);
  log().warn("loss is {}", 0.5);
  log().debug("unseen");
  const auto text = testing::internal::GetCapturedStderr();
  log().set_level(level);
  const auto lines = split(text, '\n');
  ASSERT_EQ(lines.size(), 3U) << text;
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(lines[0].front()))) << text;
  EXPECT_TRUE(lines[0].ends_with(" info alone")) << text;
  EXPECT_TRUE(lines[1].starts_with("[  3] ")) << text;
  EXPECT_TRUE(lines[1].ends_with(" warning loss is 0.5")) << text;
  EXPECT_EQ(lines[2], "");
}

// In processes of their own, because the level is read once.
TEST(LogDeathTest, LevelFromTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto level_with = [](const char* value) {
    setenv("LOCKSTEP_LOG", value, 1);
    std::exit(static_cast<int>(log().level()));
  };
  EXPECT_EXIT(level_with("trace"), testing::ExitedWithCode(spdlog::level::trace), "");
  EXPECT_EXIT(level_with("warn"), testing::ExitedWithCode(spdlog::level::warn), "");
  EXPECT_EXIT(level_with("error"), testing::ExitedWithCode(spdlog::level::err), "");
  EXPECT_EXIT(level_with("off"), testing::ExitedWithCode(spdlog::level::off), "");
  EXPECT_EXIT(level_with(""), testing::ExitedWithCode(spdlog::level::info), "");
  EXPECT_EXIT(level_with("loud"), testing::ExitedWithCode(spdlog::level::info),
              "LOCKSTEP_LOG is 'loud', expected trace");
}

const char kMountsV2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const char kMountsV1[] =
    "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:7 master:1 - cgroup cgroup rw,cpu,cpuacct\n";

TEST(Cgroup, NoneMeansUnlimited) {
  const TemporaryFolder root;
  EXPECT_EQ(cgroup_cpu_limit(root.path()), std::nullopt);
}

TEST(Cgroup, Version2TakesTheTightestOnTheWayUp) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo", kMountsV2);
  root.write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  root.write("sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/slurm/job_7/cpu.max", "350000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 3.5);
  root.write("sys/fs/cgroup/cpu.max", "200000 50000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 3.5);
  root.write("sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 1.5);
  root.write("sys/fs/cgroup/slurm/job_8/cpu.max", "1000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 1.5) << "another job's limit is not ours";
}

TEST(Cgroup, Version1) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo", kMountsV1);
  root.write("proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:/job/step\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 2.5);
}

TEST(Cgroup, BothVersionsMixed) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo",
             std::string(kMountsV1) + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/\n0::/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 4.0);
  root.write("sys/fs/cgroup/unified/cpu.max", "300000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 3.0);
}

TEST(Cgroup, ContainerThatSeesItsGroupAtTheMountPoint) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/docker/abc/inner\n");
  root.write("sys/fs/cgroup/inner/cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 2.0);
  root.write("proc/self/cgroup", "0::/docker/abc\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 1.0);
  root.write("proc/self/cgroup", "0::/docker/abcdef\n");
  EXPECT_EQ(cgroup_cpu_limit(root.path()), 1.0);
}

TEST(Cgroup, NonsenseMeansUnlimited) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo", std::string("garbage\n\n - \n1 2 - cgroup2\n") + kMountsV2);
  root.write("proc/self/cgroup", "garbage\n:\n\n0::\n0::relative/path\n");
  for (const char* text : {"", "x y\n", "100000\n", "100000 0\n", "-5 100000\n", "0 100000\n"}) {
    root.write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(cgroup_cpu_limit(root.path()), std::nullopt) << text;
  }
}

TEST(Cgroup, MemoryVersion2) {
  const TemporaryFolder root;
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
  root.write("proc/self/mountinfo", kMountsV2);
  root.write("proc/self/cgroup", "0::/slurm/job_7\n");
  root.write("sys/fs/cgroup/slurm/job_7/memory.max", "max\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/slurm/memory.max", "8589934592\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::int64_t{1} << 33);
  root.write("sys/fs/cgroup/slurm/job_7/memory.max", "1073741824\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::int64_t{1} << 30);
}

TEST(Cgroup, MemoryVersion1) {
  const TemporaryFolder root;
  root.write("proc/self/mountinfo",
             std::string(kMountsV1) + "33 31 0:30 / /sys/fs/cgroup/memory rw shared:8 - cgroup cgroup rw,memory\n");
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/job\n3:memory:/job/step\n");
  root.write("sys/fs/cgroup/memory/job/step/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::int64_t{1} << 31);
  EXPECT_EQ(cgroup_cpu_limit(root.path()), std::nullopt);
}

TEST(Cpu, ThisProcess) {
  const auto cpus = usable_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  EXPECT_GT(cpu_quota(), 0.0);
  EXPECT_LE(cpu_quota(), static_cast<double>(cpus.size()));
  std::vector<int> in_cores;
  int previous_node = 0;
  for (const auto& core : usable_cores()) {
    in_cores.insert(in_cores.end(), core.cpus.begin(), core.cpus.end());
    EXPECT_GE(core.numa_node, previous_node);
    previous_node = core.numa_node;
  }
  std::sort(in_cores.begin(), in_cores.end());
  EXPECT_EQ(in_cores, cpus) << "each CPU in one core";
}

TEST(Cpu, FairThreads) {
  EXPECT_GE(fair_threads(1), 1);
  EXPECT_LE(fair_threads(1), static_cast<int>(usable_cores().size()));
  EXPECT_EQ(fair_threads(1 << 20), 1);
  EXPECT_LE(fair_threads(2) * 2, std::max(fair_threads(1), 2));
  EXPECT_NE(message_of([] { fair_threads(0); }), "");
}

TEST(Cpu, BindToRestrictsTheThread) {
  const auto before = usable_cpus();
  std::thread([&] {
    bind_to({before.back()});
    EXPECT_EQ(usable_cpus(), std::vector<int>{before.back()});
    EXPECT_EQ(usable_cores().size(), 1U);
    EXPECT_EQ(fair_threads(1), 1);
    EXPECT_EQ(bind_plan("none", 1).at(0).cpus, std::vector<int>{before.back()});
  }).join();
  EXPECT_EQ(usable_cpus(), before) << "other threads are not touched";
}

TEST(Cpu, BindToRefuses) {
  EXPECT_NE(message_of([] { bind_to({}); }), "");
  EXPECT_NE(message_of([] { bind_to({-1}); }), "");
  EXPECT_NE(message_of([] { bind_to({100'000}); }, Fault::Io).find("CPUs 100000"), std::string::npos);
}

TEST(Cpu, Machine) {
  const auto& m = machine();
  EXPECT_FALSE(m.host.empty());
  EXPECT_FALSE(m.cpu_model.empty());
  EXPECT_FALSE(m.kernel.empty());
  EXPECT_GE(m.packages, 1);
  EXPECT_GE(m.cores, m.packages);
  EXPECT_GE(m.cpus, m.cores);
  EXPECT_GE(m.numa_nodes, 1);
  EXPECT_GT(m.memory_bytes, 1 << 20);
  EXPECT_GE(m.cpus, static_cast<int>(usable_cpus().size()));
  EXPECT_EQ(&m, &machine());
}

/// Two NUMA nodes of four cores with two threads each, numbered as most hosts do: cpu and cpu + 8.
std::vector<CpuCore> two_nodes() {
  std::vector<CpuCore> cores;
  for (int core = 0; core < 8; ++core) cores.push_back({core / 4, {core, core + 8}});
  return cores;
}

std::vector<std::vector<int>> plan(const std::string& mode, int ranks, const std::vector<CpuCore>& cores) {
  std::vector<std::vector<int>> result;
  for (const auto& slot : bind_plan(mode, ranks, cores)) result.push_back(slot.cpus);
  return result;
}

using Cpus = std::vector<std::vector<int>>;

TEST(BindPlan, CoresAreDividedFairlyAndContiguously) {
  EXPECT_EQ(plan("core", 4, two_nodes()), (Cpus{{0, 1, 8, 9}, {2, 3, 10, 11}, {4, 5, 12, 13}, {6, 7, 14, 15}}));
  EXPECT_EQ(plan("core", 8, two_nodes())[5], (std::vector<int>{5, 13}));
  EXPECT_EQ(plan("core", 1, two_nodes())[0].size(), 16U);
  EXPECT_EQ(plan("core", 3, two_nodes()), (Cpus{{0, 1, 8, 9}, {2, 3, 4, 10, 11, 12}, {5, 6, 7, 13, 14, 15}}));
}

TEST(BindPlan, SharesAreDistinctAndDifferByOneCoreAtMost) {
  for (int cores = 1; cores <= 9; ++cores) {
    std::vector<CpuCore> host;
    for (int core = 0; core < cores; ++core) host.push_back({0, {core}});
    for (int ranks = 1; ranks <= cores; ++ranks) {
      std::vector<int> all;
      std::size_t least = 99, most = 0;
      for (const auto& cpus : plan("core", ranks, host)) {
        all.insert(all.end(), cpus.begin(), cpus.end());
        least = std::min(least, cpus.size());
        most = std::max(most, cpus.size());
      }
      std::vector<int> expected(cores);
      for (int core = 0; core < cores; ++core) expected[core] = core;
      EXPECT_EQ(all, expected) << cores << " cores, " << ranks << " ranks";
      EXPECT_LE(most - least, 1U);
    }
  }
}

TEST(BindPlan, MoreRanksThanCoresTakeTurns) {
  const std::vector<CpuCore> host{{0, {0}}, {0, {1}}};
  EXPECT_EQ(plan("core", 5, host), (Cpus{{0}, {1}, {0}, {1}, {0}}));
}

TEST(BindPlan, Numa) {
  const std::vector<int> first{0, 1, 2, 3, 8, 9, 10, 11}, second{4, 5, 6, 7, 12, 13, 14, 15};
  EXPECT_EQ(plan("numa", 2, two_nodes()), (Cpus{first, second}));
  EXPECT_EQ(plan("numa", 4, two_nodes()), (Cpus{first, first, second, second}));
  EXPECT_EQ(plan("numa", 1, two_nodes())[0].size(), 16U);
  // One core of node 0 and three of node 2: three of four ranks live where the cores are.
  const std::vector<CpuCore> uneven{{0, {0}}, {2, {5}}, {2, {6}}, {2, {7}}};
  EXPECT_EQ(plan("numa", 4, uneven), (Cpus{{0}, {5, 6, 7}, {5, 6, 7}, {5, 6, 7}}));
}

TEST(BindPlan, None) {
  for (const auto& cpus : plan("none", 3, two_nodes())) EXPECT_EQ(cpus.size(), 16U);
  EXPECT_EQ(plan("none", 3, two_nodes()).size(), 3U);
}

TEST(BindPlan, Refuses) {
  EXPECT_EQ(message_of([] { bind_plan("cores", 1); }), "unknown binding 'cores'; did you mean 'core'?");
  EXPECT_NE(message_of([] { bind_plan("core", 0); }), "");
  EXPECT_NE(message_of([] { bind_plan("core", 1, {}); }, Fault::Internal), "");
}

TEST(BindPlan, OfThisHostUsesUsableCpusOnly) {
  const auto usable = usable_cpus();
  for (const char* mode : {"core", "numa", "none"}) {
    for (const auto& slot : bind_plan(mode, 3)) {
      ASSERT_FALSE(slot.cpus.empty());
      for (const int cpu : slot.cpus) EXPECT_TRUE(std::binary_search(usable.begin(), usable.end(), cpu)) << cpu;
    }
  }
}

int files_in(const TemporaryFolder& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(File, ReadWholeReadsAllOrThrows) {
  const TemporaryFolder root;
  const auto path = root.path() + "/file";
  for (const std::size_t bytes : {0, 1, 65536, 200'001}) {
    std::string text(bytes, 'x');
    if (bytes > 2) text[bytes / 2] = '\0';
    write_whole(path, text);
    EXPECT_EQ(read_whole(path), text) << bytes;
  }
  EXPECT_EQ(message_of([] { (void)read_whole("/no/such/file"); }, Fault::Io),
            "cannot read /no/such/file: No such file or directory");
  EXPECT_EQ(message_of([&] { (void)read_whole(root.path()); }, Fault::Io),
            "cannot read " + root.path() + ": Is a directory");
}

TEST(File, WriteWholeReplacesOrThrows) {
  const TemporaryFolder root;
  const auto path = root.path() + "/file";
  write_whole(path, "one");
  write_whole(path, "two");
  EXPECT_EQ(read_whole(path), "two");
  EXPECT_EQ(message_of([] { write_whole("/no/such/folder/file", "x"); }, Fault::Io),
            "cannot write /no/such/folder/file: No such file or directory");
  EXPECT_NE(message_of([&] { write_whole(root.path(), "x"); }, Fault::Io).find(root.path()), std::string::npos);
  EXPECT_EQ(files_in(root), 1);
}

TEST(File, BehindALinkOrAPipeIsWrittenNotReplaced) {
  const TemporaryFolder root;
  const std::string file = root.path() + "/file", link = root.path() + "/link", pipe = root.path() + "/pipe";
  std::ofstream(file) << "old";
  ASSERT_EQ(symlink(file.c_str(), link.c_str()), 0);
  write_whole(link, "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_whole(file), "new");

  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const FileDescriptor reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  check_can_write(pipe);
  write_whole(pipe, "through");
  char received[8] = {};
  EXPECT_EQ(read(reader.get(), received, sizeof received), 7);
  EXPECT_STREQ(received, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(File, InPiecesLeavesNothingWithoutCommit) {
  const TemporaryFolder root;
  const auto path = root.path() + "/file";
  write_whole(path, "old");
  {
    WholeFile file(path);
    file.write("ne");
    file.write("w");
    EXPECT_EQ(read_whole(path), "old");
  }
  EXPECT_EQ(read_whole(path), "old");
  EXPECT_EQ(files_in(root), 1);
  WholeFile file(path);
  file.write("ne");
  file.write("w");
  file.commit();
  EXPECT_EQ(read_whole(path), "new");
}

TEST(File, CheckCanWriteSaysSoBefore) {
  const TemporaryFolder root;
  EXPECT_NO_THROW(check_can_write(root.path() + "/file"));
  EXPECT_NO_THROW(check_can_write("file_here"));
  for (const std::string path : {"/no/such/folder/file", "/", ""}) {
    EXPECT_NE(message_of([&] { check_can_write(path); }).find("cannot write " + path), std::string::npos);
  }
  root.write("file", "");
  EXPECT_NE(message_of([&] { check_can_write(root.path() + "/file/x"); }).find("cannot write"), std::string::npos);
}

TEST(CacheFolder, FollowsXdg) {
  const TemporaryFolder root;
  const auto wanted = root.path() + "/deep/cache";
  const Environment xdg("XDG_CACHE_HOME", wanted.c_str());
  EXPECT_EQ(cache_folder(), wanted + "/lockstep");
  EXPECT_TRUE(std::filesystem::is_directory(wanted + "/lockstep"));
  EXPECT_EQ(cache_folder(), wanted + "/lockstep") << "an existing folder is fine";
}

TEST(CacheFolder, FallsBackToHome) {
  const TemporaryFolder root;
  const Environment home("HOME", root.path().c_str());
  for (const char* useless : {static_cast<const char*>(nullptr), "", "relative/path"}) {
    const Environment xdg("XDG_CACHE_HOME", useless);
    EXPECT_EQ(cache_folder(), root.path() + "/.cache/lockstep");
  }
  EXPECT_TRUE(std::filesystem::is_directory(root.path() + "/.cache/lockstep"));
}

TEST(CacheFolder, NamesThePlaceThatCannotBeMade) {
  const TemporaryFolder root;
  root.write("file", "");
  const auto wanted = root.path() + "/file";
  const Environment xdg("XDG_CACHE_HOME", wanted.c_str());
  EXPECT_NE(message_of([] { cache_folder(); }, Fault::Io).find(wanted + "/lockstep"), std::string::npos);
}

TEST(OwnProgram, IsThisTest) { EXPECT_EQ(own_program().filename(), "core_test"); }

}  // namespace
}  // namespace lockstep
