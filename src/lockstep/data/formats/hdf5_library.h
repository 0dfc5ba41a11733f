// lockstep/data/formats/hdf5_library.h
//
// The HDF5 library as C++: handles that close themselves, errors as Error, types as
// ScalarType. Its state is global and it is not built for threads everywhere, so all
// that calls it, and all handles, live within a Session.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

#include "lockstep/core/handle.h"

namespace lockstep::data::hdf5 {

/// One at a time in the process. HDF5 prints no errors meanwhile.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t printer_ = nullptr;
  void* printer_data_ = nullptr;
};

template <herr_t (*close)(hid_t)>
struct IdTraits {
  using Raw = hid_t;
  static Raw empty() noexcept { return H5I_INVALID_HID; }
  static void release(Raw raw) noexcept { (void)close(raw); }
};
using FileId = Handle<IdTraits<H5Fclose>>;
using DatasetId = Handle<IdTraits<H5Dclose>>;
using AttributeId = Handle<IdTraits<H5Aclose>>;
using SpaceId = Handle<IdTraits<H5Sclose>>;
using TypeId = Handle<IdTraits<H5Tclose>>;
using PropertiesId = Handle<IdTraits<H5Pclose>>;

/// With the innermost reason that HDF5 gives.
[[noreturn]] void fail_with_reason(std::string_view what);

/// What HDF5 returned, unless that says it failed.
template <class Result>
Result checked(Result result, std::string_view what) {
  if (result < 0) fail_with_reason(what);
  return result;
}

FileId open_to_read(const std::string& path);
/// What lies before the file's own bytes, from which its addresses count.
hsize_t user_block_bytes(hid_t file);
/// Whether addresses and lengths in it have 8 bytes, as they have wherever HDF5 was not told otherwise.
bool has_long_addresses(hid_t file);

/// Little-endian; Bool as the enum that h5py writes.
TypeId type_of(c10::ScalarType type);
/// Of exactly such a type.
std::optional<c10::ScalarType> scalar_of(hid_t type);
/// Variable-length UTF-8.
TypeId text_type();

}  // namespace lockstep::data::hdf5
