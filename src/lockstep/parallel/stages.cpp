#include "lockstep/parallel/stages.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::parallel {
namespace {

bool is_below(const std::string& path, const std::string& module) {
  return module.empty() || path == module || path.starts_with(module + ".");
}

void empty_out(torch::nn::Module& module) {
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& named : tensors) named.value().set_data(at::empty({0}, named.value().options()));
  }
}

void prune(torch::nn::Module& module, const std::string& path, const std::set<std::string>& kept) {
  for (const auto& child : module.named_children()) {
    const std::string name = path.empty() ? child.key() : path + "." + child.key();
    const auto holds = [&](const std::string& one) { return is_below(name, one); };
    const auto leads_to = [&](const std::string& one) { return is_below(one, name); };
    if (std::any_of(kept.begin(), kept.end(), holds)) continue;
    if (std::any_of(kept.begin(), kept.end(), leads_to)) {
      prune(*child.value(), name, kept);
      continue;
    }
    empty_out(*child.value());
    module.unregister_module(child.key());
  }
}

/// A module goes to a stage by its name, and what lies beside its parts has none: several stages would have it, and
/// nobody would sum its gradients.
[[noreturn]] void refuse_between(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  const std::string module = dot == std::string::npos ? "the model" : fmt::format("'{}'", parameter.substr(0, dot));
  fail(Fault::Usage,
       fmt::format("'{}' belongs to {} itself, whose parts are on several stages: register it in a module of its own "
                   "and name that in the link",
                   parameter, module));
}

}  // namespace

std::vector<std::size_t> balanced_cuts(const std::vector<double>& costs, int stages) {
  const std::size_t links = costs.size(), parts = static_cast<std::size_t>(stages);
  if (parts > links) {
    fail(Fault::Usage,
         fmt::format("{} stages of a pipeline for a model of {} blocks: each needs one; set parallel.pipe "
                     "times parallel.chunks to at most {}",
                     parts, links, links));
  }
  std::vector<double> up_to(links + 1);
  std::partial_sum(costs.begin(), costs.end(), up_to.begin() + 1);
  // best[p][l]: the least possible cost of the worst of p stages of the first l links.
  std::vector<std::vector<double>> best(parts + 1,
                                        std::vector<double>(links + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> from(parts + 1, std::vector<std::size_t>(links + 1));
  best[0][0] = 0;
  for (std::size_t part = 1; part <= parts; ++part) {
    for (std::size_t end = part; end <= links; ++end) {
      for (std::size_t begin = part - 1; begin < end; ++begin) {
        const double worst = std::max(best[part - 1][begin], up_to[end] - up_to[begin]);
        if (worst >= best[part][end]) continue;
        best[part][end] = worst;
        from[part][end] = begin;
      }
    }
  }
  std::vector<std::size_t> cuts(parts + 1, links);
  for (std::size_t part = parts; part > 0; --part) cuts[part - 1] = from[part][cuts[part]];
  return cuts;
}

std::vector<std::size_t> given_cuts(std::vector<std::size_t> firsts, int stages, const Chain& chain) {
  const bool ascend = std::adjacent_find(firsts.begin(), firsts.end(), std::greater_equal<>()) == firsts.end();
  if (firsts.size() != static_cast<std::size_t>(stages) || firsts.front() != 0 || !ascend ||
      firsts.back() >= chain.size()) {
    std::vector<std::string> names;
    for (const auto& link : chain) names.push_back(fmt::format("{} {}", names.size(), link.name));
    constexpr std::size_t kShown = 40;
    fail(Fault::Usage, fmt::format("parallel.cuts = [{}] does not cut a model into {} stages: it names the first block "
                                   "of each, 0 first and ascending, of {}",
                                   fmt::join(firsts, ", "), stages, list_some(names, kShown)));
  }
  firsts.push_back(chain.size());
  return firsts;
}

std::vector<double> costs_by_parameters(const Parameters& parameters, const Chain& chain) {
  std::vector<double> costs(chain.size(), 1);
  for (const auto& [name, tensor] : parameters) {
    if (tensor.dim() < 2) continue;
    for (std::size_t link = 1; link < chain.size(); ++link) {
      if (uses(chain[link], name)) costs[link] += static_cast<double>(tensor.numel());
    }
  }
  return costs;
}

std::vector<std::size_t> links_of(const std::vector<std::size_t>& cuts, int rank, int ranks) {
  std::vector<std::size_t> links;
  for (std::size_t stage = static_cast<std::size_t>(rank); stage + 1 < cuts.size();
       stage += static_cast<std::size_t>(ranks)) {
    for (std::size_t link = cuts[stage]; link < cuts[stage + 1]; ++link) links.push_back(link);
  }
  return links;
}

void keep_links(torch::nn::Module& model, const Chain& chain, const std::vector<std::size_t>& links) {
  check_registered_once(parameters_of(model));
  std::set<std::string> kept;
  for (const std::size_t link : links) kept.insert(chain[link].modules.begin(), chain[link].modules.end());
  prune(model, "", kept);
  for (const auto& parameter : parameters_of(model)) {
    const auto used = [&](std::size_t link) { return uses(chain[link], parameter.name); };
    if (!std::any_of(links.begin(), links.end(), used)) refuse_between(parameter.name);
  }
}

std::set<int> users_of(const std::string& path, const Chain& chain, const std::vector<std::size_t>& cuts, int ranks) {
  std::set<int> users;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const std::size_t link : links_of(cuts, rank, ranks)) {
      const auto& modules = chain[link].modules;
      const auto holds = [&](const std::string& module) { return is_below(path, module); };
      if (std::any_of(modules.begin(), modules.end(), holds)) users.insert(rank);
    }
  }
  return users;
}

Ties ties_of(const Chain& chain, const std::vector<std::size_t>& cuts, int ranks) {
  std::set<std::string> named;
  for (const auto& link : chain) named.insert(link.modules.begin(), link.modules.end());
  Ties ties;
  for (const auto& module : named) {
    auto users = users_of(module, chain, cuts, ranks);
    if (users.size() > 1) ties[std::move(users)].push_back(module);
  }
  return ties;
}

std::vector<std::string> tied_modules(const Chain& chain, const std::vector<std::size_t>& cuts, int ranks) {
  std::vector<std::string> all;
  for (const auto& [users, modules] : ties_of(chain, cuts, ranks))
    all.insert(all.end(), modules.begin(), modules.end());
  return all;
}

}  // namespace lockstep::parallel
