#include "train/exact_environment.h"

#include <cstdlib>
#include <initializer_list>

namespace lockstep::apps {

void set_exact_environment() {
  constexpr int kKeep = 0;
  setenv("MKL_CBWR", "AVX2", kKeep);
  setenv("ATEN_CPU_CAPABILITY", "avx2", kKeep);
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", kKeep);
  // A second thread changes the bits of every model tried.
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) setenv(name, "1", 1);
}

}  // namespace lockstep::apps
