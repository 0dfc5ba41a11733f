// lockstep/data/formats/lmdb_pages.h
//
// The pages of an LMDB file, read by ourselves: the library maps the file and follows
// its page numbers unchecked, so that it crashes on a torn one. Values lie whole in the
// file, so a scan needs no more than their places.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/data/sample.h"

namespace lockstep::data::lmdb {

/// By the first bytes of a file.
bool is_lmdb(Bytes head) noexcept;

struct Entry {
  std::string_view key;      // in the file
  std::uint64_t offset = 0;  // of the value, in the file
  std::uint64_t length = 0;
};

/// Calls with every entry of a file in the order of keys. A single named database is taken; Fault::Data
/// if there are several, if keys have several values, or with the page where the file is torn.
void each_entry(Bytes file, const std::function<void(const Entry&)>& each);

}  // namespace lockstep::data::lmdb
