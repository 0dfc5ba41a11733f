// HDF5: a field for each data set, a sample per row. Reads without the library wherever
// the file's own layout allows it (hdf5_place.h).
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/absent_format.h"
#include "lockstep/data/format.h"

#if LOCKSTEP_HAS_HDF5
#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/formats/hdf5_heap.h"
#include "lockstep/data/formats/hdf5_place.h"
#include "lockstep/data/formats/hdf5_writer.h"
#include "lockstep/data/image.h"
#endif

namespace lockstep::data {
namespace {

constexpr const char* kDescription = "HDF5, a field per data set, a sample per row";

std::vector<std::string> hdf5_extensions() { return {".h5", ".hdf5", ".he5"}; }

#if LOCKSTEP_HAS_HDF5

using namespace hdf5;

/// Why values of this type are no field.
std::string refusal(hid_t type) {
  const auto order = H5Tget_order(type);
  if (order == H5T_ORDER_BE) return "is big-endian; write it anew as little-endian, e.g. with NumPy's astype('<f4')";
  switch (H5Tget_class(type)) {
    case H5T_COMPOUND: return "has several values in each element; write each as a data set of its own";
    case H5T_INTEGER:
    case H5T_FLOAT: return "is of a number type that tensors do not have";
    default: return "holds no numbers, texts or bytes; choose other data sets with --fields";
  }
}

/// The type of numbers, also of those that an enum gives names to.
c10::ScalarType number_type(const std::string& path, hid_t type) {
  if (const auto known = scalar_of(type)) return *known;
  if (H5Tget_class(type) == H5T_ENUM) {
    const TypeId numbers(checked(H5Tget_super(type), "its type cannot be read"));
    return number_type(path, numbers.get());
  }
  fail(Fault::Data, fmt::format("'{}' {}", path, refusal(type)));
}

/// What texts of one size are filled up with, in Index::notes: a character for each field.
constexpr char kZeros = '0', kSpaces = ' ';

Bytes without_padding(Bytes bytes, char padding) {
  const std::string_view text = as_text(bytes);
  const std::size_t size = padding == kSpaces ? text.find_last_not_of(' ') + 1 : text.find('\0');
  return bytes.first(std::min(size, bytes.size()));
}

/// As we write them; an attribute of that name but another kind is somebody else's.
std::vector<std::string> classes_of(const Array& array) {
  if (checked(H5Aexists(array.id.get(), "classes"), "attributes cannot be read") == 0) return {};
  const AttributeId attribute(checked(H5Aopen(array.id.get(), "classes", H5P_DEFAULT), "classes cannot be read"));
  const TypeId type(checked(H5Aget_type(attribute.get()), "classes cannot be read"));
  const SpaceId space(checked(H5Aget_space(attribute.get()), "classes cannot be read"));
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) > 0) return {};
  constexpr std::uint64_t kMostBytes = 64 << 20;
  const std::uint64_t size = H5Tget_size(type.get());
  const hssize_t count = checked(H5Sget_simple_extent_npoints(space.get()), "classes cannot be read");
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(count), &bytes) || bytes > kMostBytes) {
    fail(Fault::Data, fmt::format("'{}' claims to have {} classes", array.path, count));
  }
  std::string names(bytes, '\0');
  checked(H5Aread(attribute.get(), type.get(), names.data()), "classes cannot be read");
  std::vector<std::string> classes;
  for (std::uint64_t place = 0; place < bytes; place += size) {
    classes.push_back(names.substr(place, std::min<std::uint64_t>(size, names.find('\0', place) - place)));
  }
  return classes;
}

// ---- values of different length -----------------------------------------------------------------

/// A column of references, to be looked up in the heap.
struct Referring {
  std::size_t column = 0;
  std::uint64_t element_bytes = 1;
};

struct Scan {
  Index index;
  std::vector<Referring> referring;
  std::uint64_t base = 0;  // of addresses
};

/// Calls with the reference of each row.
template <class Each>
void each_reference(const FileBytes& file, const Index& index, const Column& column, const Each& each) {
  const auto samples = static_cast<std::uint64_t>(index.samples);
  const bool uniform = column.layout == Column::Layout::Uniform;
  const std::uint64_t per_block = uniform ? samples : column.rows_per_block;
  for (std::uint64_t first = 0; first < samples; first += per_block) {
    Scratch scratch;
    const Extent& extent = column.extents[first / per_block];
    const std::uint64_t stored = uniform ? samples * extent.length : extent.length;
    const Bytes bytes = extent.file == kInIndex ? as_bytes(index.inline_bytes).subspan(extent.offset, stored)
                                                : file.read(extent.offset, stored, scratch);
    const std::string unpacked = uniform ? std::string() : unpack_block(file.path(), column, bytes);
    const Bytes references = uniform ? bytes : as_bytes(unpacked);
    for (std::uint64_t row = 0; row < std::min(per_block, samples - first); ++row) {
      each(references.subspan(row * kReferenceBytes, kReferenceBytes));
    }
  }
}

