// lockstep/data/format.h
//
// A Format knows one kind of file: how to recognise it, how one scan finds its
// samples, how the bytes of a sample become values, and how to write it. A new format
// is one new file in formats/ with a FormatRegistry::Add.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/core/registry.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/index.h"

namespace lockstep::data {

/// What to open, and how where the file itself does not say.
struct OpenOptions {
  std::string format;       // "": found by extension and first bytes
  std::int64_t window = 0;  // tokens of a sample, of raw token files
  std::int64_t stride = 0;  // from the start of one window to that of the next; 0: window
  std::string token_type = "uint16";
  std::string separator;                 // of CSV; "": found out
  bool header = true;                    // of CSV: the first line names the columns
  std::vector<std::string> fields = {};  // of files that hold arrays of different length; empty: all
  bool may_be_empty = false;             // a file without samples is none of its set's, and no mistake
  bool checksums = false;                // read those that are kept, for Dataset::verify()
  bool as_kept = false;                  // by the index that is kept, though the files changed since: to see what did
};

struct WriteOptions {
  std::string compression;  // "": none; else what the format offers, e.g. "deflate"
  int level = -1;           // the compressor's default
};

/// Writes samples one behind the other, from one thread.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual void add(const std::string& key, const Sample& sample) = 0;
  /// Nothing is at the path before, and all of it after.
  virtual void finish() = 0;
};

class Format {
 public:
  virtual ~Format() = default;

  /// With their dot: {".npy"}.
  virtual std::vector<std::string> extensions() const = 0;
  /// By the first bytes, for files without a telling name.
  virtual bool recognises(Bytes) const { return false; }
  /// The source is a folder.
  virtual bool takes_folders() const { return false; }
  /// The source is this very folder, by what lies in it: asked before takes_folders().
  virtual bool recognises_folder(const std::string&) const { return false; }

  /// Reads the source once and fills in files (see scanned_file), schema, samples, columns, keys and
  /// notes; checksums, sizes and times are the caller's.
  virtual Index scan(const std::string& path, const OpenOptions& options) const = 0;

  /// Whether a folder still holds what the scan saw; files are looked after by the caller.
  virtual bool unchanged(const std::string&, const Index&) const { return true; }
  /// Fault::Data if checksums that the format keeps itself say that bytes changed, of those that neither scan()
  /// nor decode() looks at. Reads all of them.
  virtual void check_own_checksums(const std::string&) const {}
  /// Of several sources that are read as one. Default: they must be equal.
  virtual Schema common_schema(const std::vector<Schema>& schemas) const;

  /// The bytes of an entry of `column` into the values of its fields. Default: they are the value.
  virtual void decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const;
  /// A block of a column laid out in Blocks: rows one behind the other, or fewer in the last one.
  virtual std::string unpack(const Index& index, const Column& column, Bytes block) const;
  /// The same for an engine that must open the file itself, the first of the index, which is `path`.
  virtual std::string unpack_from(const std::string& path, const Index& index, const Column& column, Bytes block) const;

  /// Fault::Usage if the format cannot hold such fields, naming one that can.
  virtual std::unique_ptr<Writer> write(const std::string& path, const Schema& schema,
                                        const WriteOptions& options) const = 0;
};

using FormatRegistry = Registry<std::unique_ptr<Format>()>;

/// For Index::files of a scan that read this one.
IndexedFile scanned_file(const FileBytes& file);

/// By `options.format`, else by extension (that of a compressed file is looked for below .gz …),
/// else by the first bytes.
std::string format_of(const std::string& path, const std::string& wanted);
/// By `wanted`, else by extension: of a file that is yet to be written. Fault::Usage if its name says that
/// it is compressed as a whole: none is written so.
std::string format_to_write(const std::string& path, const std::string& wanted);
/// One for all of the process.
const Format& format_named(const std::string& name);

}  // namespace lockstep::data
