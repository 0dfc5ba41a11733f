// apps/ml/kmeans_centers.h
//
// Centroids that a user gives to begin with: rows of any data set, or those of a fitted model.
#pragma once

#include "lockstep/ml/table.h"
#include "ml/kmeans_command.h"

namespace lockstep::apps {

/// Reads those that the command names, if any, into its options, and their number if -k says none. They are prepared as
/// the table's rows were; columns go by name where the file has all of the table's fields, else by place. A collective.
/// Fault::Usage if they do not go together.
void begin_with_centers(KMeansCommand& command, const ml::Table& table);

}  // namespace lockstep::apps
