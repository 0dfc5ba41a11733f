#include "lockstep/data/loader.h"

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/core/cpu.h"
#include "lockstep/data/testing.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {
namespace {

/// Sample i: "x" = [i, 2i] as float32, "word" = i times 'a'.
class Counting final : public Dataset {
 public:
  explicit Counting(std::int64_t size) : size_(size) {}
  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return size_; }
  void read(std::int64_t index, Sample& sample) const override {
    sample.clear(2);
    if (bad.contains(index)) fail(Fault::Data, fmt::format("{} is torn", name(index)));
    if (index == slow) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto numbers = sample.scratch.take(8);
    const float both[] = {static_cast<float>(index), static_cast<float>(2 * index)};
    std::memcpy(numbers.data(), both, sizeof both);
    sample.values[0] = {numbers, {2}, false};
    const auto text = sample.scratch.take(static_cast<std::size_t>(index % 5));
    std::memset(text.data(), 'a', text.size());
    sample.values[1] = {text, {}, false};
    ++reads;
  }
  std::string name(std::int64_t index) const override { return fmt::format("counting: sample {}", index); }

  std::set<std::int64_t> bad;
  std::int64_t slow = -1;
  mutable std::atomic<int> reads = 0;

 private:
  std::int64_t size_;
  Schema schema_ = {{"x", Encoding::Values, c10::ScalarType::Float, {2}}, {"word", Encoding::Text}};
};

std::shared_ptr<const Order> order(const std::string& name, std::int64_t samples, std::uint64_t seed = 3) {
  OrderOptions options;
  options.samples = samples;
  options.seed = seed;
  return make_order(name, options);
}

TEST(Loader, GivesEverySampleOnceInOrder) {
  const auto set = std::make_shared<Counting>(103);
  const auto shuffle = order("shuffle", 103);
  LoaderOptions options;
  options.batch = 10;
  options.threads = 3;
  Loader loader(set, shuffle, options);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::int64_t position = 0;
    while (const Batch* batch = loader.next()) {
      ASSERT_EQ(batch->epoch, epoch);
      ASSERT_EQ(batch->position, position);
      ASSERT_EQ(batch->count(), std::min<std::int64_t>(10, 103 - position));
      ASSERT_EQ(batch->global_count, batch->count());
      for (std::int64_t row = 0; row < batch->count(); ++row) {
        const auto id = batch->ids[static_cast<std::size_t>(row)];
        ASSERT_EQ(id, shuffle->at(epoch, position + row));
        ASSERT_EQ((*batch)["x"][row][1].item<float>(), static_cast<float>(2 * id));
        ASSERT_EQ(batch->lengths[1][row].item<std::int64_t>(), id % 5);
        ASSERT_EQ((*batch)["word"][row].sum().item<std::int64_t>(), id % 5 * 'a') << "padded with zeros";
      }
      position += batch->count();
    }
    EXPECT_EQ(position, 103);
    EXPECT_EQ(loader.position(), (Position{epoch + 1, 0}));
  }
}

std::vector<std::int64_t> ids_from(const DatasetPtr& set, std::int64_t ranks, std::int64_t batch, Position start,
                                   Position* stopped, int batches) {
  std::vector<std::unique_ptr<Loader>> loaders;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    LoaderOptions options;
    options.batch = batch;
    options.share = {rank, rank + 1, ranks};
    options.start = start;
    options.threads = 1;
    loaders.push_back(std::make_unique<Loader>(set, order("shuffle", set->size()), options));
  }
  std::vector<std::int64_t> ids;
  for (int i = 0; i < batches; ++i) {
    for (auto& loader : loaders) {
      const Batch* part = loader->next();
      if (part == nullptr) continue;
      EXPECT_EQ(part->first, part->global_count * (&loader - loaders.data()) / ranks);
      ids.insert(ids.end(), part->ids.begin(), part->ids.end());
    }
    *stopped = loaders[0]->position();
  }
  return ids;
}

// Also when a batch is smaller than the number of ranks.
TEST(Loader, GoesOnAtAnyPositionWithAnyRanksAndBatches) {
  const auto set = std::make_shared<Counting>(200);
  Position end;
  const auto whole = ids_from(set, 1, 200, {}, &end, 1);
  ASSERT_EQ(whole.size(), 200U);
  Position at;
  auto ids = ids_from(set, 4, 7, at, &at, 5);
  for (const auto& [ranks, batch, batches] : {std::tuple{3, 16, 3}, {1, 5, 4}, {8, 3, 9}, {2, 64, 2}}) {
    const auto more = ids_from(set, ranks, batch, at, &at, batches);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  EXPECT_EQ(ids, whole);
}

TEST(Loader, CarriesAnErrorToTheConsumerWithTheSamplesName) {
  const auto set = std::make_shared<Counting>(40);
  set->bad = {17};
  LoaderOptions options;
  options.batch = 10;
  Loader loader(set, order("sequential", 40), options);
  ASSERT_NE(loader.next(), nullptr);
  EXPECT_TRUE(has(message_of([&] { loader.next(); }), "counting: sample 17 is torn"));
  const Batch* after = loader.next();
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->ids.front(), 20);
}

