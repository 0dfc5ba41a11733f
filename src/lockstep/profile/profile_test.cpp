#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/testing.h"
#include "lockstep/profile/span.h"
#include "lockstep/profile/trace.h"

namespace lockstep::profile {
namespace {

using nlohmann::json;

std::int64_t realtime_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// Recording is on, and nothing is recorded yet.
class Recording : public testing::Test {
 protected:
  Recording() {
    clear();
    enable(true);
  }
  ~Recording() override {
    enable(false);
    clear();
    set_ring_events(1 << 16);
  }

  /// Runs `work` in a thread of its own called `name`, and waits for its end.
  template <class Work>
  static void in_thread(const std::string& name, Work work) {
    std::thread([&] {
      name_thread(name);
      work();
    }).join();
  }

  static ThreadEvents events_of(const ProcessEvents& process, const std::string& thread_name) {
    for (const auto& thread : process.threads) {
      if (thread.name == thread_name) return thread;
    }
    ADD_FAILURE() << "no thread " << thread_name;
    return {};
  }
};

TEST_F(Recording, SpansNest) {
  in_thread("nest", [] {
    const Span outer("outer");
    {
      const Span inner("inner", 4096);
    }
    const Span sibling("sibling", -1);
  });
  const auto process = snapshot();
  const auto events = events_of(process, "nest").events;
  ASSERT_EQ(events.size(), 3U);
  const auto& inner = events[0];
  const auto& sibling = events[1];
  const auto& outer = events[2];
  EXPECT_EQ(process.names.at(inner.name), "inner");
  EXPECT_EQ(process.names.at(sibling.name), "sibling");
  EXPECT_EQ(process.names.at(outer.name), "outer");
  EXPECT_EQ(inner.bytes, 4096);
  EXPECT_EQ(sibling.bytes, -1);
  EXPECT_EQ(outer.bytes, 0);
  EXPECT_LE(outer.start_ns, inner.start_ns);
  EXPECT_LE(inner.start_ns + inner.duration_ns, sibling.start_ns);
  EXPECT_LE(sibling.start_ns + sibling.duration_ns, outer.start_ns + outer.duration_ns);
}

TEST_F(Recording, TimesAreThoseOfTheWallClock) {
  const auto before = realtime_ns();
  in_thread("clock", [] {
    const Span span("sleep");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  const auto after = realtime_ns();
  const auto events = events_of(snapshot(), "clock").events;
  ASSERT_EQ(events.size(), 1U);
  constexpr std::int64_t kSlackNs = 1'000'000;
  EXPECT_GE(events[0].duration_ns, 20'000'000 - kSlackNs);
  EXPECT_GE(events[0].start_ns, before - kSlackNs);
  EXPECT_LE(events[0].start_ns + events[0].duration_ns, after + kSlackNs);
}

TEST_F(Recording, MarksAndCounters) {
  in_thread("kinds", [] {
    mark("epoch");
    counter("loss", 0.25);
    counter("loss", -1e300);
  });
  const auto process = snapshot();
  const auto events = events_of(process, "kinds").events;
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].kind, EventKind::Mark);
  EXPECT_EQ(process.names.at(events[0].name), "epoch");
  EXPECT_EQ(events[1].kind, EventKind::Counter);
  EXPECT_EQ(process.names.at(events[1].name), "loss");
  EXPECT_EQ(events[1].value, 0.25);
  EXPECT_EQ(events[2].value, -1e300);
  EXPECT_EQ(events[1].name, events[2].name);
  EXPECT_LE(events[0].start_ns, events[1].start_ns);
}

TEST_F(Recording, OffRecordsNothing) {
  enable(false);
  EXPECT_FALSE(enabled());
  in_thread("off", [] {
    const Span span("unseen");
    mark("unseen");
    counter("unseen", 1);
  });
  EXPECT_TRUE(events_of(snapshot(), "off").events.empty());
  enable(true);
  EXPECT_TRUE(enabled());
}

TEST_F(Recording, SpanOpenWhileSwitched) {
  in_thread("switched", [] {
    {
      const Span started_on("started on");
      enable(false);
      const Span started_off("started off");
      enable(true);
    }
  });
  const auto process = snapshot();
  const auto events = events_of(process, "switched").events;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(process.names.at(events[0].name), "started on");
}

TEST_F(Recording, RingKeepsTheNewest) {
  set_ring_events(64);
  in_thread("ring", [] {
    for (int i = 0; i < 100; ++i) counter("i", i);
  });
  const auto thread = events_of(snapshot(), "ring");
  ASSERT_EQ(thread.events.size(), 63U);
  EXPECT_EQ(thread.overwritten, 37);
  for (std::size_t i = 0; i < 63; ++i) EXPECT_EQ(thread.events[i].value, 37.0 + static_cast<double>(i));
}

TEST_F(Recording, RingIsRoundedUp) {
  set_ring_events(100);
  in_thread("rounded", [] {
    for (int i = 0; i < 200; ++i) mark("x");
  });
  EXPECT_EQ(events_of(snapshot(), "rounded").events.size(), 127U);
  EXPECT_THROW(set_ring_events(1), Error);
  EXPECT_THROW(set_ring_events(std::int64_t{1} << 40), Error);
}

TEST_F(Recording, ClearForgets) {
  set_ring_events(64);
  std::promise<void> cleared, marked;
  std::thread worker([&] {
    name_thread("cleared");
    for (int i = 0; i < 80; ++i) mark("old");
    marked.set_value();
    cleared.get_future().wait();
    mark("new");
  });
  marked.get_future().wait();
  clear();
  EXPECT_TRUE(events_of(snapshot(), "cleared").events.empty());
  cleared.set_value();
  worker.join();
  const auto process = snapshot();
  const auto thread = events_of(process, "cleared");
  ASSERT_EQ(thread.events.size(), 1U);
  EXPECT_EQ(process.names.at(thread.events[0].name), "new");
  EXPECT_EQ(thread.overwritten, 0);
}

TEST_F(Recording, SameTextIsOneName) {
  const char first[] = "same text";
  const char second[] = "same text";
  ASSERT_NE(static_cast<const void*>(first), static_cast<const void*>(second));
  in_thread("names", [&] {
    mark(first);
    mark(second);
    mark("other");
  });
  const auto process = snapshot();
  const auto events = events_of(process, "names").events;
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].name, events[1].name);
  EXPECT_NE(events[0].name, events[2].name);
}

