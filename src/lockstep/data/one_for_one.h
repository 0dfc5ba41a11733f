// lockstep/data/one_for_one.h
//
// The base of data sets that make something else of each sample of another, and keep
// their numbers: what is said of a sample there holds here.
#pragma once

#include <string>
#include <utility>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

class OneForOne : public Dataset {
 public:
  explicit OneForOne(DatasetPtr source) : source_(std::move(source)) {}
  std::int64_t size() const noexcept final { return source_->size(); }
  void prefetch(std::int64_t index) const noexcept final { source_->prefetch(index); }
  void bring_in(std::int64_t index, Scratch& scratch) const final { source_->bring_in(index, scratch); }
  std::string name(std::int64_t index) const final { return source_->name(index); }
  std::string key(std::int64_t index) const final { return source_->key(index); }
  bool verify(std::int64_t index) const final { return source_->verify(index); }
  const Holders* holders() const noexcept final { return source_->holders(); }

 protected:
  const Dataset& source() const noexcept { return *source_; }

 private:
  DatasetPtr source_;
};

}  // namespace lockstep::data