// Rows that are skipped leave no trace of the batch that had their place before.
TEST(Loader, PadsToTheLongestThatIsThere) {
  const auto set = std::make_shared<Counting>(60);
  for (std::int64_t id = 30; id < 60; ++id) {
    if (id % 5 > 1) set->bad.insert(id);
  }
  LoaderOptions options;
  options.batch = 10;
  options.on_error = "skip";
  Loader loader(set, order("sequential", 60), options);
  for (std::int64_t position = 0; position < 60; position += 10) {
    const Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ((*batch)["word"].size(1), position < 30 ? 4 : 1) << position;
  }
}

TEST(Loader, ABatchThatFitsNoMemoryIsAnErrorOfThatBatch) {
  const auto set = std::make_shared<Counting>(40);
  LoaderOptions options;
  options.batch = std::int64_t{1} << 60;
  class Endless final : public Order {
    std::int64_t length() const noexcept override { return std::int64_t{1} << 61; }
    std::int64_t at(std::int64_t, std::int64_t position) const noexcept override { return position % 40; }
  };
  Loader loader(set, std::make_shared<Endless>(), options);
  EXPECT_ANY_THROW(loader.next());
  EXPECT_ANY_THROW(loader.next());
}

TEST(Loader, SkipsAndListsWhatCannotBeRead) {
  const auto set = std::make_shared<Counting>(20);
  set->bad = {3, 5, 11};
  LoaderOptions options;
  options.batch = 10;
  options.on_error = "skip";
  Loader loader(set, order("sequential", 20), options);
  const Batch* batch = loader.next();
  EXPECT_EQ(batch->ids, (std::vector<std::int64_t>{0, 1, 2, 4, 6, 7, 8, 9}));
  ASSERT_EQ(batch->skipped.size(), 2U);
  EXPECT_TRUE(has(batch->skipped[0].name + batch->skipped[1].name, "sample 5"));
  EXPECT_EQ((*batch)["x"].size(0), 8);
  EXPECT_EQ((*batch)["x"][3][0].item<float>(), 4);
  EXPECT_EQ(batch->lengths[1][4].item<std::int64_t>(), 1);
  EXPECT_EQ(loader.next()->skipped.size(), 1U);
}

TEST(Loader, LeavesATensorThatTheConsumerKeptAlone) {
  LoaderOptions options;
  options.batch = 4;
  options.ahead = 2;
  Loader loader(std::make_shared<Counting>(400), order("sequential", 400), options);
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 20; ++i) kept.push_back((*loader.next())["x"]);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(kept[static_cast<std::size_t>(i)][0][0].item<float>(), static_cast<float>(4 * i));
}

TEST(Loader, ReadsOnlySoFarAhead) {
  const auto set = std::make_shared<Counting>(1000);
  LoaderOptions options;
  options.batch = 10;
  options.ahead = 3;
  Loader loader(set, order("sequential", 1000), options);
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(set->reads, 40);
}

TEST(Loader, EndsAtAnyMoment) {
  for (int i = 0; i < 20; ++i) {
    const auto set = std::make_shared<Counting>(10'000);
    set->slow = 5 + i;
    LoaderOptions options;
    options.batch = 10;
    Loader loader(set, order("sequential", 10'000), options);
    for (int batch = 0; batch < i % 3; ++batch) loader.next();
  }
}

TEST(Loader, TakesThreadsAsTheConsumerNeedsThem) {
  const auto set = std::make_shared<Counting>(100'000);
  LoaderOptions options;
  options.batch = 8;
  Loader loader(set, order("sequential", 100'000), options);
  const int most = std::max(1, fair_threads(1) - 1);
  for (int i = 0; i < 5000 && loader.threads() < most; ++i) loader.next();
  EXPECT_EQ(loader.threads(), most) << "a consumer that does nothing waits all the time";
  for (int i = 0; i < 5000 && loader.threads() > 1; ++i) {
    loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(loader.threads(), 1) << "a slow one hardly waits";
}

TEST(Loader, RefusesWrongUse) {
  const auto set = std::make_shared<Counting>(10);
  const auto refused = [&](const std::function<void(LoaderOptions&)>& change) {
    return message_of(
        [&] {
          LoaderOptions options;
          change(options);
          Loader(set, order("sequential", 10), options);
        },
        Fault::Usage);
  };
  EXPECT_TRUE(has(refused([](auto& o) { o.batch = 0; }), "a batch of 0"));
  EXPECT_TRUE(has(refused([](auto& o) { o.share = {2, 2, 4}; }), "2 to 2 of 4"));
  EXPECT_TRUE(has(refused([](auto& o) { o.on_error = "ignore"; }), "ignore"));
  EXPECT_TRUE(has(refused([](auto& o) { o.start = {0, 11}; }), "sample 11"));
  EXPECT_TRUE(has(refused([](auto& o) { o.drop_last = true; }), "no whole batch"));
  EXPECT_TRUE(has(refused([](auto& o) { o.transforms = {"crop x size=2"}; }), "no image"));
}

}  // namespace
}  // namespace lockstep::data
