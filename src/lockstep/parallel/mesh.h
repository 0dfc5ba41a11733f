// lockstep/parallel/mesh.h
//
// A Mesh gives the ranks of a group coordinates on named axes, such as data, tensor and pipe. A
// strategy works along its axis, with the ranks that share all other coordinates, and need not
// know of the others. The last axis runs fastest: its ranks are neighbours, on one host as far as the
// numbers allow, so the axis that talks most comes last. Where a launcher has dealt ranks out to
// hosts in turn, the mesh puts them in order.
//
//   Mesh mesh(world, {{"pipe", 2}, {"data", 3}, {"tensor", 2}});
//   mesh.along("tensor").all_reduce_(…);       // of two ranks
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::parallel {

struct MeshAxis {
  std::string name;
  int size = 1;
};

class Mesh {
 public:
  /// The sizes multiply to the number of ranks: Fault::Usage, with all of them, if they do not. Makes the groups of all
  /// axes. A collective.
  Mesh(comm::Communicator& world, std::vector<MeshAxis> axes);

  /// All ranks, those of a host one behind the other: not always in the order of the group that it was made of, whose
  /// first rank is the first here, too.
  comm::Communicator& world() const noexcept { return *world_; }
  const std::vector<MeshAxis>& axes() const noexcept { return axes_; }
  /// Of an axis that it does not have: 1 and 0.
  int size(const std::string& axis) const noexcept;
  int index(const std::string& axis) const noexcept;
  /// Ranks that differ from this one in `axis` alone, in the order of their index.
  comm::Communicator& along(const std::string& axis) { return spanned_by({axis}); }
  /// Ranks that differ in these axes alone, in the order of the world. Made when first asked for: all ranks ask for the
  /// same, a collective then.
  comm::Communicator& spanned_by(const std::vector<std::string>& axes);
  /// Over how many hosts the ranks along `axis` are spread at most.
  int hosts_along(const std::string& axis) const;
  /// "pipe 2 x data 3 x tensor 2".
  std::string text() const;

 private:
  std::size_t place_of(const std::string& axis) const;

  std::unique_ptr<comm::Communicator> in_order_;  // the world, if it had to be put in order
  comm::Communicator* world_;
  std::vector<int> hosts_;  // by rank of the world
  std::vector<MeshAxis> axes_;
  std::vector<int> strides_;
  std::map<std::vector<std::size_t>, std::unique_ptr<comm::Communicator>> groups_;  // by places of axes
};

/// How many neighbours along `axis` may form a group of which all are on one host, wherever in the mesh: the most that
/// divide it. `hosts` by rank, in any order, of which the mesh puts those of one together.
int neighbours_on_host(const std::vector<MeshAxis>& axes, const std::string& axis, std::vector<int> hosts);

/// Axes of a mesh for `ranks` ranks, in the same order; an axis of size 0 takes the ranks that are left.
/// Fault::Usage, with all the numbers, if that does not come out even.
std::vector<MeshAxis> fitted_axes(std::vector<MeshAxis> axes, int ranks);

}  // namespace lockstep::parallel
