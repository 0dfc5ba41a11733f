#include "lockstep/profile/trace.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/hash.h"

namespace lockstep::profile {
namespace {

// A blob: magic, rank, names, threads with their events as variable-length integers,
// times as differences; at the end a hash of all before it.
constexpr std::string_view kMagic = "LSTRACE1";
constexpr std::size_t kHashBytes = 8;
constexpr int kLargestRank = 1 << 24;
// Such times (until 2116) and offsets can be added, and their sums subtracted, without overflow.
constexpr std::int64_t kTimeEnd = std::int64_t{1} << 62;
constexpr std::int64_t kOffsetEnd = std::int64_t{1} << 61;

[[noreturn]] void fail_corrupt(const std::string& reason) { fail(Fault::Data, "corrupt trace events: " + reason); }

class Writer {
 public:
  void integer(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void difference(std::int64_t value) {
    integer(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
  }
  void word(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift);
  }
  void text(std::string_view value) {
    integer(value.size());
    bytes_ += value;
  }
  void raw(std::string_view value) { bytes_ += value; }
  std::string finish() && {
    word(hash64(bytes_));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  bool done() const noexcept { return left_.empty(); }
  std::uint64_t integer() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(raw(1).front());
      if (shift == 63 && byte > 1) break;
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail_corrupt("an integer of more than 64 bits");
  }
  std::uint64_t integer_below(std::uint64_t end, const char* what) {
    const auto value = integer();
    if (value >= end) fail_corrupt(fmt::format("{} is {}, expected less than {}", what, value, end));
    return value;
  }
  /// A number of things of at least `least_bytes` each, so that a lie about it cannot claim memory.
  std::size_t count(std::size_t least_bytes, const char* what) {
    return static_cast<std::size_t>(integer_below(left_.size() / least_bytes + 1, what));
  }
  std::uint64_t difference() {
    const auto value = integer();
    return value >> 1 ^ (~(value & 1) + 1);
  }
  std::uint64_t word() {
    const auto bytes = raw(8);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
    return value;
  }
  std::string text() { return std::string(raw(count(1, "length of a name"))); }
  std::string_view raw(std::size_t size) {
    if (left_.size() < size) fail_corrupt("they end too early");
    const auto result = left_.substr(0, size);
    left_.remove_prefix(size);
    return result;
  }

 private:
  std::string_view left_;
};

Event read_event(Reader& reader, std::size_t name_count, std::uint64_t& previous_start) {
  Event event;
  const auto name_and_kind = reader.integer_below(name_count * 4, "name of an event");
  event.name = static_cast<std::uint32_t>(name_and_kind >> 2);
  event.kind = static_cast<EventKind>(name_and_kind & 3);
  previous_start += reader.difference();
  if (previous_start >= static_cast<std::uint64_t>(kTimeEnd)) fail_corrupt("a time beyond all clocks");
  event.start_ns = static_cast<std::int64_t>(previous_start);
  switch (event.kind) {
    case EventKind::Span:
      event.duration_ns = static_cast<std::int64_t>(reader.integer_below(kTimeEnd, "duration of a span"));
      event.bytes = static_cast<std::int64_t>(reader.difference());
      return event;
    case EventKind::Mark: return event;
    case EventKind::Counter: event.value = std::bit_cast<double>(reader.word()); return event;
  }
  fail_corrupt("an event of unknown kind");
}

/// JSON has no other text than UTF-8; what is not becomes U+FFFD.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

struct Row {
  std::int64_t start_ns;
  std::size_t rank;
  std::size_t thread;
  const Event* event;
};

}  // namespace

std::string encode(const ProcessEvents& process) {
  Writer writer;
  writer.raw(kMagic);
  writer.integer(static_cast<std::uint64_t>(process.rank + 1));
  writer.text(process.name);
  writer.integer(process.names.size());
  for (const auto& name : process.names) writer.text(name);
  writer.integer(process.threads.size());
  for (const auto& thread : process.threads) {
    writer.text(thread.name);
    writer.integer(static_cast<std::uint64_t>(thread.overwritten));
    writer.integer(thread.events.size());
    std::int64_t previous_start = 0;
    for (const auto& event : thread.events) {
      writer.integer(std::uint64_t{event.name} << 2 | static_cast<std::uint64_t>(event.kind));
      writer.difference(event.start_ns - std::exchange(previous_start, event.start_ns));
      if (event.kind == EventKind::Span) {
        writer.integer(static_cast<std::uint64_t>(event.duration_ns));
        writer.difference(event.bytes);
      } else if (event.kind == EventKind::Counter) {
        writer.word(std::bit_cast<std::uint64_t>(event.value));
      }
    }
  }
  return std::move(writer).finish();
}

ProcessEvents decode(std::string_view blob) {
  if (blob.size() < kMagic.size() + kHashBytes) fail_corrupt(fmt::format("only {} bytes", blob.size()));
  const auto body = blob.substr(0, blob.size() - kHashBytes);
  if (!body.starts_with(kMagic)) fail_corrupt("they do not start with " + std::string(kMagic));
  if (Reader(blob.substr(body.size())).word() != hash64(body)) fail_corrupt("their hash does not match");

  Reader reader(body.substr(kMagic.size()));
  ProcessEvents process;
  process.rank = static_cast<int>(reader.integer_below(kLargestRank, "rank")) - 1;
  process.name = reader.text();
  for (auto left = reader.count(1, "number of names"); left > 0; --left) process.names.push_back(reader.text());
  for (auto left = reader.count(3, "number of threads"); left > 0; --left) {
    auto& thread = process.threads.emplace_back();
    thread.name = reader.text();
    thread.overwritten = static_cast<std::int64_t>(reader.integer_below(kTimeEnd, "number of overwritten events"));
    const auto event_count = reader.count(2, "number of events");
    thread.events.reserve(event_count);
    std::uint64_t previous_start = 0;
    for (std::size_t i = 0; i < event_count; ++i) {
      thread.events.push_back(read_event(reader, process.names.size(), previous_start));
    }
  }
  if (!reader.done()) fail_corrupt("bytes are left over");
  return process;
}

std::string serialize_events() { return encode(snapshot()); }

void write_trace(const std::string& path, const std::vector<std::string>& blobs_by_rank,
                 const std::vector<std::int64_t>& clock_offset_ns) {
  if (!clock_offset_ns.empty() && clock_offset_ns.size() != blobs_by_rank.size()) {
    fail(Fault::Usage, fmt::format("{} clock offsets for {} ranks", clock_offset_ns.size(), blobs_by_rank.size()));
  }
  std::vector<std::optional<ProcessEvents>> processes;
  std::vector<Row> rows;
  std::int64_t overwritten = 0;
  for (std::size_t rank = 0; rank < blobs_by_rank.size(); ++rank) {
    auto& process = processes.emplace_back();
    if (blobs_by_rank[rank].empty()) continue;
    try {
      process = decode(blobs_by_rank[rank]);
    } catch (Error& e) {
      e.during(fmt::format("reading the trace of rank {}", rank));
      throw;
    }
    const auto offset_ns = clock_offset_ns.empty() ? 0 : clock_offset_ns[rank];
    if (offset_ns <= -kOffsetEnd || offset_ns >= kOffsetEnd) {
      fail(Fault::Usage, fmt::format("the clock of rank {} is off by {} ns", rank, offset_ns));
    }
    for (std::size_t thread = 0; thread < process->threads.size(); ++thread) {
      overwritten += process->threads[thread].overwritten;
      for (const auto& event : process->threads[thread].events) {
        // JSON has no NaN, and a gap in a curve tells the same.
        if (event.kind == EventKind::Counter && !std::isfinite(event.value)) continue;
        rows.push_back({event.start_ns + offset_ns, rank, thread, &event});
      }
    }
  }
  // A span comes before those it encloses.
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tuple(a.start_ns, -a.event->duration_ns, a.rank, a.thread) <
           std::tuple(b.start_ns, -b.event->duration_ns, b.rank, b.thread);
  });
  // Viewers hold microseconds in a double: since 1970 that leaves steps of 250 ns, from the first event on it is exact.
  const auto origin_ns = rows.empty() ? 0 : rows.front().start_ns;

