#include "lockstep/data/windows.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "lockstep/data/lengths.h"
#include "lockstep/data/one_for_one.h"
#include "lockstep/data/order.h"
#include "lockstep/data/testing.h"
#include "lockstep/data/transformed.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int32_t>;

class Windows : public ::testing::Test {
 protected:
  /// Lines of text as bytes.
  DatasetPtr lines(const std::string& text) {
    return transformed(open(folder_.write("lines.txt", text)), {"tokenise text tokenizer=bytes"});
  }
  struct Window {
    Ids values, segments, positions;
  };
  static Window window(const Dataset& windows, std::int64_t index) {
    Sample sample;
    windows.read(index, sample);
    return {numbers_of<std::int32_t>(sample.values[0]), numbers_of<std::int32_t>(sample.values[1]),
            numbers_of<std::int32_t>(sample.values[2])};
  }

  Folder folder_;
};

TEST_F(Windows, FollowEachOther) {
  const auto set = packed_windows(lines("abc\nde\nfghij\n"), {.length = 4, .separator = 0, .padding = 1});
  ASSERT_EQ(set->size(), 4);  // 3 + 2 + 5 letters and 3 separators
  const Window first = window(*set, 0), second = window(*set, 1), last = window(*set, 3);
  EXPECT_EQ(first.values, (Ids{'a', 'b', 'c', 0}));
  EXPECT_EQ(first.segments, (Ids{1, 1, 1, 1}));
  EXPECT_EQ(first.positions, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(second.values, (Ids{'d', 'e', 0, 'f'}));
  EXPECT_EQ(second.segments, (Ids{1, 1, 1, 2}));
  EXPECT_EQ(second.positions, (Ids{0, 1, 2, 0}));
  EXPECT_EQ(window(*set, 2).values, (Ids{'g', 'h', 'i', 'j'}));
  EXPECT_EQ(last.values, (Ids{0, 1, 1, 1}));
  EXPECT_EQ(last.segments, (Ids{1, 0, 0, 0}));
  EXPECT_TRUE(has(set->name(1), "window 1 from ") && has(set->name(1), "sample 1")) << set->name(1);
}

TEST_F(Windows, MayAllBeFull) {
  EXPECT_EQ(packed_windows(lines("abc\nde\nfghij\n"), {.length = 4, .full = true})->size(), 2);
  EXPECT_EQ(packed_windows(lines("abc\nde\nfghij\n"), {.length = 5, .full = true})->size(), 2);
  EXPECT_TRUE(has(message_of([&] { packed_windows(lines("abc\n"), {.length = 4, .full = true}); }, Fault::Usage),
                  "3 values, fewer than a window of 4"));
}

TEST_F(Windows, LeaveWholeWhatFits) {
  const auto set = packed_windows(lines("abc\nde\nfghijk\nl\nmn\n"), {.length = 4, .whole = true});
  // fghi | abc l | de mn | jk would be one more, but jk goes to a window with room.
  ASSERT_EQ(set->size(), 4);
  std::map<std::string, int> seen;
  std::int64_t filled = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    const Window one = window(*set, i);
    std::map<int, std::string> pieces;
    for (std::size_t k = 0; k < one.values.size(); ++k) {
      if (one.segments[k] == 0) continue;
      pieces[one.segments[k]] += static_cast<char>(one.values[k]);
      ++filled;
    }
    for (const auto& [segment, text] : pieces) ++seen[text];
  }
  EXPECT_EQ(filled, 14);
  EXPECT_EQ(seen, (std::map<std::string, int>{{"abc", 1}, {"de", 1}, {"fghi", 1}, {"jk", 1}, {"l", 1}, {"mn", 1}}));
}

TEST_F(Windows, HoldEveryValueOnce) {
  std::string text;
  std::size_t letters = 0;
  for (int i = 0; i < 500; ++i) {
    const auto length = static_cast<std::size_t>(i * i % 37);
    letters += length;
    text += std::string(length, static_cast<char>('a' + i % 26)) + "\n";
  }
  const auto samples = lines(text);
  for (const bool whole : {false, true}) {
    const auto set = packed_windows(samples, {.length = 128, .whole = whole});
    std::size_t filled = 0;
    for (std::int64_t i = 0; i < set->size(); ++i) {
      for (const auto segment : window(*set, i).segments) filled += segment != 0;
    }
    EXPECT_EQ(filled, letters);
    // Nothing is wasted but in the last window; best fit wastes next to nothing.
    const double least = static_cast<double>(letters) / 128;
    EXPECT_LT(static_cast<double>(set->size()), whole ? least * 1.02 + 1 : least + 1);
  }
}

