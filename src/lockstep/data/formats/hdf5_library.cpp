#if LOCKSTEP_HAS_HDF5
#include "lockstep/data/formats/hdf5_library.h"

#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::data::hdf5 {
namespace {

using c10::ScalarType;

constexpr std::array kTypes = {ScalarType::Byte, ScalarType::Char,   ScalarType::Short,  ScalarType::Int,
                               ScalarType::Long, ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64,
                               ScalarType::Half, ScalarType::Float,  ScalarType::Double, ScalarType::BFloat16,
                               ScalarType::Bool};

std::mutex& mutex() {
  static std::mutex only;
  return only;
}

/// Sign, exponent and mantissa in 16 bits.
TypeId short_float(std::size_t exponent_bits, std::size_t mantissa_bits, std::size_t bias) {
  TypeId type(H5Tcopy(H5T_IEEE_F32LE));
  checked(H5Tset_fields(type.get(), 15, mantissa_bits, exponent_bits, 0, mantissa_bits), "cannot make a type");
  checked(H5Tset_size(type.get(), 2), "cannot make a type");
  checked(H5Tset_ebias(type.get(), bias), "cannot make a type");
  return type;
}

TypeId bool_type() {
  TypeId type(H5Tenum_create(H5T_STD_I8LE));
  for (const auto& [name, number] : {std::pair{"FALSE", std::int8_t{0}}, {"TRUE", std::int8_t{1}}}) {
    checked(H5Tenum_insert(type.get(), name, &number), "cannot make a type");
  }
  return type;
}

}  // namespace

Session::Session() : lock_(mutex()) {
  // At the end of the process HDF5 would complain about what torn files left in its tables. All that
  // we open is closed before.
  static const herr_t stays = H5dont_atexit();
  (void)stays;
  H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() { H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_); }

void fail_with_reason(std::string_view what) {
  std::string reason;
  const auto first = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    auto& text = *static_cast<std::string*>(into);
    if (text.empty() && error->desc != nullptr) text = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &reason);
  H5Eclear2(H5E_DEFAULT);
  fail(Fault::Data, reason.empty() ? std::string(what) : fmt::format("{}: {}", what, reason));
}

FileId open_to_read(const std::string& path) {
  const PropertiesId access(H5Pcreate(H5P_FILE_ACCESS));
#if H5_VERSION_GE(1, 10, 7)
  // Parallel file systems often have no locks, and a reader needs none.
  checked(H5Pset_file_locking(access.get(), false, true), "cannot set up HDF5");
#endif
  return FileId(checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()),
                        fmt::format("{} is no HDF5 file, or not a whole one", path)));
}

hsize_t user_block_bytes(hid_t file) {
  const PropertiesId creation(checked(H5Fget_create_plist(file), "the superblock cannot be read"));
  hsize_t bytes = 0;
  checked(H5Pget_userblock(creation.get(), &bytes), "the superblock cannot be read");
  return bytes;
}

bool has_long_addresses(hid_t file) {
  const PropertiesId creation(checked(H5Fget_create_plist(file), "the superblock cannot be read"));
  std::size_t address = 0, length = 0;
  checked(H5Pget_sizes(creation.get(), &address, &length), "the superblock cannot be read");
  return address == 8 && length == 8;
}

TypeId type_of(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return TypeId(H5Tcopy(H5T_STD_U8LE));
    case ScalarType::Char: return TypeId(H5Tcopy(H5T_STD_I8LE));
    case ScalarType::Short: return TypeId(H5Tcopy(H5T_STD_I16LE));
    case ScalarType::Int: return TypeId(H5Tcopy(H5T_STD_I32LE));
    case ScalarType::Long: return TypeId(H5Tcopy(H5T_STD_I64LE));
    case ScalarType::UInt16: return TypeId(H5Tcopy(H5T_STD_U16LE));
    case ScalarType::UInt32: return TypeId(H5Tcopy(H5T_STD_U32LE));
    case ScalarType::UInt64: return TypeId(H5Tcopy(H5T_STD_U64LE));
    case ScalarType::Float: return TypeId(H5Tcopy(H5T_IEEE_F32LE));
    case ScalarType::Double: return TypeId(H5Tcopy(H5T_IEEE_F64LE));
    case ScalarType::Half: return short_float(5, 10, 15);
    case ScalarType::BFloat16: return short_float(8, 7, 127);
    case ScalarType::Bool: return bool_type();
    default: fail(Fault::Usage, fmt::format("HDF5 has no type for {}", c10::toString(type)));
  }
}

std::optional<ScalarType> scalar_of(hid_t type) {
  for (const auto known : kTypes) {
    if (H5Tequal(type, type_of(known).get()) > 0) return known;
  }
  return std::nullopt;
}

TypeId text_type() {
  TypeId type(H5Tcopy(H5T_C_S1));
  checked(H5Tset_size(type.get(), H5T_VARIABLE), "cannot make a type");
  checked(H5Tset_cset(type.get(), H5T_CSET_UTF8), "cannot make a type");
  return type;
}

}  // namespace lockstep::data::hdf5
#endif
