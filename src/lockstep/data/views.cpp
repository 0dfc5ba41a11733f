// Data sets made of others: one behind the other, some of the samples, a range of them.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {
namespace {

/// A Dataset whose samples are those of others.
class View : public Dataset {
 public:
  void read(std::int64_t index, Sample& sample) const final {
    const auto [dataset, place] = locate(index);
    dataset->read(place, sample);
  }
  void prefetch(std::int64_t index) const noexcept final {
    const auto [dataset, place] = locate(index);
    dataset->prefetch(place);
  }
  void bring_in(std::int64_t index, Scratch& scratch) const final {
    const auto [dataset, place] = locate(index);
    dataset->bring_in(place, scratch);
  }
  std::string name(std::int64_t index) const final {
    const auto [dataset, place] = locate(index);
    return dataset->name(place);
  }
  std::string key(std::int64_t index) const final {
    const auto [dataset, place] = locate(index);
    return dataset->key(place);
  }
  bool verify(std::int64_t index) const final {
    const auto [dataset, place] = locate(index);
    return dataset->verify(place);
  }

 protected:
  using Place = std::pair<const Dataset*, std::int64_t>;
  virtual Place locate(std::int64_t index) const = 0;
};

class Concatenation final : public View {
 public:
  explicit Concatenation(std::vector<DatasetPtr> parts) : parts_(std::move(parts)) {
    if (parts_.empty()) fail(Fault::Usage, "nothing to concatenate");
    for (const auto& part : parts_) {
      if (part->schema() != parts_[0]->schema()) {
        fail(Fault::Data, fmt::format("{} and {} have different fields: {} and {}", origin(*parts_[0]), origin(*part),
                                      fields(*parts_[0]), fields(*part)));
      }
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
    }
  }
  const Schema& schema() const noexcept override { return parts_[0]->schema(); }
  std::int64_t size() const noexcept override { return ends_.back(); }

 protected:
  Place locate(std::int64_t index) const override {
    const auto part = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return {parts_[part].get(), index - (part == 0 ? 0 : ends_[part - 1])};
  }

 private:
  static std::string origin(const Dataset& part) { return part.size() > 0 ? part.name(0) : "an empty source"; }
  static std::string fields(const Dataset& part) {
    std::string text;
    for (const auto& field : part.schema()) text += (text.empty() ? "" : ", ") + field.text();
    return text;
  }

  std::vector<DatasetPtr> parts_;
  std::vector<std::int64_t> ends_;
};

class Subset final : public View {
 public:
  Subset(DatasetPtr whole, std::vector<std::int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}
  const Schema& schema() const noexcept override { return whole_->schema(); }
  std::int64_t size() const noexcept override { return static_cast<std::int64_t>(indices_.size()); }

 protected:
  Place locate(std::int64_t index) const override { return {whole_.get(), indices_[static_cast<std::size_t>(index)]}; }

 private:
  DatasetPtr whole_;
  std::vector<std::int64_t> indices_;
};

class Slice final : public View {
 public:
  Slice(DatasetPtr whole, std::int64_t first, std::int64_t count)
      : whole_(std::move(whole)), first_(first), count_(count) {}
  const Schema& schema() const noexcept override { return whole_->schema(); }
  std::int64_t size() const noexcept override { return count_; }

 protected:
  Place locate(std::int64_t index) const override { return {whole_.get(), first_ + index}; }

 private:
  DatasetPtr whole_;
  std::int64_t first_;
  std::int64_t count_;
};

}  // namespace

DatasetPtr concatenate(std::vector<DatasetPtr> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_shared<Concatenation>(std::move(parts));
}

DatasetPtr subset(DatasetPtr whole, std::vector<std::int64_t> indices) {
  return std::make_shared<Subset>(std::move(whole), std::move(indices));
}

DatasetPtr slice(DatasetPtr whole, std::int64_t first, std::int64_t count) {
  if (first < 0 || count < 0 || first > whole->size() - count) {
    fail(Fault::Usage, fmt::format("samples {} to {} of {}", first, first + count, whole->size()));
  }
  return std::make_shared<Slice>(std::move(whole), first, count);
}

}  // namespace lockstep::data
