// Named arrays in a zip archive, as numpy.savez writes them: a field per array, a sample
// per row of all. Stored arrays are read where they lie; a deflated one is unpacked as a
// whole when its first row is wanted.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/text.h"
#include "lockstep/data/array_rows.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/format.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/zip_directory.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kEnding = ".npy";
constexpr std::uint64_t kAlignment = 64;

// ---- how a deflated array is packed, in words: kept in Column::how -------------------------------

struct ArrayPacking {
  ZipPacking packing;
  std::uint64_t head_bytes = 0;  // of the npy, before the rows
};

std::string words_of(const ArrayPacking& array) {
  return fmt::format("{} {} {} {}", array.packing.header_offset, array.packing.bytes, array.packing.crc,
                     array.head_bytes);
}

ArrayPacking parse_words(const std::string& words) {
  std::array<std::uint64_t, 4> numbers{};
  const auto parts = split(words, ' ');
  bool right = parts.size() == numbers.size();
  for (std::size_t i = 0; right && i < numbers.size(); ++i) {
    const char* last = parts[i].data() + parts[i].size();
    const auto [end, error] = std::from_chars(parts[i].data(), last, numbers[i]);
    right = error == std::errc() && end == last;
  }
  if (!right || numbers[2] > UINT32_MAX || numbers[3] > numbers[1]) {
    fail(Fault::Data, fmt::format("the index says '{}' of how an array is packed", words));
  }
  return {{numbers[0], numbers[1], static_cast<std::uint32_t>(numbers[2]), kDeflated}, numbers[3]};
}

// ---- reading -------------------------------------------------------------------------------------

void add_member(Index& index, const ZipMember& member, Bytes archive) {
  const std::string name = member.name.substr(0, member.name.size() - kEnding.size());
  for (const auto& field : index.schema) {
    if (field.name == name) fail(Fault::Data, fmt::format("there are two arrays called '{}'", name));
  }
  const std::string front = front_of_member(member, archive);
  const NpyHeader header = parse_npy_header(as_bytes(front));
  const std::uint64_t row_bytes = member.packing.bytes - header.data_offset;
  if (member.packing.method == kStored) {
    return add_array(index, name, header.type, header.shape, {0, member.data_offset + header.data_offset, row_bytes});
  }
  add_array_field(index, name, header.type, header.shape);
  if (row_bytes < header.data_bytes()) {
    fail(Fault::Data, fmt::format("'{}' is cut short: {} bytes instead of {}", name, row_bytes, header.data_bytes()));
  }
  Column column;
  column.fields = {static_cast<std::uint32_t>(index.schema.size() - 1)};
  column.layout = Column::Layout::Blocks;
  column.rows_per_block = static_cast<std::uint64_t>(std::max<std::int64_t>(index.samples, 1));
  column.row_bytes = static_cast<std::uint64_t>(index.schema.back().bytes());
  if (index.samples > 0) column.extents = {{0, member.data_offset, member.packed_bytes}};
  column.how = words_of({member.packing, header.data_offset});
  index.columns.push_back(std::move(column));
}

template <class Take>
void each_array(Bytes archive, const Take& take) {
  ZipReader reader(archive);
  while (const auto member = reader.next()) {
    if (!member->regular || !member->name.ends_with(kEnding)) continue;
    try {
      take(*member);
    } catch (Error& error) {
      throw error.during(fmt::format("reading member '{}' at byte {}", member->name, member->packing.header_offset));
    }
  }
}

// ---- writing -------------------------------------------------------------------------------------

/// Bytes that wait on the disk, in a file that has no name any more: nothing is left behind.
class SideFile {
 public:
  explicit SideFile(const std::string& beside) : target_(beside) {
    std::string name = beside + ".rowsXXXXXX";
    file_ = FileDescriptor(mkstemp(name.data()));
    if (!file_) fail_to_write(target_, errno);
    unlink(name.c_str());
  }
  void write(std::string_view bytes) {
    size_ += bytes.size();
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) fail_to_write(target_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
  }
  std::uint64_t size() const noexcept { return size_; }
  /// In pieces, in order.
  template <class Take>
  void read_all(const Take& take) const {
    std::string piece(kPiece, '\0');
    for (std::uint64_t at = 0; at < size_;) {
      const ssize_t count = pread(file_.get(), piece.data(), piece.size(), static_cast<off_t>(at));
      if (count == 0 || (count < 0 && errno != EINTR))
        fail_errno("cannot read back what waits to be written to " + target_, errno);
      take(std::string_view(piece).substr(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0))));
      at += static_cast<std::uint64_t>(std::max<ssize_t>(count, 0));
    }
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{4} << 20;
  std::string target_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

