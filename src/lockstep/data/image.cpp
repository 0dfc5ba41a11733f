#include "lockstep/data/image.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"

#if LOCKSTEP_HAS_JPEG
#include <jpeglib.h>
// Behind jpeglib.h, which it needs.
#include <jerror.h>
#endif
#if LOCKSTEP_HAS_PNG
#include <png.h>
#endif

namespace lockstep::data {
namespace {

constexpr std::string_view kJpegMagic = "\xFF\xD8\xFF";
constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1A\n";
/// A head of a few bytes can claim any size; no picture of a data set has more than this.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 27;

[[noreturn]] void torn(std::string_view kind, std::string_view reason) {
  fail(Fault::Data, fmt::format("a {} image cannot be decoded: {}", kind, reason));
}

[[noreturn, maybe_unused]] void needs(std::string_view kind, std::string_view package) {
  fail(Fault::Usage, fmt::format("{} images need {}, which this build is without; apt install {} and build again", kind,
                                 package, package));
}

void check_channels(int channels) {
  if (channels != 0 && channels != 1 && channels != 3) {
    fail(Fault::Usage, fmt::format("an image has 1 or 3 channels (0: as stored), not {}", channels));
  }
}

std::size_t bytes_of(const ImageSize& size) {
  return static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width) *
         static_cast<std::size_t>(size.channels);
}

[[maybe_unused]] void check_decoded(std::string_view kind, std::int64_t height, std::int64_t width) {
  if (height * width > kMostPixels) {
    torn(kind, fmt::format("{} x {} pixels are more than {}", height, width, kMostPixels));
  }
}

void check_encoded(Bytes pixels, const ImageSize& size) {
  check_channels(size.channels);
  if (size.height < 1 || size.width < 1 || size.channels == 0 || pixels.size() != bytes_of(size)) {
    fail(Fault::Usage, fmt::format("{} bytes are not an image of {} x {} pixels of {} channels", pixels.size(),
                                   size.height, size.width, size.channels));
  }
}

[[maybe_unused]] Image image_in(Scratch& scratch, int height, int width, int channels) {
  Image image;
  image.height = height;
  image.width = width;
  image.channels = channels;
  image.pixels = scratch.take(bytes_of(image));
  return image;
}

/// As libjpeg and Pillow round it.
[[maybe_unused]] Image to_grey(const Image& colour, Scratch& scratch) {
  Image grey = image_in(scratch, colour.height, colour.width, 1);
  const auto* from = reinterpret_cast<const std::uint8_t*>(colour.pixels.data());
  for (auto& pixel : grey.pixels) {
    pixel = static_cast<std::byte>((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
    from += 3;
  }
  return grey;
}

/// What the C libraries jump to in place of an exception. They may pass over frames without destructors only.
struct Escape {
  std::jmp_buf target;
  std::array<char, 256> reason;
};

/// False if `work` escaped. It must be trivial to leave: calls of the library and nothing else.
template <class Work>
[[maybe_unused]] bool guarded(Escape& escape, const Work& work) {
  if (setjmp(escape.target) != 0) return false;
  work();
  return true;
}

#if LOCKSTEP_HAS_JPEG

// ---- JPEG ----------------------------------------------------------------------------------------

/// A progressive image may have any number of scans, each over all pixels.
constexpr int kMostScans = 500;

struct JpegErrors {
  jpeg_error_mgr base;  // first: libjpeg hands its address out
  Escape escape;
};
static_assert(JMSG_LENGTH_MAX <= std::tuple_size_v<decltype(Escape::reason)>);

[[noreturn]] void on_jpeg_error(j_common_ptr info) {
  auto& errors = *reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors.escape.reason.data());
  std::longjmp(errors.escape.target, 1);
}

/// Warnings are below zero: corrupt data that libjpeg would fill with grey.
void on_jpeg_message(j_common_ptr info, int level) {
  if (level < 0) on_jpeg_error(info);
}

void on_jpeg_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  info->err->msg_code = JERR_BAD_PROGRESSION;
  on_jpeg_error(info);
}

jpeg_error_mgr* prepared(JpegErrors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = on_jpeg_error;
  errors.base.emit_message = on_jpeg_message;
  return &errors.base;
}

class JpegDecoder {
 public:
  JpegDecoder() {
    info_.err = prepared(errors_);
    if (!guarded(errors_.escape, [&] { jpeg_create_decompress(&info_); })) {
      fail(Fault::Internal, fmt::format("libjpeg cannot start: {}", errors_.escape.reason.data()));
    }
    progress_.progress_monitor = on_jpeg_progress;
    info_.progress = &progress_;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageSize read_head(Bytes encoded) {
    jpeg_abort_decompress(&info_);  // what an Error left behind
    check(guarded(errors_.escape, [&] {
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
      jpeg_read_header(&info_, TRUE);
    }));
    check_decoded("JPEG", info_.image_height, info_.image_width);
    return {static_cast<int>(info_.image_height), static_cast<int>(info_.image_width),
            info_.num_components == 1 ? 1 : 3};
  }

  Image decode(Bytes encoded, int channels, Scratch& scratch) {
    const ImageSize size = read_head(encoded);
    if (channels == 0) channels = size.channels;
    const bool inks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    const Image image = image_in(scratch, size.height, size.width, inks ? 4 : channels);
    check(guarded(errors_.escape, [&] { read_rows(image); }));
    if (!inks) return image;
    const Image colour = without_black(image, scratch);
    return channels == 1 ? to_grey(colour, scratch) : colour;
  }

 private:
  void check(bool done) {
    if (!done) torn("JPEG", errors_.escape.reason.data());
  }

  void read_rows(const Image& image) {
    jpeg_start_decompress(&info_);
    auto* pixels = reinterpret_cast<JSAMPLE*>(image.pixels.data());
    const std::size_t row_bytes = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
    constexpr std::size_t kRows = 16;  // as many as a line of blocks gives
    JSAMPROW rows[kRows];
    while (info_.output_scanline < info_.output_height) {
      const std::size_t first = info_.output_scanline;
      const std::size_t count = std::min<std::size_t>(kRows, info_.output_height - first);
      for (std::size_t i = 0; i < count; ++i) rows[i] = pixels + (first + i) * row_bytes;
      jpeg_read_scanlines(&info_, rows, static_cast<JDIMENSION>(count));
    }
    jpeg_finish_decompress(&info_);
  }

  /// Adobe writes inks inverted: 255 is none.
  Image without_black(const Image& inks, Scratch& scratch) const {
    Image colour = image_in(scratch, inks.height, inks.width, 3);
    const unsigned flip = info_.saw_Adobe_marker ? 0 : 255;
    const auto* from = reinterpret_cast<const std::uint8_t*>(inks.pixels.data());
    for (std::size_t at = 0; at < colour.pixels.size(); at += 3, from += 4) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        colour.pixels[at + channel] = static_cast<std::byte>((from[channel] ^ flip) * (from[3] ^ flip) / 255);
      }
    }
    return colour;
  }

  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  JpegErrors errors_{};
};

