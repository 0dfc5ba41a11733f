#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

#include "lockstep/data/testing.h"
#include "lockstep/data/transform.h"
#include "lockstep/data/transformed.h"

namespace lockstep::data {
namespace {

const Schema kImage = {{"image", Encoding::Values, c10::ScalarType::Byte, {4, 4, 2}},
                       {"label", Encoding::Values, c10::ScalarType::Double, {}}};

/// As libtorch or an allocation may, within any transform.
class Thrower final : public Transform {
 public:
  explicit Thrower(const Field& input) : field_(input) {}
  Field output() const override { return field_; }
  void apply(Value&, Random&, Scratch&) const override { throw std::runtime_error("no kernel\nframe #0: …"); }

 private:
  Field field_;
};
const TransformRegistry::Add thrower{"throw", "For this test",
                                     [](const Field& input, Arguments&) { return std::make_unique<Thrower>(input); }};

/// Pixels 0..31, label 2.
class Transforms : public ::testing::Test {
 protected:
  Sample applied(const std::vector<std::string>& steps, std::int64_t id = 0, std::uint64_t key = 5) {
    const Pipeline pipeline(kImage, steps);
    output_ = pipeline.output();
    Sample sample;
    sample.clear(2);
    sample.values = {value_of(pixels_, {4, 4, 2}), value_of(label_, {})};
    pipeline.apply(sample, key, id);
    return sample;
  }
  std::vector<std::uint8_t> image(const Sample& sample) { return numbers_of<std::uint8_t>(sample.values[0]); }

