// apps/ml/ml_options.h
//
// What all classical algorithms take alike: data, columns, ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "data/source_options.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/launcher.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/read_table.h"

namespace lockstep::apps {

struct MlOptions {
  SourceOptions from;
  ml::ColumnChoice choice;
  ml::PreparationChoice preparation;
  comm::LaunchOptions launch;
  std::string memory;  // "4GiB"
  std::string output;
  std::vector<std::string> also_read;  // files beside the source that no output may replace
  /// Files that are written in one format only, and how their names end if they have an ending at all.
  std::vector<std::pair<std::string, std::string>> endings;
  bool json = false;
  bool keeps_rows = false;  // the algorithm takes all of them into memory, whatever --memory says

  void add_to(CLI::App& command, bool needs_source = true);
};

/// Refuses an empty name, as of a variable that is not set: what a long fit has found would be lost without a word.
CLI::Validator file_name();

/// `words` are those of the whole command line. Runs `body` on the ranks that the options ask for: this very program is
/// started once for each. Ends the program with their exit code. Under `lockstep launch`, mpirun or srun it is a rank
/// already. Fault::Usage before the body if rank 0 could not write one of the `files`, or a name says another format
/// than it would have; those not named by the user are empty.
void on_ml_ranks(const MlOptions& options, const std::vector<std::string>& words, const std::vector<std::string>& files,
                 const std::function<void(comm::Communicator& world)>& body);

/// Fault::Usage if one of `files` could not be written, is one of the `sources`, or another of them; empty ones are
/// none.
void check_files(const std::vector<std::string>& files, const std::vector<std::string>& sources);

/// Fault::Usage if the user gave one of the `options`, which do nothing beside `choice`.
void refuse_given(const std::vector<CLI::Option*>& options, const std::string& choice);

/// What --memory says; 0: nothing. Fault::Usage if that is no number of bytes.
std::int64_t memory_bytes(const MlOptions& options);

/// Into the file that the user named, if any.
void write_output(const std::string& path, const ml::ModelFile& model);

/// "1,797 rows of 64 columns".
std::string size_text(const ml::Table& table);

/// The table of the source, on all cores of the rank.
std::unique_ptr<ml::Table> read_source(const MlOptions& options, comm::Communicator& world);

}  // namespace lockstep::apps
