#include "lockstep/train/device.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "lockstep/core/error.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

using testing::train;

bool has_gpu() {
  try {
    return device_named("cuda", 0).is_cuda();
  } catch (const Error&) {
    return false;
  }
}

std::string refusal(const std::string& device) {
  try {
    (void)device_named(device, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    return error.message();
  }
  return "";
}

TEST(Device, IsNamed) {
  EXPECT_TRUE(device_named("cpu", 3).is_cpu());
  EXPECT_NE(refusal("gpu").find("it is \"cpu\", \"cuda\""), std::string::npos);
  EXPECT_NE(refusal("cuda:x").find("device"), std::string::npos);
  EXPECT_NE(refusal("cuda:100").find("there"), std::string::npos);
}

TEST(Device, ThatIsNotHereIsSaidToBeMissing) {
  if (has_gpu()) GTEST_SKIP() << "there is a GPU";
  EXPECT_NE(refusal("cuda").find("there is no GPU here"), std::string::npos) << refusal("cuda");
  EXPECT_NE(refusal("cuda").find("use device = \"cpu\""), std::string::npos);
  EXPECT_THROW(train(2, {"device=cuda", "exact=false"}), Error);
}

TEST(Device, ThatIsAGpuIsRefusedByExactMode) {
  try {
    train(1, {}, {}, testing::kBlobs, nullptr, [](RecipeRun& run) { run.settings.device = "cuda"; });
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("exact mode needs device = \"cpu\""), std::string::npos) << error.message();
  }
}

struct Case {
  const char* model;
  std::string recipe;
};
std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.model; }

std::string images(const std::string& model, int size, int channels) {
  return "steps = 4\nbatch = 12\nprecision = 'float64'\n[data]\ntrain = 'images:samples=60,size=" +
         std::to_string(size) + ",channels=" + std::to_string(channels) +
         "'\ntest = 'images:samples=20,size=" + std::to_string(size) + ",channels=" + std::to_string(channels) +
         "'\ntransforms = ['normalise image']\n[model]\n" + model +
         "\n[optimizer]\nname = 'adamw'\nlr = 0.001\nweight_decay = 0.01\n";
}

std::string tokens(const std::string& model) {
  // The last batch is of one sample: of two ranks one has none.
  return "steps = 4\nbatch = 12\nprecision = 'float64'\nclip_norm = 1.0\n[data]\ntrain = 'tokens:samples=37,length=17,"
         "vocabulary=40'\n[task]\nname = 'next_token'\nvocabulary = 40\n[model]\n" +
         model + "\n[optimizer]\nname = 'sgd'\nlr = 0.1\nmomentum = 0.9\n";
}

const Case kCases[] = {
    {"mlp", images("name = 'mlp'\nhidden = [32, 16]\ndropout = 0.2", 12, 1)},
    {"mnist_cnn", images("name = 'mnist_cnn'\ndropout = 0.5", 12, 1)},
    {"alexnet", images("name = 'alexnet'\ndropout = 0.0", 64, 3)},
    {"resnet18", images("name = 'resnet18'\nwidth = 8", 16, 3)},
    {"resnet50", images("name = 'resnet50'\nwidth = 8", 16, 3)},
    {"lstm", tokens("name = 'lstm'\nwidth = 16\nhidden = 24\ndropout = 0.2")},
    {"gpt", tokens("name = 'gpt'\nwidth = 32\nlayers = 2\nheads = 2\ndropout = 0.1")},
};

class OnAGpu : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, OnAGpu, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.model); });

/// Of a run with these settings, once on each.
void expect_the_same_on_both(int ranks, const std::vector<std::string>& settings, const std::string& recipe) {
  std::vector<std::string> on_gpu = settings;
  on_gpu.push_back("device=cuda");
  const auto wanted = train(ranks, settings, {}, recipe);
  const auto actual = train(ranks, on_gpu, {}, recipe);
  EXPECT_NEAR(actual.result.loss, wanted.result.loss, 1e-9 * std::abs(wanted.result.loss));
  ASSERT_EQ(actual.result.evaluations.size(), wanted.result.evaluations.size());
  for (std::size_t i = 0; i < wanted.result.evaluations.size(); ++i) {
    const double loss = wanted.result.evaluations[i].figures[0].second;
    EXPECT_NEAR(actual.result.evaluations[i].figures[0].second, loss, 1e-8 * std::abs(loss));
  }
}

