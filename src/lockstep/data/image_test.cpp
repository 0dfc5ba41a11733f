#include "lockstep/data/image.h"

#include <cmath>
#include <thread>

#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

/// Smooth, so that JPEG changes it little.
std::string pixels_of(const ImageSize& size) {
  std::string pixels;
  for (int row = 0; row < size.height; ++row) {
    for (int column = 0; column < size.width; ++column) {
      for (int channel = 0; channel < size.channels; ++channel) {
        pixels += static_cast<char>(40 + row + column + channel * 30);
      }
    }
  }
  return pixels;
}

int largest_difference(Bytes actual, std::string_view wanted) {
  int largest = actual.size() == wanted.size() ? 0 : 256;
  for (std::size_t i = 0; i < std::min(actual.size(), wanted.size()); ++i) {
    largest = std::max(largest, std::abs(std::to_integer<int>(actual[i]) - static_cast<unsigned char>(wanted[i])));
  }
  return largest;
}

class Jpeg : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_decoder(Encoding::Jpeg)) GTEST_SKIP() << "built without libjpeg";
  }
};
class Png : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_decoder(Encoding::Png)) GTEST_SKIP() << "built without libpng";
  }
};

TEST_F(Jpeg, DecodesWhatWasEncoded) {
  Scratch scratch;
  for (const ImageSize size : {ImageSize{64, 64, 3}, ImageSize{17, 33, 1}, ImageSize{1, 1, 3}}) {
    const std::string pixels = pixels_of(size);
    const std::string encoded = encode_jpeg(as_bytes(pixels), size, 95);
    EXPECT_TRUE(is_jpeg(as_bytes(encoded)));
    EXPECT_EQ(image_size(as_bytes(encoded)), size);
    const Image image = decode_image(as_bytes(encoded), 0, scratch);
    EXPECT_EQ(static_cast<const ImageSize&>(image), size);
    EXPECT_LE(largest_difference(image.pixels, pixels), 8);
  }
}

TEST_F(Jpeg, GivesTheChannelsAskedFor) {
  const std::string grey = pixels_of({16, 16, 1});
  const std::string encoded = encode_jpeg(as_bytes(grey), {16, 16, 1}, 100);
  Scratch scratch;
  const Image colour = decode_image(as_bytes(encoded), 3, scratch);
  ASSERT_EQ(colour.pixels.size(), 16U * 16 * 3);
  EXPECT_EQ(colour.pixels[0], colour.pixels[2]);
  const std::string blue_encoded = encode_jpeg(colour.pixels, colour, 100);
  const Image again = decode_image(as_bytes(blue_encoded), 1, scratch);
  EXPECT_LE(largest_difference(again.pixels, grey), 3);
}

TEST_F(Jpeg, TornBytesAreErrorsAndTheNextImageDecodes) {
  const ImageSize size = {64, 64, 3};
  const std::string pixels = pixels_of(size), good = encode_jpeg(as_bytes(pixels), size, 90);
  Scratch scratch;
  const auto message = [&](const std::string& bytes) {
    return message_of([&] { decode_image(as_bytes(bytes), 3, scratch); });
  };
  for (const std::size_t length : {std::size_t{4}, std::size_t{100}, good.size() / 2, good.size() - 2}) {
    EXPECT_TRUE(has(message(good.substr(0, length)), "a JPEG image cannot be decoded")) << length;
    EXPECT_EQ(decode_image(as_bytes(good), 3, scratch).height, 64);
  }
  EXPECT_TRUE(has(message(good.substr(0, good.size() - 2)), "Premature end"));
  EXPECT_TRUE(has(message("GIF89a"), "begin with 47 49 46 38 are neither"));
  EXPECT_TRUE(has(message(""), "0 bytes that begin with nothing"));
  std::string huge = good;
  const auto frame = huge.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  huge.replace(frame + 5, 4, std::string("\xFF\x00\xFF\x00", 4));
  EXPECT_TRUE(has(message(huge), "65280 x 65280 pixels are more than"));
}

// Eight by eight pixels of the inks 200, 100, 50 and 128, as photographs for print are kept.
TEST_F(Jpeg, ReadsInks) {
  std::string inks = from_hex(
      "ffd8ffee000e41646f626500640000000000ffdb00430001010101010101010101010101010101010101010101010101010101010101"
      "010101010101010101010101010101010101010101010101010101010101010101ffc000140800080008044311004d11005911004b11"
      "00ffc4001600010101000000000000000000000000000a0008ffc40014100100000000000000000000000000000000ffda000e044300"
      "4d0059004b00003f00480c3e31e9ffd9");
  Scratch scratch;
  const auto first = [&](int channels) {
    const Image image = decode_image(as_bytes(inks), channels, scratch);
    EXPECT_EQ(static_cast<const ImageSize&>(image), (ImageSize{8, 8, channels == 1 ? 1 : 3}));
    std::vector<int> values;
    for (const auto byte : image.pixels.first(static_cast<std::size_t>(image.channels))) {
      values.push_back(std::to_integer<int>(byte));
    }
    return values;
  };
  EXPECT_EQ(first(0), (std::vector<int>{200 * 128 / 255, 100 * 128 / 255, 50 * 128 / 255}));  // Adobe: 255 is no ink
  EXPECT_EQ(first(1), (std::vector<int>{62}));
  inks.erase(inks.find("\xFF\xEE"), 16);  // the mark of Adobe
  EXPECT_EQ(first(3), (std::vector<int>{55 * 127 / 255, 155 * 127 / 255, 205 * 127 / 255}));
}