TEST(Intern, OneCopyPerText) {
  const char* name = nullptr;
  {
    const std::string text = "layer 17";
    name = intern(text);
    EXPECT_NE(name, text.c_str());
  }
  EXPECT_STREQ(name, "layer 17");
  EXPECT_EQ(intern("layer 17"), name);
  EXPECT_NE(intern("layer 18"), name);
}

// A watchdog needs it most when nobody thought of recording.
TEST(CurrentSpan, IsSeenFromAnotherThread) {
  enable(false);
  std::promise<const std::atomic<const char*>*> slot;
  std::promise<void> inside, leave, outside, exit;
  std::thread worker([&] {
    slot.set_value(&current_span_slot());
    {
      const Span outer("outer");
      {
        const Span inner("all_reduce");
        inside.set_value();
        leave.get_future().wait();
      }
      outside.set_value();
      exit.get_future().wait();
    }
  });
  const auto& current = *slot.get_future().get();
  inside.get_future().wait();
  EXPECT_STREQ(current.load(), "all_reduce");
  leave.set_value();
  outside.get_future().wait();
  EXPECT_STREQ(current.load(), "outer");
  exit.set_value();
  worker.join();
  EXPECT_EQ(current.load(), nullptr) << "the slot outlives its thread";
  EXPECT_NE(&current, &current_span_slot());
}

