#include "lockstep/data/formats/lmdb_writer.h"

#include "lockstep/data/absent_format.h"

#if LOCKSTEP_HAS_LMDB
#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/handle.h"
#include "lockstep/data/aside_path.h"
#include "lockstep/data/sample_record.h"
#endif

namespace lockstep::data::lmdb {

#if LOCKSTEP_HAS_LMDB
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFirstMapBytes = std::size_t{64} << 20;
constexpr std::size_t kBatchBytes = std::size_t{16} << 20;
constexpr std::size_t kBatchEntries = 4096;

/// LMDB calls a write that was cut short EIO. Why it was, the next one says; the file is lost anyway.
int reason_of_short_write(const std::string& path) {
  constexpr int kMost = 256;
  const std::string some(std::size_t{64} << 10, '\0');
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  for (int i = 0; file && i < kMost; ++i) {
    if (::write(file.get(), some.data(), some.size()) < 0 && errno != EINTR) return errno;
  }
  return EIO;
}

struct EnvironmentTraits {
  using Raw = MDB_env*;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { mdb_env_close(raw); }
};
using Environment = Handle<EnvironmentTraits>;

struct TransactionTraits {
  using Raw = MDB_txn*;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { mdb_txn_abort(raw); }
};
using Transaction = Handle<TransactionTraits>;

struct CursorTraits {
  using Raw = MDB_cursor*;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { mdb_cursor_close(raw); }
};
using Cursor = Handle<CursorTraits>;

using Entry = std::pair<std::string, std::string>;  // key, value

MDB_val value_of(const std::string& bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }

/// A file that takes entries in the order of their keys.
class Database {
 public:
  /// `target` is what the user calls it.
  Database(std::string path, std::string target) : path_(std::move(path)), target_(std::move(target)) {
    MDB_env* raw = nullptr;
    check(mdb_env_create(&raw));
    environment_ = Environment(raw);
    check(mdb_env_set_mapsize(raw, map_bytes_));
    // One writer and nobody else yet, so no lock; finish() syncs once.
    check(mdb_env_open(raw, path_.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644));
  }

  std::size_t most_key_bytes() const { return static_cast<std::size_t>(mdb_env_get_maxkeysize(environment_.get())); }

  void append(const std::vector<Entry>& entries) {
    for (int result = MDB_MAP_FULL; result == MDB_MAP_FULL;) {
      result = try_append(entries);
      if (result == MDB_MAP_FULL) {
        map_bytes_ *= 2;
        check(mdb_env_set_mapsize(environment_.get(), map_bytes_));
      } else {
        check(result);
      }
    }
  }

  template <class Each>
  void each(const Each& visit) const {
    Transaction transaction = begin(MDB_RDONLY);
    MDB_cursor* raw = nullptr;
    check(mdb_cursor_open(transaction.get(), main_of(transaction), &raw));
    const Cursor cursor(raw);
    MDB_val key{}, value{};
    int result = MDB_SUCCESS;
    while ((result = mdb_cursor_get(raw, &key, &value, MDB_NEXT)) == MDB_SUCCESS) {
      visit(std::string(static_cast<const char*>(key.mv_data), key.mv_size),
            std::string(static_cast<const char*>(value.mv_data), value.mv_size));
    }
    if (result != MDB_NOTFOUND) check(result);
  }

  void sync() const { check(mdb_env_sync(environment_.get(), 1)); }

 private:
  void check(int result) const {
    if (result == MDB_SUCCESS) return;
    if (result > 0) fail_to_write(target_, result == EIO ? reason_of_short_write(path_) : result);
    fail(Fault::Io, fmt::format("cannot write {}: {}", target_, mdb_strerror(result)));
  }
  Transaction begin(unsigned flags) const {
    MDB_txn* raw = nullptr;
    check(mdb_txn_begin(environment_.get(), nullptr, flags, &raw));
    return Transaction(raw);
  }
  MDB_dbi main_of(const Transaction& transaction) const {
    MDB_dbi database = 0;
    check(mdb_dbi_open(transaction.get(), nullptr, 0, &database));
    return database;
  }
  int try_append(const std::vector<Entry>& entries) {
    Transaction transaction = begin(0);
    const MDB_dbi database = main_of(transaction);
    for (const auto& [key, bytes] : entries) {
      MDB_val name = value_of(key), value = value_of(bytes);
      const int result = mdb_put(transaction.get(), database, &name, &value, MDB_APPEND);
      if (result != MDB_SUCCESS) return result;
    }
    return mdb_txn_commit(transaction.take());
  }

