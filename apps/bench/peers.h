// apps/bench/peers.h
//
// The peers that benchmarks compare us with, and where their programs lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/report.h"

namespace lockstep::apps {

const std::vector<std::string>& peer_names();
/// Those that run without anything being fetched first.
std::vector<std::string> peers_present();

/// The peers that were asked for: `wanted`, or nobody if it is {"none"}. Fault::Usage if one is not `known`.
std::vector<std::string> checked_peers(const std::vector<std::string>& wanted, const std::vector<std::string>& known);

/// Those of `peers` that `installer` of the peers' folder ("install", "install-io") made ready; the
/// report says why the others are not.
std::vector<std::string> install_peers(const std::vector<std::string>& peers, const std::string& installer,
                                       Report& report);

/// benchmarks/peers of the source tree, found upwards from the program or from here; empty if not found.
std::filesystem::path peers_folder();

}  // namespace lockstep::apps