/// Setting one up costs as much as decoding a small image.
JpegDecoder& jpeg_decoder() {
  thread_local JpegDecoder decoder;
  return decoder;
}

class JpegEncoder {
 public:
  JpegEncoder() { info_.err = prepared(errors_); }
  ~JpegEncoder() {
    jpeg_destroy_compress(&info_);
    std::free(bytes_);
  }
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  std::string encode(Bytes pixels, const ImageSize& size, int quality) {
    if (!guarded(errors_.escape, [&] { write_rows(pixels, size, quality); })) {
      fail(Fault::Usage, fmt::format("an image of {} x {} pixels cannot be written as JPEG: {}", size.height,
                                     size.width, errors_.escape.reason.data()));
    }
    return {reinterpret_cast<const char*>(bytes_), length_};
  }

 private:
  void write_rows(Bytes pixels, const ImageSize& size, int quality) {
    jpeg_create_compress(&info_);
    jpeg_mem_dest(&info_, &bytes_, &length_);
    info_.image_width = static_cast<JDIMENSION>(size.width);
    info_.image_height = static_cast<JDIMENSION>(size.height);
    info_.input_components = size.channels;
    info_.in_color_space = size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    const std::size_t row_bytes = static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.channels);
    auto* first = const_cast<JSAMPLE*>(reinterpret_cast<const JSAMPLE*>(pixels.data()));
    while (info_.next_scanline < info_.image_height) {
      JSAMPROW row = first + info_.next_scanline * row_bytes;
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
  }

  jpeg_compress_struct info_{};
  JpegErrors errors_{};
  unsigned char* bytes_ = nullptr;
  unsigned long length_ = 0;  // NOLINT(google-runtime-int): libjpeg's
};

#endif
#if LOCKSTEP_HAS_PNG

// ---- PNG -----------------------------------------------------------------------------------------

[[noreturn]] void on_png_error(png_structp png, png_const_charp reason) {
  auto& escape = *static_cast<Escape*>(png_get_error_ptr(png));
  std::snprintf(escape.reason.data(), escape.reason.size(), "%s", reason);
  std::longjmp(escape.target, 1);
}

/// Of chunks that do not touch the pixels; broken pixels are errors.
void on_png_warning(png_structp, png_const_charp) {}

void on_png_read(png_structp png, png_bytep into, std::size_t bytes) {
  auto& rest = *static_cast<Bytes*>(png_get_io_ptr(png));
  if (bytes > rest.size()) png_error(png, "it is cut short");
  std::memcpy(into, rest.data(), bytes);
  rest = rest.subspan(bytes);
}