  std::vector<std::vector<std::string>> names(processes.size());
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 R"({{"displayTimeUnit":"ns","otherData":{{"start_realtime_ns":"{}","events_overwritten":{}}},)"
                 "\n"
                 R"("traceEvents":[)",
                 origin_ns, overwritten);
  const char* separator = "\n";
  const auto next = [&] { fmt::format_to(out, "{}", std::exchange(separator, ",\n")); };
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    if (!processes[rank]) continue;
    for (const auto& name : processes[rank]->names) names[rank].push_back(json_text(name));
    next();
    // Runtime calls the process by its rank already.
    const auto by_rank = fmt::format("rank {}", rank);
    const auto& own_name = processes[rank]->name;
    fmt::format_to(out, R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}},)", rank,
                   json_text(own_name.empty() || own_name == by_rank ? by_rank : by_rank + ": " + own_name));
    fmt::format_to(out,
                   "\n"
                   R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})",
                   rank, rank);
    for (std::size_t thread = 0; thread < processes[rank]->threads.size(); ++thread) {
      next();
      fmt::format_to(out, R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", rank, thread,
                     json_text(processes[rank]->threads[thread].name));
    }
  }
  WholeFile file(path);
  constexpr std::size_t kChunkBytes = 1 << 20;
  for (const auto& [start_ns, rank, thread, event] : rows) {
    next();
    fmt::format_to(out, R"({{"pid":{},"tid":{},"ts":{},"name":{},)", rank, thread, microseconds(start_ns - origin_ns),
                   names[rank][event->name]);
    switch (event->kind) {
      case EventKind::Span:
        fmt::format_to(out, R"("ph":"X","dur":{})", microseconds(event->duration_ns));
        if (event->bytes != 0) fmt::format_to(out, R"(,"args":{{"bytes":{}}})", event->bytes);
        break;
      case EventKind::Mark: fmt::format_to(out, R"("ph":"i","s":"t")"); break;
      case EventKind::Counter: fmt::format_to(out, R"("ph":"C","args":{{"value":{}}})", event->value); break;
    }
    text.push_back('}');
    if (text.size() > kChunkBytes) {
      file.write({text.data(), text.size()});
      text.clear();
    }
  }
  fmt::format_to(out, "\n]}}\n");
  file.write({text.data(), text.size()});
  file.commit();
}

}  // namespace lockstep::profile
