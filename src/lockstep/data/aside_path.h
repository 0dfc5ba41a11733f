// lockstep/data/aside_path.h
//
// For engines that write files of their own: they write to path(), beside the wanted
// one, and commit() gives it its name. Without commit() nothing is left behind.
#pragma once

#include <string>

namespace lockstep::data {

class AsidePath {
 public:
  /// Fault::Usage if `target` could not be written. Through a link what lies behind it is written. A folder is
  /// replaced, with all that is in it, by another only: the caller has seen that it may be.
  explicit AsidePath(const std::string& target, bool over_folder = false);
  ~AsidePath();
  AsidePath(const AsidePath&) = delete;
  AsidePath& operator=(const AsidePath&) = delete;

  const std::string& path() const noexcept { return aside_; }
  /// Once the engine has closed it.
  void commit();

 private:
  void replace_folder() const;

  std::string target_;
  std::string aside_;
  bool committed_ = false;
};

}  // namespace lockstep::data
