// lockstep/data/member_groups.h
//
// The members of an archive as samples, the way WebDataset has it: members that follow
// each other and have one key are a sample, and what stands behind the key names the
// field. "dir/000123.jpg" and "dir/000123.cls" are the fields jpg and cls of sample
// dir/000123; "dir/000123.left.jpg" is its field left. Hidden members and those without
// an extension belong to no sample. tar and zip share this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/format.h"
#include "lockstep/data/index.h"
#include "lockstep/data/npy_header.h"

namespace lockstep::data {

/// What the name of a member says.
struct MemberName {
  std::string key;
  Field field;      // type and shape of an npy are not known yet
  std::string how;  // as in Column: "number" (text), "npy", or "" (as it is)
};

/// Of ".x", "a/._x", "__MACOSX/x": what systems leave behind.
bool is_hidden(std::string_view path);
/// Nothing if the member belongs to no sample.
std::optional<MemberName> parse_member_name(std::string_view name);
/// What to put behind key and dot so that `field` is read back under its name. Fault::Usage if nothing does.
std::string member_suffix(const Field& field);

struct Member {
  std::string name;
  std::uint64_t header_offset = 0;  // for messages
  Extent place;                     // of its bytes
};

/// Fills schema, samples, keys and columns (one per field, in order of appearance) of an Index in.
class MemberGroups {
 public:
  explicit MemberGroups(Index& index) : index_(index) {}
  /// `head` gives its first bytes and is asked for arrays alone. Returns the column it went to, the
  /// sample being the last one; nothing if it belongs to none.
  std::optional<std::size_t> add(const Member& member, const std::function<Bytes()>& head);

 private:
  void add_column(const MemberName& name, const std::optional<NpyHeader>& array);
  std::size_t column_of(const MemberName& name, const std::function<Bytes()>& head);
  void begin_sample(const std::string& key);

  Index& index_;
  std::map<std::string, std::size_t> columns_;  // by field
  std::string key_;
};

/// The bytes of a member, not packed any more, into its value.
void decode_member(const Index& index, const Column& column, std::string_view how, Bytes bytes, Sample& sample);

/// Of several archives that are read as one: sizes that differ between them become -1 in all.
std::vector<Schema> with_joined_shapes(std::vector<Schema> schemas);

/// Writes each value as a member. Dots in the last part of a key would end it on reading, so they become '_'.
class MemberWriter : public Writer {
 public:
  explicit MemberWriter(const Schema& schema);
  void add(const std::string& key, const Sample& sample) final;

 protected:
  virtual void put(const std::string& name, std::string_view bytes) = 0;

 private:
  Schema schema_;
  std::vector<std::string> suffixes_;  // by place in the schema
  std::string key_;
};

}  // namespace lockstep::data
