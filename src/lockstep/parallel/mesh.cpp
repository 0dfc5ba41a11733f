#include "lockstep/parallel/mesh.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"

namespace lockstep::parallel {
namespace {

std::string text_of(const std::vector<MeshAxis>& axes) {
  std::vector<std::string> texts;
  for (const auto& [name, size] : axes)
    texts.push_back(fmt::format("{} {}", name, size == 0 ? "rest" : std::to_string(size)));
  return fmt::format("{}", fmt::join(texts, " x "));
}

std::int64_t ranks_of(const std::vector<MeshAxis>& axes) {
  std::int64_t product = 1;
  for (const auto& axis : axes) product *= axis.size;
  return product;
}

/// Whether ranks of a host are one behind the other.
bool together(const std::vector<int>& hosts) {
  std::set<int> seen;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if ((rank == 0 || hosts[rank] != hosts[rank - 1]) && !seen.insert(hosts[rank]).second) return false;
  }
  return true;
}

/// Puts them together, if they are not.
bool put_in_order(std::vector<int>& hosts) {
  if (together(hosts)) return false;
  std::stable_sort(hosts.begin(), hosts.end());
  return true;
}

}  // namespace

int neighbours_on_host(const std::vector<MeshAxis>& axes, const std::string& axis, std::vector<int> hosts) {
  put_in_order(hosts);
  const auto own = std::find_if(axes.begin(), axes.end(), [&](const MeshAxis& one) { return one.name == axis; });
  if (own == axes.end()) return 1;
  const auto size = static_cast<std::size_t>(own->size);
  const auto stride = static_cast<std::size_t>(ranks_of({own + 1, axes.end()}));
  const auto all_on_one = [&](std::size_t count) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      const std::size_t of_group = rank / stride % size % count;
      if (hosts[rank] != hosts[rank - of_group * stride]) return false;
    }
    return true;
  };
  std::size_t most = 1;
  for (std::size_t count = 2; count <= size; ++count) {
    if (size % count == 0 && all_on_one(count)) most = count;
  }
  return static_cast<int>(most);
}

std::vector<MeshAxis> fitted_axes(std::vector<MeshAxis> axes, int ranks) {
  MeshAxis* rest = nullptr;
  std::int64_t others = 1;
  for (auto& axis : axes) {
    if (axis.size < 0) fail(Fault::Usage, fmt::format("parallel.{} = {}: it is from 1 on", axis.name, axis.size));
    if (axis.size > 0) {
      others *= axis.size;
    } else if (std::exchange(rest, &axis) != nullptr) {
      fail(Fault::Usage, "only one axis of parallel can take the rest of the ranks");
    }
  }
  if (rest != nullptr && ranks % others == 0) rest->size = static_cast<int>(ranks / others);
  if (rest != nullptr && rest->size == 0) {
    fail(Fault::Usage, fmt::format("{} ranks for {}: the axes beside '{}' need {} ranks, or a multiple; start as many",
                                   ranks, text_of(axes), rest->name, others));
  }
  if (rest == nullptr && others != ranks) {
    fail(Fault::Usage, fmt::format("{} ranks for {}, which are {}: start as many, or set one axis to \"rest\"", ranks,
                                   text_of(axes), others));
  }
  return axes;
}

Mesh::Mesh(comm::Communicator& world, std::vector<MeshAxis> axes)
    : world_(&world), hosts_(world.hosts()), axes_(std::move(axes)) {
  std::set<std::string> names;
  for (const auto& [name, size] : axes_) {
    if (!names.insert(name).second) fail(Fault::Usage, fmt::format("a mesh has the axis '{}' twice", name));
    if (size < 1) fail(Fault::Usage, fmt::format("a mesh has the axis '{}' of size {}: it is from 1 on", name, size));
  }
  if (ranks_of(axes_) != world.size()) {
    fail(Fault::Usage,
         fmt::format("a mesh of {} has {} ranks, and there are {}", text(), ranks_of(axes_), world.size()));
  }
  const int own_host = hosts_[static_cast<std::size_t>(world.rank())];
  if (put_in_order(hosts_)) {
    in_order_ = world.split(0, own_host);
    world_ = in_order_.get();
  }
  strides_.resize(axes_.size());
  int stride = 1;
  for (std::size_t place = axes_.size(); place-- > 0; stride *= axes_[place].size) strides_[place] = stride;
  for (const auto& axis : axes_) {
    if (axis.size > 1) (void)along(axis.name);
  }
}

std::size_t Mesh::place_of(const std::string& axis) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const auto& one) { return one.name == axis; });
  return static_cast<std::size_t>(found - axes_.begin());
}

int Mesh::size(const std::string& axis) const noexcept {
  const std::size_t place = place_of(axis);
  return place == axes_.size() ? 1 : axes_[place].size;
}

int Mesh::index(const std::string& axis) const noexcept {
  const std::size_t place = place_of(axis);
  return place == axes_.size() ? 0 : world_->rank() / strides_[place] % axes_[place].size;
}

comm::Communicator& Mesh::spanned_by(const std::vector<std::string>& axes) {
  std::vector<std::size_t> places;
  for (const auto& axis : axes) {
    if (size(axis) > 1) places.push_back(place_of(axis));
  }
  std::sort(places.begin(), places.end());
  const bool all = std::all_of(axes_.begin(), axes_.end(), [&](const MeshAxis& axis) {
    return axis.size == 1 || std::find(places.begin(), places.end(), place_of(axis.name)) != places.end();
  });
  if (all) return *world_;
  auto& group = groups_[places];
  if (group) return *group;
  // Ranks of one colour have all other coordinates in common.
  int colour = world_->rank();
  for (const std::size_t place : places) {
    colour -= world_->rank() / strides_[place] % axes_[place].size * strides_[place];
  }
  group = world_->split(colour, world_->rank());
  return *group;
}

int Mesh::hosts_along(const std::string& axis) const {
  const std::size_t place = place_of(axis);
  if (place == axes_.size()) return 1;
  std::map<int, std::set<int>> hosts_of;  // by the group's first rank
  for (int rank = 0; rank < world_->size(); ++rank) {
    const int index = rank / strides_[place] % axes_[place].size;
    hosts_of[rank - index * strides_[place]].insert(hosts_[static_cast<std::size_t>(rank)]);
  }
  std::size_t most = 1;
  for (const auto& [first, hosts] : hosts_of) most = std::max(most, hosts.size());
  return static_cast<int>(most);
}

std::string Mesh::text() const { return text_of(axes_); }

}  // namespace lockstep::parallel
