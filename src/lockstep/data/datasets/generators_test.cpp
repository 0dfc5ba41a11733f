// All generators: what they promise together, and what each of them makes.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

const std::vector<std::string> kGenerators = {"blobs", "regression", "spirals", "tokens", "images"};

std::string bytes_of(const Dataset& set, std::int64_t index) {
  Sample sample;
  set.read(index, sample);
  std::string bytes;
  for (const auto& value : sample.values) bytes += as_text(value.bytes);
  return bytes;
}

class Generators : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Generators, testing::ValuesIn(kGenerators));

TEST_P(Generators, MakeASampleOfSeedAndNumberAlone) {
  const auto few = open(GetParam() + ":samples=10,seed=5"), many = open(GetParam() + ":samples=1000000,seed=5");
  EXPECT_EQ(few->size(), 10);
  EXPECT_EQ(many->size(), 1'000'000);
  for (const std::int64_t i : {9, 0, 4, 9}) EXPECT_EQ(bytes_of(*few, i), bytes_of(*many, i));
  EXPECT_NE(bytes_of(*few, 0), bytes_of(*few, 1));
  EXPECT_NE(bytes_of(*few, 0), bytes_of(*open(GetParam() + ":seed=6"), 0));
  EXPECT_EQ(few->name(3), GetParam() + ": sample 3");
}

TEST_P(Generators, MakeWhatTheirSchemaSays) {
  const auto set = open(GetParam());
  Sample sample;
  set->read(17, sample);
  ASSERT_EQ(sample.values.size(), set->schema().size());
  for (std::size_t place = 0; place < sample.values.size(); ++place) {
    const Field& field = set->schema()[place];
    EXPECT_TRUE(field.fixed());
    EXPECT_EQ(sample.values[place].bytes.size(), static_cast<std::size_t>(field.bytes()));
    EXPECT_EQ(sample.values[place].shape, Shape(field.shape.begin(), field.shape.end()));
  }
}

TEST_P(Generators, NameWhatIsWrong) {
  const auto message = [&](const std::string& arguments) {
    return message_of([&] { open(GetParam() + ":" + arguments); }, Fault::Usage);
  };
  EXPECT_TRUE(has(message("sampels=3"), "has no 'sampels'; did you mean 'samples'?"));
  EXPECT_TRUE(has(message("samples=0"), "expected a whole number from 1"));
  EXPECT_TRUE(has(message("samples"), "'samples' of the data set " + GetParam() + " is not of the form key=value"));
  EXPECT_TRUE(has(message("seed=1,seed=1"), "given twice"));
  EXPECT_TRUE(has(message("seed=-1"), "'-1'"));
}

TEST(Blobs, LieAroundTheirCentres) {
  const auto set = open("blobs:samples=3000,dims=4,classes=3,spread=0.5");
  EXPECT_EQ(set->schema()[0].text(), "x: float32[4]");
  EXPECT_EQ(set->schema()[1].classes, (std::vector<std::string>{"0", "1", "2"}));
  std::map<std::int64_t, std::vector<double>> sums;
  std::map<std::int64_t, double> squares;
  Sample sample;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    set->read(i, sample);
    const auto label = numbers_of<std::int64_t>(sample.values[1])[0];
    auto& sum = sums[label];
    sum.resize(4);
    const auto x = numbers_of<float>(sample.values[0]);
    for (std::size_t dim = 0; dim < 4; ++dim) {
      sum[dim] += x[dim] / 1000;
      squares[label] += x[dim] * x[dim] / 1000;
    }
  }
  ASSERT_EQ(sums.size(), 3U);
  std::set<double> centres;
  for (const auto& [label, sum] : sums) {
    double variance = squares[label];
    for (const double mean : sum) {
      variance -= mean * mean;
      EXPECT_LE(std::abs(mean), 10.2);
    }
    EXPECT_NEAR(variance, 4 * 0.25, 0.1);
    centres.insert(sum[0]);
  }
  EXPECT_EQ(centres.size(), 3U);
}

TEST(Regression, IsLinearWithoutNoise) {
  const auto set = open("regression:dims=1,noise=0");
  Sample sample;
  std::vector<double> x, y;
  for (std::int64_t i = 0; i < 3; ++i) {
    set->read(i, sample);
    x.push_back(numbers_of<float>(sample.values[0])[0]);
    y.push_back(numbers_of<float>(sample.values[1])[0]);
  }
  EXPECT_NEAR((y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[0]) / (x[2] - x[0]), 1e-4);
}

TEST(Spirals, LieInTheUnitCircle) {
  const auto set = open("spirals:noise=0,classes=3");
  Sample sample;
  for (std::int64_t i = 0; i < 100; ++i) {
    set->read(i, sample);
    const auto x = numbers_of<float>(sample.values[0]);
    const double radius = std::hypot(x[0], x[1]), turns = std::atan2(x[1], x[0]) / (2 * std::acos(-1.0));
    EXPECT_LE(radius, 1.0001);
    const double arm = turns - 1.5 * radius - static_cast<double>(numbers_of<std::int64_t>(sample.values[1])[0]) / 3;
    EXPECT_NEAR(arm, std::round(arm), 1e-4);
  }
}

TEST(Tokens, FollowTheirRule) {
  const auto set = open("tokens:length=1000,vocabulary=50,noise=0");
  Sample sample;
  std::map<std::int64_t, std::int64_t> successor;
  for (std::int64_t i = 0; i < 20; ++i) {
    set->read(i, sample);
    const auto tokens = numbers_of<std::int64_t>(sample.values[0]);
    for (std::size_t place = 0; place + 1 < tokens.size(); ++place) {
      ASSERT_LT(tokens[place], 50);
      EXPECT_EQ(successor.try_emplace(tokens[place], tokens[place + 1]).first->second, tokens[place + 1]);
    }
  }
  const auto noisy = open("tokens:length=1000,vocabulary=50,noise=1");
  noisy->read(0, sample);
  const auto tokens = numbers_of<std::int64_t>(sample.values[0]);
  EXPECT_EQ(std::set(tokens.begin(), tokens.end()).size(), 50U);
}

TEST(Images, HaveTheirSize) {
  const auto set = open("images:size=8,channels=1,classes=4");
  EXPECT_EQ(set->schema()[0].text(), "image: uint8[8, 8, 1]");
  Sample sample;
  set->read(7, sample);
  EXPECT_EQ(numbers_of<std::int64_t>(sample.values[1])[0], 3);
  const auto pixels = numbers_of<std::uint8_t>(sample.values[0]);
  const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
  EXPECT_GT(*high - *low, 100);
}

}  // namespace
}  // namespace lockstep::data
