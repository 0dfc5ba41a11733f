// lockstep/data/dataset.h
//
// A Dataset is a sequence of samples with random access, whatever it is stored as.
// It never changes once open, and any thread may read any sample at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

class Holders;

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const Schema& schema() const noexcept = 0;
  virtual std::int64_t size() const noexcept = 0;
  /// Replaces what `sample` holds. An Error names the sample as name() does.
  virtual void read(std::int64_t index, Sample& sample) const = 0;
  /// A hint that it will be read next.
  virtual void prefetch(std::int64_t) const noexcept {}
  /// Waits until its bytes are where read() finds them soonest (a cache), and makes no values of them: for who reads
  /// ahead. Default: they are there.
  virtual void bring_in(std::int64_t, Scratch&) const {}
  /// Where it lies, for messages: "train.tar: sample 17 'n0123' at byte 51200".
  virtual std::string name(std::int64_t index) const = 0;
  /// What the source itself calls it ("n0123"); else its number.
  virtual std::string key(std::int64_t index) const { return std::to_string(index); }
  /// Fault::Data if its bytes are not those of the scan. False if no checksum was taken.
  virtual bool verify(std::int64_t) const { return false; }
  /// With cache = "cluster": which rank is to read which of its samples. nullptr: nobody said.
  virtual const Holders* holders() const noexcept { return nullptr; }
};

using DatasetPtr = std::shared_ptr<const Dataset>;

/// One behind the other; their schemas must be equal.
DatasetPtr concatenate(std::vector<DatasetPtr> parts);
/// The samples `indices` of it, in that order.
DatasetPtr subset(DatasetPtr whole, std::vector<std::int64_t> indices);
/// `count` samples from `first` on.
DatasetPtr slice(DatasetPtr whole, std::int64_t first, std::int64_t count);

}  // namespace lockstep::data
