#include "lockstep/data/safetensors.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/testing.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

class SafetensorsFile : public testing::Test {
 protected:
  void write(const std::string& head, const std::string& values) {
    const std::uint64_t length = head.size();
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length) << head << values;
  }
  std::string message() {
    try {
      const Safetensors file(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Data);
      return error.what();
    }
    return "";
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "file.safetensors";
};

TEST_F(SafetensorsFile, HoldsEveryType) {
  NamedTensors all;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool}) {
    all.push_back({c10::toString(type), at::arange(6).view({2, 3}).to(type)});
  }
  all.push_back({"scalar", at::tensor(2.5)});
  all.push_back({"none", at::empty({0, 4})});
  all.push_back({"turned", at::arange(6.0).view({2, 3}).t()});
  const auto written = write_safetensors(path_, all, {{"format", "pt"}}, true);
  const std::string bytes = read_whole(path_);
  Hasher hasher;
  hasher.update(bytes.data(), bytes.size());
  EXPECT_EQ(written.bytes, bytes.size());
  EXPECT_EQ(written.hash, hasher.hex());
  const Safetensors file(path_);
  EXPECT_EQ(file.facts().at("format"), "pt");
  ASSERT_EQ(file.names().size(), all.size());
  for (const auto& [name, tensor] : all) {
    EXPECT_EQ(file.read(name).scalar_type(), tensor.scalar_type());
    EXPECT_EQ(file.shape(name), tensor.sizes().vec());
    EXPECT_TRUE(at::equal(file.read(name), tensor)) << name;
  }
  EXPECT_THROW(file.read("scaler"), Error);
}

TEST_F(SafetensorsFile, RefusesWhatItIsNot) {
  std::ofstream(path_) << "short";
  EXPECT_NE(message().find("5 bytes are no safetensors file"), std::string::npos) << message();
  std::ofstream(path_, std::ios::binary) << std::string(64, '\xff');
  EXPECT_NE(message().find("asks for a head of 18446744073709551615 bytes"), std::string::npos) << message();
  const std::pair<std::string, std::string> bad[] = {
      {"[]", ""},
      {"{", ""},
      {R"({"a": 3})", ""},
      {R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
           "b": {"dtype": "U8", "shape": [1], "data_offsets": [2, 3]}})",
       "abc"},  // a gap
      {R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})", "abc"},
      {R"({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}})", "abcd"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", "abcd"},  // too few bytes
      {R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", "abcd"},
      {R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}})", ""},  // overflow
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", "abcd"},                   // beyond the end
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", "abcd"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", "abcdefgh"},  // more than it says
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [1], "data_offsets": [3, 4]}})",
       "abcd"},
      {R"({"__metadata__": {"step": 7}})", ""},
  };
  for (const auto& [head, values] : bad) {
    write(head, values);
    EXPECT_NE(message().find(path_), std::string::npos) << head << ": " << message();
  }
}

TEST_F(SafetensorsFile, ThatIsCutAnywhereIsRefused) {
  write_safetensors(path_, {{"a", at::ones({5})}, {"b", at::ones({2, 2}, at::kLong)}});
  std::ifstream in(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path_, std::ios::binary) << whole.substr(0, length);
    EXPECT_NE(message(), "") << length;
  }
}

}  // namespace
}  // namespace lockstep::data
