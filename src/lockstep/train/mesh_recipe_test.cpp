#include "lockstep/train/mesh_recipe.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"

namespace lockstep::train {
namespace {

MeshRecipe read(int ranks, const std::vector<std::string>& settings) {
  Config recipe;
  for (const auto& setting : settings) recipe.set("parallel." + setting);
  return read_mesh(recipe, "parallel", ranks);
}

std::string refused(const std::vector<std::string>& settings) {
  return test::message_of([&] { (void)read(4, settings); }, Fault::Usage);
}

TEST(MeshRecipe, RefusesNumbersThatDoNotFit) {
  EXPECT_EQ(refused({"chunks=4294967297"}), "parallel.chunks = 4294967297: it is from 1 to 1024");
  EXPECT_EQ(refused({"chunks=0"}), "parallel.chunks = 0: it is from 1 to 1024");
  EXPECT_EQ(refused({"data=0"}), "parallel.data = 0: it is from 1 to 1048576, or \"rest\"");
  EXPECT_EQ(refused({"tensor=4294967297"}), "parallel.tensor = 4294967297: it is from 1 to 1048576, or \"rest\"");
}

TEST(MeshRecipe, RefusesALayoutThatThereIsNot) {
  EXPECT_EQ(refused({"layout='best'"}),
            "parallel.layout = \"best\": it is \"auto\", or left out where keys such as parallel.tensor say how ranks "
            "are laid out");
  EXPECT_EQ(
      test::message_of([] { (void)read_mesh(Config::from_text("parallel = 'best'"), "parallel", 4); }, Fault::Usage),
      "parallel = \"best\": it is a table, or \"auto\"");
}

TEST(MeshRecipe, RefusesWhatHasNoUse) {
  EXPECT_NE(refused({"zero_ranks=2"}).find("set parallel.zero to 1, 2 or 3"), std::string::npos);
  EXPECT_NE(refused({"zero_ranks='host'"}).find("zero_ranks = \"host\" says how many ranks"), std::string::npos);
  EXPECT_EQ(refused({"zero=1", "zero_ranks='node'"}),
            "parallel.zero_ranks = \"node\": it is a number of ranks, or \"host\"");
  EXPECT_NE(refused({"sequence=true"}).find("set parallel.tensor to 2 or more"), std::string::npos);
  EXPECT_NE(refused({"cuts=[0, 3]"}).find("parallel.cuts is of stages, and parallel.pipe = 1"), std::string::npos);
  EXPECT_NE(refused({"chunks=2"}).find("parallel.chunks is of stages"), std::string::npos);
  EXPECT_NO_THROW((void)read(4, {"schedule='interleaved'"}));
  EXPECT_NO_THROW((void)read(4, {"layout='auto'", "zero_ranks=2", "sequence=true"}));
}

TEST(MeshRecipe, CountsRanksOfAnAxisOnAHost) {
  EXPECT_TRUE(read(4, {"zero=3", "zero_ranks='host'"}).zero_within_host);
  EXPECT_EQ(ranks_on_host(kDataAxis, read(4, {"tensor=2"}), {.data = 2, .tensor = 2}, {0, 0, 1, 1}), 1);
  EXPECT_EQ(ranks_on_host(kDataAxis, read(4, {}), {.data = 4}, {0, 0, 1, 1}), 2);
  EXPECT_EQ(ranks_on_host(kDataAxis, read(4, {}), {.data = 8}, {0, 0, 1, 1}), 2);  // of four hosts, then
  EXPECT_EQ(
      ranks_on_host(kDataAxis, read(4, {"order=['data', 'pipe', 'tensor']"}), {.data = 2, .pipe = 2}, {0, 0, 1, 1}), 1);
  EXPECT_EQ(ranks_on_host(kTensorAxis, read(6, {"tensor=2"}), {.data = 3, .tensor = 2}, {0, 0, 0, 1, 1, 1}), 1);
  EXPECT_EQ(ranks_on_host(kTensorAxis, read(6, {"tensor=3"}), {.data = 2, .tensor = 3}, {0, 0, 0, 1, 1, 1}), 3);
}

TEST(MeshRecipe, AnyAxisTakesTheRest) {
  const Layout tensor = layout_of(read(4, {"tensor='rest'"}), 4);
  EXPECT_EQ(tensor.tensor, 4);
  EXPECT_EQ(tensor.data, 1);
  const Layout pipe = layout_of(read(4, {"pipe='rest'", "data=2", "order=['data', 'tensor', 'pipe']"}), 4);
  EXPECT_EQ(pipe.pipe, 2);
  EXPECT_EQ(pipe.data, 2);
}

TEST(MeshRecipe, KeepsTheRanksThatItsAxesNeed) {
  EXPECT_EQ(ranks_within(read(4, {}), 4, 2), 2);
  EXPECT_EQ(ranks_within(read(4, {}), 4, 8), 4);
  EXPECT_EQ(ranks_within(read(4, {"tensor=2", "pipe=2"}), 4, 2), 4);
  EXPECT_EQ(ranks_within(read(8, {"tensor=2"}), 8, 5), 4);
  EXPECT_EQ(ranks_within(read(8, {"tensor=2", "pipe=2"}), 8, 2), 4);
  EXPECT_EQ(ranks_within(read(8, {"zero=3", "zero_ranks=2"}), 8, 7), 6);
  EXPECT_EQ(ranks_within(read(4, {"data=4"}), 4, 2), 4);
  EXPECT_EQ(ranks_within(read(4, {"tensor='rest'"}), 4, 2), 4);
}

}  // namespace
}  // namespace lockstep::train
