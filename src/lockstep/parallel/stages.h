// lockstep/parallel/stages.h
//
// Which links of a chain go to which stage of a pipeline, and what of a model is left on a rank
// that has some of them.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/parallel/chain.h"
#include "lockstep/parallel/parameter.h"

namespace torch::nn {
class Module;
}

namespace lockstep::parallel {

/// The first link of each stage, and the number of links at the end, so that the most costly stage costs as little as
/// it can. Fault::Usage, with the numbers, if there are more stages than links.
std::vector<std::size_t> balanced_cuts(const std::vector<double>& costs, int stages);

/// The same of cuts that somebody has chosen: the first links of all stages. Fault::Usage, with the links that there
/// are, if these are no cuts of them.
std::vector<std::size_t> given_cuts(std::vector<std::size_t> firsts, int stages, const Chain& chain);

/// What a link costs as far as its parameters say: one product for each element of a matrix, none where rows of it are
/// looked up, which the first link does.
std::vector<double> costs_by_parameters(const Parameters& parameters, const Chain& chain);

/// The links of a rank: virtual stages rank, rank + ranks, …
std::vector<std::size_t> links_of(const std::vector<std::size_t>& cuts, int rank, int ranks);

/// Takes out of `model` the modules that none of `links` uses; their parameters have no memory any more. Fault::Usage
/// if a parameter is left that none of them uses, as one that lies beside modules of several stages.
void keep_links(torch::nn::Module& model, const Chain& chain, const std::vector<std::size_t>& links);

/// Ranks whose links use the module or parameter, by its own name or that of a module that it is in.
std::set<int> users_of(const std::string& path, const Chain& chain, const std::vector<std::size_t>& cuts, int ranks);

/// Modules that the same several ranks use, as a head that is the embedding, by these ranks. Where one lies in another,
/// what is in it is of the ranks of the inner one alone: see users_of().
using Ties = std::map<std::set<int>, std::vector<std::string>>;
Ties ties_of(const Chain& chain, const std::vector<std::size_t>& cuts, int ranks);
/// The modules of all of them.
std::vector<std::string> tied_modules(const Chain& chain, const std::vector<std::size_t>& cuts, int ranks);

}  // namespace lockstep::parallel