  std::string path_;
  std::string target_;
  std::size_t map_bytes_ = kFirstMapBytes;
  Environment environment_;
};

class LmdbWriter final : public Writer {
 public:
  LmdbWriter(const std::string& path, Schema schema)
      : schema_(std::move(schema)),
        plain_(schema_.size() == 1 && schema_[0].encoding != Encoding::Values),
        target_(path),
        aside_(path, is_replaceable(path)) {
    const bool one_file = is_one_file(path);
    std::error_code error;
    if (!one_file) fs::create_directory(aside_.path(), error);
    if (error) fail_to_write(target_, error.value());
    file_ = one_file ? aside_.path() : aside_.path() + "/data.mdb";
    database_.emplace(file_, target_);
  }

  void add(const std::string& key, const Sample& sample) override {
    if (!numbered_ && (key.empty() || (count_ > 0 && key <= last_key_))) number_all();
    check_length(key);
    batch_.emplace_back(numbered_ ? numbered(count_, key) : key, bytes_of(sample));
    batch_bytes_ += batch_.back().second.size();
    last_key_ = key;
    ++count_;
    if (batch_.size() >= kBatchEntries || batch_bytes_ >= kBatchBytes) flush();
  }

  void finish() override {
    flush();
    database_->sync();
    database_.reset();
    aside_.commit();
  }

 private:
  static bool is_one_file(const std::string& path) { return path.ends_with(".mdb"); }

  /// A folder that another engine, or this one, made and nobody put anything into.
  static bool is_replaceable(const std::string& path) {
    if (is_one_file(path) || !fs::is_directory(path)) return false;
    for (const auto& entry : fs::directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      if (name == "data.mdb" || name == "lock.mdb") continue;
      fail(Fault::Usage, fmt::format("{} is a folder that holds {}, so it is not replaced; choose another name, or "
                                     "remove it first",
                                     path, name));
    }
    return true;
  }

  static std::string numbered(std::uint64_t number, const std::string& key) {
    return key == std::to_string(number) ? fmt::format("{:012}", number) : fmt::format("{:012}_{}", number, key);
  }

  void check_length(const std::string& key) const {
    constexpr std::size_t kNumberBytes = 13;
    const std::size_t most = database_->most_key_bytes() - kNumberBytes;
    if (key.size() <= most) return;
    fail(Fault::Data, fmt::format("the key '{}…' of sample {} has {} bytes; LMDB takes {} beside a number",
                                  key.substr(0, 32), count_, key.size(), most));
  }

  std::string bytes_of(const Sample& sample) const {
    if (!plain_) return record_of(schema_, sample, count_ == 0);
    if (sample.values.at(0).missing) {
      fail(Fault::Data, fmt::format("sample {} has no '{}', its only field", count_, schema_[0].name));
    }
    return std::string(as_text(sample.values[0].bytes));
  }

  void flush() {
    if (batch_.empty()) return;
    database_->append(batch_);
    batch_.clear();
    batch_bytes_ = 0;
  }

  /// Keys do not ascend, so those written already get their numbers too, in a new file.
  void number_all() {
    numbered_ = true;
    const std::vector<Entry> waiting = std::exchange(batch_, {});
    batch_bytes_ = 0;
    std::uint64_t number = 0;
    const auto write_again = [&](const std::string& key, std::string bytes) {
      batch_bytes_ += bytes.size();
      batch_.emplace_back(numbered(number++, key), std::move(bytes));
      if (batch_bytes_ >= kBatchBytes) flush();
    };
    if (waiting.size() < count_) {
      const std::string old_file = file_ + ".old";
      fs::rename(file_, old_file);
      const auto old = std::exchange(database_, std::nullopt);
      database_.emplace(file_, target_);
      old->each(write_again);
      fs::remove(old_file);
    }
    for (const auto& [key, bytes] : waiting) write_again(key, bytes);
  }

  Schema schema_;
  bool plain_;
  std::string target_;
  AsidePath aside_;
  std::string file_;
  std::optional<Database> database_;
  std::vector<Entry> batch_;
  std::size_t batch_bytes_ = 0;
  std::uint64_t count_ = 0;
  std::string last_key_;
  bool numbered_ = false;
};

}  // namespace

std::unique_ptr<Writer> make_writer(const std::string& path, const Schema& schema) {
  return std::make_unique<LmdbWriter>(path, schema);
}

#else

std::unique_ptr<Writer> make_writer(const std::string&, const Schema&) {
  refuse_without("LMDB", "apt install liblmdb-dev");
}

#endif

}  // namespace lockstep::data::lmdb
