// One array, a sample per row of its first dim.
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/array_rows.h"
#include "lockstep/data/format.h"
#include "lockstep/data/npy_header.h"

namespace lockstep::data {
namespace {

class NpyWriter final : public Writer {
 public:
  NpyWriter(const std::string& path, const Schema& schema) : rows_(schema), file_(path) { file_.write(head(0)); }

  void add(const std::string&, const Sample& sample) override {
    file_.write(as_text(rows_.bytes(sample)));
    ++count_;
  }
  void finish() override {
    file_.write_front(head(count_));
    file_.commit();
  }

 private:
  // Padded alike for any number of rows that a file can have.
  std::string head(std::int64_t rows) const { return npy_header(rows_.field().type, rows_.shape_of(rows), kHeadBytes); }
  static constexpr std::size_t kHeadBytes = 256;

  ArrayRows rows_;
  WholeFile file_;
  std::int64_t count_ = 0;
};

class Npy final : public Format {
 public:
  std::vector<std::string> extensions() const override { return {".npy"}; }
  bool recognises(Bytes head) const override { return is_npy(head); }

  Index scan(const std::string& path, const OpenOptions&) const override {
    const auto file = map_file(path);
    Scratch scratch;
    const auto header = parse_npy_header(whole(*file, scratch));
    Index index;
    index.files = {scanned_file(*file)};
    add_array(index, "values", header.type, header.shape, {0, header.data_offset, file->size() - header.data_offset});
    return index;
  }

  std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                const WriteOptions& options) const override {
    if (!options.compression.empty()) fail(Fault::Usage, "npy cannot be compressed; npz and hdf5 can");
    return std::make_unique<NpyWriter>(path, schema);
  }
};

const FormatRegistry::Add registered{"npy", "NumPy array, a sample per row", [] { return std::make_unique<Npy>(); }};

}  // namespace
}  // namespace lockstep::data
