#include "bench/ml_data.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "bench/nameless_file.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/core/random.h"
#include "lockstep/data/npy_header.h"
#include "progress.h"

namespace lockstep::apps {
namespace {

constexpr std::uint64_t kSeed = 7;

/// Where the middle of a blob is: near enough to others that they overlap.
double middle(std::uint64_t blob, std::int64_t column) {
  constexpr double kSpread = 0.5;
  return kSpread * Random(kSeed + 1, mix(blob, static_cast<std::uint64_t>(column))).normal();
}

/// Rows by their number, whoever makes them.
class Rows {
 public:
  explicit Rows(const MlData& data) : data_(data) {
    for (std::int64_t blob = 0; blob < data.blobs; ++blob) {
      for (std::int64_t column = 0; column < data.columns; ++column) {
        middles_.push_back(data.blobs == 1 ? 0 : middle(static_cast<std::uint64_t>(blob), column));
      }
    }
  }

  /// Into `x` [columns] and, if there are targets, `target`.
  template <class T>
  void make(std::int64_t row, T* x, double* target) const {
    Random random(kSeed, static_cast<std::uint64_t>(row));
    const double* middles = middles_.data() + random.below(static_cast<std::uint64_t>(data_.blobs)) *
                                                  static_cast<std::uint64_t>(data_.columns);
    double sum = 0, before = 0;
    for (std::int64_t column = 0; column < data_.columns; ++column) {
      const double value = middles[column] + random.normal() + (data_.blobs == 1 ? 0.5 * before : 0);
      x[column] = static_cast<T>(value);
      sum += slope(column) * value;
      before = value;
    }
    if (data_.targets == MlData::Targets::Real) *target = 0.5 + sum + random.normal();
    if (data_.targets == MlData::Targets::Binary) *target = random.chance(1 / (1 + std::exp(-sum))) ? 1 : 0;
  }

 private:
  /// Classes must overlap, or the coefficients would have no end.
  double slope(std::int64_t column) const {
    const auto number = static_cast<double>(column + 1);
    return data_.targets == MlData::Targets::Binary ? number / static_cast<double>(4 * data_.columns) : number;
  }

  MlData data_;
  std::vector<double> middles_;
};

constexpr const char kFileName[] = "the data of the benchmark";

void write_at(const FileDescriptor& file, std::size_t place, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(place));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_write(kFileName, errno);
    place += static_cast<std::size_t>(count);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
void write_rows(const MlData& data, std::int64_t rows, const FileDescriptor& x, const FileDescriptor& targets) {
  const std::string x_head = data::npy_header(data.type, {rows, data.columns});
  const std::string targets_head = data::npy_header(at::kDouble, {rows});
  write_at(x, 0, x_head);
  if (targets) write_at(targets, 0, targets_head);
  const Rows make(data);
  Progress progress("making data", "rows", rows);
  constexpr std::int64_t kAtOnce = 4096;
  on_threads(static_cast<int>(usable_cpus().size()), rows, kAtOnce, [&](std::int64_t first, std::int64_t end, int) {
    const auto count = static_cast<std::size_t>(end - first), columns = static_cast<std::size_t>(data.columns);
    std::vector<T> values(count * columns);
    std::vector<double> of_targets(count);
    for (std::size_t row = 0; row < count; ++row) {
      make.make(first + static_cast<std::int64_t>(row), values.data() + row * columns, of_targets.data() + row);
    }
    const auto before = static_cast<std::size_t>(first);
    write_at(x, x_head.size() + before * columns * sizeof(T), bytes_of(values));
    if (targets) write_at(targets, targets_head.size() + before * sizeof(double), bytes_of(of_targets));
    progress.add(end - first);
  });
}

/// NumPy asks for huge pages for every large array; memory without them would be read more slowly.
void advise_huge_pages(const at::Tensor& tensor) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  const std::uintptr_t first = (begin + page - 1) / page * page, end = (begin + tensor.nbytes()) / page * page;
  if (first < end) (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

/// Rows [first, end) of an array of one or two dims.
at::Tensor load(const std::string& path, std::int64_t first, std::int64_t end) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> head(1024);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  const auto header = data::parse_npy_header(std::as_bytes(std::span(head)));
  std::vector<std::int64_t> shape = header.shape;
  if (shape.at(0) < end) fail(Fault::Usage, fmt::format("{} has {} rows, not {}", path, shape[0], end));
  shape[0] = end - first;
  at::Tensor rows = at::empty(shape, header.type);
  advise_huge_pages(rows);
  const auto row_bytes = header.data_bytes() / static_cast<std::uint64_t>(header.shape[0]);
  file.clear();
  file.seekg(static_cast<std::streamoff>(header.data_offset + static_cast<std::uint64_t>(first) * row_bytes));
  file.read(static_cast<char*>(rows.mutable_data_ptr()), static_cast<std::streamsize>(rows.nbytes()));
  if (!file) fail(Fault::Io, fmt::format("{} cannot be read to its end", path));
  return rows;
}

}  // namespace

MlFiles::MlFiles(const MlData& data, std::int64_t rows) : x_(nameless_file("ml")) {
  if (data.targets != MlData::Targets::None) targets_ = nameless_file("ml");
  data.type == at::kFloat ? write_rows<float>(data, rows, x_, targets_) : write_rows<double>(data, rows, x_, targets_);
}

std::string MlFiles::x() const { return path_of(x_); }

std::string MlFiles::targets() const { return path_of(targets_); }

ml::TableRows load_rows(const std::string& x, const std::string& targets, std::int64_t first, std::int64_t end) {
  ml::TableRows rows{.x = load(x, first, end)};
  if (!targets.empty()) rows.targets = load(targets, first, end);
  return rows;
}

}  // namespace lockstep::apps