/// Replaces the references by where the values lie.
void look_up(const FileBytes& file, Scan& scan, const Referring& referring) {
  GlobalHeap heap(file, scan.base);
  Column& column = scan.index.columns[referring.column];
  Column values;
  values.fields = column.fields;
  each_reference(file, scan.index, column,
                 [&](Bytes reference) { values.extents.push_back(heap.find(reference, referring.element_bytes)); });
  column = std::move(values);
}

/// Images are known by how the first one begins.
void look_at_first(const FileBytes& file, Index& index, const Column& column) {
  Field& field = index.schema[column.fields[0]];
  const Extent& first = column.extents[0];
  if (field.encoding != Encoding::Raw || first.file == kInIndex) return;
  Scratch scratch;
  field.encoding = encoding_by_magic(file.read(first.offset, first.length, scratch));
}

// ---- fields -------------------------------------------------------------------------------------

Field text_field(const Array& array) { return {array.name, Encoding::Text}; }

Field sequence_field(const Array& array, Referring& referring) {
  const TypeId element(checked(H5Tget_super(array.type.get()), "its type cannot be read"));
  const c10::ScalarType type = number_type(array.path, element.get());
  referring.element_bytes = c10::elementSize(type);
  if (type == c10::ScalarType::Byte) return {array.name, Encoding::Raw};
  return {array.name, Encoding::Values, type, {-1}};
}

Field number_field(const Array& array) {
  const c10::ScalarType type = number_type(array.path, array.type.get());
  return {array.name, Encoding::Values, type, {array.dims.begin() + 1, array.dims.end()}, classes_of(array)};
}

void add(Scan& scan, const Array& array, hid_t file) {
  (void)array.bytes();  // an impossible shape goes no further
  const H5T_class_t kind = H5Tget_class(array.type.get());
  const bool one_in_a_row = array.row_elements() == 1;
  if ((kind == H5T_STRING || kind == H5T_VLEN) && !one_in_a_row) {
    fail(Fault::Data,
         fmt::format("'{}' has {} texts or sequences in a row; only one is read", array.path, array.row_elements()));
  }
  if (array.variable && !has_long_addresses(file)) {
    fail(Fault::Data, fmt::format("'{}' has values of different length behind short addresses; write it anew with "
                                  "h5repack",
                                  array.path));
  }
  Referring referring = {scan.index.columns.size(), 1};
  scan.index.schema.push_back(kind == H5T_STRING ? text_field(array)
                              : kind == H5T_VLEN ? sequence_field(array, referring)
                                                 : number_field(array));
  Column column = column_of(array, file, scan.index);
  column.fields = {static_cast<std::uint32_t>(referring.column)};
  scan.index.columns.push_back(std::move(column));
  if (array.variable) scan.referring.push_back(referring);
  const bool spaces = kind == H5T_STRING && H5Tget_strpad(array.type.get()) == H5T_STR_SPACEPAD;
  scan.index.notes += spaces ? kSpaces : kZeros;
}

Scan scan_arrays(const std::string& path, const IndexedFile& scanned, const OpenOptions& options) {
  const Session session;
  const FileId file = open_to_read(path);
  const auto arrays = arrays_of(file.get(), options.fields);
  Scan scan;
  scan.index.files = {scanned};
  scan.index.samples = static_cast<std::int64_t>(arrays[0].rows());
  scan.base = user_block_bytes(file.get());
  if (scan.index.samples == 0) return scan;
  for (const auto& array : arrays) add(scan, array, file.get());
  return scan;
}

class Hdf5 final : public Format {
 public:
  std::vector<std::string> extensions() const override { return hdf5_extensions(); }
  bool recognises(Bytes head) const override { return as_text(head).starts_with("\x89HDF\r\n\x1A\n"); }

  Index scan(const std::string& path, const OpenOptions& options) const override {
    if (is_compressed_name(path)) {
      fail(Fault::Usage, fmt::format("HDF5 cannot be read from {}; decompress it first", path));
    }
    const auto file = map_file(path);
    Scan scan = scan_arrays(path, scanned_file(*file), options);
    for (const auto& referring : scan.referring) {
      look_up(*file, scan, referring);
      look_at_first(*file, scan.index, scan.index.columns[referring.column]);
    }
    return std::move(scan.index);
  }

  void decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const override {
    const Field& field = index.schema[column.fields[0]];
    if (field.encoding == Encoding::Text) bytes = without_padding(bytes, index.notes.at(column.fields[0]));
    Format::decode(index, column, bytes, sample);
    if (field.encoding == Encoding::Values && !field.fixed()) {
      sample.values[column.fields[0]].shape = {static_cast<std::int64_t>(bytes.size() / c10::elementSize(field.type))};
    }
  }

  std::string unpack_from(const std::string& path, const Index&, const Column& column, Bytes block) const override {
    return unpack_block(path, column, block);
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    return make_writer(path, schema, options);
  }
};

const FormatRegistry::Add registered{"hdf5", kDescription, [] { return std::make_unique<Hdf5>(); }};

#else

const FormatRegistry::Add registered{
    "hdf5", kDescription,
    [] { return std::make_unique<AbsentFormat>("HDF5", hdf5_extensions(), "apt install libhdf5-dev"); }};

#endif

}  // namespace
}  // namespace lockstep::data
