// apps/bench/peers.h
//
// The peers that benchmarks compare us with, and where their programs lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::apps {

const std::vector<std::string>& peer_names();
/// Those that run without anything being fetched first.
std::vector<std::string> peers_present();

/// benchmarks/peers of the source tree, found upwards from the program or from here; empty if not found.
std::filesystem::path peers_folder();

}  // namespace lockstep::apps
