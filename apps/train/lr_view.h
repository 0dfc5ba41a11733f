// apps/train/lr_view.h
//
// What a user sees of a search for a learning rate: losses by rate, and the one to take.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "lockstep/train/lr_finder.h"

namespace lockstep::apps {

/// A line per rate, at most as many as fit a screen, with a bar for the loss.
std::string text_of(const train::LrFound& found);
nlohmann::json json_of(const train::LrFound& found);

}  // namespace lockstep::apps
