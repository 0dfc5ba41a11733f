// `lockstep kmeans`, `linreg` and the other classical algorithms, as a user calls them.
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"
#include "lockstep/core/file.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/image.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/open.h"
#include "lockstep/ml/model_file.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class MlCommands : public ::testing::Test {
 protected:
  std::string operator/(const std::string& name) const { return folder_ / name; }

  static Answer run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), LOCKSTEP_PROGRAM);
    return answer_of(arguments, 100);
  }

  const TemporaryFolder folder_;
};

TEST_F(MlCommands, KmeansWritesOneModelOnAnyNumberOfRanks) {
  std::set<std::string> models;
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{}, {"--threads", "2"}, {"-n", "2"}, {"-n", "3", "--threads", "1"}}) {
    std::vector<std::string> words{
        "kmeans", "blobs:samples=30000,dims=4,classes=5", "-k", "5", "--json", "-o", *this / "model.safetensors"};
    words.insert(words.end(), layout.begin(), layout.end());
    const auto answer = run(words);
    ASSERT_EQ(answer.code, 0) << answer.errors;
    const auto report = json::parse(answer.output);
    EXPECT_EQ(report["rows"], 30'000);
    EXPECT_EQ(report["columns"], 4);  // the label is none
    models.insert(read_whole(*this / "model.safetensors"));
  }
  EXPECT_EQ(models.size(), 1U);
}

