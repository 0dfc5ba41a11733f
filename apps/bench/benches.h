// apps/bench/benches.h
//
// The benchmarks below `lockstep bench`, one file each.
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep::apps {

void add_bench_allreduce(CLI::App& bench);
/// One rank of ours in `bench allreduce`; hidden, started by it through `lockstep launch`.
void add_bench_allreduce_worker(CLI::App& bench);
void add_bench_calibrate(CLI::App& bench);
void add_bench_formats(CLI::App& bench);
void add_bench_io(CLI::App& bench);
/// Our part of `bench io` and `bench formats`; hidden, started by them.
void add_bench_io_worker(CLI::App& bench);
void add_bench_ml(CLI::App& bench);
/// One rank of ours in `bench ml`; hidden, started by it.
void add_bench_ml_worker(CLI::App& bench);
void add_bench_parallel(CLI::App& bench);
/// One rank of ours in `bench parallel`; hidden, started by it.
void add_bench_parallel_worker(CLI::App& bench);
void add_bench_train(CLI::App& bench);
/// One rank of ours in `bench train`; hidden, started by it.
void add_bench_train_worker(CLI::App& bench);

}  // namespace lockstep::apps
