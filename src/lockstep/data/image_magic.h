// lockstep/data/image_magic.h
//
// What bytes of unknown kind are, by how they begin.
#pragma once

#include <string_view>

#include "lockstep/data/field.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data {

/// Jpeg, Png, or Raw for all else.
inline Encoding encoding_by_magic(Bytes bytes) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\xFF\xD8\xFF")) return Encoding::Jpeg;
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return Encoding::Png;
  return Encoding::Raw;
}

}  // namespace lockstep::data
