// lockstep/parallel/buckets.h
//
// Buckets are long runs of communicator memory that hold the weights of a model and, at
// the same places, their gradients: a collective or an optimiser walks through a bucket
// without knowing where one parameter ends and the next begins. Parameters become views
// of it, so the model goes on as before. Of a model on a GPU they are views of a copy there:
// gradients come from it and new weights go to it when asked for. Where ranks share parameters
// out, a bucket is a rank's shard of a unit, and holds slices of parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/parallel/units.h"

namespace lockstep::parallel {

struct BucketSizes {
  std::int64_t first_bytes = std::int64_t{1} << 20;  // small, so that the first reduction starts early
  std::int64_t bytes = std::int64_t{25} << 20;
};

/// Where a parameter lies, or a slice of it.
struct Place {
  std::size_t bucket = 0;
  std::int64_t first = 0;  // element in the bucket
  std::int64_t count = 0;
  std::int64_t of_parameter = 0;  // its element that is the first here
};

struct Bucket {
  // [elements]; between parameters there may be zeros that nobody reads. Of device meta: they lie in an Offload.
  at::Tensor weights;
  at::Tensor gradients;                 // the same elements
  std::vector<std::size_t> parameters;  // in their order in it
  // Of a sparse parameter, which is alone in its bucket: the rows that there are gradients of, ascending; gradients are
  // [rows · width]. Undefined: of all elements.
  at::Tensor rows = {};
  // Of a model on another device, which computes in them; else undefined.
  at::Tensor device_weights = {};
  at::Tensor device_gradients = {};
};

class Buckets {
 public:
  /// `order` holds the number of every parameter once: those that follow each other in it and are of one type
  /// lie together. A parameter larger than a bucket has one of its own, and so has one of the names `sparse`, whose
  /// gradients come as some of its rows.
  Buckets(const Parameters& parameters, const std::vector<std::size_t>& order, BucketSizes sizes,
          comm::Communicator& group, const std::set<std::string>& sparse = {});

  /// Shards of units, one bucket each, whose memory the caller has: `shards` are [unit.elements / ranks].
  Buckets(const Parameters& parameters, const std::vector<Unit>& units, std::vector<Bucket> shards, int rank,
          int ranks);

  const std::vector<Bucket>& all() const noexcept { return buckets_; }
  const Place& place(std::size_t parameter) const noexcept { return places_[parameter]; }
  /// Shaped as the parameter, where the model computes; of a slice [count].
  at::Tensor weight(std::size_t parameter) const;
  at::Tensor gradient(std::size_t parameter) const;
  bool sparse(std::size_t parameter) const noexcept { return buckets_[places_[parameter].bucket].rows.defined(); }
  /// Whether they are shards: each rank has its own.
  bool shared_out() const noexcept { return shared_out_; }
  // Between a bucket and its copy on a device, if there is one.
  void gradients_to_host(std::size_t bucket) const;
  void gradients_to_device(std::size_t bucket) const;
  void weights_to_host() const;
  void weights_to_device() const;
  /// Of a sparse parameter; `values` are [rows, width].
  void set_rows(std::size_t parameter, const at::Tensor& rows, const at::Tensor& values);

 private:
  at::Tensor view(const at::Tensor& run, std::size_t parameter) const;

  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
  std::vector<std::vector<std::int64_t>> shapes_;
  bool shared_out_ = false;
};

}  // namespace lockstep::parallel