TEST_P(OnAGpu, TrainsAsOnTheCpu) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  for (const int ranks : {1, 2}) {
    for (const std::vector<std::string>& more : {std::vector<std::string>{"fuse_step=false"},
                                                 {"callbacks.ema.decay=0.9"},
                                                 {"local_steps=2"},
                                                 {"clip_value=0.01", "clip_norm=0.05"}}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + more[0]);
      expect_the_same_on_both(ranks, more, GetParam().recipe);
    }
    for (const char* half : {"precision=bf16", "precision=fp16"}) {
      EXPECT_TRUE(std::isfinite(train(ranks, {half, "device=cuda"}, {}, GetParam().recipe).result.loss)) << half;
    }
  }
}

struct Layout {
  const char* name;
  int ranks;
  std::vector<std::string> settings;
};
std::ostream& operator<<(std::ostream& out, const Layout& one) { return out << one.name; }

// Layers that are split over ranks are not among them: backward of all threads of a process on one GPU is of one
// thread, which cannot wait for itself. Processes are, in tests/train/cut_process_test.cpp.
const Layout kLayouts[] = {
    {"pipe2", 2, {"parallel.pipe=2", "accumulate=3"}},
    {"pipe2_zero_bubble", 2, {"parallel.pipe=2", "parallel.schedule=zero_bubble", "accumulate=3"}},
    {"zero1_data2", 2, {"parallel.zero=1", "fuse_step=false", "accumulate=2"}},
    {"zero2_data2", 2, {"parallel.zero=2"}},
    {"zero3", 1, {"parallel.zero=3", "parallel.unit_bytes=0"}},
    {"zero3_data2", 2, {"parallel.zero=3", "parallel.unit_bytes=0", "accumulate=2", "recompute=full"}},
    {"zero3_offload", 1, {"parallel.zero=3", "parallel.offload=all"}},
    {"zero3_data2_offload", 2, {"parallel.zero=3", "parallel.offload=all"}},
    {"zero3_data2_pipe2", 4, {"parallel.zero=3", "parallel.pipe=2", "accumulate=2"}},
};

class CutOnAGpu : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, CutOnAGpu, ::testing::ValuesIn(kLayouts),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(CutOnAGpu, TrainsAsOnTheCpu) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  for (const auto& [model, recipe] : kCases) {
    if (std::string(model) != "mlp" && std::string(model) != "resnet18" && std::string(model) != "gpt") continue;
    SCOPED_TRACE(model);
    expect_the_same_on_both(GetParam().ranks, GetParam().settings, recipe);
  }
}

TEST(ShardsOnAGpu, LeaveIt) {
  if (!has_gpu()) GTEST_SKIP() << "there is no GPU";
  // 56 MB of weights in 24 blocks. With everything on the GPU they and their gradients are there.
  const std::vector<std::string> wide{"device=cuda",       "model.width=220", "model.layers=24", "model.heads=4",
                                      "precision=float32", "steps=3",         "recompute=full"};
  (void)at::empty({1}, at::kCUDA);  // from then on there is an allocator
  c10::DeviceAllocator& memory = *c10::getDeviceAllocator(at::kCUDA);
  const auto most_on_gpu = [&](const std::vector<std::string>& more) {
    auto settings = wide;
    settings.insert(settings.end(), more.begin(), more.end());
    memory.resetPeakStats(0);
    EXPECT_TRUE(std::isfinite(train(1, settings, {}, testing::kGpt).result.loss));
    return static_cast<double>(memory.getDeviceStats(0).allocated_bytes[0].peak);
  };
  const double all = most_on_gpu({});
  EXPECT_LT(most_on_gpu({"parallel.zero=2"}), 0.7 * all);
  EXPECT_LT(most_on_gpu({"parallel.zero=3"}), 0.3 * all);
}

}  // namespace
}  // namespace lockstep::train
