// lockstep/train/layer_volumes.h
//
// The rule by which layers are for data or for tensor parallelism, layer by layer: the one moves a layer's
// gradients in every step, the other its activations, and what is smaller is better to move. Convolutions of
// many pixels have few weights, the last layers of many words many. All layers of a model have the same layout
// all the same, as ranks that split one of them have the same samples in all: what counts is the sum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/parallel/link_costs.h"

namespace lockstep::train {

/// What each rank of a ring sends of a sum, or twice what it sends of a collection.
double moved_by_sum(double bytes, int ranks);

/// Bytes of weights in training.
std::int64_t trained_bytes(const parallel::ModelCosts& costs);

/// What samples take that come in so many micro-batches, as equal as can be; those without samples take nothing.
double in_pieces(const parallel::Amount& amount, std::int64_t samples, std::int64_t pieces);

/// A line for each run of links that are alike. `split` are the costs where layers are split over `ranks`, each of
/// which has `samples` of a step, in so many micro-batches.
std::vector<std::string> volumes_by_layer(const parallel::ModelCosts& whole, const parallel::ModelCosts& split,
                                          int ranks, std::int64_t samples, std::int64_t pieces);

}  // namespace lockstep::train
