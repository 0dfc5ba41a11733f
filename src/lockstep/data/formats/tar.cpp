// WebDataset: a tar archive whose members with one key are a sample.
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/format.h"
#include "lockstep/data/member_groups.h"
#include "lockstep/data/tar_members.h"

namespace lockstep::data {
namespace {

class TarWriter final : public MemberWriter {
 public:
  TarWriter(const std::string& path, const Schema& schema) : MemberWriter(schema), file_(path) {}

  void finish() override {
    file_.write(tar_end());
    file_.commit();
  }

 protected:
  void put(const std::string& name, std::string_view bytes) override {
    file_.write(tar_header(name, bytes.size()));
    file_.write(bytes);
    file_.write(tar_padding(bytes.size()));
  }

 private:
  WholeFile file_;
};

class Tar final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".tar"}; }
  bool recognises(Bytes head) const override { return is_tar(head); }

  Index scan(const std::string& path, const OpenOptions&) const override {
    const auto file = map_file(path);
    Scratch scratch;
    const Bytes archive = whole(*file, scratch);
    Index index;
    index.files = {scanned_file(*file)};
    MemberGroups groups(index);
    TarReader reader(archive);
    while (const auto member = reader.next()) {
      if (!member->regular) continue;
      groups.add({member->name, member->header_offset, {0, member->data_offset, member->bytes}},
                 [&] { return archive.subspan(member->data_offset, member->bytes); });
    }
    return index;
  }

  void decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const override {
    decode_member(index, column, column.how, bytes, sample);
  }
  Schema common_schema(const std::vector<Schema>& schemas) const override {
    return Format::common_schema(with_joined_shapes(schemas));
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) {
      fail(Fault::Usage, "tar is compressed as a whole, which ends random access; zip compresses its members");
    }
    return std::make_unique<TarWriter>(path, schema);
  }
};

const FormatRegistry::Add registered{"tar", "WebDataset: the files of a sample have one name, fields by extension",
                                     [] { return std::make_unique<Tar>(); }};

}  // namespace
}  // namespace lockstep::data