  Schema output_;
  std::vector<std::uint8_t> pixels_ = [] {
    std::vector<std::uint8_t> all(32);
    std::iota(all.begin(), all.end(), std::uint8_t{0});
    return all;
  }();
  std::vector<double> label_ = {2};
};

TEST_F(Transforms, FlipMirrorsRows) {
  const auto flipped = image(applied({"flip image chance=1"}));
  EXPECT_EQ(std::vector(flipped.begin(), flipped.begin() + 8), (std::vector<std::uint8_t>{6, 7, 4, 5, 2, 3, 0, 1}));
  EXPECT_EQ(image(applied({"flip image chance=0"})), pixels_);
  int turned = 0;
  for (std::int64_t id = 0; id < 200; ++id) turned += image(applied({"flip image"}, id)) != pixels_;
  EXPECT_NEAR(turned, 100, 45);
}

TEST_F(Transforms, CropCutsInside) {
  const auto middle = image(applied({"center_crop image size=2"}));
  EXPECT_EQ(middle, (std::vector<std::uint8_t>{10, 11, 12, 13, 18, 19, 20, 21}));
  EXPECT_EQ(output_[0].shape, (std::vector<std::int64_t>{2, 2, 2}));
  std::set<int> corners;
  for (std::int64_t id = 0; id < 100; ++id) corners.insert(image(applied({"crop image size=3"}, id))[0]);
  EXPECT_EQ(corners, (std::set<int>{0, 2, 8, 10}));
  const auto padded = image(applied({"center_crop image size=6 pad=1"}));
  EXPECT_EQ(padded[0], 0);
  EXPECT_EQ(padded[(1 * 6 + 2) * 2], 2);
  EXPECT_TRUE(has(message_of([&] { applied({"crop image size=5"}); }), "4 x 4 is smaller than the crop of 5 x 5"));
}

TEST_F(Transforms, ResizeTakesTheMeanOfWhatAPixelCovers) {
  const auto smaller = image(applied({"resize image size=1"}));
  EXPECT_EQ(output_[0].shape, (std::vector<std::int64_t>{1, 1, 2}));
  EXPECT_EQ(smaller, (std::vector<std::uint8_t>{15, 16}));
  EXPECT_EQ(image(applied({"resize image size=4"})), pixels_);
  applied({"center_crop image height=2 width=4", "resize image shorter=3"});
  EXPECT_EQ(output_[0].shape, (std::vector<std::int64_t>{3, 6, 2}));
  EXPECT_EQ(image(applied({"resize image height=2 width=8"})).size(), 2U * 8 * 2);
  EXPECT_TRUE(has(message_of([&] { applied({"resize image"}); }, Fault::Usage), "needs a size"));
  EXPECT_TRUE(has(message_of([&] { applied({"resize image size=4 shorter=4"}); }, Fault::Usage), "needs a size"));
}

TEST_F(Transforms, NormalisePutsChannelsFirst) {
  const auto sample = applied({"normalise image mean=0.5,0 std=0.5,1"});
  const auto floats = numbers_of<float>(sample.values[0]);
  EXPECT_EQ(output_[0].text(), "image: float32[2, 4, 4]");
  EXPECT_FLOAT_EQ(floats[1], (2 / 255.0F - 0.5F) / 0.5F);
  EXPECT_FLOAT_EQ(floats[16], 1 / 255.0F);
}

TEST_F(Transforms, OfPixelsComeBeforeNormalise) {
  for (const std::string name : {"resize", "crop", "center_crop"}) {
    const auto message = message_of([&] { applied({"normalise image", name + " image size=2"}); }, Fault::Usage);
    EXPECT_TRUE(has(message, "put " + name + " before normalise")) << message;
  }
  EXPECT_TRUE(has(message_of([&] { applied({"normalise image", "flip image"}); }, Fault::Usage), "before normalise"));
  EXPECT_TRUE(has(message_of([&] { applied({"normalise image", "normalise image"}); }, Fault::Usage), "not uint8"));
  // A file does not keep it, so what is read back is the same field.
  applied({"normalise image"});
  EXPECT_TRUE(output_[0].channels_first);
  EXPECT_EQ(output_[0], (Field{"image", Encoding::Values, c10::ScalarType::Float, {2, 4, 4}}));
}

TEST_F(Transforms, BoundTheirSizes) {
  for (const std::string step : {"resize image size=1000000", "resize image shorter=9223372036854775807",
                                 "resize image height=0 width=4", "crop image size=1000000", "crop image size=-2",
                                 "crop image size=2 pad=4611686018427387904", "crop image size=2 pad=-1"}) {
    EXPECT_TRUE(has(message_of([&] { applied({step}); }, Fault::Usage), "65536")) << step;
  }
  const Schema strip = {{"image", Encoding::Values, c10::ScalarType::Byte, {1, std::int64_t{1} << 50}}};
  for (const char* step : {"resize image shorter=2", "resize image shorter=65536"}) {
    EXPECT_TRUE(has(message_of([&] { Pipeline(strip, {step}); }), "more than 65536 pixels")) << step;
  }
}

TEST_F(Transforms, BoundTheirNumbers) {
  const auto refused = [&](const std::string& step) { return message_of([&] { applied({step}); }, Fault::Usage); };
  for (const std::string chance : {"5", "-1", "nan", "inf"}) {
    EXPECT_TRUE(has(refused("flip image chance=" + chance), "a number from 0 to 1")) << chance;
  }
  for (const std::string numbers : {"mean=inf", "mean=0,nan", "std=0", "std=-1", "std=1e-320", "std=1,inf"}) {
    EXPECT_TRUE(has(refused("normalise image " + numbers), "a number from ")) << numbers;
  }
  EXPECT_TRUE(has(refused("one_hot label classes=1000000000000"), "1048576"));
  EXPECT_TRUE(has(refused("one_hot label classes=0"), "1048576"));
}

TEST_F(Transforms, TakeSeveralBlanks) {
  EXPECT_EQ(image(applied({"  crop  image   size=4  "}, 7)), image(applied({"crop image size=4"}, 7)));
  EXPECT_TRUE(has(message_of([&] { applied({"  "}); }, Fault::Usage), "an empty transform"));
}

TEST_F(Transforms, NameWhatALibraryThrows) {
  const auto message = message_of([&] { applied({"flip image", "throw image"}); });
  EXPECT_TRUE(has(message, "'throw image' failed: no kernel")) << message;
  EXPECT_FALSE(has(message, "frame")) << message;
  const auto set = transformed(open("images:samples=2"), {"throw image"});
  Sample sample;
  EXPECT_TRUE(has(message_of([&] { set->read(1, sample); }), "preparing " + set->name(1)));
}

TEST_F(Transforms, TokeniseRefusesTypesThatDoNotFit) {
  const Schema text = {{"text", Encoding::Text}};
  const auto refused = [&](const std::string& step) {
    return message_of([&] { Pipeline(text, {step}); }, Fault::Usage);
  };
  EXPECT_TRUE(has(refused("tokenise type=uint9"), "tokens are int32, int64, uint16, uint32, not 'uint9'"));
  EXPECT_TRUE(has(refused("tokenise type=uint16 end=70000"), "say type=uint32"));
  EXPECT_TRUE(has(refused("tokenise end=-2"), "no token"));
  EXPECT_EQ(Pipeline(text, {"tokenise type=uint32 end=70000"}).output()[0].type, c10::ScalarType::UInt32);
}

TEST_F(Transforms, OneHotTakesWholeNumbersOnly) {
  EXPECT_EQ(numbers_of<float>(applied({"one_hot label classes=4"}).values[1]), (std::vector<float>{0, 0, 1, 0}));
  EXPECT_TRUE(has(message_of([&] { applied({"one_hot label classes=2"}); }), "label 2 of 2 classes"));
  label_ = {std::nan("")};
  EXPECT_TRUE(has(message_of([&] { applied({"one_hot label classes=2"}); }), "'label' is nan"));
}

TEST_F(Transforms, DependOnKeyAndSampleAlone) {
  const std::vector<std::string> steps = {"crop image size=4 pad=2", "flip image"};
  EXPECT_EQ(image(applied(steps, 7)), image(applied(steps, 7)));
  EXPECT_NE(image(applied(steps, 7)), image(applied(steps, 8)));
  EXPECT_NE(image(applied(steps, 7)), image(applied(steps, 7, 6)));
}

TEST_F(Transforms, CanLeaveNothingToChance) {
  const auto steady = [&](const std::vector<std::string>& steps) { return Pipeline(kImage, steps).without_chance(); };
  using Steps = std::vector<std::string>;
  EXPECT_EQ(steady({"crop image size=4 pad=2", "flip image", "normalise image"}),
            (Steps{"center_crop image size=4 pad=2", "normalise image"}));
  EXPECT_EQ(steady({"  crop  image size=4", "flip image chance=1", "one_hot label classes=4"}),
            (Steps{"center_crop  image size=4", "flip image chance=1", "one_hot label classes=4"}));
  EXPECT_EQ(steady({"center_crop image size=4"}), (Steps{"center_crop image size=4"}));
  const auto steps = steady({"crop image size=4 pad=2", "flip image"});
  EXPECT_EQ(image(applied(steps, 7)), image(applied(steps, 8)));
}

TEST_F(Transforms, RefuseWrongUse) {
  const auto refused = [&](const std::string& step) { return message_of([&] { applied({step}); }, Fault::Usage); };
  EXPECT_TRUE(has(refused("flop image"), "did you mean 'flip'?"));
  EXPECT_TRUE(has(refused("flip imge"), "did you mean 'image'?"));
  EXPECT_TRUE(has(refused("flip chance=1"), "does not say of which field"));
  EXPECT_TRUE(has(refused("flip image chnce=1"), "did you mean 'chance'?"));
  EXPECT_TRUE(has(refused("flip image chance=often"), "a number from 0 to 1"));
  EXPECT_TRUE(has(refused("crop image"), "size=24"));
  EXPECT_TRUE(has(refused("flip label"), "no image"));
  EXPECT_TRUE(has(refused("normalise image mean=1,2,3"), "3 values for 2 channels"));
}

}  // namespace
}  // namespace lockstep::data
