#if LOCKSTEP_HAS_HDF5
#include "lockstep/data/formats/hdf5_writer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/array_rows.h"
#include "lockstep/data/aside_path.h"
#include "lockstep/data/formats/hdf5_library.h"

namespace lockstep::data::hdf5 {
namespace {

constexpr std::uint64_t kChunkBytes = 256 << 10;
/// HDF5 counts the bytes of a chunk in 32 bits.
constexpr std::uint64_t kMostRowBytes = UINT32_MAX;
/// Of text and bytes in a chunk: their references alone lie in it.
constexpr hsize_t kVariableRows = 1024;

/// A data set that grows chunk by chunk.
class Growing {
 public:
  Growing(hid_t file, const Field& field, const WriteOptions& options) : field_(field) {
    const hsize_t row_bytes = field.encoding == Encoding::Values ? static_cast<hsize_t>(field.bytes()) : 0;
    chunk_rows_ = row_bytes == 0 ? kVariableRows : std::max<hsize_t>(1, kChunkBytes / row_bytes);
    row_.assign(field.shape.begin(), field.shape.end());
    type_ = field.encoding == Encoding::Values ? type_of(field.type)
            : field.encoding == Encoding::Text ? text_type()
                                               : TypeId(H5Tvlen_create(H5T_STD_U8LE));
    const PropertiesId creation = creation_properties(options);
    const PropertiesId links(H5Pcreate(H5P_LINK_CREATE));
    checked(H5Pset_create_intermediate_group(links.get(), 1), "HDF5 cannot write");
    const SpaceId space = space_of(0, H5S_UNLIMITED);
    const auto what = fmt::format("'{}' cannot be written", field.name);
    id_ = DatasetId(checked(
        H5Dcreate2(file, field.name.c_str(), type_.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT),
        what));
    if (!field.classes.empty()) write_classes();
  }

  void add(const Value& value) {
    check(value);
    if (field_.encoding == Encoding::Values) {
      bytes_ += as_text(value.bytes);
    } else {
      variable_.emplace_back(as_text(value.bytes));
      variable_bytes_ += value.bytes.size();
    }
    if (++waiting_ == chunk_rows_ || variable_bytes_ > kChunkBytes) flush();
  }

  void flush() {
    if (waiting_ == 0) return;
    if (field_.encoding == Encoding::Values) {
      write(bytes_.data());
    } else if (field_.encoding == Encoding::Text) {
      std::vector<const char*> texts;
      for (const auto& text : variable_) texts.push_back(text.c_str());
      write(texts.data());
    } else {
      std::vector<hvl_t> sequences;
      for (auto& sequence : variable_) sequences.push_back({sequence.size(), sequence.data()});
      write(sequences.data());
    }
    bytes_.clear();
    variable_.clear();
    variable_bytes_ = 0;
    waiting_ = 0;
  }

 private:
  PropertiesId creation_properties(const WriteOptions& options) const {
    PropertiesId creation(H5Pcreate(H5P_DATASET_CREATE));
    const auto chunk = dims(chunk_rows_);
    checked(H5Pset_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data()), "HDF5 cannot write");
    if (options.compression.empty() || field_.encoding != Encoding::Values) return creation;
    constexpr int kLevel = 6;  // zlib's own
    checked(H5Pset_shuffle(creation.get()), "HDF5 cannot shuffle");
    checked(H5Pset_deflate(creation.get(), static_cast<unsigned>(options.level < 0 ? kLevel : options.level)),
            "HDF5 cannot deflate");
    return creation;
  }

  std::vector<hsize_t> dims(hsize_t rows) const {
    std::vector<hsize_t> all = {rows};
    all.insert(all.end(), row_.begin(), row_.end());
    return all;
  }
  SpaceId space_of(hsize_t rows, hsize_t most_rows) const {
    const auto now = dims(rows), most = dims(most_rows);
    return SpaceId(
        checked(H5Screate_simple(static_cast<int>(now.size()), now.data(), most.data()), "HDF5 cannot write"));
  }

  void check(const Value& value) const {
    check_row(field_, value);
    if (field_.encoding == Encoding::Text && as_text(value.bytes).find('\0') != std::string_view::npos) {
      fail(Fault::Data, fmt::format("'{}' has a zero byte, where texts of HDF5 end; use tar or tfrecord", field_.name));
    }
  }

  void write(const void* rows) {
    const auto what = fmt::format("'{}' cannot be written", field_.name);
    const auto all = dims(written_ + waiting_), count = dims(waiting_);
    std::vector<hsize_t> start(all.size(), 0);
    start[0] = written_;
    checked(H5Dset_extent(id_.get(), all.data()), what);
    const SpaceId there(checked(H5Dget_space(id_.get()), what));
    checked(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), what);
    const SpaceId here = space_of(waiting_, waiting_);
    checked(H5Dwrite(id_.get(), type_.get(), here.get(), there.get(), H5P_DEFAULT, rows), what);
    written_ += waiting_;
  }

