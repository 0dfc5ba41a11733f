#include "lockstep/train/data_facts.h"

#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::train {
namespace {

/// Samples whose values are their names.
class Named final : public data::Dataset {
 public:
  explicit Named(std::vector<std::string> keys, const std::string& field = "x")
      : keys_(std::move(keys)), schema_{{.name = field}} {}
  const data::Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return std::ssize(keys_); }
  void read(std::int64_t index, data::Sample& sample) const override {
    sample.clear(1);
    sample.values[0].bytes = data::as_bytes(content_.empty() ? keys_.at(static_cast<std::size_t>(index)) : content_);
  }
  void set_content(std::string content) { content_ = std::move(content); }
  std::string name(std::int64_t index) const override { return "/somewhere/" + key(index); }
  std::string key(std::int64_t index) const override { return keys_.at(static_cast<std::size_t>(index)); }

 private:
  std::vector<std::string> keys_;
  std::string content_;
  data::Schema schema_;
};

nlohmann::json facts_of(const Named& set, std::uint64_t seed = 3, const std::string& order = "shuffle") {
  TrainingData data;
  data.train = std::make_shared<Named>(set);
  data.order = order;
  return data_facts(data, seed);
}

std::string difference(const nlohmann::json& before, const nlohmann::json& now) {
  try {
    check_same_data(before, now);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    return error.message();
  }
  return "";
}

TEST(DataFacts, TellDataApart) {
  const auto before = facts_of(Named({"a", "b", "c"}));
  EXPECT_EQ(difference(before, facts_of(Named({"a", "b", "c"}))), "");
  EXPECT_EQ(difference(nlohmann::json(), before), "");
  const auto says = [&](const nlohmann::json& now, const std::string& what) {
    const std::string message = difference(before, now);
    EXPECT_NE(message.find("its " + what + " now; resume with data and seed as they were"), std::string::npos)
        << message;
  };
  says(facts_of(Named({"a", "b"})), "count of samples was 3 and is 2");
  says(facts_of(Named({})), "count of samples was 3 and is 0");
  Named renamed({"z", "b", "c"});
  renamed.set_content("a");
  says(facts_of(renamed), "first sample was \"a\" and is \"z\"");
  says(facts_of(Named({"a", "b", "z"})), "last sample was \"c\" and is \"z\"");
  says(facts_of(Named({"a", "b", "c"}), 4), "seed was 3 and is 4");
  says(facts_of(Named({"a", "b", "c"}), 3, "sequential"), "data.order was \"shuffle\" and is \"sequential\"");
  EXPECT_NE(difference(before, facts_of(Named({"a", "b", "c"}, "y"))).find("its fields was"), std::string::npos);
  Named other({"a", "b", "c"});
  other.set_content("something else");
  EXPECT_NE(difference(before, facts_of(other)).find("its content of the first sample was"), std::string::npos);
}

TEST(DataFacts, AreWrittenWhateverSamplesAreCalled) {
  const auto facts = facts_of(Named({"\xff.jpg", "caf\xe9.jpg"}, "\xfe"));
  EXPECT_EQ(difference(nlohmann::json::parse(facts.dump()), facts), "");
}

}  // namespace
}  // namespace lockstep::train
