// apps/ml/kmeans_image.h
//
// The colours of a picture by K-means: the picture is painted with them, the palette is shown.
#pragma once

#include "lockstep/comm/communicator.h"
#include "ml/kmeans_command.h"

namespace lockstep::apps {

/// Pixels are rows of three columns. Every rank decodes the picture and takes its part. A collective.
void quantise(const KMeansCommand& command, comm::Communicator& world);

}  // namespace lockstep::apps