  // Of one size: the library crashes on torn references to texts of different length.
  void write_classes() {
    std::size_t size = 1;
    for (const auto& name : field_.classes) size = std::max(size, name.size());
    std::string names;
    for (const auto& name : field_.classes) names += name + std::string(size - name.size(), '\0');
    const hsize_t count = field_.classes.size();
    const auto what = fmt::format("the classes of '{}' cannot be written", field_.name);
    const SpaceId space(checked(H5Screate_simple(1, &count, nullptr), what));
    const TypeId type(H5Tcopy(H5T_C_S1));
    checked(H5Tset_size(type.get(), size), what);
    checked(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), what);
    checked(H5Tset_cset(type.get(), H5T_CSET_UTF8), what);
    const AttributeId attribute(
        checked(H5Acreate2(id_.get(), "classes", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), what));
    checked(H5Awrite(attribute.get(), type.get(), names.data()), what);
  }

  Field field_;
  TypeId type_;
  DatasetId id_;
  std::vector<hsize_t> row_;
  hsize_t chunk_rows_ = 1;
  hsize_t written_ = 0;
  hsize_t waiting_ = 0;
  std::string bytes_;
  std::vector<std::string> variable_;
  std::uint64_t variable_bytes_ = 0;
};

/// What the system said, which HDF5 hides in "file write failed: …, errno = 28, …, buf = 0x55…".
std::optional<int> errno_in(const std::string& message) {
  constexpr std::string_view kMark = "errno = ";
  const auto place = message.find(kMark);
  if (place == std::string::npos) return std::nullopt;
  int number = 0;
  std::from_chars(message.data() + place + kMark.size(), message.data() + message.size(), number);
  return number > 0 ? std::optional(number) : std::nullopt;
}

/// `work`, and if the disk did not take what it wrote, that as the reason.
template <class Work>
void writing(const std::string& target, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (const auto number = errno_in(error.message())) fail_to_write(target, *number);
    throw;
  }
}

class Hdf5Writer final : public Writer {
 public:
  Hdf5Writer(const std::string& path, const Schema& schema, const WriteOptions& options) : target_(path), aside_(path) {
    const Session session;
    try {
      const PropertiesId access(H5Pcreate(H5P_FILE_ACCESS));
      // The layout of HDF5 1.10: its tables carry checksums, so that torn ones are noticed, and an
      // attribute may be larger than 64 KiB.
      checked(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_LATEST), "HDF5 cannot write");
      writing(target_, [&] {
        file_ = FileId(checked(H5Fcreate(aside_.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                               fmt::format("cannot write {}", path)));
        for (const auto& field : schema) fields_.emplace_back(file_.get(), field, options);
      });
    } catch (...) {
      close();
      throw;
    }
  }
  ~Hdf5Writer() override {
    const Session session;
    close();
  }
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  void add(const std::string&, const Sample& sample) override {
    const Session session;
    writing(target_, [&] {
      for (std::size_t place = 0; place < fields_.size(); ++place) fields_[place].add(sample.values.at(place));
    });
  }

  void finish() override {
    const Session session;
    writing(target_, [&] {
      constexpr const char* kWhat = "the file cannot be written to its end";
      for (auto& field : fields_) field.flush();
      // Chunks wait in the library's caches, and closing a data set would not say that they were lost.
      checked(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), kWhat);
      fields_.clear();
      checked(H5Fclose(file_.take()), kWhat);
    });
    aside_.commit();
  }

 private:
  void close() noexcept {
    fields_.clear();
    file_.reset();
  }

  std::string target_;
  AsidePath aside_;
  FileId file_;
  std::vector<Growing> fields_;
};

void check_field(const Field& field) {
  if (field.encoding != Encoding::Values) return;
  if (!field.fixed() || field.bytes() <= 0 || static_cast<std::uint64_t>(field.bytes()) > kMostRowBytes) {
    fail(Fault::Usage, fmt::format("HDF5 cannot hold {} as a row; use tar or tfrecord", field.text()));
  }
}

}  // namespace

std::unique_ptr<Writer> make_writer(const std::string& path, const Schema& schema, const WriteOptions& options) {
  if (!options.compression.empty() && options.compression != "deflate") {
    fail(Fault::Usage, fmt::format("HDF5 is compressed by deflate, not by '{}'", options.compression));
  }
  if (options.level > 9) {
    fail(Fault::Usage, fmt::format("deflate has no level {}; it goes from 0 to 9", options.level));
  }
  for (const auto& field : schema) check_field(field);
  return std::make_unique<Hdf5Writer>(path, schema, options);
}

}  // namespace lockstep::data::hdf5
#endif
