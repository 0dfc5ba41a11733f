// apps/commands.h
//
// One function per subcommand, each in its own file: it adds the subcommand with
// its options to the program. The callback does the work and throws
// lockstep::Error, which main() turns into a message and an exit code.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lockstep::apps {

void add_bench(CLI::App& app);
/// `words` are those of the whole command line, which ranks get again.
void add_covariance(CLI::App& app, const std::vector<std::string>& words);
void add_data(CLI::App& app);
void add_dbscan(CLI::App& app, const std::vector<std::string>& words);
void add_doctor(CLI::App& app);
/// The hidden command through which `launch --hosts` starts a program on each rank.
inline constexpr const char kMpirunStarter[] = "launched-by-mpirun";
void add_elasticnet(CLI::App& app, const std::vector<std::string>& words);
void add_generate(CLI::App& app);
void add_kmeans(CLI::App& app, const std::vector<std::string>& words);
void add_knn(CLI::App& app, const std::vector<std::string>& words);
void add_lasso(CLI::App& app, const std::vector<std::string>& words);
void add_linreg(CLI::App& app, const std::vector<std::string>& words);
void add_logreg(CLI::App& app, const std::vector<std::string>& words);
void add_naivebayes(CLI::App& app, const std::vector<std::string>& words);
/// `program` is what stands after "--"; it must live until the command line is parsed.
void add_launch(CLI::App& app, const std::vector<std::string>& program);
void add_list(CLI::App& app);
void add_pack(CLI::App& app);
void add_pca(CLI::App& app, const std::vector<std::string>& words);
void add_pipeline(CLI::App& app);
void add_predict(CLI::App& app);
void add_runs(CLI::App& app);
void add_stats(CLI::App& app, const std::vector<std::string>& words);
void add_svd(CLI::App& app, const std::vector<std::string>& words);
void add_tour(CLI::App& app);
void add_train(CLI::App& app);
/// One rank of a training; hidden.
void add_train_rank(CLI::App& app);
/// One rank of the tour; hidden.
void add_tour_rank(CLI::App& app);

/// To be called at the end of a callback: the program ends with `exit_code`, without another word.
inline void end_with(int exit_code) {
  if (exit_code != 0) throw CLI::RuntimeError(exit_code);
}

}  // namespace lockstep::apps
