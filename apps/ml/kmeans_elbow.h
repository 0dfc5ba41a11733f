// apps/ml/kmeans_elbow.h
//
// K-means of every number of clusters of a range, from one read of the data, and which of
// them to take: where the curve of inertia bends most.
#pragma once

#include "lockstep/comm/communicator.h"
#include "ml/kmeans_command.h"

namespace lockstep::apps {

/// Fits, tells, draws and writes what the command asks for. A collective.
void fit_range(const KMeansCommand& command, comm::Communicator& world);

}  // namespace lockstep::apps
