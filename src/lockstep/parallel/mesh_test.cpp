#include "lockstep/parallel/mesh.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"

namespace lockstep::parallel {
namespace {

using comm::Communicator;
using comm::testing::on_ranks;

double sum_along(Mesh& mesh, const std::vector<std::string>& axes) {
  const at::Tensor sum = at::full({1}, mesh.world().rank(), at::kDouble);
  mesh.spanned_by(axes).all_reduce_(sum, comm::ReduceOp::Sum).wait();
  return sum.item<double>();
}

TEST(Mesh, GivesRanksTheirPlacesAndGroups) {
  on_ranks({12}, [](Communicator& world) {
    Mesh mesh(world, {{"pipe", 2}, {"data", 3}, {"tensor", 2}});
    const int rank = world.rank();
    EXPECT_EQ(mesh.index("pipe"), rank / 6);
    EXPECT_EQ(mesh.index("data"), rank / 2 % 3);
    EXPECT_EQ(mesh.index("tensor"), rank % 2);
    EXPECT_EQ(mesh.along("tensor").rank(), mesh.index("tensor"));
    EXPECT_EQ(mesh.along("data").size(), 3);
    EXPECT_EQ(sum_along(mesh, {"tensor"}), rank / 2 * 4 + 1);
    EXPECT_EQ(sum_along(mesh, {"pipe"}), 2 * (rank % 6) + 6);
    EXPECT_EQ(sum_along(mesh, {"tensor", "pipe"}), 4 * (rank / 2 % 3 * 2) + 2 * 6 + 2);
    EXPECT_EQ(sum_along(mesh, {"pipe", "tensor", "data"}), 66);
    EXPECT_EQ(&mesh.spanned_by({"data", "tensor", "pipe"}), &world);
    EXPECT_EQ(mesh.size("expert"), 1);
    EXPECT_EQ(mesh.index("expert"), 0);
    EXPECT_EQ(mesh.text(), "pipe 2 x data 3 x tensor 2");
  });
}

TEST(Mesh, PutsRanksOfOneHostSideBySide) {
  on_ranks({.count = 6, .hosts = {0, 1, 2, 0, 1, 2}}, [](Communicator& world) {
    Mesh mesh(world, {{"data", 3}, {"tensor", 2}});
    EXPECT_EQ(mesh.index("data"), world.rank() % 3);
    EXPECT_EQ(mesh.index("tensor"), world.rank() / 3);
    EXPECT_EQ(mesh.hosts_along("tensor"), 1);
    EXPECT_EQ(mesh.hosts_along("data"), 3);
    EXPECT_EQ(mesh.hosts_along("pipe"), 1);
    const at::Tensor sum = at::full({1}, world.rank(), at::kDouble);
    mesh.along("tensor").all_reduce_(sum, comm::ReduceOp::Sum).wait();
    EXPECT_EQ(sum.item<double>(), 2 * (world.rank() % 3) + 3);
  });
  on_ranks({.count = 4, .hosts = {0, 0, 0, 1}},
           [](Communicator& world) { EXPECT_EQ(Mesh(world, {{"data", 2}, {"tensor", 2}}).hosts_along("tensor"), 2); });
}

TEST(Mesh, CountsNeighboursOnOneHost) {
  const auto count = [](const std::vector<MeshAxis>& axes, const std::vector<int>& ranks_of_hosts) {
    std::vector<int> hosts;
    for (std::size_t host = 0; host < ranks_of_hosts.size(); ++host)
      hosts.insert(hosts.end(), static_cast<std::size_t>(ranks_of_hosts[host]), static_cast<int>(host));
    return neighbours_on_host(axes, "data", hosts);
  };
  EXPECT_EQ(count({{"data", 8}}, {4, 4}), 4);
  EXPECT_EQ(count({{"data", 8}}, {8}), 8);
  EXPECT_EQ(count({{"data", 4}, {"tensor", 2}}, {4, 4}), 2);
  EXPECT_EQ(count({{"pipe", 3}, {"data", 4}}, {6, 6}), 2);  // the second stage lies on both
  EXPECT_EQ(count({{"data", 8}}, {3, 5}), 1);
  EXPECT_EQ(count({{"data", 4}, {"pipe", 2}}, {4, 4}), 2);
  EXPECT_EQ(count({{"pipe", 2}, {"tensor", 2}}, {4}), 1);
  EXPECT_EQ(neighbours_on_host({{"data", 4}}, "data", {0, 1, 0, 1}), 2);
}

TEST(Mesh, OfOneAxisIsTheWorldItself) {
  on_ranks({3}, [](Communicator& world) {
    Mesh mesh(world, {{"data", 3}});
    EXPECT_EQ(&mesh.along("data"), &world);
    EXPECT_EQ(mesh.along("tensor").size(), 1);
  });
}

TEST(Mesh, SaysAllTheNumbersThatDoNotFit) {
  const auto message = [](std::vector<MeshAxis> axes, int ranks) {
    return test::message_of([&] { (void)fitted_axes(axes, ranks); }, Fault::Usage);
  };
  EXPECT_EQ(message({{"pipe", 2}, {"data", 1}, {"tensor", 3}}, 8),
            "8 ranks for pipe 2 x data 1 x tensor 3, which are 6: start as many, or set one axis to \"rest\"");
  EXPECT_EQ(
      message({{"pipe", 2}, {"data", 0}, {"tensor", 3}}, 8),
      "8 ranks for pipe 2 x data rest x tensor 3: the axes beside 'data' need 6 ranks, or a multiple; start as many");
  EXPECT_EQ(message({{"pipe", 0}, {"data", 0}}, 8), "only one axis of parallel can take the rest of the ranks");
  const auto fitted = fitted_axes({{"pipe", 2}, {"data", 0}, {"tensor", 2}}, 12);
  EXPECT_EQ(fitted[1].size, 3);
}

}  // namespace
}  // namespace lockstep::parallel
