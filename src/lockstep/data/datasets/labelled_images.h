// lockstep/data/datasets/labelled_images.h
//
// Built-in sets of images with classes, kept as IDX: PART-images-idx3-ubyte beside
// PART-labels-idx1-ubyte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// The images `file` of the fetched `set`, its labels named by `classes`. It takes no arguments.
DatasetPtr open_labelled_images(const std::string& set, const std::string& arguments, const std::string& file,
                                const std::vector<std::string>& classes);

/// Writes both files of a part into `folder`: an image of `shape` per label, both of bytes.
void write_labelled_images(const std::string& folder, const std::string& part, const std::vector<std::int64_t>& shape,
                           std::string_view pixels, std::string_view labels);

}  // namespace lockstep::data
