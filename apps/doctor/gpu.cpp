// GPUs and what drives them, by libraries opened at run time.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "doctor/ask.h"
#include "doctor/findings.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

struct LibraryTraits {
  using Raw = void*;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { dlclose(raw); }
};
using Library = Handle<LibraryTraits>;

template <class Function>
Function* symbol(const Library& library, const char* name) {
  return library ? reinterpret_cast<Function*>(dlsym(library.get(), name)) : nullptr;
}

std::string cuda_version(int code) { return fmt::format("{}.{}", code / 1000, code % 1000 / 10); }

/// By NVIDIA's management library, whose header no toolkit brings: these are its C declarations.
void look_at_gpus(Findings& findings) {
  struct Memory {
    unsigned long long total, free, used;
  };
  const Library nvml(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  const auto start = symbol<int()>(nvml, "nvmlInit_v2");
  const auto stop = symbol<int()>(nvml, "nvmlShutdown");
  const auto driver = symbol<int(char*, unsigned)>(nvml, "nvmlSystemGetDriverVersion");
  const auto count = symbol<int(unsigned*)>(nvml, "nvmlDeviceGetCount_v2");
  const auto device = symbol<int(unsigned, void**)>(nvml, "nvmlDeviceGetHandleByIndex_v2");
  const auto name = symbol<int(void*, char*, unsigned)>(nvml, "nvmlDeviceGetName");
  const auto memory = symbol<int(void*, Memory*)>(nvml, "nvmlDeviceGetMemoryInfo");
  if (!start || !stop || !driver || !count || !device || !name || !memory || start() != 0) {
    findings.push_back({"CUDA", "GPUs", State::Absent, "no NVIDIA driver",
                        "nothing to do unless there is a GPU: then install the NVIDIA driver"});
    return;
  }
  std::array<char, 96> text{};
  unsigned devices = 0;
  if (driver(text.data(), text.size()) == 0) findings.push_back({"CUDA", "driver", State::Good, text.data(), ""});
  if (count(&devices) != 0 || devices == 0) {
    findings.push_back({"CUDA", "GPUs", State::Absent, "the driver shows none",
                        "ask the batch system for a GPU, or start the container with --gpus=all"});
  }
  for (unsigned i = 0; i < devices; ++i) {
    void* handle = nullptr;
    Memory bytes{};
    if (device(i, &handle) != 0 || name(handle, text.data(), text.size()) != 0 || memory(handle, &bytes) != 0) continue;
    findings.push_back({"CUDA", fmt::format("GPU {}", i), State::Good,
                        fmt::format("{}, {}", text.data(), format_bytes(static_cast<std::int64_t>(bytes.total))), ""});
  }
  stop();
}

}  // namespace

void look_at_cuda(Findings& findings) {
  look_at_gpus(findings);
  const Library cuda(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  int version = 0;
  if (const auto ask = symbol<int(int*)>(cuda, "cuDriverGetVersion"); ask && ask(&version) == 0) {
    findings.push_back({"CUDA", "supports", State::Good, "CUDA " + cuda_version(version), ""});
  }
  if (!on_path("nvcc").empty()) {
    const auto text = ask("nvcc", {"--version"}).output;
    const auto release = text.find("release ");
    findings.push_back({"CUDA", "nvcc", State::Good,
                        release == std::string::npos ? first_line(text) : first_line(text.substr(release)), ""});
  } else {
    findings.push_back({"CUDA", "nvcc", State::Absent, "not on PATH",
                        "only to build with CUDA: install the CUDA toolkit and add its bin folder to PATH"});
  }
  // A CUDA wheel of torch brings NCCL in a package beside its own.
  const auto beside = folder_of_loaded("libtorch_cpu.so") / "../../nvidia/nccl/lib/libnccl.so.2";
  Library nccl(dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL));
  if (!nccl) nccl = Library(dlopen(beside.c_str(), RTLD_LAZY | RTLD_LOCAL));
  if (const auto ask = symbol<int(int*)>(nccl, "ncclGetVersion"); ask && ask(&version) == 0) {
    findings.push_back({"CUDA", "NCCL", State::Good,
                        fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100), ""});
  } else {
    findings.push_back({"CUDA", "NCCL", State::Absent, "libnccl.so.2 not found",
                        "only for several GPUs: apt-get install libnccl2, or use a CUDA build of torch"});
  }
}

}  // namespace lockstep::apps