TEST(CurrentSpan, IsRestoredByAnException) {
  const auto& current = current_span_slot();
  EXPECT_EQ(current.load(), nullptr);
  try {
    const Span span("throws");
    EXPECT_STREQ(current.load(), "throws");
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(current.load(), nullptr);
}

// Each event carries its number twice and in the name: a mixture of two would show.
TEST_F(Recording, SnapshotsWhileWritten) {
  set_ring_events(256);
  const std::jthread writer([](const std::stop_token& stop) {
    name_thread("writer");
    for (std::int64_t i = 0; !stop.stop_requested(); ++i) {
      if (i % 2 == 0) {
        const Span span("even", i);
      } else {
        counter("odd", static_cast<double>(i));
      }
      if (i % 512 == 0) std::this_thread::yield();
    }
  });
  std::int64_t checked = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int round = 0; (round < 300 || checked < 1000) && std::chrono::steady_clock::now() < deadline; ++round) {
    const auto process = snapshot();
    for (const auto& thread : process.threads) {
      if (thread.name != "writer") continue;
      std::int64_t expected = -1;
      for (const auto& event : thread.events) {
        const bool even = event.kind == EventKind::Span;
        const auto number = even ? event.bytes : static_cast<std::int64_t>(event.value);
        ASSERT_EQ(process.names.at(event.name), even ? "even" : "odd");
        ASSERT_EQ(number % 2 == 0, even);
        if (expected >= 0) {
          ASSERT_EQ(number, expected) << "no gaps, no mixtures";
        }
        expected = number + 1;
        ++checked;
      }
      if (!thread.events.empty()) {
        ASSERT_EQ(expected, thread.overwritten + std::ssize(thread.events));
      }
    }
  }
  EXPECT_GE(checked, 1000);
}

TEST_F(Recording, SnapshotsWhileThreadsStart) {
  std::atomic<bool> stop{false};
  std::thread starter([&] {
    for (int i = 0; i < 100; ++i) {
      in_thread("short", [] {
        const Span span("brief");
        name_thread("short");
      });
    }
    stop = true;
  });
  while (!stop) (void)serialize_events();
  starter.join();
  int seen = 0;
  for (const auto& thread : snapshot().threads) seen += thread.name == "short" && thread.events.size() == 1;
  EXPECT_EQ(seen, 100) << "events outlive their threads";
}

