#include "train/pipeline_drawing.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::apps {
namespace {

using parallel::make_pipeline_schedule;
using parallel::timeline;

/// That every element is closed by its own name, in order, and text has none of the characters of markup.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  std::size_t elements = 0;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    ASSERT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    if (tag.front() == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ("/" + open.back(), tag);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    ++elements;
    const std::string words = xml.substr(end + 1, xml.find('<', end) - end - 1);
    EXPECT_EQ(words.find('>'), std::string::npos) << words;
  }
  EXPECT_TRUE(open.empty());
  EXPECT_GT(elements, 0U);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PipelineDrawing, HasABoxForEveryAction) {
  for (const std::string name : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
    const auto schedule = make_pipeline_schedule(name, 3, 6, name == "interleaved" ? 3 : 1);
    const auto drawing = pipeline_svg(timeline(schedule), schedule.name);
    expect_well_formed(drawing);
    std::size_t actions = 0;
    for (const auto& stage : schedule.of_stage) actions += stage.size();
    EXPECT_EQ(count_of(drawing, "<g>"), actions) << name;
  }
}

TEST(PipelineDrawing, HasItsTitleAndBubble) {
  const auto drawing = pipeline_svg(timeline(make_pipeline_schedule("1f1b", 4, 8, 1)), "a < b & c");
  expect_well_formed(drawing);
  EXPECT_EQ(count_of(drawing, "a &lt; b &amp; c"), 2U);
  EXPECT_EQ(count_of(drawing, "bubble 27.3 %: the idle share of 4 stages over 33 units of time"), 1U);
  EXPECT_EQ(count_of(drawing, ">backward<"), 1U) << "legend";
  EXPECT_EQ(count_of(drawing, "gradient of weights"), 0U) << "no such work is done";
}

TEST(PipelineDrawing, OfNothing) { expect_well_formed(pipeline_svg({}, "nothing")); }

}  // namespace
}  // namespace lockstep::apps
