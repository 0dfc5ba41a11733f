#if LOCKSTEP_HAS_HDF5
#include "lockstep/data/formats/hdf5_array.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/formats/hdf5_heap.h"

namespace lockstep::data::hdf5 {
namespace {

constexpr std::size_t kMostArrays = 4096;
/// No compressor makes that much of its bytes: an array that claims it is torn.
constexpr std::uint64_t kMostInflation = 16384;

std::vector<std::string> dataset_paths(hid_t file) {
  std::vector<std::string> paths;
  const auto note = [](hid_t, const char* name, const H5O_info_t* object, void* into) -> herr_t {
    auto& found = *static_cast<std::vector<std::string>*>(into);
    if (object->type == H5O_TYPE_DATASET) found.emplace_back(name);
    return found.size() > kMostArrays ? 1 : 0;
  };
#if H5_VERSION_GE(1, 12, 0)
  const herr_t result = H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_INC, note, &paths, H5O_INFO_BASIC);
#else
  const herr_t result = H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, note, &paths, H5O_INFO_BASIC);
#endif
  checked(result, "its groups cannot be read");
  if (paths.size() > kMostArrays) {
    fail(Fault::Data, fmt::format("there are more than {} data sets; one for all samples is wanted", kMostArrays));
  }
  return paths;
}

/// Those that were asked for, in their order.
std::vector<std::string> chosen(const std::vector<std::string>& paths, const std::vector<std::string>& fields) {
  if (fields.empty()) return paths;
  for (const auto& field : fields) {
    if (std::find(paths.begin(), paths.end(), field) == paths.end()) {
      fail(Fault::Usage, fmt::format("the file has no data set '{}'{}", field, proposal(field, paths)));
    }
  }
  return fields;
}

void name_without_common_group(std::vector<Array>& arrays) {
  std::set<std::string> groups;
  for (const auto& array : arrays) groups.insert(array.path.substr(0, array.path.rfind('/') + 1));
  for (auto& array : arrays) array.name = groups.size() == 1 ? array.path.substr(groups.begin()->size()) : array.path;
}

void check_same_rows(const std::vector<Array>& arrays) {
  const auto same = [&](const Array& array) { return array.rows() == arrays[0].rows(); };
  if (std::all_of(arrays.begin(), arrays.end(), same)) return;
  std::vector<std::string> counts;
  for (const auto& array : arrays) counts.push_back(fmt::format("'{}' {}", array.path, array.rows()));
  fail(Fault::Data,
       fmt::format("data sets differ in their rows: {}; choose those of one length with --fields", join(counts, ", ")));
}

std::uint64_t product(const Array& array, std::uint64_t first, std::size_t from_dim) {
  for (std::size_t dim = from_dim; dim < array.dims.size(); ++dim) {
    // An index counts in signed numbers.
    if (__builtin_mul_overflow(first, array.dims[dim], &first) || first > INT64_MAX) {
      fail(Fault::Data, fmt::format("'{}' has an impossible shape", array.path));
    }
  }
  return first;
}

}  // namespace

std::uint64_t Array::row_elements() const { return product(*this, 1, 1); }
std::uint64_t Array::row_bytes() const { return product(*this, element_bytes, 1); }
std::uint64_t Array::bytes() const { return product(*this, element_bytes, 0); }

Array open_array(hid_t file, const std::string& path) {
  Array array;
  array.path = path;
  const auto what = fmt::format("'{}' cannot be opened", path);
  array.id = DatasetId(checked(H5Dopen2(file, path.c_str(), H5P_DEFAULT), what));
  array.type = TypeId(checked(H5Dget_type(array.id.get()), what));
  array.variable = H5Tget_class(array.type.get()) == H5T_VLEN || H5Tis_variable_str(array.type.get()) > 0;
  array.element_bytes = array.variable ? kReferenceBytes : H5Tget_size(array.type.get());
  const SpaceId space(checked(H5Dget_space(array.id.get()), what));
  const int rank =
      H5Sget_simple_extent_type(space.get()) == H5S_SIMPLE ? checked(H5Sget_simple_extent_ndims(space.get()), what) : 0;
  array.dims.resize(static_cast<std::size_t>(rank));
  if (rank > 0) checked(H5Sget_simple_extent_dims(space.get(), array.dims.data(), nullptr), what);
  return array;
}

std::vector<Array> arrays_of(hid_t file, const std::vector<std::string>& fields) {
  std::vector<Array> arrays;
  for (const auto& path : chosen(dataset_paths(file), fields)) {
    arrays.push_back(open_array(file, path));
    // A single number belongs to no sample.
    if (!arrays.back().dims.empty()) continue;
    if (!fields.empty()) fail(Fault::Usage, fmt::format("'{}' is a single value, not a row per sample", path));
    arrays.pop_back();
  }
  if (arrays.empty()) fail(Fault::Data, "the file holds no arrays");
  check_same_rows(arrays);
  name_without_common_group(arrays);
  return arrays;
}

void check_plausible(const Array& array, std::uint64_t file_bytes) {
  const std::uint64_t stored = H5Dget_storage_size(array.id.get());
  if (array.row_bytes() == 0) fail(Fault::Data, fmt::format("'{}' has rows without any values", array.path));
  if (array.row_bytes() > kMostRowBytes) {
    fail(Fault::Data, fmt::format("a row of '{}' has {}; at most {} are read", array.path,
                                  format_bytes(static_cast<std::int64_t>(array.row_bytes())),
                                  format_bytes(static_cast<std::int64_t>(kMostRowBytes))));
  }
  if (stored == 0 && array.rows() > 0) fail(Fault::Data, fmt::format("'{}' was never written", array.path));
  if (stored > file_bytes || array.bytes() / kMostInflation > stored) {
    fail(Fault::Data, fmt::format("'{}' cannot have {} rows: {} bytes of it are stored, in a file of {}", array.path,
                                  array.rows(), stored, file_bytes));
  }
}

void read_rows(const Array& array, hsize_t first, hsize_t rows, void* into) {
  std::vector<hsize_t> start(array.dims.size(), 0), count = array.dims;
  start[0] = first;
  count[0] = rows;
  const auto what = fmt::format("rows {} to {} of '{}' cannot be read", first, first + rows, array.path);
  const SpaceId there(checked(H5Dget_space(array.id.get()), what));
  checked(H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), what);
  const SpaceId here(checked(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), what));
  checked(H5Dread(array.id.get(), array.type.get(), here.get(), there.get(), H5P_DEFAULT, into), what);
}

}  // namespace lockstep::data::hdf5
#endif