// In a process of its own, because the first enable() chooses the clock for good.
TEST(ProfileDeathTest, SystemClockWorksToo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    setenv("LOCKSTEP_TRACE_CLOCK", "system", 1);
    const auto before = realtime_ns();
    enable(true);
    if (detail::mode.load() != detail::Mode::System) std::exit(1);
    {
      const Span span("sleep");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const auto events = snapshot().threads.at(0).events;
    const auto after = realtime_ns();
    const bool right = events.size() == 1 && events[0].duration_ns >= 5'000'000 &&
                       events[0].start_ns > before - 1'000'000 &&
                       events[0].start_ns + events[0].duration_ns < after + 1'000'000;
    std::exit(right ? 0 : 2);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

ProcessEvents sample(const std::string& name, int rank, std::int64_t origin_ns) {
  ProcessEvents process;
  process.name = name;
  process.rank = rank;
  process.names = {"step", "all_reduce", "loss"};
  ThreadEvents main{.name = "main", .overwritten = 2, .events = {}};
  main.events.push_back(
      {.kind = EventKind::Span, .name = 1, .start_ns = origin_ns + 1500, .duration_ns = 250, .bytes = 64});
  main.events.push_back({.kind = EventKind::Span, .name = 0, .start_ns = origin_ns, .duration_ns = 1'000'007});
  ThreadEvents comm{.name = "comm", .overwritten = 0, .events = {}};
  comm.events.push_back({.kind = EventKind::Mark, .name = 0, .start_ns = origin_ns});
  comm.events.push_back({.kind = EventKind::Counter, .name = 2, .start_ns = origin_ns + 9, .value = 0.5});
  process.threads = {main, comm};
  return process;
}

void expect_equal(const ProcessEvents& a, const ProcessEvents& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.names, b.names);
  ASSERT_EQ(a.threads.size(), b.threads.size());
  for (std::size_t t = 0; t < a.threads.size(); ++t) {
    EXPECT_EQ(a.threads[t].name, b.threads[t].name);
    EXPECT_EQ(a.threads[t].overwritten, b.threads[t].overwritten);
    ASSERT_EQ(a.threads[t].events.size(), b.threads[t].events.size());
    for (std::size_t i = 0; i < a.threads[t].events.size(); ++i) {
      const auto &x = a.threads[t].events[i], &y = b.threads[t].events[i];
      EXPECT_EQ(x.kind, y.kind);
      EXPECT_EQ(x.name, y.name);
      EXPECT_EQ(x.start_ns, y.start_ns);
      EXPECT_EQ(x.duration_ns, y.duration_ns);
      EXPECT_EQ(x.bytes, y.bytes);
      EXPECT_EQ(x.value, y.value);
    }
  }
}

TEST(Blob, RoundTrips) {
  auto process = sample("train", 3, 1'700'000'000'000'000'000);
  process.threads[0].events[0].bytes = std::numeric_limits<std::int64_t>::min();
  process.threads[0].events[1].bytes = std::numeric_limits<std::int64_t>::max();
  process.threads[1].events[0].start_ns = 0;
  expect_equal(decode(encode(process)), process);
  expect_equal(decode(encode({})), {});
}

TEST_F(Recording, SerializedIsTheSnapshot) {
  name_process("test", 5);
  in_thread("packed", [] { const Span span("work", 7); });
  const auto process = decode(serialize_events());
  EXPECT_EQ(process.name, "test");
  EXPECT_EQ(process.rank, 5);
  const auto events = events_of(process, "packed").events;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(process.names.at(events[0].name), "work");
  EXPECT_EQ(events[0].bytes, 7);
}

TEST(Blob, IsCompact) {
  ProcessEvents process;
  process.names = {"x"};
  process.threads.resize(1);
  for (int i = 0; i < 1000; ++i)
    process.threads[0].events.push_back({.start_ns = 1'700'000'000'000'000'000 + i * 5000, .duration_ns = 3000});
  EXPECT_LT(encode(process).size(), 8000U);
}

std::string fault_of(const std::string& blob) {
  try {
    (void)decode(blob);
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Data);
    return e.message();
  }
  return "";
}

TEST(CorruptBlob, AnyFlippedByteIsRejected) {
  const auto blob = encode(sample("train", 0, 1'700'000'000'000'000'000));
  ASSERT_EQ(fault_of(blob), "");
  for (std::size_t i = 0; i < blob.size(); ++i) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      auto corrupt = blob;
      corrupt[i] = static_cast<char>(corrupt[i] ^ flip);
      EXPECT_NE(fault_of(corrupt), "") << "byte " << i;
    }
  }
}

TEST(CorruptBlob, AnyOtherLengthIsRejected) {
  const auto blob = encode(sample("train", 0, 1'700'000'000'000'000'000));
  for (std::size_t size = 0; size < blob.size(); ++size) EXPECT_NE(fault_of(blob.substr(0, size)), "") << size;
  EXPECT_NE(fault_of(blob + '\0'), "");
  EXPECT_NE(fault_of(blob + blob), "");
}

/// A blob whose hash is right: what a bug rather than a broken disk would write.
std::string sealed(std::string body) {
  body = "LSTRACE1" + body;
  const auto hash = hash64(body);
  for (int shift = 0; shift < 64; shift += 8) body += static_cast<char>(hash >> shift);
  return body;
}