TEST_F(Jpeg, DecodesOnManyThreads) {
  const ImageSize size = {64, 64, 3};
  const std::string pixels = pixels_of(size), encoded = encode_jpeg(as_bytes(pixels), size, 95);
  std::vector<int> differences(4, 256);
  std::vector<std::thread> threads;
  for (auto& difference : differences) {
    threads.emplace_back([&] {
      Scratch scratch;
      for (int i = 0; i < 50; ++i) {
        scratch.clear();
        difference = largest_difference(decode_image(as_bytes(encoded), 3, scratch).pixels, pixels);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int difference : differences) EXPECT_LE(difference, 8);
}

TEST_F(Png, KeepsEveryPixel) {
  Scratch scratch;
  for (const ImageSize size : {ImageSize{64, 64, 3}, ImageSize{17, 33, 1}, ImageSize{1, 1, 3}}) {
    const std::string pixels = pixels_of(size);
    const std::string encoded = encode_png(as_bytes(pixels), size);
    EXPECT_TRUE(is_png(as_bytes(encoded)));
    EXPECT_EQ(image_size(as_bytes(encoded)), size);
    const Image image = decode_image(as_bytes(encoded), 0, scratch);
    EXPECT_EQ(static_cast<const ImageSize&>(image), size);
    EXPECT_EQ(as_text(image.pixels), pixels);
  }
}

TEST_F(Png, GivesTheChannelsAskedFor) {
  Scratch scratch;
  const std::string grey = encode_png(as_bytes("\x10\x20"), {1, 2, 1});
  EXPECT_EQ(as_text(decode_image(as_bytes(grey), 3, scratch).pixels), "\x10\x10\x10\x20\x20\x20");
  const std::string colour = encode_png(as_bytes("\x10\x20\x30\xFF\xFF\xFF"), {1, 2, 3});
  EXPECT_EQ(as_text(decode_image(as_bytes(colour), 1, scratch).pixels), "\x1D\xFF");
}

// Two pixels with a palette of red and half transparent blue, as other programs write them.
TEST_F(Png, ReadsPalettesAndDropsTransparency) {
  const std::string palette(
      "\x89\x50\x4E\x47\x0D\x0A\x1A\x0A\x00\x00\x00\x0D\x49\x48\x44\x52\x00\x00\x00\x02\x00\x00\x00\x01"
      "\x08\x03\x00\x00\x00\xC3\xFC\x8F\xB8\x00\x00\x00\x06\x50\x4C\x54\x45\xFF\x00\x00\x00\x00\xFF\x6C"
      "\xA1\xFD\x8E\x00\x00\x00\x02\x74\x52\x4E\x53\xFF\x80\x08\x0F\xB3\x6A\x00\x00\x00\x0B\x49\x44\x41"
      "\x54\x78\x9C\x63\x60\x60\x04\x00\x00\x04\x00\x02\xBF\x7A\x3F\x4A\x00\x00\x00\x00\x49\x45\x4E\x44"
      "\xAE\x42\x60\x82",
      100);
  Scratch scratch;
  EXPECT_EQ(as_text(decode_image(as_bytes(palette), 0, scratch).pixels), std::string("\xFF\0\0\0\0\xFF", 6));
}

TEST_F(Png, TornBytesAreErrors) {
  const ImageSize size = {64, 64, 3};
  const std::string good = encode_png(as_bytes(pixels_of(size)), size);
  Scratch scratch;
  const auto message = [&](const std::string& bytes) {
    return message_of([&] { decode_image(as_bytes(bytes), 3, scratch); });
  };
  for (const std::size_t length : {std::size_t{9}, std::size_t{30}, good.size() / 2, good.size() - 4}) {
    EXPECT_TRUE(has(message(good.substr(0, length)), "a PNG image cannot be decoded: it is cut short")) << length;
  }
  std::string flipped = good;
  flipped[good.size() / 2] ^= 1;
  EXPECT_TRUE(has(message(flipped), "a PNG image cannot be decoded"));
}

TEST(Image, RefusesWhatIsNoImage) {
  Scratch scratch;
  EXPECT_TRUE(has(message_of([&] { decode_image(as_bytes("x"), 2, scratch); }, Fault::Usage), "not 2"));
  EXPECT_TRUE(has(message_of([&] { encode_png(as_bytes("12345"), {1, 2, 3}); }, Fault::Usage), "5 bytes are not"));
  EXPECT_TRUE(has(message_of([&] { encode_jpeg(as_bytes("123"), {1, 1, 3}, 0); }, Fault::Usage), "quality 0"));
}

}  // namespace
}  // namespace lockstep::data
