// apps/ml/linear_report.h
//
// What the commands of the linear family say of their models.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "lockstep/ml/linear_model.h"
#include "lockstep/ml/table.h"

namespace lockstep::apps {

/// By target: its coefficients by column, and its intercept.
nlohmann::json targets_json(const ml::Table& table, const ml::LinearModel& model);

/// The coefficients of each target, of which only the first are shown if they are many.
void print_coefficients(const ml::Table& table, const ml::LinearModel& model);

}  // namespace lockstep::apps
