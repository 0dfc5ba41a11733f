// The timing loop that every peer started by an mpirun shares, in C so that C and
// C++ programs can use it; only the all-reduce under test differs.
//
// For each item "BYTES:REPS": one call on known data is checked, a few calls warm
// up, then REPS calls are timed one at a time. Every rank rewrites its whole buffer
// before each call, as a backward pass does: a buffer left alone stays in the caches
// of whoever read it last and flatters every library. A call lasts as long as on
// its slowest rank. Rank 0 prints one line of JSON per item.
#pragma once

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/// Sums `count` floats over all ranks in place; `context` is the library's own state.
typedef void (*AllReduce)(float* values, int count, void* context);

struct Item {
  long long bytes;
  int reps;
};

static void stop(const char* message, const char* detail) {
  fprintf(stderr, "%s: %s\n", message, detail);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static struct Item parse_item(const char* text) {
  struct Item item = {0, 0};
  char rest = 0;
  if (sscanf(text, "%lld:%d%c", &item.bytes, &item.reps, &rest) != 2 || item.reps < 1 ||
      item.bytes < (long long)sizeof(float) || item.bytes % (long long)sizeof(float) != 0) {
    stop("an item is BYTES:REPS with whole float32 values", text);
  }
  if (item.bytes / (long long)sizeof(float) > INT_MAX) stop("MPI counts at most 2^31-1 values", text);
  return item;
}

// Small whole numbers: their sum is exact in float32, in any order.
static void check_result(AllReduce all_reduce, void* context, float* values, int count, int rank, int ranks) {
  for (int i = 0; i < count; i++) values[i] = (float)((rank + 1) * (i % 7));
  all_reduce(values, count, context);
  for (int i = 0; i < count; i++) {
    if (values[i] != (float)(ranks * (ranks + 1) / 2 * (i % 7))) {
      char detail[96];
      snprintf(detail, sizeof detail, "rank %d, element %d of %d is %g", rank, i, count, (double)values[i]);
      stop("wrong sum", detail);
    }
  }
}

static double time_once(AllReduce all_reduce, void* context, float* values, int count, int rank) {
  for (int i = 0; i < count; i++) values[i] = 0.25f * (float)rank;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  all_reduce(values, count, context);
  return MPI_Wtime() - start;
}

static void print_line(long long bytes, const double* seconds, int reps) {
  printf("{\"bytes\":%lld,\"seconds\":[", bytes);
  for (int call = 0; call < reps; call++) printf(call == 0 ? "%.9g" : ",%.9g", seconds[call]);
  printf("]}\n");
  fflush(stdout);
}

static void time_item(struct Item item, AllReduce all_reduce, void* context, int rank, int ranks) {
  const int count = (int)(item.bytes / (long long)sizeof(float));
  const size_t page = 4096;
  float* values = (float*)aligned_alloc(page, ((size_t)item.bytes + page - 1) / page * page);
  double* seconds = (double*)malloc((size_t)item.reps * sizeof(double));
  if (values == NULL || seconds == NULL) {
    stop("out of memory", "buffer of one item");
    return;
  }

  check_result(all_reduce, context, values, count, rank, ranks);
  const int warm_up = 2 + item.reps / 10;
  for (int call = 0; call < warm_up; call++) time_once(all_reduce, context, values, count, rank);
  for (int call = 0; call < item.reps; call++) seconds[call] = time_once(all_reduce, context, values, count, rank);

  MPI_Allreduce(MPI_IN_PLACE, seconds, item.reps, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) print_line(item.bytes, seconds, item.reps);
  free(seconds);
  free(values);
}

/// Call between MPI_Init and MPI_Finalize with the program's own arguments.
static void time_items(int argc, char** argv, AllReduce all_reduce, void* context) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 1; i < argc; i++) time_item(parse_item(argv[i]), all_reduce, context, rank, ranks);
}
