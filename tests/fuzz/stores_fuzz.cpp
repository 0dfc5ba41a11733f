// tests/fuzz/stores_fuzz.cpp
//
// Feeds any bytes to the readers of files that engines of others write: the pages of
// LMDB, records of samples, HDF5's chunks and its heap. An Error of Fault::Data or an
// answer, nothing else.
#include "format_fuzz.h"
#include "lockstep/data/formats/hdf5_chunk.h"
#include "lockstep/data/formats/hdf5_heap.h"
#include "lockstep/data/formats/lmdb_pages.h"
#include "lockstep/data/sample_record.h"

namespace {

using namespace lockstep;
using namespace lockstep::data;

class Memory final : public FileBytes {
 public:
  explicit Memory(Bytes bytes) : bytes_(bytes) {}
  const std::string& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  Bytes read(std::uint64_t offset, std::uint64_t length, Scratch&) const override {
    if (offset > bytes_.size() || length > bytes_.size() - offset) fail(Fault::Data, "the file ends before");
    return bytes_.subspan(offset, length);
  }

 private:
  std::string path_ = "memory";
  Bytes bytes_;
};

/// The bytes of what was found must lie in the file.
void expect_within(Bytes file, std::uint64_t offset, std::uint64_t length) {
  if (offset > file.size() || length > file.size() - offset) std::abort();
}

void read_heap(Bytes file) {
  const Memory memory(file);
  hdf5::GlobalHeap heap(memory, 0);
  // The file begins with the references to look up.
  for (std::uint64_t place = 0; place + hdf5::kReferenceBytes <= file.size() && place < 1024;
       place += hdf5::kReferenceBytes) {
    const Extent value = heap.find(file.subspan(place, hdf5::kReferenceBytes), 1);
    if (value.file != kInIndex) expect_within(file, value.offset, value.length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  done_or_data_error([&] {
    lmdb::each_entry(bytes, [&](const lmdb::Entry& entry) { expect_within(bytes, entry.offset, entry.length); });
  });
  done_or_data_error([&] {
    Schema schema;
    widen(schema, parse_record(bytes));
  });
  done_or_data_error([&] { read_heap(bytes); });
  for (const bool deflated : {false, true}) {
    done_or_data_error([&] { hdf5::unpack_chunk({64, 4, deflated, true, ""}, bytes); });
  }
  return 0;
}