/// libpng's simple interface would apply the gamma that a file names; other loaders do not.
class PngDecoder {
 public:
  explicit PngDecoder(Bytes encoded) : rest_(encoded) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &escape_, on_png_error, on_png_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      fail(Fault::Internal, "libpng cannot start");
    }
    png_set_read_fn(png_, &rest_, on_png_read);
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ImageSize read_head() {
    check(guarded(escape_, [&] { png_read_info(png_, info_); }));
    const auto height = png_get_image_height(png_, info_), width = png_get_image_width(png_, info_);
    check_decoded("PNG", height, width);
    const bool colour = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    return {static_cast<int>(height), static_cast<int>(width), colour ? 3 : 1};
  }

  Image decode(int channels, Scratch& scratch) {
    const ImageSize size = read_head();
    if (channels == 0) channels = size.channels;
    const int read_channels = std::max(channels, size.channels);
    check(guarded(escape_, [&] { to_bytes(read_channels); }));
    Image image = image_in(scratch, size.height, size.width, read_channels);
    const std::size_t row_bytes = png_get_rowbytes(png_, info_);
    if (row_bytes * static_cast<std::size_t>(size.height) != image.pixels.size()) {
      fail(Fault::Internal, fmt::format("libpng gives rows of {} bytes", row_bytes));
    }
    const auto rows = scratch.take(static_cast<std::size_t>(size.height) * sizeof(png_bytep));
    auto* row = reinterpret_cast<png_bytep*>(rows.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(size.height); ++i) {
      row[i] = reinterpret_cast<png_bytep>(image.pixels.data()) + i * row_bytes;
    }
    check(guarded(escape_, [&] {
      png_read_image(png_, row);
      png_read_end(png_, nullptr);
    }));
    return read_channels > channels ? to_grey(image, scratch) : image;
  }

 private:
  void check(bool done) {
    if (!done) torn("PNG", escape_.reason.data());
  }

  void to_bytes(int channels) {
    const int kind = png_get_color_type(png_, info_);
    png_set_scale_16(png_);
    if (kind == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (kind == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if (channels == 3 && (kind & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  Bytes rest_;
  Escape escape_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

#endif

enum class Kind { Jpeg, Png };

Kind kind_of(Bytes encoded) {
  if (is_jpeg(encoded)) return Kind::Jpeg;
  if (is_png(encoded)) return Kind::Png;
  std::string first;
  for (const auto byte : encoded.first(std::min<std::size_t>(encoded.size(), 4))) {
    first += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
  }
  fail(Fault::Data, fmt::format("{} bytes that begin with{} are neither a JPEG nor a PNG image", encoded.size(),
                                first.empty() ? " nothing" : first));
}

}  // namespace

bool is_jpeg(Bytes encoded) noexcept { return as_text(encoded).starts_with(kJpegMagic); }
bool is_png(Bytes encoded) noexcept { return as_text(encoded).starts_with(kPngMagic); }

bool has_decoder(Encoding encoding) noexcept {
  return (encoding == Encoding::Jpeg && LOCKSTEP_HAS_JPEG) || (encoding == Encoding::Png && LOCKSTEP_HAS_PNG);
}

Image decode_image(Bytes encoded, int channels, [[maybe_unused]] Scratch& scratch) {
  check_channels(channels);
  if (kind_of(encoded) == Kind::Jpeg) {
#if LOCKSTEP_HAS_JPEG
    return jpeg_decoder().decode(encoded, channels, scratch);
#else
    needs("JPEG", "libjpeg-dev");
#endif
  }
#if LOCKSTEP_HAS_PNG
  return PngDecoder(encoded).decode(channels, scratch);
#else
  needs("PNG", "libpng-dev");
#endif
}

ImageSize image_size(Bytes encoded) {
  if (kind_of(encoded) == Kind::Jpeg) {
#if LOCKSTEP_HAS_JPEG
    return jpeg_decoder().read_head(encoded);
#else
    needs("JPEG", "libjpeg-dev");
#endif
  }
#if LOCKSTEP_HAS_PNG
  return PngDecoder(encoded).read_head();
#else
  needs("PNG", "libpng-dev");
#endif
}

std::string encode_jpeg(Bytes pixels, const ImageSize& size, [[maybe_unused]] int quality) {
  check_encoded(pixels, size);
  if (quality < 1 || quality > 100)
    fail(Fault::Usage, fmt::format("JPEG quality {} is not between 1 and 100", quality));
#if LOCKSTEP_HAS_JPEG
  return JpegEncoder().encode(pixels, size, quality);
#else
  needs("JPEG", "libjpeg-dev");
#endif
}

std::string encode_png(Bytes pixels, const ImageSize& size) {
  check_encoded(pixels, size);
#if LOCKSTEP_HAS_PNG
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(size.width);
  image.height = static_cast<png_uint_32>(size.height);
  image.format = size.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string encoded(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t length = encoded.size();
  if (png_image_write_to_memory(&image, encoded.data(), &length, 0, pixels.data(), 0, nullptr) == 0) {
    fail(Fault::Internal, fmt::format("libpng cannot write an image: {}", image.message));
  }
  encoded.resize(length);
  return encoded;
#else
  needs("PNG", "libpng-dev");
#endif
}

}  // namespace lockstep::data