/// Counts what is read of another.
class Counted final : public OneForOne {
 public:
  using OneForOne::OneForOne;
  const Schema& schema() const noexcept override { return source().schema(); }
  void read(std::int64_t index, Sample& sample) const override {
    ++reads;
    source().read(index, sample);
  }
  mutable std::int64_t reads = 0;
};

TEST_F(Windows, ReadALongSampleOnce) {
  const std::string long_line(1000, 'a'), longer_line(1001, 'b');
  const auto samples = std::make_shared<Counted>(lines(fmt::format("{}\n{}\n", long_line, longer_line)));
  for (const bool whole : {false, true}) {
    const auto set = packed_windows(samples, {.length = 10, .whole = whole});
    samples->reads = 0;
    std::int64_t letters = 0;
    for (std::int64_t i = 0; i < set->size(); ++i) {
      for (const auto value : window(*set, i).values) letters += value == 'b';
    }
    EXPECT_EQ(letters, 1001);
    EXPECT_EQ(samples->reads, 2);
  }
}

TEST_F(Windows, SayWhatTheyCannotHold) {
  const auto positions = transformed(open(folder_.write("p.csv", "position\nabc\nde f\n")), {"tokenise position"});
  EXPECT_TRUE(has(message_of([&] { packed_windows(positions, {.length = 4}); }, Fault::Usage),
                  "position: int32[?] cannot be packed into windows: they have a field of that name"));
  const auto text = open(folder_.write("x.txt", "abc\n"));
  EXPECT_TRUE(has(message_of([&] { packed_windows(text, {.length = 4}); }, Fault::Usage), "no row of values"));
  EXPECT_TRUE(has(message_of([&] { packed_windows(lines("abc\n"), {.length = 0}); }, Fault::Usage), "0 values"));
  EXPECT_TRUE(
      has(message_of([&] { packed_windows(lines("abc\n"), {.separator = std::int64_t{1} << 40}); }, Fault::Usage),
          "1099511627776 is no value of text: int32[?]"));
}

TEST_F(Windows, ByLengthNeedsLittlePadding) {
  std::string text;
  for (int i = 0; i < 1003; ++i) text += std::string(static_cast<std::size_t>(1 + i * 7919 % 100), 'x') + "\n";
  const auto samples = lines(text);
  OrderOptions options;
  options.samples = samples->size();
  options.seed = 3;
  options.block = 20;
  options.window = 4;
  options.lengths = lengths_of(*samples, "text");
  const auto padded_to = [&](const Order& order, std::int64_t epoch) {
    std::int64_t sum = 0, longest = 0;
    for (std::int64_t position = 0; position < order.length(); ++position) {
      const auto length = options.lengths[static_cast<std::size_t>(order.at(epoch, position))];
      longest = position % 20 == 0 ? length : std::max(longest, length);
      if (position % 20 == 19 || position + 1 == order.length()) sum += longest * (position % 20 + 1);
    }
    return static_cast<double>(sum);
  };
  double values = 0;
  for (const auto length : options.lengths) values += static_cast<double>(length);
  const auto sorted = make_order("by_length", options), shuffled = make_order("shuffle", options);
  EXPECT_LT(padded_to(*sorted, 0) / values, 1.1);
  EXPECT_GT(padded_to(*shuffled, 0) / values, 1.8);
  // Short and long come in no order, and other samples together in every epoch.
  std::set<std::int64_t> first, second;
  for (std::int64_t position = 0; position < 20; ++position) {
    first.insert(options.lengths[static_cast<std::size_t>(sorted->at(0, position))]);
    second.insert(options.lengths[static_cast<std::size_t>(sorted->at(1, position))]);
  }
  EXPECT_NE(first, second);
  options.lengths.pop_back();
  EXPECT_TRUE(
      has(message_of([&] { make_order("by_length", options); }, Fault::Usage), "each of 1003 samples, not of 1002"));
}

}  // namespace
}  // namespace lockstep::data
