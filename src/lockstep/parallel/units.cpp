#include "lockstep/parallel/units.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes: no two parameters or shards have a cache line in common

std::int64_t aligned(std::int64_t elements, std::int64_t step) { return (elements + step - 1) / step * step; }

std::vector<std::size_t> links_that_use(const std::string& parameter, const Chain& chain) {
  std::vector<std::size_t> links;
  for (std::size_t link = 0; link < chain.size(); ++link) {
    if (uses(chain[link], parameter)) links.push_back(link);
  }
  return links;
}

/// By link: the first of those that are taken together.
std::vector<std::size_t> groups_of_links(const Parameters& parameters, const Chain& chain,
                                         const std::vector<std::size_t>& cuts, std::int64_t least_bytes) {
  std::vector<std::int64_t> bytes(chain.size());
  for (const auto& [name, tensor] : parameters) {
    for (const std::size_t link : links_that_use(name, chain))
      bytes[link] += static_cast<std::int64_t>(tensor.nbytes());
  }
  std::vector<std::size_t> group(chain.size());
  std::int64_t so_far = 0;
  for (std::size_t link = 1; link < chain.size(); ++link) {
    so_far += bytes[link - 1];
    const bool cut = std::find(cuts.begin(), cuts.end(), link) != cuts.end();
    const bool begins = cut || so_far >= least_bytes;
    group[link] = begins ? link : group[link - 1];
    if (begins) so_far = 0;
  }
  return group;
}

}  // namespace

bool Unit::used_by(std::size_t link) const { return std::binary_search(links.begin(), links.end(), link); }

std::int64_t Unit::bytes() const { return elements * static_cast<std::int64_t>(c10::elementSize(type)); }

std::vector<Unit> units_of(const Parameters& parameters, const Chain& chain, const std::vector<std::size_t>& cuts,
                           const std::set<std::string>& alone, std::int64_t least_bytes, int shards,
                           const std::set<std::string>& by_link) {
  const auto group = groups_of_links(parameters, chain, cuts, least_bytes);
  using Key = std::tuple<std::vector<std::size_t>, std::string, at::ScalarType>;  // groups of links, name, type
  std::map<Key, Unit> units;
  for (std::size_t number = 0; number < parameters.size(); ++number) {
    const auto& [name, tensor] = parameters[number];
    const bool apart = by_link.contains(name) && !alone.contains(name);
    std::vector<std::size_t> groups;
    for (const std::size_t link : links_that_use(name, chain)) {
      const std::size_t begin = apart ? link : group[link];
      if (groups.empty() || groups.back() != begin) groups.push_back(begin);
    }
    const bool single = groups.size() != 1 || alone.contains(name);
    Unit& unit = units[{groups, apart ? "by link" : single ? name : "", tensor.scalar_type()}];
    unit.type = tensor.scalar_type();
    unit.parameters.push_back(number);
    for (const std::size_t link : links_that_use(name, chain)) unit.links.push_back(link);
  }
  std::vector<Unit> result;
  for (auto& [key, unit] : units) {
    std::sort(unit.links.begin(), unit.links.end());
    unit.links.erase(std::unique(unit.links.begin(), unit.links.end()), unit.links.end());
    const auto& first = parameters[unit.parameters.front()].name;
    unit.name = unit.links.size() == 1 && unit.parameters.size() > 1 ? chain[unit.links.front()].name : first;
    const std::int64_t step = kAlignment / static_cast<std::int64_t>(c10::elementSize(unit.type));
    for (const std::size_t number : unit.parameters) {
      unit.firsts.push_back(unit.elements);
      unit.elements += aligned(parameters[number].tensor.numel(), step);
    }
    unit.elements = aligned(unit.elements, step * shards);
    result.push_back(std::move(unit));
  }
  return result;
}

Overlap::Overlap(const std::vector<Unit>& units, std::int64_t bytes) : units_(units), bytes_(bytes) {
  if (units.empty()) return;
  std::vector<std::int64_t> sizes;
  for (const auto& unit : units) sizes.push_back(unit.bytes());
  const auto median = sizes.begin() + std::ssize(sizes) / 2;
  std::nth_element(sizes.begin(), median, sizes.end());
  bytes_ = std::max(bytes_, 2 * *median);
}

bool Overlap::together(std::size_t link, std::size_t other) const {
  std::int64_t bytes = 0;
  for (const auto& unit : units_) {
    if (unit.used_by(link) || unit.used_by(other)) bytes += unit.bytes();
  }
  return bytes <= bytes_;
}

std::vector<ParameterSlice> slices_of(const Unit& unit, const Parameters& parameters, int shard, int shards) {
  const std::int64_t length = unit.elements / shards, begin = shard * length, end = begin + length;
  std::vector<ParameterSlice> slices;
  for (std::size_t place = 0; place < unit.parameters.size(); ++place) {
    const std::int64_t first = unit.firsts[place], last = first + parameters[unit.parameters[place]].tensor.numel();
    const std::int64_t from = std::clamp(first, begin, end), to = std::clamp(last, from, end);
    slices.push_back({unit.parameters[place], from - begin, {to > from ? from - first : 0, to - from}});
  }
  return slices;
}

}  // namespace lockstep::parallel
