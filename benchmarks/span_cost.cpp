// benchmarks/span_cost.cpp
//
// What a span costs the code it stands in: with recording off, on, and beside the
// two clock readings that any timing needs.
#include <time.h>

#include <benchmark/benchmark.h>

#include "lockstep/profile/span.h"

namespace {

using namespace lockstep;

void off(benchmark::State& state) {
  profile::enable(false);
  for (auto _ : state) {
    const profile::Span span("off");
    benchmark::ClobberMemory();
  }
}
BENCHMARK(off);

void recording(benchmark::State& state) {
  profile::enable(true);
  for (auto _ : state) {
    const profile::Span span("recording", 4096);
    benchmark::ClobberMemory();
  }
  profile::enable(false);
}
BENCHMARK(recording);
BENCHMARK(recording)->Name("recording, 2 threads")->Threads(2);

void mark(benchmark::State& state) {
  profile::enable(true);
  for (auto _ : state) profile::mark("mark");
  profile::enable(false);
}
BENCHMARK(mark);

void two_ticks(benchmark::State& state) {
  profile::enable(true);
  const auto clock = profile::detail::mode.load();
  for (auto _ : state) {
    benchmark::DoNotOptimize(profile::detail::ticks(clock));
    benchmark::DoNotOptimize(profile::detail::ticks(clock));
  }
  profile::enable(false);
}
BENCHMARK(two_ticks);

void two_clock_gettime(benchmark::State& state) {
  timespec time{};
  for (auto _ : state) {
    clock_gettime(CLOCK_MONOTONIC, &time);
    benchmark::DoNotOptimize(time);
    clock_gettime(CLOCK_MONOTONIC, &time);
    benchmark::DoNotOptimize(time);
  }
}
BENCHMARK(two_clock_gettime);

}  // namespace

BENCHMARK_MAIN();