TEST_F(MlCommands, KmeansByBatchesWritesOneModelToo) {
  std::set<std::string> models;
  for (const char* ranks : {"1", "2"}) {
    const auto answer = run({"kmeans", "blobs:samples=20000,dims=4,classes=5", "-k", "5", "--batch-size", "1024", "-n",
                             ranks, "--json", "-o", *this / "model.safetensors"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    const auto report = json::parse(answer.output);
    EXPECT_GT(report["batches"], 10);
    EXPECT_LE(report["iterations"], 100);
    models.insert(read_whole(*this / "model.safetensors"));
  }
  EXPECT_EQ(models.size(), 1U);
  const auto answer =
      run({"predict", *this / "model.safetensors", "blobs:samples=20000,dims=4,classes=5", "-o", *this / "labels.csv"});
  EXPECT_EQ(answer.code, 0) << answer.errors;
}

TEST_F(MlCommands, KmeansOfARangeWritesItsElbow) {
  std::set<std::string> models;
  for (const char* ranks : {"1", "2"}) {
    const auto answer = run({"kmeans", "blobs:samples=3000,dims=6,classes=4,spread=0.1", "-k", "2:10:2", "-n", ranks,
                             "--json", "--plot", *this / "elbow.svg", "-o", *this / "model.safetensors"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    const auto report = json::parse(answer.output);
    ASSERT_EQ(report["fits"].size(), 5U);
    EXPECT_EQ(report["fits"][4]["clusters"], 10);
    EXPECT_GT(report["fits"][0]["inertia"], report["fits"][4]["inertia"]);
    EXPECT_EQ(report["elbow"], 4);
    EXPECT_TRUE(has(read_whole(*this / "elbow.svg"), "elbow: 4"));
    models.insert(read_whole(*this / "model.safetensors"));
  }
  EXPECT_EQ(models.size(), 1U);
  const std::vector<std::string> one{
      "kmeans", "blobs:samples=3000,dims=6,classes=4,spread=0.1", "-k", "4", "-o", *this / "model.safetensors"};
  ASSERT_EQ(run(one).code, 0);
  EXPECT_EQ(read_whole(*this / "model.safetensors"), *models.begin());
  const auto shown = run({"kmeans", "blobs:samples=3000,dims=6,classes=4,spread=0.1", "-k", "3:5"});
  EXPECT_EQ(occurrences(shown.output, "\n"), 5) << shown.output;
  EXPECT_TRUE(has(shown.output, "the elbow is at 4 clusters, farthest below the line from 3 to 5\n")) << shown.output;
}

TEST_F(MlCommands, KmeansBeginsWithGivenCentroids) {
  folder_.write("rows.csv", "x,name,y\n0,a,1\n0.5,b,1\n10,c,20\n11,d,20\n30,e,0\n31,f,0\n");
  folder_.write("named.csv", "y,x\n0,29\n1,0\n19,10\n");
  folder_.write("by_place.csv", "u,v\n29,0\n0,1\n10,19\n");
  std::set<std::string> models;
  for (const std::vector<std::string>& more : {std::vector<std::string>{"named.csv", "1"},
                                               {"named.csv", "2"},
                                               {"by_place.csv", "2"},
                                               {"model.safetensors", "1"},
                                               {"model.safetensors", "2"}}) {
    const auto answer = run({"kmeans", *this / "rows.csv", "--exclude", "name", "--centers", *this / more[0], "-n",
                             more[1], "-o", *this / "next.safetensors"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    EXPECT_TRUE(has(answer.output, "3 clusters: inertia 1.125 ")) << answer.output;
    std::string bytes = read_whole(*this / "next.safetensors");
    EXPECT_TRUE(has(bytes, "given"));
    if (more[0] != "model.safetensors") {
      models.insert(bytes);
      fs::rename(*this / "next.safetensors", *this / "model.safetensors");
    } else {
      EXPECT_TRUE(has(answer.output, "after 1 iteration in")) << answer.output;
      // The same centroids, though the iterations differ: those are the last bytes.
      EXPECT_EQ(bytes.substr(bytes.size() - 48), models.begin()->substr(models.begin()->size() - 48));
    }
  }
  EXPECT_EQ(models.size(), 1U);
  // Centroids are scaled as the rows are, or anew where a model's rows were not.
  for (const char* centers : {"named.csv", "model.safetensors"}) {
    const auto answer = run({"kmeans", *this / "rows.csv", "--exclude", "name", "--scale", "minmax", "--centers",
                             *this / centers, "--max-iter", "1"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    EXPECT_TRUE(has(answer.output, "3 clusters: inertia 0.00117066 ")) << answer.output;
  }
}

TEST_F(MlCommands, PredictReadsTheModelsColumns) {
  folder_.write("train.csv", "name,x,y\na,0,1\nb,0.5,1\nc,10,20\nd,11,20\n");
  folder_.write("new.csv", "y,z,x\n21,7,10\n1,7,0\n");
  ASSERT_EQ(run({"kmeans", *this / "train.csv", "--exclude", "name", "-k", "2", "-o", *this / "model"}).code, 0);
  const auto answer = run({"predict", *this / "model", *this / "new.csv", "-o", *this / "labels.csv"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const std::string labels = read_whole(*this / "labels.csv");
  EXPECT_TRUE(labels == "label\n0\n1\n" || labels == "label\n1\n0\n") << labels;
  folder_.write("other.csv", "y,z\n1,2\n");
  const auto missing = run({"predict", *this / "model", *this / "other.csv", "-o", *this / "none.csv"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.errors.find("'x'"), std::string::npos) << missing.errors;
  EXPECT_FALSE(fs::exists(*this / "none.csv"));
}

TEST_F(MlCommands, PredictPrintsWhatClassesAreCalled) {
  folder_.write("train.csv", "x[0],x[1],kind\n0,1,red\n1,0,red\n9,8,\"blue, dark\"\n8,9,\"blue, dark\"\n");
  folder_.write("new.csv", "x[1],x[0]\n8,8\n0,0\n");
  ASSERT_EQ(run({"logreg", *this / "train.csv", "--target", "kind", "-o", *this / "model"}).code, 0);
  const auto printed = run({"predict", *this / "model", *this / "new.csv"});
  ASSERT_EQ(printed.code, 0) << printed.errors;
  EXPECT_EQ(printed.output, "kind\n\"blue, dark\"\nred\n");
  ASSERT_EQ(run({"predict", *this / "model", *this / "new.csv", "-o", *this / "said.csv"}).code, 0);
  EXPECT_EQ(read_whole(*this / "said.csv"), printed.output);
  folder_.write("gaps.csv", "x[1],x[0]\n8,8\n0,\n,\n");
  EXPECT_TRUE(has(run({"predict", *this / "model", *this / "gaps.csv"}).errors, "row 1, 'x[0]' is missing"));
  // A data set may have more classes than it names: others are numbers.
  auto model = ml::read_model(*this / "model");
  model.parameters["class_names"] = json::array({"blue, dark"});
  ml::write_model(*this / "few-names", model);
  EXPECT_EQ(run({"predict", *this / "few-names", *this / "new.csv"}).output, "kind\n\"blue, dark\"\n1\n");
  // An array has the probabilities of all classes side by side.
  ASSERT_EQ(run({"predict", *this / "model", *this / "new.csv", "--proba", "-o", *this / "said.npy"}).code, 0);
  const auto set = data::open(*this / "said.npy");
  EXPECT_EQ(set->size(), 2);
  EXPECT_EQ(set->schema().at(0).shape, std::vector<std::int64_t>{2});
}

TEST_F(MlCommands, PredictReadsRowsPieceByPiece) {
  std::string rows = "x,y\n";
  constexpr int kRows = 70'000;  // more than are read at once
  for (int i = 0; i < kRows; ++i) {
    rows += fmt::format("{},{}\n", i, 2 * i);
  }
  folder_.write("rows.csv", rows);
  ASSERT_EQ(run({"linreg", *this / "rows.csv", "--target", "y", "-o", *this / "model"}).code, 0);
  folder_.write("last.csv", rows.substr(0, rows.size() - 1 - std::string("69999,139998").size()) + "inf,1\n");
  for (const char* said : {"said.csv", "said.npy", "said.npz"}) {
    ASSERT_EQ(run({"predict", *this / "model", *this / "rows.csv", "-o", *this / said}).code, 0);
    const auto set = data::open(*this / said);
    ASSERT_EQ(set->size(), kRows);
    data::Sample sample;
    for (const std::int64_t row : {0, 65'535, 65'536, 69'999}) {
      set->read(row, sample);
      double value = 0;
      std::memcpy(&value, sample.values[0].bytes.data(), sizeof value);
      EXPECT_NEAR(value, 2.0 * static_cast<double>(row), 1e-6) << said;
    }
    fs::remove(*this / said);
    const auto refused = run({"predict", *this / "model", *this / "last.csv", "-o", *this / said});
    EXPECT_TRUE(has(refused.errors, "row 69999, 'x' is infinite")) << refused.errors;
    EXPECT_FALSE(fs::exists(*this / said));
  }
}

TEST_F(MlCommands, PredictRefusesModelsThatWereChanged) {
  folder_.write("train.csv", "x,kind\n0,red\n1,red\n9,blue\n8,blue\n");
  const std::string model = *this / "model";
  ASSERT_EQ(run({"knn", *this / "train.csv", "--target", "kind", "-k", "1", "--model", model}).code, 0);
  const std::string whole = read_whole(model);
  const std::pair<std::string, std::string> changes[] = {
      {R"(\"n_neighbors\":1)", R"(\"n_neighbors\":\"1\")"},
      {R"([\"x\"])", R"([\"x\",\"y\"])"},
  };
  const char* messages[] = {"'n_neighbors' cannot be what it says", "names 2 columns, which are not those of its 'x'"};
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    const auto& [from, to] = changes[i];
    std::string changed = whole;
    ASSERT_NE(changed.find(from), std::string::npos) << changed.substr(0, 1000);
    changed.replace(changed.find(from), from.size(), to);
    // The header's length, in its first eight bytes.
    changed[0] = static_cast<char>(static_cast<unsigned char>(changed[0]) + (to.size() - from.size()));
    write_whole(*this / "changed", changed);
    const auto answer = run({"predict", *this / "changed", *this / "train.csv"});
    EXPECT_EQ(answer.code, 1);
    EXPECT_TRUE(has(answer.errors, messages[i])) << answer.errors;
  }
}

TEST_F(MlCommands, KmeansFindsTheColoursOfAPicture) {
  if (!data::has_decoder(data::Encoding::Png)) GTEST_SKIP() << "built without PNG";
  const data::ImageSize size{.height = 40, .width = 50, .channels = 3};
  std::vector<std::byte> pixels;
  for (int i = 0; i < size.height * size.width; ++i) {
    const int shade = i % 3;  // a little above or below one of two colours
    const bool red = i % 50 < 25;
    for (const int value : {red ? 200 + shade : 20 + shade, 30, red ? 10 : 220 + shade})
      pixels.push_back(static_cast<std::byte>(value));
  }
  folder_.write("in.png", data::encode_png(pixels, size));
  const auto answer = run({"kmeans", "--image", *this / "in.png", "-k", "2", "-n", "2", "-o", *this / "out.png",
                           "--palette", *this / "palette.svg"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const std::string palette = read_whole(*this / "palette.svg");
  EXPECT_TRUE(has(palette, "fill=\"#c91e0a\"")) << palette;
  EXPECT_TRUE(has(palette, "fill=\"#151edd\"")) << palette;
  EXPECT_EQ(occurrences(palette, "50.0 %"), 2) << palette;
  EXPECT_NE(answer.output.find("#c91e0a"), std::string::npos) << answer.output;
  EXPECT_NE(answer.output.find("#151edd"), std::string::npos) << answer.output;
  const std::string bytes = read_whole(*this / "out.png");
  data::Scratch scratch;
  const auto image = data::decode_image(std::as_bytes(std::span(bytes)), 3, scratch);
  EXPECT_EQ(static_cast<const data::ImageSize&>(image), size);
  EXPECT_EQ(static_cast<int>(image.pixels[0]), 0xc9);
  EXPECT_EQ(static_cast<int>(image.pixels[3 * 30]), 0x15);
  const auto told = run({"kmeans", "--image", *this / "in.png", "-k", "2", "-o", *this / "out.png", "--json"});
  ASSERT_EQ(told.code, 0) << told.errors;
  const json report = json::parse(told.output);
  std::set<std::string> colours;
  for (const auto& colour : report["palette"]) {
    colours.insert(colour["colour"]);
    EXPECT_EQ(colour["pixels"], 1000);
  }
  EXPECT_EQ(colours, (std::set<std::string>{"#c91e0a", "#151edd"}));
}

TEST_F(MlCommands, LinregExplainsATarget) {
  std::string table = "a,b,same,price,size\n";
  for (int i = 0; i < 50; ++i) {
    table += fmt::format("{},{},{},{},{}\n", i, i * i % 7, i * 2, 3 * i - 2 * (i * i % 7) + 5, 4 * i);
  }
  folder_.write("table.csv", table);
  std::set<std::string> models;
  for (const char* ranks : {"1", "2", "3"}) {
    const auto answer = run({"linreg", *this / "table.csv", "--target", "price,size", "--exclude", "same", "-n", ranks,
                             "-o", *this / "model", "--json"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    const auto price = json::parse(answer.output)["targets"]["price"];
    EXPECT_NEAR(price["coefficients"]["a"], 3, 1e-10);
    EXPECT_NEAR(price["coefficients"]["b"], -2, 1e-10);
    EXPECT_NEAR(price["intercept"], 5, 1e-9);
    models.insert(read_whole(*this / "model"));
  }
  EXPECT_EQ(models.size(), 1U);
  ASSERT_EQ(run({"predict", *this / "model", *this / "table.csv", "-o", *this / "said.csv"}).code, 0);
  EXPECT_TRUE(has(read_whole(*this / "said.csv"), "price,size\n"));
  const auto dependent = run({"linreg", *this / "table.csv", "--target", "price", "--exclude", "size", "-n", "2"});
  EXPECT_EQ(dependent.code, 0);
  EXPECT_EQ(occurrences(dependent.errors, "'a', 'same' are constant or depend on each other"), 1) << dependent.errors;
}

TEST_F(MlCommands, CovarianceShowsWhatVariesTogether) {
  std::string table = "a,b,same\n";
  for (int i = 0; i < 40; ++i) table += fmt::format("{},{},{}\n", i, i * i % 7, 2 * i + 1);
  folder_.write("table.csv", table);
  std::set<std::string> models;
  for (const char* ranks : {"1", "2"}) {
    const auto answer =
        run({"covariance", *this / "table.csv", "--ddof", "1", "-n", ranks, "-o", *this / "model", "--json"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    const auto report = json::parse(answer.output);
    EXPECT_EQ(report["columns"], (std::vector<std::string>{"a", "b", "same"}));
    EXPECT_NEAR(report["covariance"][0][0], 40 * 41 / 12.0, 1e-10);
    EXPECT_NEAR(report["covariance"][0][2], 40 * 41 / 6.0, 1e-10);
    EXPECT_NEAR(report["correlation"][2][0], 1, 1e-12);
    models.insert(read_whole(*this / "model"));
  }
  EXPECT_EQ(models.size(), 1U);
  EXPECT_TRUE(has(run({"covariance", *this / "table.csv"}).output, "1.0000  a, same\n"));
  ASSERT_EQ(run({"predict", *this / "model", *this / "table.csv", "-o", *this / "far.csv"}).code, 0);
  EXPECT_TRUE(has(read_whole(*this / "far.csv"), "mahalanobis\n"));
}

TEST_F(MlCommands, LogregTellsClassesApart) {
  std::set<std::string> models;
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{}, {"--threads", "2"}, {"-n", "2"}, {"-n", "3", "--threads", "1"}}) {
    std::vector<std::string> words{
        "logreg", "blobs:samples=20000,dims=4,classes=3", "--target", "label", "--json", "-o", *this / "model"};
    words.insert(words.end(), layout.begin(), layout.end());
    const auto answer = run(words);
    ASSERT_EQ(answer.code, 0) << answer.errors;
    const auto report = json::parse(answer.output);
    EXPECT_EQ(report["columns"], 4);
    EXPECT_EQ(report["classes"], (std::vector<double>{0, 1, 2}));
    EXPECT_GT(report["accuracy"], 0.5);
    EXPECT_TRUE(report["converged"]);
    models.insert(read_whole(*this / "model"));
  }
  EXPECT_EQ(models.size(), 1U);
  const std::string few = "blobs:samples=50,dims=4,classes=3";
  ASSERT_EQ(run({"predict", *this / "model", few, "-o", *this / "said.csv"}).code, 0);
  EXPECT_EQ(read_whole(*this / "said.csv").rfind("label\n", 0), 0U);
  ASSERT_EQ(run({"predict", *this / "model", few, "--proba", "-o", *this / "likely.csv"}).code, 0);
  EXPECT_EQ(occurrences(read_whole(*this / "likely.csv"), "\n"), 51);
}

TEST_F(MlCommands, PredictPreparesColumnsAsTheModelDid) {
  folder_.write("train.csv", "size,city,price\n1,Ulm,10\n2,Bonn,25\n3,Ulm,30\n4,Bonn,45\n5,Ulm,50\n6,Bonn,65\n");
  folder_.write("new.csv", "city,size\nBonn,10\nUlm,\n");
  folder_.write("other.csv", "city,size\nKiel,10\n");
  const auto fitted = run({"linreg", *this / "train.csv", "--target", "price", "--onehot", "city", "--missing", "mean",
                           "--scale", "standard", "-n", "2", "-o", *this / "model"});
  ASSERT_EQ(fitted.code, 0) << fitted.errors;
  const auto answer = run({"predict", *this / "model", *this / "new.csv", "-o", *this / "said.npy"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto other = run({"predict", *this / "model", *this / "other.csv", "-o", *this / "none.npy"});
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(has(other.errors, "'city' is 'Kiel', which is none of the 2 values that the model knows"))
      << other.errors;
  // 10 for each of size, of which 3.5 is the mean, and 5 more for Bonn.
  const auto said = data::open(*this / "said.npy");
  data::Sample sample;
  for (const auto& [row, expected] : {std::pair(0, 105.0), std::pair(1, 35.0)}) {
    said->read(row, sample);
    double value = 0;
    std::memcpy(&value, sample.values[0].bytes.data(), sizeof(value));
    EXPECT_NEAR(value, expected, 1e-9);
  }
}

TEST_F(MlCommands, PcaWritesComponentsAndTheirPlot) {
  std::string table = "a,b,c\n";
  for (int i = 0; i < 60; ++i) table += fmt::format("{},{},{}\n", i, 2 * i + i % 3, i * i % 5);
  folder_.write("table.csv", table);
  std::set<std::string> models;
  for (const char* ranks : {"1", "2"}) {
    const auto answer = run({"pca", *this / "table.csv", "--components", "2", "-n", ranks, "-o", *this / "model",
                             "--plot", *this / "explained.svg", "--json"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    const auto report = json::parse(answer.output);
    EXPECT_EQ(report["svd_solver"], "covariance_eigh");
    ASSERT_EQ(report["explained_variance_ratio"].size(), 2U);
    EXPECT_GT(report["explained_variance_ratio"][0], 0.99);
    models.insert(read_whole(*this / "model"));
    EXPECT_TRUE(has(read_whole(*this / "explained.svg"), "Explained variance"));
  }
  EXPECT_EQ(models.size(), 1U);
  EXPECT_TRUE(has(run({"pca", *this / "table.csv", "--components", "0.9"}).output, "1 component explains 99."));
  ASSERT_EQ(run({"predict", *this / "model", *this / "table.csv", "-o", *this / "said.csv"}).code, 0);
  EXPECT_TRUE(has(read_whole(*this / "said.csv"), "pc1,pc2\n"));
}

TEST_F(MlCommands, SvdFindsSingularValues) {
  std::string table = "a,b,c\n";
  for (int i = 0; i < 60; ++i) table += fmt::format("{},{},{}\n", i, 2 * i + i % 3, i * i % 5);
  folder_.write("table.csv", table);
  const std::vector<std::string> kinds[] = {
      {"--components", "2"}, {"--components", "2", "--algorithm", "exact"}, {"--full"}};
  for (const auto& kind : kinds) {
    std::set<std::string> models, values;
    for (const char* ranks : {"1", "2"}) {
      std::vector<std::string> words{"svd", *this / "table.csv", "-n", ranks, "-o", *this / "model", "--json"};
      words.insert(words.end(), kind.begin(), kind.end());
      const auto answer = run(words);
      ASSERT_EQ(answer.code, 0) << answer.errors;
      const auto report = json::parse(answer.output);
      EXPECT_EQ(report["singular_values"].size(), kind.size() == 1 ? 3U : 2U);
      values.insert(report["singular_values"].dump());
      models.insert(read_whole(*this / "model"));
    }
    EXPECT_EQ(models.size(), 1U);
    EXPECT_EQ(values.size(), 1U);
  }
  ASSERT_EQ(run({"predict", *this / "model", *this / "table.csv", "-o", *this / "said.csv"}).code, 0);
  EXPECT_TRUE(has(read_whole(*this / "said.csv"), "u1,u2,u3\n"));
}

TEST_F(MlCommands, KnnSaysClassesAndValuesOfOtherRows) {
  std::string train = "x,y,side,height\n";
  for (int i = 0; i < 300; ++i) {
    train += fmt::format("{},{},{},{}\n", i % 30, i * 7 % 13, i % 30 < 15 ? 4 : 2, i % 30 * 10);
  }
  folder_.write("train.csv", train);
  folder_.write("new.csv", "y,x,side\n3,1.25,4\n5,28.5,2\n6,3.25,4\n1,20.5,4\n");
  std::set<std::string> said, models;
  for (const char* ranks : {"1", "2", "3"}) {
    const auto answer = run({"knn", *this / "train.csv", *this / "new.csv", "--target", "side", "--exclude", "height",
                             "-n", ranks, "-o", *this / "said.csv", "--model", *this / "model", "--json"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    EXPECT_EQ(json::parse(answer.output)["accuracy"], 0.75);
    said.insert(read_whole(*this / "said.csv"));
    models.insert(read_whole(*this / "model"));
  }
  EXPECT_EQ(said, std::set<std::string>{"side\n4\n2\n4\n2\n"});
  EXPECT_EQ(models.size(), 1U);
  ASSERT_EQ(run({"predict", *this / "model", *this / "new.csv", "-o", *this / "again.csv"}).code, 0);
  EXPECT_EQ(read_whole(*this / "again.csv"), *said.begin());
  const auto height = run({"knn", *this / "train.csv", *this / "new.csv", "--target", "height", "--columns", "x",
                           "--regression", "-k", "1", "-n", "2", "-o", *this / "said.csv"});
  ASSERT_EQ(height.code, 0) << height.errors;
  EXPECT_EQ(read_whole(*this / "said.csv"), "height\n10.0\n280.0\n30.0\n200.0\n");
}

TEST_F(MlCommands, KnnReadsQueriesBeyondItsMemoryAnew) {
  folder_.write("train.csv", "x,kind\n0,2\n1,2\n300,4\n301,4\n");
  std::string queries = "x,kind\n";
  for (int i = 0; i < 300; ++i) queries += fmt::format("{},{}\n", i, i < 150 ? 2 : 4);
  folder_.write("new.csv", queries);
  std::set<std::string> said;
  for (const char* memory : {"1GiB", "1KiB"}) {
    const auto answer = run({"knn", *this / "train.csv", *this / "new.csv", "--target", "kind", "-k", "2", "--memory",
                             memory, "-n", "2", "-o", *this / "said.csv"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    EXPECT_EQ(has(answer.errors, "reads them anew"), std::string(memory) == "1KiB") << answer.errors;
    said.insert(read_whole(*this / "said.csv"));
  }
  EXPECT_EQ(said.size(), 1U);
}

TEST_F(MlCommands, KnnAnswersRowsWhoseTargetIsBlankOrUnknownWithoutScoringThem) {
  folder_.write("train.csv", "x,kind,size\n0,low,1\n1,low,1\n8,high,2\n9,high,2\n");
  folder_.write("known.csv", "x,kind,size\n0.5,low,1\n0.25,low,1\n");
  folder_.write("blank.csv", "x,kind,size\n0.5,low,1\n8.5,,\n");
  folder_.write("unknown.csv", "x,kind,size\n0.5,low,1\n8.5,middle,large\n");
  const auto ask = [&](const char* queries, const char* target) {
    const auto answer = run({"knn", *this / "train.csv", *this / queries, "--target", target, "--columns", "x", "-k",
                             "2", "-n", "2", "-o", *this / "said.csv", "--json"});
    EXPECT_EQ(answer.code, 0) << answer.errors;
    return json::parse(answer.output);
  };
  EXPECT_EQ(ask("known.csv", "kind")["accuracy"], 1);
  for (const char* queries : {"blank.csv", "unknown.csv"}) {
    EXPECT_FALSE(ask(queries, "kind").contains("accuracy")) << queries;
    EXPECT_EQ(read_whole(*this / "said.csv"), "kind\nlow\nhigh\n");
    EXPECT_FALSE(ask(queries, "size").contains("accuracy")) << queries;
    EXPECT_EQ(read_whole(*this / "said.csv"), "size\n1\n2\n");
  }
}

TEST_F(MlCommands, RowsThatAreNoGoodAreNamedByTheirFile) {
  folder_.write("part-0.csv", "a,b\n1,2\n3,4\n");
  folder_.write("part-1.csv", "a,b\n5,6\n7,\n");
  for (const char* memory : {"1GiB", "1"}) {
    const auto refused = run({"kmeans", *this / "part-*.csv", "-k", "2", "-n", "2", "--memory", memory});
    EXPECT_EQ(refused.code, 1);
    EXPECT_TRUE(has(refused.errors, "row 3, 'b' is no finite number")) << refused.errors;
    EXPECT_TRUE(has(refused.errors, "part-1.csv: sample 1 at byte 8")) << refused.errors;
  }
  ASSERT_EQ(run({"kmeans", *this / "part-0.csv", "-k", "1", "-o", *this / "model"}).code, 0);
  const auto not_predicted = run({"predict", *this / "model", *this / "part-*.csv"});
  EXPECT_EQ(not_predicted.code, 1);
  EXPECT_TRUE(has(not_predicted.errors, "row 3, 'b' is missing")) << not_predicted.errors;
  EXPECT_TRUE(has(not_predicted.errors, "part-1.csv: sample 1 at byte 8")) << not_predicted.errors;
  // A part for each rank, of which each knows its own.
  for (const std::string missing : {"error", "drop"}) {
    folder_.write("part-0.csv", missing == "drop" ? "a,b\n1,2\n,4\n" : "a,b\n1,2\n3,4\n");
    folder_.write("part-1.csv", missing == "drop" ? "a,b\n,6\n7,inf\n" : "a,b\n5,6\n7,\n");
    const auto refused = run({"kmeans", *this / "part-{rank}.csv", "-k", "1", "-n", "2", "--missing", missing});
    EXPECT_EQ(refused.code, 1);
    EXPECT_TRUE(has(refused.errors, missing == "drop" ? "row 1 (counted without those left out), 'b' is infinite"
                                                      : "row 3, 'b' is no finite number"))
        << refused.errors;
    EXPECT_TRUE(has(refused.errors, "part-1.csv: sample 1 at byte")) << refused.errors;
  }
  const auto onto_data = run({"kmeans", *this / "part-*.csv", "-k", "2", "-o", *this / "part-1.csv"});
  EXPECT_EQ(onto_data.code, 2);
  EXPECT_TRUE(has(onto_data.errors, "part-1.csv is the data itself")) << onto_data.errors;
}

TEST_F(MlCommands, EncodedNumbersAreTheSameInEveryFile) {
  std::string train = "month,y\n", with_points = "month,y\n";
  for (int i = 0; i < 240; ++i) {
    train += fmt::format("{},{}\n", i % 12 + 1, 2 * (i % 12 + 1) + i % 3);
    with_points += fmt::format("{}.0,{}\n", i % 12 + 1, 2 * (i % 12 + 1) + i % 3);
  }
  folder_.write("train.csv", train);
  folder_.write("points.csv", with_points);
  const std::string model = *this / "model.safetensors";
  for (const auto& [first, second] : {std::pair("train.csv", "points.csv"), std::pair("points.csv", "train.csv")}) {
    const auto fitted = run({"linreg", *this / first, "--target", "y", "--ordinal", "month", "--json", "-o", model});
    ASSERT_EQ(fitted.code, 0) << fitted.errors;
    EXPECT_GT(json::parse(fitted.output)["r2"], 0.98);  // months in their order
    std::set<std::string> said;
    for (const char* rows : {first, second}) {
      const auto answer = run({"predict", model, *this / rows});
      ASSERT_EQ(answer.code, 0) << answer.errors;
      said.insert(answer.output);
    }
    EXPECT_EQ(said.size(), 1U);
    const auto neighbours = run({"knn", *this / first, *this / second, "--target", "y", "--regression", "--onehot",
                                 "month", "-k", "20", "-o", *this / "said.csv"});
    EXPECT_EQ(neighbours.code, 0) << neighbours.errors;
  }
}

TEST_F(MlCommands, TellOfTheLastIteration) {
  const std::string rows = "blobs:samples=20000,dims=3,classes=9";
  const auto answer = run({"kmeans", rows, "-k", "9", "--tol", "0.001", "--init", "random", "--n-init", "3"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto iterations = answer.output.substr(answer.output.find("after ") + 6);
  EXPECT_TRUE(has(answer.errors, "iteration " + iterations.substr(0, iterations.find(' ')) + "  ")) << answer.errors;
  const auto ended = run({"kmeans", rows, "-k", "9", "--tol", "0", "--max-iter", "13"});
  EXPECT_TRUE(has(ended.errors, "iteration 13  ")) << ended.errors << ended.output;
}

TEST_F(MlCommands, DbscanDoesNotSayThatItReadsAnew) {
  const auto answer = run({"dbscan", "blobs:samples=5000,dims=3,classes=3", "--memory", "1KiB", "-o", *this / "l.csv"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  EXPECT_FALSE(has(answer.errors, "reads them anew")) << answer.errors;
  // Of others targets count, too: 5000 rows of 4 columns and one target.
  const auto fitted = run(
      {"linreg", "blobs:samples=5000,dims=4,classes=3", "--type", "float64", "--target", "label", "--memory", "190KB"});
  ASSERT_EQ(fitted.code, 0) << fitted.errors;
  EXPECT_TRUE(has(fitted.errors, "reads them anew")) << fitted.errors;
}

TEST_F(MlCommands, DoNotReplaceWhatTheyRead) {
  folder_.write("rows.csv", "a,b\n1,2\n3,4\n5,6\n");
  folder_.write("centers.csv", "a,b\n1,2\n3,4\n");
  for (const char* part : {"part-0.csv", "part-1.csv"}) folder_.write(part, "a,b\n1,2\n3,4\n5,6\n");
  folder_.write("picture.png", "no picture, but a file");
  const std::string centers = *this / "centers.csv", picture = *this / "picture.png";
  for (const auto& words : {std::vector<std::string>{"kmeans", *this / "rows.csv", "--centers", centers, "-o", centers},
                            {"dbscan", *this / "part-{rank}.csv", "-n", "2", "-o", *this / "part-1.csv"},
                            {"kmeans", "--image", picture, "-k", "2", "-o", picture},
                            {"kmeans", "--image", picture, "-k", "2", "-o", *this / "new.png", "--palette", picture}}) {
    const auto refused = run(words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(has(refused.errors, "is the data itself, and would be lost")) << refused.errors;
  }
  EXPECT_EQ(read_whole(picture), "no picture, but a file");
}

TEST_F(MlCommands, SayThatAModelKnowsNoProbabilities) {
  folder_.write("rows.csv", "a,b\n1,2\n3,4\n5,7\n");
  ASSERT_EQ(run({"linreg", *this / "rows.csv", "--target", "b", "-o", *this / "model"}).code, 0);
  for (const auto& more : {std::vector<std::string>{}, {"-o", *this / "said.csv"}}) {
    std::vector<std::string> words{"predict", *this / "model", *this / "rows.csv", "--proba"};
    words.insert(words.end(), more.begin(), more.end());
    const auto refused = run(words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(has(refused.errors, "the model knows no probabilities")) << refused.errors;
    EXPECT_FALSE(std::filesystem::exists(*this / "said.csv"));
  }
}

TEST_F(MlCommands, WarnOfEqualCentroidsAndOfFoldsThatDidNotConverge) {
  folder_.write("twice.csv", "a,b\n1,2\n1,2\n3,4\n3,4\n");
  for (const char* init : {"plusplus", "parallel"}) {
    const auto equal = run({"kmeans", *this / "twice.csv", "-k", "3", "--init", init, "-n", "2"});
    EXPECT_EQ(equal.code, 0) << equal.errors;
    EXPECT_EQ(occurrences(equal.errors, "only 2 of 3 centroids differ"), 1) << equal.errors;
    EXPECT_EQ(occurrences(equal.errors, "centroids differ"), 1) << equal.errors;
  }
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{},{}\n", i, i * i % 17, 3 * i - i * i % 17);
  folder_.write("rows.csv", rows);
  const auto short_of = run(
      {"lasso", *this / "rows.csv", "--target", "y", "--alpha", "0.001", "--cv", "2", "--max-iter", "1", "--tol", "0"});
  EXPECT_EQ(short_of.code, 0) << short_of.errors;
  EXPECT_TRUE(has(short_of.errors, "2 of 2 fits of folds did not converge in 1 iterations")) << short_of.errors;
}

TEST_F(MlCommands, DbscanWritesTheSameLabelsOnAnyNumberOfRanks) {
  folder_.write("chain.csv", "x,y\n5,0\n0,0\n0.4,0\n0.8,0\n5.4,0\n5.2,0.1\n9,9\n");
  std::set<std::string> labels;
  for (const char* ranks : {"1", "2", "3"}) {
    const auto answer =
        run({"dbscan", *this / "chain.csv", "--min-samples", "3", "-n", ranks, "-o", *this / "labels.csv", "--json"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    const auto report = json::parse(answer.output);
    EXPECT_EQ(report["clusters"], 2);
    EXPECT_EQ(report["noise"], 1);
    labels.insert(read_whole(*this / "labels.csv"));
  }
  EXPECT_EQ(labels, std::set<std::string>{"label,core\n0,1\n1,0\n1,1\n1,0\n0,1\n0,1\n-1,0\n"});
}

TEST_F(MlCommands, LassoAndElasticnetTakeFewColumns) {
  std::string table = "a,b,c,price\n";
  for (int i = 0; i < 60; ++i)
    table += fmt::format("{},{},{},{}\n", i % 11, i * i % 7, i % 5, 3 * (i % 11) + (i % 2) + 5);
  folder_.write("table.csv", table);
  for (const char* command : {"lasso", "elasticnet"}) {
    std::set<std::string> models;
    for (const char* ranks : {"1", "2"}) {
      const auto answer = run({command, *this / "table.csv", "--target", "price", "--alpha", "0.5", "-n", ranks, "-o",
                               *this / "model", "--json"});
      ASSERT_EQ(answer.code, 0) << answer.errors;
      const auto report = json::parse(answer.output);
      EXPECT_GT(report["targets"]["price"]["coefficients"]["a"], 2.5);
      EXPECT_EQ(report["targets"]["price"]["coefficients"]["b"], 0);
      EXPECT_EQ(report["l1_ratio"], std::string(command) == "lasso" ? 1 : 0.5);
      EXPECT_GT(report["r2"], 0.9);
      models.insert(read_whole(*this / "model"));
    }
    EXPECT_EQ(models.size(), 1U);
    ASSERT_EQ(run({"predict", *this / "model", *this / "table.csv", "-o", *this / "said.csv"}).code, 0);
    EXPECT_TRUE(has(read_whole(*this / "said.csv"), "price\n"));
  }
}

TEST_F(MlCommands, FoldsChooseAParameter) {
  std::string table = "a,b,price,kind,p,q\n";
  for (int i = 0; i < 90; ++i) {
    const int kind = (i % 11) > 5 ? 1 : 0;
    table += fmt::format("{},{},{},{},{},{}\n", i % 11, i * i % 7, 3 * (i % 11) - (i * i % 7) + i % 3, kind,
                         (kind == 1 ? 8 : 2) + i % 3, (kind == 1 ? 2 : 8) + i % 2);
  }
  folder_.write("table.csv", table);
  const std::tuple<std::vector<std::string>, std::string, std::size_t> cases[] = {
      {{"linreg", "--target", "price", "--columns", "a,b", "--l2", "0.01,1,1e6"}, "l2", 3},
      {{"lasso", "--target", "price", "--columns", "a,b"}, "alpha", 100},
      {{"elasticnet", "--target", "price", "--columns", "a,b", "--alpha", "0.001,10", "--shuffle", "--seed", "3"},
       "alpha",
       2},
      {{"elasticnet", "--target", "price", "--columns", "a,b", "--l1-ratio", "0.1,0.9"}, "l1_ratio", 200},
      {{"knn", "--target", "kind", "--columns", "a,b", "-k", "1,60"}, "n_neighbors", 2},
      {{"knn", "--target", "price", "--columns", "a,b", "--regression", "-k", "50,2"}, "n_neighbors", 2},
      {{"naivebayes", "--target", "kind", "--columns", "a,b", "--var-smoothing", "1e-9,1"}, "var_smoothing", 2},
      {{"naivebayes", "--target", "kind", "--columns", "p,q", "--kind", "multinomial", "--alpha", "0.1,1"}, "alpha", 2},
      {{"logreg", "--target", "kind", "--columns", "a,b", "-C", "1e-6,1"}, "C", 2},
  };
  for (const auto& [words, parameter, candidates] : cases) {
    std::set<std::string> models, reports;
    for (const char* ranks : {"1", "2"}) {
      std::vector<std::string> all{words.front(), *this / "table.csv"};
      all.insert(all.end(), words.begin() + 1, words.end());
      const std::string file = words.front() == "knn" ? "--model" : "-o";
      for (const std::string& word : {std::string("--cv"), std::string("3"), std::string("--json"), file,
                                      std::string(*this / "model"), std::string("-n"), std::string(ranks)}) {
        all.push_back(word);
      }
      const auto answer = run(all);
      ASSERT_EQ(answer.code, 0) << answer.errors;
      const auto cv = json::parse(answer.output)["cv"];
      EXPECT_EQ(cv["folds"], 3);
      ASSERT_EQ(cv["candidates"].size(), candidates);
      double best = -1e300;
      for (const auto& candidate : cv["candidates"]) {
        ASSERT_TRUE(candidate.contains(parameter));
        EXPECT_EQ(candidate["scores"].size(), 3U);
        best = std::max<double>(best, candidate["mean"]);
      }
      for (const auto& candidate : cv["candidates"]) {
        if (candidate["mean"] == best) {
          EXPECT_EQ(cv["best"][parameter], candidate[parameter]);
          break;
        }
      }
      EXPECT_GT(best, 0.8);
      models.insert(read_whole(*this / "model"));
      reports.insert(cv.dump());
    }
    EXPECT_EQ(models.size(), 1U) << words.front();
    EXPECT_EQ(reports.size(), 1U) << words.front();
  }
  const auto shown =
      run({"linreg", *this / "table.csv", "--target", "price", "--columns", "a,b", "--l2", "0.01,1", "--cv", "3"});
  EXPECT_TRUE(has(shown.output, "best\n")) << shown.output;
}

TEST_F(MlCommands, NaivebayesTellsClassesApart) {
  for (const char* kind : {"gaussian", "multinomial"}) {
    std::string table = "a,b,kind\n";
    for (int i = 0; i < 300; ++i) table += fmt::format("{},{},{}\n", i % 11, i * i % 7, i % 11 > i * i % 7 ? 1 : 0);
    folder_.write("table.csv", table);
    std::set<std::string> models;
    for (const char* ranks : {"1", "2"}) {
      const auto answer = run({"naivebayes", *this / "table.csv", "--target", "kind", "--kind", kind, "-n", ranks, "-o",
                               *this / "model", "--json"});
      ASSERT_EQ(answer.code, 0) << answer.errors;
      const auto report = json::parse(answer.output);
      EXPECT_GT(report["accuracy"], 0.75);
      EXPECT_EQ(report["classes"], (std::vector<double>{0, 1}));
      models.insert(read_whole(*this / "model"));
    }
    EXPECT_EQ(models.size(), 1U);
    ASSERT_EQ(run({"predict", *this / "model", *this / "table.csv", "-o", *this / "said.csv"}).code, 0);
    EXPECT_TRUE(has(read_whole(*this / "said.csv"), "kind\n"));
  }
}

TEST_F(MlCommands, StatsCountsWhatIsMissing) {
  std::string table = "a,b,c\n";
  for (int i = 0; i < 101; ++i)
    table += fmt::format("{},{},{}\n", i, i % 10 == 3 ? "" : std::to_string(2 * i), i * i % 7);
  folder_.write("table.csv", table);
  std::set<std::string> reports;
  for (const char* ranks : {"1", "2", "3"}) {
    const auto answer = run({"stats", *this / "table.csv", "-n", ranks, "--json", "--quantiles", "0.1,0.5", "--gram",
                             *this / "products.npz"});
    ASSERT_EQ(answer.code, 0) << answer.errors;
    auto report = json::parse(answer.output);
    const auto& a = report["columns"][0];
    EXPECT_EQ(a["name"], "a");
    EXPECT_EQ(a["count"], 101);
    EXPECT_EQ(a["sum"], 5050);
    EXPECT_EQ(a["mean"], 50);
    EXPECT_EQ(a["min"], 0);
    EXPECT_EQ(a["max"], 100);
    EXPECT_NEAR(a["quantiles"]["0.1"], 10, 1e-12);
    EXPECT_EQ(a["quantiles"]["0.5"], 50);
    EXPECT_EQ(report["columns"][1]["missing"], 10);
    EXPECT_EQ(report["complete_rows"], 91);
    EXPECT_NEAR(report["correlation"][0][1], 1, 1e-12);
    for (const char* name : {"seconds", "ranks"}) report.erase(name);
    reports.insert(report.dump() + read_whole(*this / "products.npz"));
  }
  EXPECT_EQ(reports.size(), 1U);
  const auto products = run({"data", "info", *this / "products.npz"});
  EXPECT_TRUE(has(products.output, "correlation")) << products.output;
  const auto text = run({"stats", *this / "table.csv", "-n", "2"}).output;
  EXPECT_TRUE(has(text, "101 rows of 3 columns, 91 of them complete,")) << text;
  EXPECT_FALSE(has(text, "infinite")) << text;

  folder_.write("endless.csv", "a,b\n1,2\n,inf\n3,inf\n");
  const auto endless = run({"stats", *this / "endless.csv"}).output;
  EXPECT_TRUE(has(endless, "values    missing   infinite         mean")) << endless;
  EXPECT_TRUE(has(endless, "          2          1          0            2")) << endless;
  EXPECT_TRUE(has(endless, "          1          0          2            2")) << endless;
  folder_.write("single.csv", "a,b\n1,2\n");
  const auto single = run({"stats", *this / "single.csv"}).output;
  EXPECT_TRUE(has(single, "nan")) << single;
  EXPECT_FALSE(has(single, "-nan")) << single;
  EXPECT_TRUE(has(single, "1 row of 2 columns, 1 of them complete")) << single;
}

TEST_F(MlCommands, RefuseWeightsAndPenaltiesThatMeanNothing) {
  folder_.write("table.csv", "a,b,y,none,below\n1,2,3,0,1\n2,1,4,0,1\n3,5,1,0,-1\n4,3,2,0,1\n");
  const std::string table = *this / "table.csv", model = *this / "model";
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"kmeans", table, "-k", "2", "--columns", "a,b", "--weights", "none"}, "the weights of all rows are 0"},
      {{"linreg", table, "--target", "y", "--columns", "a,b", "--weights", "below"}, "'below' is -1: weights of rows"},
      {{"linreg", table, "--target", "y", "--columns", "a", "--weights", "below", "--memory", "1KiB"}, "'below' is -1"},
      {{"linreg", table, "--target", "y", "--columns", "a,b", "--l2", "inf"}, "--l2 = inf: it is a finite number"},
      {{"lasso", table, "--target", "y", "--columns", "a,b", "--alpha", "inf"}, "alpha = inf: it is a finite number"},
      {{"kmeans", table, "-k", "1:2000000000"}, "a range has at most 10000 numbers"},
  };
  for (const auto& [words, message] : cases) {
    auto all = words;
    all.insert(all.end(), {"-o", model});
    const auto answer = run(all);
    EXPECT_NE(answer.code, 0) << words.front();
    EXPECT_TRUE(has(answer.errors, message)) << answer.errors;
    EXPECT_FALSE(std::filesystem::exists(model));
  }
}

TEST_F(MlCommands, TakeTheDataSetBehindAnyOption) {
  folder_.write("table.csv", "a,b,y\n1,2,3\n2,1,4\n3,5,1\n4,3,2\n");
  const std::string table = *this / "table.csv";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"linreg", "--l2", "0.1", "--target", "y"},
                                                {"kmeans", "-k", "2", "--columns", "a,b"},
                                                {"pca", "--exclude", "y"}}) {
    auto all = words;
    all.push_back(table);
    const auto answer = run(all);
    EXPECT_EQ(answer.code, 0) << answer.errors;
  }
}

TEST_F(MlCommands, RefuseAnOutputWithoutAName) {
  folder_.write("table.csv", "a,b\n1,2\n2,1\n3,5\n4,3\n");
  const auto answer = run({"kmeans", *this / "table.csv", "-k", "2", "-o", ""});
  EXPECT_EQ(answer.code, 2);
  EXPECT_TRUE(has(answer.errors, "the name of a file is empty")) << answer.errors;
}

TEST_F(MlCommands, SayWhatIsWrongOnce) {
  folder_.write("text.csv", "a,city\n1,Ulm\n2,Bonn\n");
  folder_.write("gap.csv", "a,b\n1,2\n3,\n5,6\n");
  folder_.write("wide.csv", "u,v,w\n1,2,3\n");
  folder_.write("one.csv", "a,b\n1,7\n3,7\n5,7\n");
  folder_.write("latin.csv", "a,city\n1,M\xFCnchen\n2,Ulm\n");
  folder_.write("large.csv", "a,b\n1e200,1\n-1e200,2\n3e200,3\n5e200,4\n");
  folder_.write("minus.csv", "a,b\n1,0\n-3,1\n5,0\n");
  folder_.write("far.csv", "a,b\n1,7\n1000,7\n");
  folder_.write("zero.csv", "a,b,w\n1,2,0\n3,4,0\n5,6,0\n");
  folder_.write("endless.csv", "a,b\n1,2\n3,inf\n5,6\n");
  folder_.write("parts.csv", "a,b\n1,0.5\n2,0.25\n3,1.5\n");
  folder_.write("late.csv", "a,b,y\n1,1,1\n2,2,2\n3,3,3\n4,4,4\n5,,5\n6,6,6\n");
  folder_.write("none.npy", data::npy_header(c10::ScalarType::Float, {5, 0}));
  const std::string model = *this / "model.safetensors", labels = *this / "labels.csv",
                    nowhere = *this / "none/model.safetensors";
  const std::tuple<std::vector<std::string>, std::string, int> cases[] = {
      {{"kmeans"}, "name a data set", 2},
      {{"kmeans", *this / "text.csv", "-n", "2", "-o", model}, "--exclude city", 2},
      {{"kmeans", *this / "gap.csv", "-k", "2", "-n", "2", "-o", model}, "row 1, 'b' is no finite number", 1},
      {{"kmeans", *this / "gap.csv", "--columns", "a", "-k", "4", "-n", "2", "-o", model}, "3 rows for 4 clusters", 2},
      {{"kmeans", *this / "gap.csv", "-k", "2", "--init", "plus"}, "unknown init 'plus'", 2},
      {{"kmeans", *this / "gap.csv", "--init-size", "100"}, "--init-size requires --batch-size", 2},
      {{"kmeans", *this / "gap.csv", "-k", "2", "--batch-size", "2", "-n", "2", "-o", model}, "row 1, 'b' is no", 1},
      {{"kmeans", "--image", *this / "gap.csv", "-o", model}, "-o quantised.png", 2},
      {{"kmeans", *this / "one.csv", "-k", "0"}, "-k is '0', expected a whole number from 1", 2},
      {{"kmeans", *this / "one.csv", "-k", "5:2"}, "-k 5:2: a range is -k 2:20", 2},
      {{"kmeans", *this / "one.csv", "-k", "2:"}, "-k 2:: a range is -k 2:20", 2},
      {{"kmeans", *this / "one.csv", "-k", ""}, "takes a number", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "--seed", "-1"}, "'-1' is not a whole number", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "--memory", "0", "-n", "2"}, "--memory 0: it takes at least a byte", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "-n", "2", "-o", nowhere}, "name a file in a folder that exists", 2},
      {{"kmeans", "--image", *this / "one.png", "--columns", "a"}, "--columns excludes --image", 2},
      {{"kmeans", *this / "one.csv", "-k", "2:3"}, "needs at least three numbers of clusters", 2},
      {{"kmeans", *this / "one.csv", "-k", "1:4", "-n", "2", "-o", model}, "3 rows for 4 clusters", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "--plot", model}, "give a range, -k 2:20", 2},
      {{"kmeans", *this / "one.csv", "-k", "2:20", "--batch-size", "64", "--init-size", "10"},
       "init_size = 10: a start needs at least n_clusters = 20 rows",
       2},
      {{"kmeans", *this / "none.npy", "-k", "2", "-n", "2", "-o", model}, "rows have no columns: 'values' holds", 2},
      {{"kmeans", *this / "one.csv", "--palette", model}, "--palette requires --image", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "--centers", *this / "minus.csv", "-n", "2", "-o", model},
       "has 3 centroids, and -k asks for 2; leave -k out",
       2},
      {{"kmeans", *this / "one.csv", "--columns", "a", "--centers", *this / "wide.csv", "-n", "2", "-o", model},
       "has centroids of 3 columns, and the rows have 1",
       2},
      {{"kmeans", *this / "one.csv", "--centers", *this / "gap.csv", "-n", "2", "-o", model}, "row 1, 'b' is no", 1},
      {{"kmeans", *this / "one.csv", "--centers", *this / "gap.csv", "--init", "random"},
       "--init excludes --centers",
       2},
      {{"kmeans", *this / "one.csv", "-k", "1:3", "--centers", *this / "gap.csv"}, "leave the range of -k out", 2},
      {{"dbscan", *this / "gap.csv", "-n", "2", "-o", labels}, "row 1, 'b' is no finite", 1},
      {{"dbscan", *this / "gap.csv", "--eps", "0"}, "eps = 0: it is a finite number above 0", 2},
      {{"knn", *this / "gap.csv", *this / "gap.csv", "--target", "a", "-k", "1", "-n", "2", "-o", labels},
       "row 1, 'b' is no finite",
       1},
      {{"knn", *this / "late.csv", "--target", "y", "--regression", "-k", "1", "--cv", "2", "-n", "2", "--model",
        model},
       "row 4, 'b' is no finite",
       1},
      {{"knn", *this / "gap.csv", *this / "gap.csv", "--target", "a"}, "-o said.csv", 2},
      {{"knn", *this / "one.csv", *this / "one.csv", "--target", "a", "-k", "1", "-o", labels, "--model", nowhere},
       "name a file in a folder that exists",
       2},
      {{"knn", *this / "gap.csv", *this / "one.csv", "--target", "a", "-k", "1", "-n", "2", "-o", *this / "one.csv"},
       "one.csv is the data itself",
       2},
      {{"dbscan", *this / "one.csv", "-o", *this / "model"}, "is of no known format", 2},
      {{"dbscan", *this / "one.csv", "-o", *this / "labels.txt"}, "lines hold text", 2},
      {{"dbscan", *this / "zero.csv", "--weights", "w", "-n", "2", "-o", labels}, "the weights of all rows are 0", 1},
      {{"kmeans", *this / "endless.csv", "-k", "2", "-n", "2", "-o", model}, "'b' is infinite; clean the data", 1},
      {{"kmeans", *this / "endless.csv", "-k", "2", "--missing", "mean"}, "'b' is infinite; clean the data", 1},
      {{"knn", *this / "one.csv", *this / "gap.csv", "--target", "a", "-k", "1", "-o", labels}, "--missing mean", 1},
      {{"kmeans", *this / "one.csv", "--centers", *this / "far.csv", "--empty", "error", "-n", "2"},
       "centroid 1 has no rows; use fewer clusters, or --empty farthest",
       1},
      {{"kmeans", *this / "one.csv", "-k", "1:3", "--plot", *this / "e.png"}, "as .svg, and not as .png", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "-o", *this / "m.txt"}, "as .safetensors, and not as .txt", 2},
      {{"stats", *this / "one.csv", "--gram", *this / "x.txt"}, "lines hold one field of text", 2},
      {{"stats", *this / "one.csv", "--ddof", "200", "-n", "2"}, "--ddof 200 is more than the rows weigh, 3", 2},
      {{"logreg", *this / "parts.csv", "--target", "b", "-n", "2", "-o", model}, "such as linreg", 2},
      {{"naivebayes", *this / "parts.csv", "--target", "b", "-o", model}, "'b' is 0.25 in some row", 2},
      {{"knn", *this / "parts.csv", "--target", "b", "-k", "1", "--model", model}, "knn --regression", 2},
      {{"knn", *this / "gap.csv", "--target", "a"}, "name a second data set", 2},
      {{"knn", *this / "one.csv", "--target", "a", "-n", "2", "--model", model}, "of 3 rows", 2},
      {{"linreg", *this / "text.csv", "--target", "city", "-n", "2", "-o", model}, "'city' is text, and regression", 2},
      {{"linreg", *this / "one.csv", "--target", "b", "--columns", "a,b", "-n", "2"}, "cannot explain itself", 2},
      {{"linreg", *this / "one.csv", "--target", "b,b", "-n", "2"}, "'b' is named twice by --target", 2},
      {{"kmeans", *this / "text.csv", "--onehot", "city", "--ordinal", "city", "-n", "2"}, "choose one", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "--weights", "city", "-n", "2"}, "there is no field 'city'", 2},
      {{"kmeans", *this / "text.csv", "-k", "2", "--columns", "a", "--weights", "city"},
       "weights of rows are numbers",
       2},
      {{"kmeans", *this / "one.csv", "-k", "2", "-n", "2", "-o", *this / "one.csv"}, "is the data itself", 2},
      {{"pca", *this / "one.csv", "-o", *this / "same", "--plot", *this / "same"}, "is named for two things", 2},
      {{"pca", *this / "one.csv", "-n", "2", "-o", model, "--plot", *this / "p.png"}, "would be written as .svg", 2},
      {{"kmeans", *this / "latin.csv", "--onehot", "city", "-k", "2", "-n", "2", "-o", model},
       "'city' is not UTF-8",
       1},
      {{"kmeans", *this / "large.csv", "-k", "2", "--batch-size", "2", "-n", "2", "-o", model},
       "values are too large",
       1},
      {{"dbscan", *this / "large.csv", "-n", "2", "-o", labels}, "squares of the values are too large", 1},
      {{"knn", *this / "large.csv", *this / "large.csv", "--target", "b", "-k", "2", "--regression", "-n", "2", "-o",
        labels},
       "squares of the values are too large",
       1},
      {{"naivebayes", *this / "one.csv", "--target", "a", "-n", "2", "-o", model}, "'b' is constant in class 1", 1},
      {{"naivebayes", *this / "minus.csv", "--target", "b", "--alpha", "1"}, "--alpha is not of --kind gaussian", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "--n-init", "0"}, "'0' is not a whole number from 1", 2},
      {{"kmeans", *this / "one.csv", "-k", "2", "--threads", "0"}, "'0' is not a whole number from 1", 2},
      {{"stats", *this / "one.csv", "--ddof", "nan"}, "--ddof = nan: it is from 0 on", 2},
      {{"linreg", *this / "gap.csv"}, "--target is required", 2},
      {{"linreg", *this / "gap.csv", "--target", "c"}, "there is no field 'c'", 2},
      {{"linreg", *this / "gap.csv", "--target", "a", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"linreg", *this / "gap.csv", "--target", "b", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"covariance", *this / "gap.csv", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"covariance", *this / "gap.csv", "--columns", "a", "--ddof", "3", "-n", "2", "-o", model},
       "too few for ddof",
       2},
      {{"linreg", *this / "one.csv", "--target", "b", "--l2", "1,2"}, "2 values of --l2: --cv 5 chooses", 2},
      {{"linreg", *this / "one.csv", "--target", "b", "--cv", "4", "-n", "2", "-o", model}, "4 folds of 3 rows", 2},
      {{"linreg", *this / "one.csv", "--target", "b", "--cv", "2", "-n", "2", "-o", model}, "two rows in each fold", 2},
      {{"lasso", *this / "gap.csv", "--target", "a", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"elasticnet", *this / "gap.csv", "--target", "a", "--l1-ratio", "2"}, "l1_ratio = 2: it is from 0 to 1", 2},
      {{"naivebayes", *this / "gap.csv", "--target", "a", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"naivebayes", *this / "minus.csv", "--target", "b", "--kind", "multinomial", "-n", "2", "-o", model},
       "row 1, 'a' is below 0",
       1},
      {{"logreg", *this / "gap.csv"}, "--target is required", 2},
      {{"logreg", *this / "gap.csv", "--target", "a", "-C", "0"}, "C = 0", 2},
      {{"logreg", *this / "gap.csv", "--target", "a", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"logreg", *this / "one.csv", "--target", "b", "-n", "2", "-o", model}, "all rows are of class 7", 1},
      {{"pca", *this / "gap.csv", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"pca", *this / "gap.csv", "--components", "3", "-n", "2", "-o", model}, "at most 2 are there", 2},
      {{"pca", *this / "gap.csv", "--components", "0"}, "--components 0: it is a number from 1 on", 2},
      {{"stats", *this / "gap.csv", "--ddof", "-1"}, "--ddof = -1: it is from 0 on", 2},
      {{"pca", *this / "gap.csv", "--solver", "fall"}, "svd_solver = 'fall': it is one of", 2},
      {{"stats", *this / "text.csv", "-n", "2"}, "--exclude city", 2},
      {{"stats", *this / "gap.csv", "--quantiles", "50", "-n", "2", "--gram", *this / "gram.npz"}, "quantile 50", 2},
      {{"svd", *this / "gap.csv", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"svd", *this / "gap.csv", "--full", "-n", "2", "-o", model}, "row 1, 'b' is no finite", 1},
      {{"svd", *this / "gap.csv", "--components", "3", "-n", "2", "-o", model}, "at most 2 are there", 2},
      {{"svd", *this / "gap.csv", "--algorithm", "arpack"}, "it is one of randomized, exact", 2},
      {{"svd", *this / "gap.csv", "--algorithm", "exact", "--seed", "1"}, "--seed is not of --algorithm exact", 2},
      {{"svd", *this / "gap.csv", "--full", "--n-iter", "1"}, "--n-iter excludes --full", 2},
      {{"pca", *this / "gap.csv", "--solver", "full", "--seed", "1"}, "--seed is not of --solver full", 2},
      {{"linreg", *this / "gap.csv", "--target", "a", "--weights", "a"}, "by --target and by --weights", 2},
      {{"predict", *this / "gap.csv", *this / "gap.csv", "-o", labels}, "gap.csv", 1},
  };
  for (const auto& [words, message, code] : cases) {
    const auto answer = run(words);
    EXPECT_EQ(answer.code, code) << message;
    const auto first = answer.errors.find(message);
    EXPECT_NE(first, std::string::npos) << answer.errors;
    EXPECT_EQ(answer.errors.find(message, first + 1), std::string::npos) << answer.errors;
    EXPECT_FALSE(fs::exists(model) || fs::exists(labels)) << message;
  }
}

}  // namespace
}  // namespace lockstep::test
