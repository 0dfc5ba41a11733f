#include "bench/benches.h"
#include "commands.h"

namespace lockstep::apps {

void add_bench(CLI::App& app) {
  auto* bench = app.add_subcommand("bench", "Measure Lockstep beside its peers in the same run");
  bench->require_subcommand(1);
  add_bench_allreduce(*bench);
  add_bench_allreduce_worker(*bench);
  add_bench_calibrate(*bench);
  add_bench_io(*bench);
  add_bench_formats(*bench);
  add_bench_io_worker(*bench);
  add_bench_ml(*bench);
  add_bench_ml_worker(*bench);
  add_bench_parallel(*bench);
  add_bench_parallel_worker(*bench);
  add_bench_train(*bench);
  add_bench_train_worker(*bench);
}

}  // namespace lockstep::apps
