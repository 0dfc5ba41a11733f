#include "lockstep/comm/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace lockstep::comm {

std::thread start_background_thread(const char* name, std::function<void()> body) {
  // A thread starts with the mask of the one that starts it.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace lockstep::comm
