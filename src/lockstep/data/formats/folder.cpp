// A folder of images: ROOT/CLASS/…/NAME.jpg, classes numbered in order of their names;
// or images in the folder itself, without labels. Names are ordered byte by byte, so that
// every machine numbers alike.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/log.h"
#include "lockstep/core/text.h"
#include "lockstep/data/aside_path.h"
#include "lockstep/data/format.h"
#include "lockstep/data/image.h"
#include "lockstep/data/member_groups.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// ---- what lies in the folder ---------------------------------------------------------------------

struct Listing {
  std::vector<std::string> classes;
  std::vector<std::vector<std::string>> images;  // by class, relative to the root; one list if there are no classes
};

/// By its name; nothing if it is no image.
std::optional<Encoding> encoding_of(const fs::path& path) {
  const auto name = parse_member_name(path.filename().string());
  if (!name || (name->field.encoding != Encoding::Jpeg && name->field.encoding != Encoding::Png)) return std::nullopt;
  return name->field.encoding;
}

/// Calls visit(entry) for all that lies in `folder` and is not hidden.
template <class Visit>
void each_entry(const fs::path& folder, const Visit& visit) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_hidden(entry->path().filename().string())) visit(*entry);
  }
  if (error) fail(Fault::Usage, fmt::format("cannot read the folder {}: {}", folder.string(), error.message()));
}

/// A link to a folder is not followed: it could lead back.
void collect(const fs::path& folder, const std::string& prefix, std::vector<std::string>& images) {
  std::error_code ignored;
  each_entry(folder, [&](const fs::directory_entry& entry) {
    const std::string name = prefix + entry.path().filename().string();
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) return collect(entry.path(), name + '/', images);
    if (encoding_of(entry.path()) && entry.is_regular_file(ignored)) images.push_back(name);
  });
}

Listing list(const fs::path& root) {
  Listing listing;
  std::vector<std::string> loose;
  std::error_code ignored;
  each_entry(root, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    // A class may be a link, to a folder on another disk.
    if (entry.is_directory(ignored)) {
      listing.classes.push_back(name);
    } else if (encoding_of(entry.path()) && entry.is_regular_file(ignored)) {
      loose.push_back(name);
    }
  });
  std::sort(listing.classes.begin(), listing.classes.end());
  for (const auto& name : listing.classes) collect(root / name, name + '/', listing.images.emplace_back());
  if (listing.classes.empty()) {
    listing.images.push_back(std::move(loose));
  } else if (!loose.empty()) {
    fail(Fault::Data, fmt::format("{}{} beside the folders of classes ({}, …); move {} into one",
                                  *std::min_element(loose.begin(), loose.end()),
                                  loose.size() == 1   ? " lies"
                                  : loose.size() == 2 ? " and another image lie"
                                                      : fmt::format(" and {} other images lie", loose.size() - 1),
                                  listing.classes[0], loose.size() == 1 ? "it" : "them"));
  }
  for (auto& images : listing.images) std::sort(images.begin(), images.end());
  return listing;
}

/// Of the names: that the files are what they were is looked at file by file.
std::string fingerprint(const Listing& listing) {
  std::uint64_t hash = listing.classes.size();
  for (const auto& name : listing.classes) hash = hash64(name, hash);
  for (const auto& images : listing.images) {
    for (const auto& name : images) hash = hash64(name, hash);
  }
  return fmt::format("{:016x}", hash);
}

/// Of files of both kinds only the bytes themselves tell.
Encoding common_encoding(const Listing& listing) {
  std::set<Encoding> found;
  for (const auto& images : listing.images) {
    for (const auto& name : images) found.insert(encoding_of(name).value_or(Encoding::Raw));
  }
  return found.size() == 1 ? *found.begin() : Encoding::Raw;
}

void warn_of_empty(const std::string& root, const Listing& listing) {
  std::vector<std::string> empty;
  for (std::size_t place = 0; place < listing.classes.size(); ++place) {
    if (listing.images[place].empty()) empty.push_back(listing.classes[place]);
  }
  if (empty.empty()) return;
  log().warn("{}: {} of {} classes have no images, '{}' first; they keep their numbers", root, empty.size(),
             listing.classes.size(), empty[0]);
}

void add_image(Index& index, Column& column, const fs::path& root, const std::string& name) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(root / name, error);
  if (error) fail(Fault::Usage, fmt::format("cannot read {}: {}", (root / name).string(), error.message()));
  column.extents.push_back({static_cast<std::uint32_t>(index.files.size()), 0, bytes});
  index.files.push_back({name, bytes, 0, 0, 0});
  index.add_key(fs::path(name).replace_extension().string());
  ++index.samples;
}

void add_labels(Index& index, const Listing& listing) {
  for (std::size_t place = 0; place < listing.images.size(); ++place) {
    const auto label = static_cast<std::int64_t>(place);
    for (std::size_t i = 0; i < listing.images[place].size(); ++i) {
      index.inline_bytes.append(reinterpret_cast<const char*>(&label), sizeof label);
    }
  }
  index.schema.push_back({"label", Encoding::Values, c10::ScalarType::Long, {}, listing.classes});
  Column column;
  column.fields = {1};
  column.layout = Column::Layout::Uniform;
  column.extents = {{kInIndex, 0, sizeof(std::int64_t)}};
  index.columns.push_back(std::move(column));
}

// ---- writing -------------------------------------------------------------------------------------

