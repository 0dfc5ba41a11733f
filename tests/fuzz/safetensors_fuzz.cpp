// tests/fuzz/safetensors_fuzz.cpp
//
// Feeds any bytes to the reader of safetensors files. What is accepted can be read whole,
// and survives being written and read again.
#include <ATen/ATen.h>

#include "format_fuzz.h"
#include "lockstep/data/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  using namespace lockstep::data;
  const std::string path = file_of(text_of(data, size));
  done_or_data_error([&] {
    const data::Safetensors file(path);
    data::NamedTensors tensors;
    for (const auto& name : file.names()) tensors.push_back({name, file.read(name)});
    data::write_safetensors(written_path(), tensors, file.facts());
    const data::Safetensors again(written_path());
    if (again.names() != file.names() || again.facts() != file.facts()) std::abort();
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor read = again.read(name);
      const auto text = [](const at::Tensor& values) {
        return std::string_view(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
      };
      if (read.sizes() != tensor.sizes() || read.scalar_type() != tensor.scalar_type() || text(read) != text(tensor))
        std::abort();
    }
  });
  return 0;
}