TEST(CorruptBlob, LiesUnderARightHashAreRejected) {
  using namespace std::string_literals;
  ASSERT_EQ(fault_of(sealed("\0\0\0\0"s)), "");
  EXPECT_NE(fault_of(sealed("\0\0\0\0\0"s)).find("left over"), std::string::npos);
  EXPECT_NE(fault_of(sealed("\0\0\0"s)).find("too early"), std::string::npos);
  EXPECT_NE(fault_of(sealed("\0\x05"
                            "ab"s))
                .find("length of a name"),
            std::string::npos);
  EXPECT_NE(fault_of(sealed("\0\0\xff\xff\xff\xff\x0f"s)).find("number of names"), std::string::npos);
  EXPECT_NE(fault_of(sealed("\0\0\0\xff\xff\x03\0\0\0\0\0\0"s)).find("number of threads"), std::string::npos);
  EXPECT_NE(fault_of(sealed("\0\0\0\x01\0\0\x63\0\0"s)).find("number of events"), std::string::npos);
  EXPECT_NE(fault_of(sealed("\0\0\x01\x01n\x01\0\0\x01\x04\0\0\0"s)).find("name of an event"), std::string::npos);
  EXPECT_NE(fault_of(sealed("\0\0\x01\x01n\x01\0\0\x01\x03\0"s)).find("unknown kind"), std::string::npos);
  EXPECT_NE(fault_of(sealed("\0\0\x01\x01n\x01\0\0\x01\x01\x01"s)).find("beyond all clocks"), std::string::npos);
  EXPECT_NE(fault_of(sealed(std::string(11, '\xff'))).find("64 bits"), std::string::npos);
}

class Trace : public testing::Test {
 protected:
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }
  static json of_kind(const json& trace, const std::string& phases) {
    auto result = json::array();
    for (const auto& event : trace["traceEvents"]) {
      if (phases.find(event["ph"].get<std::string>()) != std::string::npos) result.push_back(event);
    }
    return result;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "trace.json";
};

constexpr std::int64_t kOrigin = 1'700'000'000'123'456'789;

TEST_F(Trace, MergesRanks) {
  write_trace(path_, {encode(sample("train", 0, kOrigin)), encode(sample("train", 1, kOrigin + 100))});
  const auto trace = json::parse(text());
  EXPECT_EQ(trace["otherData"]["start_realtime_ns"], std::to_string(kOrigin));
  EXPECT_EQ(trace["otherData"]["events_overwritten"], 4);
  EXPECT_EQ(of_kind(trace, "M"), json::parse(R"([
    {"ph":"M","name":"process_name","pid":0,"args":{"name":"rank 0: train"}},
    {"ph":"M","name":"process_sort_index","pid":0,"args":{"sort_index":0}},
    {"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"main"}},
    {"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"comm"}},
    {"ph":"M","name":"process_name","pid":1,"args":{"name":"rank 1: train"}},
    {"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":1}},
    {"ph":"M","name":"thread_name","pid":1,"tid":0,"args":{"name":"main"}},
    {"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"comm"}}])"));
  EXPECT_EQ(of_kind(trace, "XiC"), json::parse(R"([
    {"ph":"X","name":"step","pid":0,"tid":0,"ts":0.000,"dur":1000.007},
    {"ph":"i","name":"step","pid":0,"tid":1,"ts":0.000,"s":"t"},
    {"ph":"C","name":"loss","pid":0,"tid":1,"ts":0.009,"args":{"value":0.5}},
    {"ph":"X","name":"step","pid":1,"tid":0,"ts":0.100,"dur":1000.007},
    {"ph":"i","name":"step","pid":1,"tid":1,"ts":0.100,"s":"t"},
    {"ph":"C","name":"loss","pid":1,"tid":1,"ts":0.109,"args":{"value":0.5}},
    {"ph":"X","name":"all_reduce","pid":0,"tid":0,"ts":1.500,"dur":0.250,"args":{"bytes":64}},
    {"ph":"X","name":"all_reduce","pid":1,"tid":0,"ts":1.600,"dur":0.250,"args":{"bytes":64}}])"));
  EXPECT_EQ(files(), 1U) << "nothing else is left beside it";
}

TEST_F(Trace, ShiftsClocks) {
  write_trace(path_, {encode(sample("a", 0, kOrigin)), encode(sample("b", 1, kOrigin))}, {0, -250});
  const auto events = of_kind(json::parse(text()), "X");
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0]["pid"], 1);
  EXPECT_EQ(events[0]["ts"], 0.0);
  EXPECT_EQ(events[1]["pid"], 0);
  EXPECT_EQ(events[1]["ts"], 0.25);
  EXPECT_THROW(write_trace(path_, {"", ""}, {1}), Error);
  EXPECT_THROW(write_trace(path_, {encode({})}, {std::numeric_limits<std::int64_t>::min()}), Error);
}