/// The rows of one field, packed as they come: the head before them says how many there are.
class ArrayWriter {
 public:
  ArrayWriter(const std::string& path, const Field& field, const WriteOptions& options) : rows_({field}), side_(path) {
    if (!options.compression.empty()) deflater_.emplace(options.level);
  }

  void add(const Sample& sample, std::size_t place) {
    buffer_ += as_text(rows_.bytes(sample, place));
    ++count_;
    if (buffer_.size() >= kBufferBytes) flush(false);
  }
  void write_to(ZipFile& archive) {
    flush(true);
    const std::string head = npy_header(rows_.field().type, rows_.shape_of(count_));
    const std::string block = deflater_ ? stored_block(head) : head;
    ZipPacking packing = {0, head.size() + bytes_, crc32_joined(crc32_of(as_bytes(head)), crc_, bytes_), kStored};
    if (deflater_) packing.method = kDeflated;
    archive.begin({rows_.field().name + std::string(kEnding), 0, block.size() + side_.size(), packing, true},
                  kAlignment);
    archive.write(block);
    side_.read_all([&](std::string_view piece) { archive.write(piece); });
  }

 private:
  void flush(bool last) {
    crc_ = crc32_of(as_bytes(buffer_), crc_);
    bytes_ += buffer_.size();
    side_.write(deflater_ ? deflater_->add(as_bytes(buffer_), last) : buffer_);
    buffer_.clear();
  }
  /// A block of deflate that is not the last one, kept as it is. It ends at a whole byte, so that the
  /// rows, which were deflated before the head was known, follow it.
  static std::string stored_block(const std::string& head) {
    const auto length = static_cast<std::uint16_t>(head.size());
    const auto inverse = static_cast<std::uint16_t>(~length);
    std::string block(1, '\0');
    block.append(reinterpret_cast<const char*>(&length), sizeof length);
    block.append(reinterpret_cast<const char*>(&inverse), sizeof inverse);
    return block + head;
  }

  static constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
  ArrayRows rows_;
  SideFile side_;
  std::optional<Deflater> deflater_;
  std::string buffer_;
  std::int64_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t crc_ = 0;
};

class NpzWriter final : public Writer {
 public:
  NpzWriter(const std::string& path, const Schema& schema, const WriteOptions& options) : file_(path) {
    for (const auto& field : schema) {
      if (field.name.empty()) fail(Fault::Usage, "npz needs a name for every field");
      arrays_.push_back(std::make_unique<ArrayWriter>(path, field, options));
    }
  }
  void add(const std::string&, const Sample& sample) override {
    for (std::size_t place = 0; place < arrays_.size(); ++place) arrays_[place]->add(sample, place);
  }
  void finish() override {
    for (const auto& array : arrays_) array->write_to(file_);
    file_.finish();
  }

 private:
  ZipFile file_;
  std::vector<std::unique_ptr<ArrayWriter>> arrays_;
};

class Npz final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".npz"}; }
  /// A zip archive whose first member is an array.
  bool recognises(Bytes head) const override {
    constexpr std::size_t kNameLength = 26, kName = 30;
    const std::string_view text = as_text(head);
    if (!is_zip(head) || text.size() < kName) return false;
    const auto length = static_cast<unsigned char>(text[kNameLength]);
    return text.substr(kName, length).ends_with(kEnding);
  }

  Index scan(const std::string& path, const OpenOptions&) const override {
    const auto file = map_file(path);
    Scratch scratch;
    const Bytes archive = whole(*file, scratch);
    Index index;
    index.files = {scanned_file(*file)};
    each_array(archive, [&](const ZipMember& member) { add_member(index, member, archive); });
    return index;
  }

  /// Stored arrays are read row by row, and their crc32 is of all rows; unpack() looks at that of the others.
  void check_own_checksums(const std::string& path) const override {
    const auto file = map_file(path);
    Scratch scratch;
    const Bytes archive = whole(*file, scratch);
    each_array(archive, [&](const ZipMember& member) {
      if (member.packing.method != kStored) return;
      (void)unpack_member(member.packing, archive.subspan(member.data_offset, member.packed_bytes), scratch);
    });
  }

  std::string unpack(const Index&, const Column& column, Bytes block) const override {
    const ArrayPacking array = parse_words(column.how);
    return unpack_member(array.packing, block).erase(0, array.head_bytes);
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    check_zip_compression(options.compression);
    return std::make_unique<NpzWriter>(path, schema, options);
  }
};

const FormatRegistry::Add registered{"npz", "NumPy arrays by name, a sample per row of all",
                                     [] { return std::make_unique<Npz>(); }};

}  // namespace
}  // namespace lockstep::data