/// A name that is one part of a path, and not hidden.
std::string as_name(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '/' || c == '\0'; }, '_');
  return text.empty() || text.starts_with('.') || is_hidden(text) ? fmt::format("_{}", text) : text;
}

/// Which fields of a schema are the image and its label.
struct Places {
  std::size_t image = 0, label = 0;
};

Places places_in(const Schema& schema) {
  const auto is_image = [](const Field& field) {
    return field.encoding == Encoding::Jpeg || field.encoding == Encoding::Png || field.encoding == Encoding::Raw;
  };
  const auto is_label = [](const Field& field) {
    return field.encoding == Encoding::Values && field.type == c10::ScalarType::Long && field.shape.empty();
  };
  const auto image = std::find_if(schema.begin(), schema.end(), is_image);
  const auto label = std::find_if(schema.begin(), schema.end(), is_label);
  if (schema.size() != 2 || image == schema.end() || label == schema.end()) {
    std::vector<std::string> fields;
    for (const auto& field : schema) fields.push_back(field.text());
    fail(Fault::Usage, fmt::format("a folder holds a JPEG or PNG image and an int64 label, not {}; choose two with "
                                   "--fields, or use tar",
                                   join(fields, ", ")));
  }
  return {static_cast<std::size_t>(image - schema.begin()), static_cast<std::size_t>(label - schema.begin())};
}

class FolderWriter final : public Writer {
 public:
  FolderWriter(const std::string& path, const Schema& schema) : places_(places_in(schema)), aside_(target_of(path)) {
    for (const auto& name : schema[places_.label].classes) classes_.push_back(as_name(name));
    if (std::set<std::string>(classes_.begin(), classes_.end()).size() != classes_.size()) {
      fail(Fault::Usage, "two classes have one name, so they would share a folder");
    }
    make_folder(aside_.path());
    for (const auto& name : classes_) make_folder(fs::path(aside_.path()) / name);
  }

  void add(const std::string& key, const Sample& sample) override {
    const std::string& folder = class_of(sample.values.at(places_.label));
    const Bytes image = sample.values.at(places_.image).bytes;
    if (!is_jpeg(image) && !is_png(image)) fail(Fault::Data, fmt::format("sample '{}' has no JPEG or PNG image", key));
    const bool twice = key.starts_with(folder + '/');
    const std::string name =
        fmt::format("{}.{}", as_name(twice ? key.substr(folder.size() + 1) : key), is_jpeg(image) ? "jpg" : "png");
    const fs::path file = fs::path(aside_.path()) / folder / name;
    if (fs::exists(file)) fail(Fault::Data, fmt::format("two samples would be {}/{}", folder, name));
    write_whole(file.string(), as_text(image));
  }
  void finish() override { aside_.commit(); }

 private:
  static std::string target_of(const fs::path& path) {
    if (fs::exists(path)) {
      fail(Fault::Usage, fmt::format("{} exists already; remove it, or name another", path.string()));
    }
    return (path.has_filename() ? path : path.parent_path()).string();
  }
  static void make_folder(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail(Fault::Usage, fmt::format("cannot make the folder {}: {}", path.string(), error.message()));
  }

  const std::string& class_of(const Value& value) {
    std::int64_t label = -1;
    if (value.bytes.size() == sizeof label) std::memcpy(&label, value.bytes.data(), sizeof label);
    if (numbered_ || classes_.empty()) add_numbers(label);
    if (label < 0 || label >= static_cast<std::int64_t>(classes_.size())) {
      fail(Fault::Data, fmt::format("the label {} is none of the {} classes", label, classes_.size()));
    }
    return classes_[static_cast<std::size_t>(label)];
  }

  /// Classes without names are called by their numbers, with as many zeros before them as keep the order
  /// of names; those without samples are there too, so that reading numbers them alike.
  void add_numbers(std::int64_t label) {
    constexpr std::int64_t kMostClasses = 100'000;
    numbered_ = true;
    if (label >= kMostClasses)
      fail(Fault::Data, fmt::format("the label {} is too large for a folder per class", label));
    while (static_cast<std::int64_t>(classes_.size()) <= label) {
      classes_.push_back(fmt::format("{:05}", classes_.size()));
      make_folder(fs::path(aside_.path()) / classes_.back());
    }
  }

  Places places_;
  AsidePath aside_;
  std::vector<std::string> classes_;  // their folders
  bool numbered_ = false;
};

class ImageFolder final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {}; }
  bool takes_folders() const override { return true; }

  Index scan(const std::string& path, const OpenOptions&) const override {
    const Listing listing = list(path);
    warn_of_empty(path, listing);
    Index index;
    index.notes = fingerprint(listing);
    index.schema = {{"image", common_encoding(listing)}};
    Column column;
    column.fields = {0};
    for (const auto& images : listing.images) {
      for (const auto& name : images) add_image(index, column, path, name);
    }
    index.columns = {std::move(column)};
    if (!listing.classes.empty()) add_labels(index, listing);
    return index;
  }

  bool unchanged(const std::string& path, const Index& index) const override {
    return fingerprint(list(path)) == index.notes;
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) fail(Fault::Usage, "images are compressed already; zip compresses other files");
    return std::make_unique<FolderWriter>(path, schema);
  }
};

const FormatRegistry::Add registered{"folder", "Folder of JPEG and PNG images, a folder per class",
                                     [] { return std::make_unique<ImageFolder>(); }};

}  // namespace
}  // namespace lockstep::data