TEST_F(Trace, NamesAProcessOnce) {
  write_trace(path_, {encode(sample("rank 0", 0, kOrigin)), encode(sample("rank 0", 1, kOrigin))});
  const auto trace = json::parse(text());
  EXPECT_EQ(of_kind(trace, "M")[0]["args"]["name"], "rank 0");
  EXPECT_EQ(of_kind(trace, "M")[4]["args"]["name"], "rank 1: rank 0");
}

TEST_F(Trace, RankWithoutEventsIsLeftOut) {
  write_trace(path_, {"", encode(sample("b", 1, kOrigin))});
  const auto trace = json::parse(text());
  for (const auto& event : trace["traceEvents"]) EXPECT_EQ(event["pid"], 1);
  EXPECT_EQ(of_kind(trace, "X").size(), 2U);
  write_trace(path_, {});
  EXPECT_TRUE(json::parse(text())["traceEvents"].empty());
}

TEST_F(Trace, OddNamesAndValuesStayValidJson) {
  auto process = sample("quote\" \\ \n", 0, kOrigin);
  process.names[0] = "control \x01 and \xff";
  process.names[1] = "größe";
  process.threads[1].events[1].value = std::nan("");
  process.threads[1].events.push_back({.kind = EventKind::Counter, .name = 2, .start_ns = kOrigin, .value = 1e-300});
  write_trace(path_, {encode(process)});
  const auto trace = json::parse(text());
  EXPECT_EQ(of_kind(trace, "M")[0]["args"]["name"], "rank 0: quote\" \\ \n");
  EXPECT_EQ(of_kind(trace, "X")[0]["name"], "control \x01 and \xef\xbf\xbd");
  EXPECT_EQ(of_kind(trace, "X")[1]["name"], "größe");
  ASSERT_EQ(of_kind(trace, "C").size(), 1U) << "NaN is a gap";
  EXPECT_EQ(of_kind(trace, "C")[0]["args"]["value"], 1e-300);
}

TEST_F(Trace, LargerThanOneChunk) {
  auto process = sample("long", 0, kOrigin);
  for (int i = 0; i < 50'000; ++i)
    process.threads[0].events.push_back({.start_ns = kOrigin + i * 10, .duration_ns = 5});
  write_trace(path_, {encode(process)});
  const auto events = of_kind(json::parse(text()), "XiC");
  ASSERT_EQ(events.size(), 50'004U);
  double previous = -1;
  for (const auto& event : events) {
    ASSERT_LE(previous, event["ts"].get<double>());
    previous = event["ts"].get<double>();
  }
}

TEST_F(Trace, FailureKeepsTheOldFile) {
  std::ofstream(path_) << "old";
  const auto good = encode(sample("a", 0, kOrigin));
  try {
    write_trace(path_, {good, good.substr(0, good.size() - 1)});
    FAIL() << "a corrupt blob was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Data);
    EXPECT_NE(std::string(e.what()).find("while reading the trace of rank 1"), std::string::npos) << e.what();
  }
  EXPECT_EQ(text(), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(Trace, UnwritablePlaceIsNamed) {
  const auto absent = folder_.path() + "/absent/trace.json";
  try {
    write_trace(absent, {});
    FAIL() << "wrote into a folder that does not exist";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Io);
    EXPECT_EQ(e.message(), "cannot write " + absent + ": No such file or directory");
  }
}

TEST_F(Trace, TargetThatIsAFolderLeavesNothingBehind) {
  std::filesystem::create_directory(path_);
  std::filesystem::create_directory(path_ + "/inside");
  EXPECT_THROW(write_trace(path_, {encode(sample("a", 0, kOrigin))}), Error);
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace lockstep::profile
