// apps/disk_use.h
//
// What files and folders take on the disk: small files take more than their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::apps {

struct DiskUse {
  std::int64_t files = 0;
  std::int64_t bytes = 0;       // in the files
  std::int64_t disk_bytes = 0;  // in the blocks that the file system gave them
};

/// Of folders all that lies in them.
DiskUse disk_use(const std::vector<std::string>& paths);

}  // namespace lockstep::apps
