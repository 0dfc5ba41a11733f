#include "lockstep/data/decompress.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"

#if LOCKSTEP_HAS_LIBARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

namespace lockstep::data {
namespace {

struct Ending {
  std::string_view text;
  std::string_view plain;  // what stands there of the file inside
};

constexpr std::array kEndings = {Ending{".gz", ""},      Ending{".bz2", ""},     Ending{".xz", ""},
                                 Ending{".zst", ""},     Ending{".tgz", ".tar"}, Ending{".tbz2", ".tar"},
                                 Ending{".txz", ".tar"}, Ending{".tzst", ".tar"}};

const Ending* ending_of(const std::string& path) {
  const auto* ending =
      std::find_if(kEndings.begin(), kEndings.end(), [&](const Ending& known) { return path.ends_with(known.text); });
  return ending == kEndings.end() ? nullptr : ending;
}

/// zlib counts in 32 bits.
uInt piece(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

class Inflater {
 public:
  explicit Inflater(int window_bits) {
    if (inflateInit2(&stream_, window_bits) != Z_OK) fail(Fault::Internal, "zlib cannot start");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  void run(Bytes packed, std::span<std::byte> into) {
    const std::size_t written = fill(packed, into, true);
    if (written != into.size()) {
      fail(Fault::Data, fmt::format("compressed bytes hold {} bytes instead of {}", written, into.size()));
    }
  }

  /// As much as there is room for; to the end of the stream only if it `must_end`.
  std::size_t fill(Bytes packed, std::span<std::byte> into, bool must_end) {
    std::size_t read = 0, written = 0;
    for (int result = Z_OK; result != Z_STREAM_END && (must_end || written < into.size());) {
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + read));
      stream_.avail_in = piece(packed.size() - read);
      stream_.next_out = reinterpret_cast<Bytef*>(into.data() + written);
      stream_.avail_out = piece(into.size() - written);
      const uInt in = stream_.avail_in, out = stream_.avail_out;
      result = inflate(&stream_, Z_NO_FLUSH);
      read += in - stream_.avail_in;
      written += out - stream_.avail_out;
      const bool stuck = in == stream_.avail_in && out == stream_.avail_out;
      if ((result != Z_OK && result != Z_STREAM_END) || (result == Z_OK && stuck)) {
        fail(Fault::Data, fmt::format("compressed bytes are torn after {} of {} bytes", written, into.size()));
      }
    }
    return written;
  }

 private:
  z_stream stream_{};
};

#if LOCKSTEP_HAS_LIBARCHIVE
struct ArchiveTraits {
  using Raw = archive*;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { archive_read_free(raw); }
};
#else
struct GzipTraits {
  using Raw = gzFile;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { gzclose(raw); }
};
#endif

}  // namespace

bool is_compressed_name(const std::string& path) { return ending_of(path) != nullptr; }

std::string name_decompressed(const std::string& path) {
  const Ending* ending = ending_of(path);
  if (ending == nullptr) return path;
  return path.substr(0, path.size() - ending->text.size()).append(ending->plain);
}

#if LOCKSTEP_HAS_LIBARCHIVE
std::string decompress_file(const std::string& path) {
  const Handle<ArchiveTraits> reader(archive_read_new());
  archive_read_support_filter_all(reader.get());
  archive_read_support_format_raw(reader.get());
  archive_entry* entry = nullptr;
  const auto check = [&](la_int64_t result) {
    if (result < ARCHIVE_WARN) {
      const char* reason = archive_error_string(reader.get());
      fail(Fault::Data, fmt::format("{} cannot be decompressed: {}", path, reason == nullptr ? "torn" : reason));
    }
    return result;
  };
  check(archive_read_open_filename(reader.get(), path.c_str(), std::size_t{1} << 20));
  check(archive_read_next_header(reader.get(), &entry));
  std::string bytes;
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  for (la_int64_t count = 1; count > 0;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kPiece);
    count = check(archive_read_data(reader.get(), bytes.data() + before, kPiece));
    bytes.resize(before + static_cast<std::size_t>(std::max<la_int64_t>(count, 0)));
  }
  return bytes;
}
#else
std::string decompress_file(const std::string& path) {
  if (!path.ends_with("gz")) {
    fail(Fault::Usage, fmt::format("{} needs libarchive, which this build is without; decompress it first, or apt "
                                   "install libarchive-dev and build again",
                                   path));
  }
  const Handle<GzipTraits> file(gzopen(path.c_str(), "rb"));
  if (!file) fail_errno("cannot read " + path, errno);
  std::string bytes;
  constexpr unsigned kPiece = 4 << 20;
  for (int count = 1; count > 0;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kPiece);
    count = gzread(file.get(), bytes.data() + before, kPiece);
    int status = Z_OK;
    const char* reason = gzerror(file.get(), &status);
    if (count < 0 || status != Z_OK) fail(Fault::Data, fmt::format("{} cannot be decompressed: {}", path, reason));
    bytes.resize(before + static_cast<std::size_t>(count));
  }
  return bytes;
}
#endif

void inflate_raw(Bytes packed, std::span<std::byte> into) { Inflater(-MAX_WBITS).run(packed, into); }

std::string inflate_zlib(Bytes packed, std::size_t bytes) {
  std::string plain(bytes, '\0');
  Inflater(MAX_WBITS).run(packed, std::as_writable_bytes(std::span(plain)));
  return plain;
}

std::string inflate_raw_front(Bytes packed, std::size_t most) {
  std::string front(most, '\0');
  front.resize(Inflater(-MAX_WBITS).fill(packed, std::as_writable_bytes(std::span(front)), false));
  return front;
}

struct Deflater::Stream {
  z_stream zlib{};
};

Deflater::Deflater(int level) : stream_(std::make_unique<Stream>()) {
  if (deflateInit2(&stream_->zlib, level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    fail(Fault::Usage, fmt::format("zlib has no compression level {}; it goes from 0 to 9", level));
  }
}

Deflater::~Deflater() { deflateEnd(&stream_->zlib); }

std::string Deflater::add(Bytes bytes, bool last) {
  z_stream& zlib = stream_->zlib;
  std::string packed;
  std::size_t read = 0, written = 0;
  bool done = false;
  while (!done) {
    packed.resize(written + std::max<std::size_t>(4096, deflateBound(&zlib, piece(bytes.size() - read))));
    zlib.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data() + read));
    zlib.avail_in = piece(bytes.size() - read);
    zlib.next_out = reinterpret_cast<Bytef*>(packed.data() + written);
    zlib.avail_out = piece(packed.size() - written);
    const uInt in = zlib.avail_in, out = zlib.avail_out;
    const bool rest = in == bytes.size() - read;
    const int result = deflate(&zlib, last && rest ? Z_FINISH : Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      fail(Fault::Internal, "zlib could not compress");
    }
    read += in - zlib.avail_in;
    written += out - zlib.avail_out;
    done = last ? result == Z_STREAM_END : read == bytes.size() && zlib.avail_out > 0;
  }
  packed.resize(written);
  return packed;
}

std::string deflate_raw(Bytes bytes, int level) { return Deflater(level).add(bytes, true); }

std::uint32_t crc32_of(Bytes bytes, std::uint32_t before) noexcept {
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) noexcept {
  return static_cast<std::uint32_t>(crc32_combine(first, second, static_cast<z_off_t>(second_bytes)));
}

}  // namespace lockstep::data
